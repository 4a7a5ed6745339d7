//! Table jobs: tables as people have them, their keys, rights, faults and sizes.

use farmhand_core::definition::{JobSpec, TableSpec};
use farmhand_store::protocol::{Finish, claim_any, finish};
use farmhand_store::tables::{check, dispatch};
use serde_json::json;

use crate::fixture::{Farm, success};
use crate::tables::{ORDERS, farm_with, job, look, orders, row, take, write};

#[tokio::test]
async fn keys_of_any_type_with_quotes_and_newlines_come_through() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let odd = ["it's \"quoted\"", "two\nlines", "{a,b} \\ $1 %I", "ünï🙂", " "];
    farm.exec(
        "CREATE TABLE \"Odd \"\"Table\" (\"the key\" text PRIMARY KEY, \"d?\" text, \"Exit\" text);
             CREATE TABLE uuids (k uuid UNIQUE, d boolean);
             CREATE TABLE chars (k char(8) UNIQUE, d int);
             INSERT INTO uuids VALUES ('7f1f7a1e-0000-4000-8000-000000000001'), (NULL);
             INSERT INTO chars VALUES ('ab');",
    )
    .await;
    for key in odd {
        farm.sql
            .exec_with("INSERT INTO \"Odd \"\"Table\" VALUES ($1)", &[&key])
            .await;
    }
    let named = |name: &str, key: &str, dispatch: &str| TableSpec {
        name: name.to_owned(),
        key: vec![key.to_owned()],
        dispatch: dispatch.to_owned(),
        ..TableSpec::default()
    };
    let text = TableSpec {
        exit_code: Some("Exit".to_owned()),
        ..named("Odd \"Table", "the key", "d?")
    };
    farm.job("odd", job(text), None).await;
    farm.job("uuids", job(named("uuids", "k", "d")), None).await;
    farm.job("chars", job(named("chars", "k", "d")), None).await;
    for (job_id, made) in [("odd", 5), ("uuids", 1), ("chars", 1)] {
        let answer = dispatch(&farm.db, job_id).await.unwrap();
        assert_eq!((answer.made, answer.problem), (made, None), "{job_id}");
        assert_eq!(dispatch(&farm.db, job_id).await.unwrap().made, 0);
    }
    let runs = take(&farm, &me).await;
    let mut keys: Vec<&str> = runs
        .iter()
        .filter(|r| r.job_id == "odd")
        .filter_map(|r| r.key.as_deref())
        .collect();
    let mut wanted = odd;
    keys.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(keys, wanted);
    let ends: Vec<Finish> = runs.iter().map(|r| success(&me, r)).collect();
    finish(&farm.db, &ends).await.unwrap();
    write(&farm).await;
    farm.is("SELECT count(*) FROM \"Odd \"\"Table\" WHERE \"Exit\" = '0'", 5)
        .await;
    // A text takes the run's number, a boolean true, an integer 1.
    let run = runs
        .iter()
        .find(|r| r.key.as_deref() == Some(" "))
        .unwrap()
        .run_id;
    let mark = farm
        .text("SELECT \"d?\" FROM \"Odd \"\"Table\" WHERE \"the key\" = ' '")
        .await;
    assert_eq!(mark, Some(run.to_string()));
    farm.is("SELECT count(*) FROM uuids WHERE d", 1).await;
    farm.is("SELECT count(*) FROM chars WHERE d = 1", 1).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_table_is_said_with_its_fix() {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE SCHEMA shop;
             GRANT USAGE ON SCHEMA shop TO farm_agent;
             ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT, UPDATE ON TABLES TO farm_agent;
             CREATE TABLE shop.orders (id bigint, sent_at timestamptz NOT NULL, began int, done timestamptz,
                code text, said json);
             CREATE VIEW shop.seen AS SELECT * FROM shop.orders;",
    )
    .await;
    let problems = async |table: TableSpec| check(&farm.db, &table).await.unwrap();
    let gone = TableSpec {
        name: "ordres".to_owned(),
        ..orders(1)
    };
    assert_eq!(problems(gone).await[0].problem, "there is no table shop.ordres");
    let elsewhere = TableSpec {
        schema: "public".to_owned(),
        ..orders(1)
    };
    assert_eq!(
        problems(elsewhere).await[0].fix,
        "write the schema before the name: there is shop.orders"
    );
    let view = TableSpec {
        name: "seen".to_owned(),
        ..orders(1)
    };
    assert_eq!(problems(view).await[0].problem, "shop.seen is no table");
    let column = TableSpec {
        key: vec!["Id".to_owned()],
        ..orders(1)
    };
    assert_eq!(
        problems(column).await[0].problem,
        "the table shop.orders has no column \"Id\" (`key`)"
    );
    let all = problems(orders(1)).await;
    let said: Vec<(&str, bool)> = all.iter().map(|p| (p.problem.as_str(), p.fatal)).collect();
    assert_eq!(
        said,
        [
            (
                "column sent_at of shop.orders (`dispatch`) is NOT NULL: it has to be empty until the row was run",
                true
            ),
            ("column began of shop.orders (`started`) is of type integer", true),
            ("column said of shop.orders (`message`) is of type json", true),
            (
                "column id of shop.orders (`key`) is not unique: no unique index has it alone",
                true
            ),
            (
                "shop.orders has no index on the rows to be run: every poll reads the whole table",
                false
            ),
        ]
    );
    for statement in [&all[0].fix, &all[3].fix, &all[4].fix] {
        farm.exec(statement).await;
    }
    assert_eq!(problems(orders(1)).await.len(), 2);
}

#[tokio::test]
async fn a_dispatch_column_that_cannot_hold_the_number_of_a_run_is_refused() {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE DOMAIN short AS varchar(4);
         CREATE TABLE wide (k int PRIMARY KEY, d varchar(19), e numeric(19), f numeric, g text, h bigint, i int);
         CREATE TABLE narrow (k int PRIMARY KEY, d varchar(18), e numeric(4), f numeric(20,2), g char(4), h short);"
    ).await;
    let problem = async |table: &str, dispatch: char| {
        let table = TableSpec {
            name: table.to_owned(),
            key: vec!["k".to_owned()],
            dispatch: dispatch.to_string(),
            ..TableSpec::default()
        };
        let found = check(&farm.db, &table).await.unwrap();
        found.into_iter().find(|p| p.fatal)
    };
    for dispatch in 'd'..='i' {
        assert!(problem("wide", dispatch).await.is_none(), "{dispatch}");
    }
    for dispatch in 'd'..='h' {
        let found = problem("narrow", dispatch).await.unwrap();
        assert!(
            found.problem.ends_with("too narrow for the number of a run"),
            "{}",
            found.problem
        );
        farm.exec(&found.fix).await;
        assert!(problem("narrow", dispatch).await.is_none(), "{dispatch}");
    }
}

#[tokio::test]
async fn the_rights_that_are_asked_for_are_all_that_is_needed() {
    let farm = Farm::new().await;
    farm.exec(ORDERS).await;
    let admin = &farm.sql;
    admin.exec(
        "DO $$ BEGIN CREATE ROLE fh_rows LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
         GRANT fh_rows TO CURRENT_USER;
         GRANT farmhand_agent TO fh_rows;
         INSERT INTO shop.orders VALUES (1);"
    ).await;
    farm.job("orders", job(orders(1)), None).await;
    let me = farm.node("a").await;
    admin.exec("SET ROLE fh_rows").await;
    let rows = admin
        .query(
            "SELECT problem, fix FROM farmhand.check_table($1)",
            &[&json!(orders(1))],
        )
        .await
        .unwrap();
    let refused = admin
        .query_one("SELECT problem FROM farmhand.dispatch_rows('orders')", &[])
        .await
        .unwrap();
    assert!(
        refused
            .get::<_, String>(0)
            .contains("may not use the schema shop")
    );
    admin.exec("RESET ROLE").await;
    assert_eq!(rows.len(), 2);
    for row in rows {
        admin.exec(row.get(1)).await;
    }
    admin.exec("SET ROLE fh_rows").await;
    let made: i32 = admin
        .value("SELECT made FROM farmhand.dispatch_rows('orders')")
        .await;
    assert_eq!(made, 1);
    let run = take(&farm, &me).await.remove(0);
    // The end as this role writes it.
    admin
        .exec_with(
            "SELECT farmhand.write_ends(array_agg(k))::text FROM farmhand.run_live r CROSS JOIN LATERAL
             farmhand.ended(r, 'succeeded', NULL, 'holder') k WHERE r.run_id = $1",
            &[&run.run_id],
        )
        .await;
    // As an agent of this role writes it.
    admin.exec("BEGIN").await;
    let writes: String = admin
        .value("SELECT writes FROM farmhand.row_writes('orders', 1)")
        .await;
    admin.exec(&format!("{writes}; COMMIT")).await;
    admin.exec("RESET ROLE").await;
    let done = "SELECT count(*) FROM shop.orders WHERE done IS NOT NULL";
    farm.is(done, 1).await;
}

/// FARMHAND_TABLE_ROWS=1000000 is the documented size.
#[tokio::test]
async fn a_poll_of_a_big_table_reads_only_the_rows_that_wait() {
    let rows: i64 = std::env::var("FARMHAND_TABLE_ROWS").map_or(50_000, |n| n.parse().unwrap());
    let (farm, me) = farm_with(0, 50).await;
    farm.sql
        .exec_with(
            "INSERT INTO shop.orders SELECT n, CASE WHEN n % ($1 / 1000) <> 0 THEN now() END
             FROM generate_series(1, $1::bigint) n",
            &[&rows],
        )
        .await;
    farm.exec("VACUUM ANALYZE shop.orders").await;
    let sql: String = farm
        .sql
        .query_one("SELECT farmhand.rows_due_sql($1)", &[&json!(orders(500))])
        .await
        .unwrap()
        .get(0);
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT) {}",
        sql.replace("$1", "500").replace("$2", "'{1,2,3}'")
    );
    let lines = farm.sql.query(&explain, &[]).await.unwrap();
    let plan: Vec<String> = lines.iter().map(|l| l.get(0)).collect();
    let plan = plan.join("\n");
    eprintln!("{plan}");
    assert!(plan.contains("Index Scan using orders_id_idx"), "{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");

    let reads = "SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname = 'orders'";
    let settled = "SELECT pg_stat_force_next_flush()";
    farm.exec(settled).await;
    let before = farm.i64(reads).await;
    let began = std::time::Instant::now();
    let mut done = 0;
    loop {
        look(&farm).await;
        let runs = take(&farm, &me).await;
        if runs.is_empty() {
            break;
        }
        done += runs.len();
        let ends: Vec<Finish> = runs.iter().map(|r| success(&me, r)).collect();
        finish(&farm.db, &ends).await.unwrap();
    }
    let took = began.elapsed();
    eprintln!(
        "{done} of {rows} rows dispatched, claimed and finished in {took:?}: {:.0} rows/s",
        done as f64 / took.as_secs_f64()
    );
    assert_eq!(done, 1000);
    // The statistics of this table's other sessions are flushed when these close.
    farm.db.close();
    farm.owner.close();
    tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while farm.i64_of_sessions("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'farmhand%' AND datname = current_database()").await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(farm.i64(reads).await, before, "no whole scans");
}

#[tokio::test]
async fn rows_of_a_job_with_a_pool_wait_for_it_and_come_with_their_keys() {
    let farm = Farm::new().await;
    farm.exec(ORDERS).await;
    farm.exec("INSERT INTO shop.orders SELECT generate_series(1, 3)")
        .await;
    farm.pool("p", 2).await;
    let spec = JobSpec {
        pool: Some("p".to_owned()),
        ..job(orders(10))
    };
    farm.job("orders", spec, None).await;
    let me = farm.node("a").await;
    assert_eq!(look(&farm).await.made, 3);
    let won = claim_any(&farm.db, &me, 10, true).await.unwrap();
    let keys: Vec<Option<&str>> = won.iter().map(|run| run.key.as_deref()).collect();
    assert_eq!(keys, [Some("1"), Some("2")]);
    finish(&farm.db, &[success(&me, &won[0])]).await.unwrap();
    assert!(row(&farm, 1).await.2);
}
