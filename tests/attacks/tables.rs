//! The owner of a dispatched table, whose policies and triggers are executed by whoever dispatches its rows and writes their results:
//! with an agent's login they have an agent's rights, with the login for users' rows next to none.

use std::collections::BTreeSet;

use farmhand_store::Db;
use farmhand_store::row_writer::RowWriter;
use farmhand_store::tables::dispatch;
use farmhand_tests::pg::{config, connect};

use super::logins::{Attacked, DENIED, refused};

/// What is tried, and whether an agent's login may do it.
#[rustfmt::skip]
const ATTACKS: &[(&str, bool, &str)] = &[
    ("read the history", true, "SELECT count(*) FROM farmhand.run_history"),
    ("read definitions", true, "SELECT spec FROM farmhand.job_revision"),
    ("read what jobs printed", true, "SELECT chunk FROM farmhand.run_log"),
    ("read hashes of tokens", false, "SELECT hash FROM farmhand.api_token"),
    ("make a run of a job without a table", true, "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('j', 1, 'submitted', now(), now())"),
    ("submit one", true, "SELECT farmhand.submit('j')"),
    ("cancel runs", true, "UPDATE farmhand.run_live SET cancel_by = 'x' WHERE job_id = 'j'"),
    ("end runs", true, "DELETE FROM farmhand.run_live WHERE job_id = 'j'"),
    ("pause a job", true, "UPDATE farmhand.job SET paused = false WHERE job_id = 'j'"),
    ("expire nodes", true, "UPDATE farmhand.node SET session = session + 1, open = false, lost_at = now()"),
    ("write results of its own", true, "INSERT INTO farmhand.row_result (run_id, attempt, job_id, rev, key, started_at) VALUES (1, 1, 't', 1, 'none', now())"),
    ("read results", true, "SELECT message FROM farmhand.row_result"),
    ("write events", true, "INSERT INTO farmhand.event (at, kind, severity) VALUES (now(), 'x', 'info')"),
    ("take part in retention", true, "SELECT farmhand.drop_partitions(400, 400, 400)"),
];

/// A table of `farm_table`'s, which tries all of it: in a policy, at once after each update, and before the end of the transaction.
const TABLE: &str = r#"
    CREATE SCHEMA shop AUTHORIZATION farm_table;
    SET ROLE farm_table;
    CREATE TABLE shop.orders (id bigint PRIMARY KEY, sent_at timestamptz, said text);
    CREATE TABLE shop.attacks (goal text, statement text);
    CREATE TABLE shop.tried (how text, goal text, who text, code text);
    GRANT USAGE ON SCHEMA shop TO PUBLIC;
    GRANT SELECT ON shop.attacks TO PUBLIC;
    GRANT INSERT ON shop.tried TO PUBLIC;
    CREATE FUNCTION shop.attack(how text) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        a record;
        code text;
    BEGIN
        FOR a IN SELECT * FROM shop.attacks LOOP
            code := 'done';
            BEGIN
                EXECUTE a.statement;
            EXCEPTION WHEN OTHERS THEN
                code := SQLSTATE;
            END;
            INSERT INTO shop.tried VALUES (how, a.goal, session_user, code);
        END LOOP;
        RETURN true;
    END $$;
    CREATE FUNCTION shop.after() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM shop.attack(TG_ARGV[0] || CASE WHEN NEW.said IS NULL THEN ' of the dispatch' ELSE ' of the result' END);
        RETURN NULL;
    END $$;
    CREATE TRIGGER at_once AFTER UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.after('at once');
    CREATE CONSTRAINT TRIGGER deferred AFTER UPDATE ON shop.orders DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION shop.after('at the end');
    ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
    CREATE POLICY looked ON shop.orders USING (shop.attack('by a policy'));
    INSERT INTO shop.orders VALUES (1);
    RESET ROLE;
    INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
        VALUES ('t', 1, '{"command": ["true"], "table": {"schema": "shop", "name": "orders", "key": "id", "dispatch": "sent_at",
            "message": "said", "max_running": 3}}', '', 'anna', now());
    INSERT INTO farmhand.job (job_id, kind, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node, source, applied_by, applied_at)
        VALUES ('t', 'table', 1, 2, true, false, 'allow', 'rerun', 0, 1, false, '', 'anna', now())"#;

async fn attacked(login: &str) -> Attacked {
    let a = Attacked::new().await;
    let admin = a.test.admin().await;
    // Roles belong to the cluster, which tests share.
    let _ = admin.batch_execute("CREATE ROLE farm_table LOGIN").await;
    admin.exec(TABLE).await;
    let granted = format!("GRANT SELECT (id, sent_at), UPDATE (sent_at, said) ON shop.orders TO {login}");
    admin.exec(&granted).await;
    for (goal, _, statement) in ATTACKS {
        let attack = "INSERT INTO shop.attacks VALUES ($1, $2)";
        admin.exec_with(attack, &[goal, statement]).await;
    }
    a
}

/// Dispatches the row and writes its result; returns how what was tried, and what came of it.
async fn outcomes(a: &Attacked, login: &str) -> BTreeSet<(String, String, String)> {
    let rows = Db::new(&config(&a.test.url_as(login)));
    let looked = dispatch(&rows, "t").await.expect("a dispatch");
    assert_eq!((looked.made, looked.problem), (1, None), "{login}");
    a.owner.exec(
        "INSERT INTO farmhand.row_result (run_id, attempt, job_id, rev, key, started_at, finished_at, exit_code, message)
             SELECT run_id, 1, 't', 1, key, now(), now(), 0, 'succeeded' FROM farmhand.run_live WHERE key = '1'"
    ).await;
    RowWriter::default()
        .run_once(&a.test.agent_db().await, &rows)
        .await
        .expect("a writer");
    let admin = a.test.admin().await;
    let said = "SELECT said FROM shop.orders";
    let said: Option<String> = admin.query_one(said, &[]).await.expect(said).get(0);
    assert_eq!(said.as_deref(), Some("succeeded"), "{login}");
    let tried = "SELECT DISTINCT how, goal, code, who FROM shop.tried";
    let tried = admin.query(tried, &[]).await.expect(tried);
    tried
        .iter()
        .map(|row| {
            assert_eq!(row.get::<_, String>(3), login);
            (row.get(0), row.get(1), row.get(2))
        })
        .collect()
}

/// Every way in which code of the table's owner is executed, with every goal.
fn expected(code: impl Fn(bool) -> &'static str) -> BTreeSet<(String, String, String)> {
    let ways = [
        "by a policy",
        "at once of the dispatch",
        "at the end of the dispatch",
        "at once of the result",
        "at the end of the result",
    ];
    let each = |how: &'static str| ATTACKS.iter().map(move |(goal, agents, _)| (how, *goal, *agents));
    ways.into_iter()
        .flat_map(each)
        .map(|(how, goal, agents)| (how.to_owned(), goal.to_owned(), code(agents).to_owned()))
        .collect()
}

#[tokio::test]
async fn code_of_a_tables_owner_has_the_rights_of_the_login_for_rows_and_no_others() {
    let a = attacked("farmhand_rows").await;
    assert_eq!(outcomes(&a, "farm_rows").await, expected(|_| "42501"));
    let none = "SELECT count(*) FROM farmhand.run_live WHERE job_id = 'j' AND cancel_by IS NOT NULL";
    let left: i64 = a.owner.query_one(none, &[]).await.expect(none).get(0);
    assert_eq!(left, 0);
}

/// Where no login for rows is set. The guide on security says so.
#[tokio::test]
async fn without_a_login_for_rows_code_of_a_tables_owner_has_an_agents_rights() {
    let a = attacked("farm_agent").await;
    let of = |agents| if agents { "done" } else { "42501" };
    assert_eq!(outcomes(&a, "farm_agent").await, expected(of));
}

/// What the functions do that are open to the login for rows.
#[tokio::test]
async fn the_login_for_rows_makes_runs_of_table_jobs_alone_and_no_more_than_they_allow() {
    let a = attacked("farmhand_rows").await;
    let rows = connect(&a.test.url_as("farm_rows")).await;
    let count = async |filter: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM farmhand.run_live WHERE {filter}");
        a.owner.value(&sql).await
    };
    let make = |job: &str| {
        format!(
            "SELECT farmhand.make_row_runs('{job}', ARRAY(SELECT 'k' || n FROM generate_series(1, 1000) n), \
             array_fill('{{}}'::jsonb, ARRAY[1000]))"
        )
    };
    let before = count("job_id = 'j'").await;
    rows.exec(&make("j")).await;
    rows.exec(&make("none")).await;
    assert_eq!(
        count("job_id = 'j'").await,
        before,
        "no run of a job without a table"
    );
    for closed in ["paused = true", "enabled = false", "deleted = true"] {
        let set = |to: &str| format!("UPDATE farmhand.job SET {to} WHERE job_id = 't'");
        a.owner.batch_execute(&set(closed)).await.expect(closed);
        rows.exec(&make("t")).await;
        assert_eq!(count("job_id = 't'").await, 0, "{closed}");
        let open = "paused = false, enabled = true, deleted = false";
        a.owner.batch_execute(&set(open)).await.expect(open);
    }
    let long = "SELECT farmhand.make_row_runs('t', ARRAY[repeat('k', 2000000)], '{\"{}\"}')";
    refused(
        &rows,
        long,
        &tokio_postgres::error::SqlState::INVALID_PARAMETER_VALUE,
    )
    .await;
    let odd = "SELECT farmhand.make_row_runs('t', '{NULL,a}', ARRAY['{}', '[1]']::jsonb[])";
    rows.exec(odd).await;
    assert_eq!(count("job_id = 't' AND key = 'a' AND params = '{}'").await, 1);
    rows.exec(&make("t")).await;
    rows.exec(&make("t")).await;
    assert_eq!(count("job_id = 't'").await, 3, "max_running");
    assert_eq!(count("kind = 'table' AND key IS NULL").await, 0);
    // A job without a table cannot be locked either.
    let lock = "BEGIN; SELECT farmhand.row_room('j')";
    rows.exec(lock).await;
    let free = "SELECT FROM farmhand.job WHERE job_id = 'j' FOR UPDATE NOWAIT";
    a.owner.exec(free).await;
    rows.exec("ROLLBACK").await;
    refused(&rows, "SELECT FROM farmhand.row_result", DENIED).await;
}
