//! Agents that touch users' tables with another login than their own.

use std::fs;
use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::{Options, PrivateServer};

use crate::credentials::keep;

const URL: &str = "FARMHAND_ROWS_DATABASE_URL";
const PASSWORD_FILE: &str = "FARMHAND_ROWS_DATABASE_PASSWORD_FILE";

/// The agents' role has no right here, not even to the schema.
const TABLE: &str = "
    CREATE SCHEMA shop;
    CREATE TABLE shop.orders (id bigint PRIMARY KEY, sent_at timestamptz, done timestamptz, said text);
    CREATE INDEX ON shop.orders (id) WHERE sent_at IS NULL;
    CREATE TABLE shop.seen (who text);
    CREATE FUNCTION shop.see() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO shop.seen VALUES (session_user); RETURN NULL; END $$;
    CREATE TRIGGER seen AFTER UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.see();
    GRANT USAGE ON SCHEMA shop TO farmhand_rows, farm_operator;
    GRANT INSERT ON shop.seen TO farmhand_rows;
    GRANT SELECT (id, sent_at), UPDATE (sent_at, done, said) ON shop.orders TO farmhand_rows, farm_operator";

const JOB: &str = "
    [job.orders]
    command = ['true']
    [job.orders.table]
    name = 'shop.orders'
    key = 'id'
    dispatch = 'sent_at'
    finished = 'done'
    message = 'said'
    poll = '200ms'";

async fn told(farm: &Farm, id: i64) {
    told_within(farm, id, SOON).await;
}

async fn told_within(farm: &Farm, id: i64, bound: Duration) {
    let insert = "INSERT INTO shop.orders VALUES ($1)";
    farm.sql.exec_with(insert, &[&id]).await;
    farm.eventually("the row is told", bound, async || {
        let sql = "SELECT said FROM shop.orders WHERE id = $1";
        let said: Option<String> = farm.sql.query_one(sql, &[&id]).await.expect(sql).get(0);
        match said.as_deref() {
            Some("succeeded") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_for_rows_dispatches_and_writes_them_and_the_agents_own_has_no_right_there() {
    let mut farm = Farm::new().agents(2).prepare().await;
    let url = farm.database.agent_url().replace("farm_agent", "farm_rows");
    for agent in &mut farm.agents {
        agent.env.push((URL.to_owned(), url.clone()));
    }
    farm.start_agents().await;
    farm.exec(TABLE).await;
    let may = "SELECT has_schema_privilege('farm_agent', 'shop', 'USAGE')
        OR has_any_column_privilege('farm_agent', 'shop.orders', 'SELECT, INSERT, UPDATE')";
    assert!(!farm.value::<bool>(may).await);
    farm.apply(JOB);
    for id in 1..=3 {
        told(&farm, id).await;
    }
    let who = "SELECT string_agg(DISTINCT who, ' ') FROM shop.seen";
    assert_eq!(farm.value::<String>(who).await, "farm_rows");
    let doctor = farm.farmhand(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!said.contains("users' rows with its own login"), "{said}");
    // What it lacks is said of it, not of the agent's login.
    let revoke = "REVOKE UPDATE (said) ON shop.orders FROM farmhand_rows; INSERT INTO shop.orders VALUES (9)";
    farm.exec(revoke).await;
    farm.event("table_refused").await;
    let why = "SELECT detail::text FROM farmhand.event WHERE kind = 'table_refused' LIMIT 1";
    let why: String = farm.value(why).await;
    assert!(why.contains("the role farm_rows may not update said"), "{why}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_login_for_rows_doctor_says_whose_rights_a_tables_owner_has() {
    let farm = Farm::new().start().await;
    farm.exec(TABLE).await;
    let grant = "GRANT USAGE ON SCHEMA shop TO farm_agent; GRANT INSERT ON shop.seen TO farm_agent;
        GRANT SELECT, UPDATE ON shop.orders TO farm_agent";
    farm.exec(grant).await;
    farm.apply(JOB);
    told(&farm, 1).await;
    let doctor = farm.farmhand(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        said.contains("the agent of n1 writes users' rows with its own login"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_with_no_login_for_rows_that_may_do_more_or_is_elsewhere() {
    let mut farm = Farm::new().prepare().await;
    // Roles belong to the cluster, which tests share.
    let admin = farm.database.admin().await;
    let _ = admin.batch_execute("CREATE ROLE farm_table LOGIN").await;
    let agents = farm.database.agent_url();
    let database: String = farm.value("SELECT current_database()::text").await;
    let rows = agents.replace("farm_agent", "farm_rows");
    for (url, said) in [
        (
            agents.clone(),
            "the login farm_agent has the rights of farmhand_agent",
        ),
        (
            agents.replace("farm_agent", "farm_operator"),
            "the login farm_operator has the rights of farmhand_operator",
        ),
        (
            agents.replace("farm_agent", "farm_viewer"),
            "the login farm_viewer has the rights of farmhand_viewer",
        ),
        (
            agents.replace("farm_agent", "farm_submitter"),
            "the login farm_submitter has the rights of farmhand_submitter",
        ),
        (
            agents.replace("farm_agent", "postgres"),
            "the login postgres has the rights of",
        ),
        (
            agents.replace("farm_agent", "farm_table"),
            "the login farm_table is not a member of farmhand_rows",
        ),
        (
            rows.replace(&database, "postgres"),
            "it leads to another database than FARMHAND_DATABASE_URL",
        ),
    ] {
        let agent = &mut farm.agents[0];
        agent.env = vec![(URL.to_owned(), url.clone())];
        let before = agent.log().len();
        agent.spawn();
        let status = agent.exit(SOON).await;
        assert!(!status.success(), "{url}");
        let log = agent.log().split_off(before);
        assert!(log.contains(URL) && log.contains(said), "{said}: {log}");
    }
    let flag = "--rows-database-url=postgresql://farm_rows:secret@127.0.0.1/farmhand".to_owned();
    let agent = &mut farm.agents[0];
    agent.env.clear();
    agent.arguments.push(flag);
    let before = agent.log().len();
    agent.spawn();
    assert!(!agent.exit(SOON).await.success());
    let log = agent.log().split_off(before);
    assert!(log.contains("--rows-database-url holds a password"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_for_rows_has_a_password_of_its_own_which_may_be_replaced() {
    let server = PrivateServer::start(Options::default()).await;
    let hba =
        "local all all trust\nhost all rower 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    fs::write(server.data().join("pg_hba.conf"), hba).expect("pg_hba.conf");
    let admin = server.admin().await;
    let made = "CREATE ROLE rower LOGIN PASSWORD 'first' IN ROLE farmhand_rows";
    admin.exec(made).await;
    server.reload().await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("password");
    keep(&file, "wrong");
    let url = format!("postgresql://rower@127.0.0.1:{}/farmhand", server.port());
    let mut farm = Farm::new().on(server).prepare().await;
    farm.agents[0].env = vec![
        (URL.to_owned(), url),
        (PASSWORD_FILE.to_owned(), file.display().to_string()),
    ];
    farm.agents[0].spawn();
    assert!(!farm.agents[0].exit(SOON).await.success());
    let log = farm.agents[0].log();
    assert!(
        log.contains(URL) && log.contains(PASSWORD_FILE) && log.contains("rower"),
        "{log}"
    );
    keep(&file, "first");
    farm.start_agents().await;
    farm.exec(TABLE).await;
    farm.apply(JOB);
    told(&farm, 1).await;
    admin.exec("ALTER ROLE rower PASSWORD 'second'").await;
    keep(&file, "second");
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rower'";
    admin.query(ends, &[]).await.expect("ends");
    told(&farm, 2).await;

    // At night it is locked: the job says so, and goes on when it is not.
    admin.exec("ALTER ROLE rower NOLOGIN").await;
    admin.query(ends, &[]).await.expect("ends");
    farm.event("table_refused").await;
    let why: String = farm
        .value("SELECT detail->>'error' FROM farmhand.event WHERE kind = 'table_refused' ORDER BY event_id LIMIT 1")
        .await;
    assert!(
        why.contains("the login for rows") && why.contains("rower"),
        "{why}"
    );
    admin.exec("ALTER ROLE rower LOGIN").await;
    // What was refused is tried rarely.
    told_within(&farm, 3, 3 * SOON).await;
    farm.check().await;
}
