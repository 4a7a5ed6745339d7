//! Table jobs: the order of rows, their columns, and those without a key.

use std::cell::Cell;

use farmhand_core::definition::TableSpec;
use farmhand_store::tables::{check, dispatch};
use farmhand_tests::pg::connect;
use serde_json::json;

use crate::fixture::Farm;
use crate::tables::{job, take};

fn queue(order_by: &[&str], row: &[&str]) -> TableSpec {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    TableSpec {
        name: "queue".to_owned(),
        key: vec!["id".to_owned()],
        dispatch: "d".to_owned(),
        order_by: names(order_by),
        row: names(row),
        ..TableSpec::default()
    }
}

async fn farm() -> Farm {
    let farm = Farm::new().await;
    farm.exec(
        "CREATE TABLE queue (id text UNIQUE, d bigint, \"At Night\" boolean, age int, body text, doc json, price numeric, at timestamptz, tags int[]);
         CREATE INDEX ON queue (id) WHERE d IS NULL;
         INSERT INTO queue (id, \"At Night\", age) VALUES ('a', true, 1), ('b', false, 9), ('c', false, 1), ('d', false, NULL)"
    ).await;
    farm
}

#[tokio::test]
async fn rows_are_taken_in_the_order_of_columns_and_equal_ones_in_that_of_their_keys() {
    let farm = farm().await;
    let me = farm.node("a").await;
    let mut table = queue(&["At Night", "age"], &[]);
    table.max_running = 3;
    farm.job("queue", job(table), None).await;
    assert_eq!(dispatch(&farm.db, "queue").await.unwrap().made, 3);
    let mut runs = take(&farm, &me).await;
    runs.sort_by_key(|run| run.run_id);
    let keys: Vec<&str> = runs.iter().filter_map(|run| run.key.as_deref()).collect();
    assert_eq!(keys, ["c", "b", "d"]);
    assert_eq!(runs[0].params, json!({}));
}

#[tokio::test]
async fn an_order_that_there_is_not_is_refused_and_its_index_is_asked_for() {
    let farm = farm().await;
    let problems = async |table: TableSpec| check(&farm.db, &table).await.unwrap();
    farm.exec(
        "CREATE TYPE mood AS ENUM ('low', 'high');
         CREATE DOMAIN name_of AS varchar(9);
         CREATE TYPE pair AS (n int, at date);
         CREATE TYPE place AS (n int, at point);
         CREATE DOMAIN docs AS json[];
         ALTER TABLE queue ADD e mood, ADD n name_of, ADD p pair[], ADD r int4range, ADD i inet, ADD c cidr, ADD v varchar,
             ADD b jsonb, ADD x point, ADD l place, ADD j docs, ADD u xid, ADD o oid, ADD h char(3), ADD m \"char\""
    ).await;
    // As the server itself says it, to somebody who may read the table.
    for column in [
        "id", "age", "doc", "price", "at", "tags", "e", "n", "p", "r", "i", "c", "v", "b", "x", "l", "j",
        "u", "o", "h", "m",
    ] {
        let asked = format!("SELECT FROM queue ORDER BY {column}");
        let has_order = farm.sql.batch_execute(&asked).await.is_ok();
        let found = problems(queue(&[column], &[])).await;
        let refused = found.iter().any(|p| {
            p.fatal
                && p.problem
                    .starts_with("rows of public.queue have no order by `order_by`")
        });
        assert_eq!(refused, !has_order, "{column}: {found:?}");
    }
    let found = problems(queue(&["aeg"], &[])).await;
    assert_eq!(
        found[0].problem,
        "the table public.queue has no column aeg (`order_by`)"
    );
    assert_eq!(problems(queue(&[], &[])).await, []);
    let found = problems(queue(&["age"], &[])).await;
    assert_eq!(
        found[0].fix,
        "CREATE INDEX CONCURRENTLY ON public.queue (age, id) WHERE d IS NULL;"
    );
    assert!(!found[0].fatal);
    farm.exec(&found[0].fix).await;
    assert_eq!(problems(queue(&["age"], &[])).await, []);
}

#[tokio::test]
async fn a_run_is_given_the_columns_that_are_named_when_they_fit() {
    let farm = farm().await;
    let me = farm.node("a").await;
    farm.exec(
        "UPDATE queue SET body = 'b', doc = '{\"a\": [1]}', price = 0.10, at = '2026-11-25 01:00Z', tags = '{1,2}' WHERE id = 'a';
         UPDATE queue SET body = repeat('x', 70000) WHERE id = 'b';
         DELETE FROM queue WHERE id > 'b'"
    ).await;
    let row = ["id", "At Night", "age", "body", "doc", "price", "at", "tags"];
    farm.job("queue", job(queue(&[], &row)), None).await;
    assert_eq!(dispatch(&farm.db, "queue").await.unwrap().made, 2);
    let runs = take(&farm, &me).await;
    let of = |key: &str| {
        &runs
            .iter()
            .find(|run| run.key.as_deref() == Some(key))
            .unwrap()
            .params
    };
    assert_eq!(
        *of("a"),
        json!({"id": "a", "At Night": true, "age": 1, "body": "b", "doc": {"a": [1]}, "price": "0.10",
            "at": "2026-11-25T01:00:00+00:00", "tags": [1, 2]})
    );
    assert_eq!(*of("b"), json!({}));
}

/// PostgreSQL takes them into `json` columns, and most as nothing else. Who fills a queue stops no other row by them.
#[tokio::test]
async fn a_row_whose_json_cannot_be_handed_over_holds_no_other_row_up() {
    let farm = farm().await;
    let me = farm.node("a").await;
    farm.exec(
        r#"UPDATE queue SET doc = '{"a": "\u0000"}' WHERE id = 'b';
           UPDATE queue SET doc = '"\ud800"' WHERE id = 'c';
           UPDATE queue SET doc = '1e999999' WHERE id = 'd';
           INSERT INTO queue (id, doc) VALUES ('e', '1e999'), ('f', (repeat('[', 200) || repeat(']', 200))::json)"#
    ).await;
    farm.job("queue", job(queue(&[], &["doc"])), None).await;
    let found = dispatch(&farm.db, "queue").await.unwrap();
    assert_eq!((found.made, found.problem), (6, None));
    let mut runs = take(&farm, &me).await;
    runs.sort_by_key(|run| run.run_id);
    assert_eq!(runs[0].params, json!({"doc": null}));
    assert!(runs[1..].iter().all(|run| run.params == json!({})));
}

#[tokio::test]
async fn columns_that_the_role_may_not_read_are_refused_with_the_right_that_is_missing() {
    let farm = farm().await;
    farm.exec(
        "DO $$ BEGIN CREATE ROLE fh_columns LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
         GRANT fh_columns TO CURRENT_USER;
         GRANT farmhand_operator TO fh_columns;
         GRANT SELECT (id, d), UPDATE (d) ON queue TO fh_columns;
         SET ROLE fh_columns"
    ).await;
    let sql = "SELECT problem, fix FROM farmhand.check_table($1) WHERE fatal";
    let refused = farm
        .sql
        .query_one(sql, &[&json!(queue(&["age"], &["body"]))])
        .await
        .unwrap();
    assert_eq!(
        refused.get::<_, &str>(0),
        "the role fh_columns may not read age, body of public.queue"
    );
    farm.exec("RESET ROLE").await;
    farm.exec(refused.get(1)).await;
    farm.exec("SET ROLE fh_columns").await;
    assert!(
        farm.sql
            .query_opt(sql, &[&json!(queue(&["age"], &["body"]))])
            .await
            .unwrap()
            .is_none()
    );
}

/// A policy, an index or a view of a table's owner call its functions with the rights of who reads the table, whenever its owner
/// makes them: here while somebody checks the table, and its owner holds a lock on it.
#[tokio::test]
async fn an_operator_who_checks_a_table_executes_no_function_of_its_owner() {
    let farm = farm().await;
    farm.exec(
        "CREATE TABLE seen (who text);
             CREATE FUNCTION see() RETURNS boolean LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO public.seen VALUES (session_user); RETURN true; END $$;
             CREATE FUNCTION sees(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
                 $$ BEGIN RETURN public.see(); END $$;
             GRANT INSERT ON seen TO PUBLIC;
             GRANT SELECT, UPDATE ON queue TO farm_operator;
             INSERT INTO queue VALUES (NULL)",
    )
    .await;
    let operator = connect(&farm.test.url_as("farm_operator")).await;
    let looker = farm.test.client().await;
    let check = "SELECT problem FROM farmhand.check_table($1)";
    let table = json!(queue(&["age"], &[]));
    for (make, remove) in [
        (
            "CREATE POLICY p ON queue USING (see()); ALTER TABLE queue ENABLE ROW LEVEL SECURITY",
            "DROP POLICY p ON queue; ALTER TABLE queue DISABLE ROW LEVEL SECURITY",
        ),
        ("CREATE INDEX i ON queue (age) WHERE sees(1)", "DROP INDEX i"),
        ("CREATE INDEX i ON queue ((sees(1)))", "DROP INDEX i"),
        (
            "CREATE STATISTICS s ON age, (sees(1)) FROM queue",
            "DROP STATISTICS s",
        ),
        (
            "ALTER TABLE queue RENAME TO plain; CREATE VIEW queue AS SELECT * FROM plain WHERE see();
             GRANT SELECT ON queue TO farm_operator",
            "DROP VIEW queue; ALTER TABLE plain RENAME TO queue",
        ),
    ] {
        farm.exec("BEGIN; LOCK TABLE queue").await;
        let done = Cell::new(false);
        let ask = async {
            operator.query(check, &[&table]).await.unwrap();
            done.set(true);
        };
        let swap = async {
            let waits = "SELECT FROM pg_stat_activity WHERE usename = 'farm_operator' AND datname = current_database()
                AND wait_event_type = 'Lock'";
            while !done.get() && looker.query_opt(waits, &[]).await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
            farm.exec(make).await;
            farm.exec("COMMIT").await;
        };
        tokio::join!(ask, swap);
        // And once more with what is there now.
        operator.query(check, &[&table]).await.unwrap();
        let seen = "SELECT count(*) FROM seen WHERE who = 'farm_operator'";
        assert_eq!(farm.i64(seen).await, 0, "{make}");
        farm.exec(remove).await;
    }
}

#[tokio::test]
async fn rows_without_a_key_are_told_and_the_others_run() {
    let farm = farm().await;
    farm.exec("INSERT INTO queue (id, d) VALUES (NULL, 1)").await;
    farm.job("queue", job(queue(&[], &[])), None).await;
    let found = dispatch(&farm.db, "queue").await.unwrap();
    assert_eq!((found.made, found.keyless), (4, false), "that one does not wait");
    farm.exec("UPDATE queue SET d = NULL WHERE id IS NULL").await;
    let found = dispatch(&farm.db, "queue").await.unwrap();
    assert_eq!((found.made, found.keyless), (0, true));
}

#[tokio::test]
async fn with_the_proposed_index_a_poll_sorts_nothing_and_reads_no_more_than_it_takes() {
    let farm = farm().await;
    farm.exec(
        "DELETE FROM queue;
         INSERT INTO queue (id, d, age, body) SELECT md5(n::text), CASE WHEN n % 10 > 0 THEN 1 END, n, 'b' FROM generate_series(1, 50000) n"
    ).await;
    let table = queue(&["age"], &["body"]);
    let found = check(&farm.db, &table).await.unwrap();
    farm.exec(&found[0].fix).await;
    farm.exec("VACUUM ANALYZE queue").await;
    let row = farm
        .sql
        .query_one("SELECT farmhand.rows_due_sql($1)", &[&json!(table)])
        .await
        .unwrap();
    let look = row
        .get::<_, String>(0)
        .replace("$1", "500")
        .replace("$2", "'{a,b}'");
    let lines = farm
        .sql
        .query(&format!("EXPLAIN (ANALYZE, BUFFERS) {look}"), &[])
        .await
        .unwrap();
    let plan: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
    let plan = plan.join("\n");
    assert!(plan.contains("Index Scan using queue_age_id_idx"), "{plan}");
    assert!(!plan.contains("Sort") && plan.contains("rows=500 "), "{plan}");
}

#[tokio::test]
async fn a_key_that_no_command_can_be_given_holds_no_other_row_up() {
    let farm = farm().await;
    let long = "INSERT INTO queue (id) VALUES (repeat('k', 140000))";
    farm.exec(long).await;
    farm.job("queue", job(queue(&[], &[])), None).await;
    let found = dispatch(&farm.db, "queue").await.unwrap();
    assert_eq!((found.made, found.problem), (5, None));
}

#[tokio::test]
async fn of_a_row_that_is_far_too_long_no_json_is_made() {
    let farm = farm().await;
    farm.exec("DELETE FROM queue WHERE id > 'a'; UPDATE queue SET body = repeat('x', 300000)")
        .await;
    let asked = json!(queue(&[], &["body"]));
    let look = farm
        .sql
        .query_one("SELECT farmhand.rows_due_sql($1)", &[&asked])
        .await
        .unwrap();
    let look: &str = look.get(0);
    let found = farm
        .sql
        .query_one(look, &[&10i64, &Vec::<String>::new()])
        .await
        .unwrap();
    assert_eq!(found.get::<_, Option<serde_json::Value>>("given"), None);
}

#[tokio::test]
async fn a_domain_over_an_integer_is_set_to_one() {
    let farm = farm().await;
    farm.exec(
        "CREATE DOMAIN flag AS integer CHECK (VALUE IN (0, 1)); DROP INDEX queue_id_idx;
             ALTER TABLE queue ALTER d TYPE flag; CREATE INDEX ON queue (id) WHERE d IS NULL",
    )
    .await;
    farm.job("queue", job(queue(&[], &[])), None).await;
    let found = dispatch(&farm.db, "queue").await.unwrap();
    assert_eq!((found.made, found.problem), (4, None));
    farm.is("SELECT count(*) FROM queue WHERE d = 1", 4).await;
}
