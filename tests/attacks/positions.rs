//! Attacks by SQL: from which position, for what, how, and the database's answer. docs/guides/security.md says of each position
//! what it can and cannot; `tests/repo` looks that each is there.

use farmhand_tests::pg::connect;

use super::logins::Attacked;

#[rustfmt::skip]
const ATTACKS: &[(&str, &str, &str, &str)] = &[
    ("an agent's login", "have its own command run", "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at) VALUES ('j', 2, '{}', '', 'anna', now())", "42501"),
    ("an agent's login", "have its own command run", "UPDATE farmhand.job_revision SET spec = '{}'", "42501"),
    ("an agent's login", "have its own command run", "UPDATE farmhand.job SET rev = 2", "42501"),
    ("an agent's login", "have its own command run", "INSERT INTO farmhand.job_signature (job_id, rev, document, key_name, signature, stored_by, stored_at) VALUES ('j', 1, '', '', '', '', now())", "42501"),
    ("an agent's login", "have a job run on another node", "UPDATE farmhand.job SET placement = '{}'", "42501"),
    ("an agent's login", "have a job run when another ends", "INSERT INTO farmhand.trigger_edge (parent, child, nth, on_end, several) VALUES ('j', 'j', 1, 'success', false)", "42501"),
    ("an agent's login", "send what it likes to others", r#"INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at) VALUES ('x', '{"webhook": "https://h"}', '', '', now())"#, "42501"),
    ("an agent's login", "become a person", "INSERT INTO farmhand.api_token (name, hash, role, created_by, expires_at) VALUES ('me', sha256('x'), 'admin', '', now() + interval '1 day')", "42501"),
    ("an agent's login", "become a person", "SELECT hash FROM farmhand.api_token", "42501"),
    ("an agent's login", "become a person", "UPDATE farmhand.api_token SET expires_at = 'infinity'", "42501"),
    ("an agent's login", "become a person", "INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at) VALUES (sha256('x'), 1, '', now())", "42501"),
    ("an agent's login", "become a person", "SET ROLE farm_operator", "42501"),
    ("an agent's login", "become a person", "GRANT farmhand_operator TO farm_agent", "42501"),
    ("an agent's login", "become the database's owner", "CREATE TRIGGER mine AFTER INSERT ON farmhand.run_history FOR EACH ROW EXECUTE FUNCTION farmhand.count_one()", "42501"),
    ("an agent's login", "become the database's owner", "CREATE FUNCTION farmhand.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'", "42501"),
    ("an agent's login", "become the database's owner", "CREATE FUNCTION public.lower(text) RETURNS text LANGUAGE sql AS 'SELECT $1'", "42501"),
    ("an agent's login", "run programs on the database's machine", "COPY (SELECT 1) TO PROGRAM 'id'", "42501"),
    ("an agent's login", "read files of the database's machine", "SELECT pg_read_file('/etc/passwd')", "42501"),
    ("an agent's login", "hide what it did", "DELETE FROM farmhand.audit", "42501"),
    ("an agent's login", "hide what it did", "UPDATE farmhand.audit SET login = 'anna'", "42501"),
    ("an agent's login", "hide what it did", "ALTER TABLE farmhand.run_live DISABLE TRIGGER ALL", "42501"),
    ("an agent's login", "hide what it did", "SET session_replication_role = replica", "42501"),
    ("an agent's login", "hide what it did", "SET log_min_messages = panic", "42501"),
    ("an agent's login", "blame another", "INSERT INTO farmhand.audit (login, actor, action, what) VALUES ('anna', 'anna', 'pause', 'x')", "42501"),
    ("an agent's login", "blame another", "INSERT INTO farmhand.audit (at, actor, action, what) VALUES (now() - interval '1 hour', 'anna', 'pause', 'x')", "42501"),
    ("an agent's login", "blame another", "INSERT INTO farmhand.audit (client, actor, action, what) VALUES ('10.0.0.1', 'anna', 'pause', 'x')", "42501"),
    ("an operator's login", "blame another", "INSERT INTO farmhand.audit (login, actor, action, what) VALUES ('anna', 'anna', 'pause', 'x')", "42501"),
    ("an operator's login", "blame another", "INSERT INTO farmhand.audit (at, actor, action, what) VALUES (now() - interval '1 hour', 'anna', 'pause', 'x')", "42501"),
    ("an operator's login", "blame another", "INSERT INTO farmhand.audit (client, actor, action, what) VALUES ('10.0.0.1', 'anna', 'pause', 'x')", "42501"),
    ("an agent's login", "delete history", "TRUNCATE farmhand.run_log", "42501"),
    ("an agent's login", "delete history", "DELETE FROM farmhand.event", "42501"),
    ("an agent's login", "delete history", "SELECT farmhand.drop_partitions(0, 0, 0)", "22023"),
    ("an agent's login", "delete history", "UPDATE farmhand.retention SET at_least = 1", "42501"),
    ("an agent's login", "use numbers up", "SELECT setval('farmhand.run_id_seq', 9223372036854775806)", "42501"),
    ("an agent's login", "use numbers up", "SELECT setval('farmhand.fence_seq', 9223372036854775806)", "42501"),
    ("an operator's login", "read or write tables that are not theirs", "SELECT * FROM shop.orders", "42501"),
    ("an operator's login", "change a definition without a new revision", "UPDATE farmhand.job_revision SET spec = '{}'", "42501"),
    ("an operator's login", "change a definition without a new revision", "DELETE FROM farmhand.job_revision", "42501"),
    ("an operator's login", "become another", "INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at) VALUES (sha256('x'), 1, '', now())", "42501"),
    ("an operator's login", "become another", "SELECT farmhand.begin_session(sha256('x'), sha256('token'), '', 60)", "42501"),
    ("an operator's login", "become another", "SET ROLE farm_agent", "42501"),
    ("an operator's login", "become another", "GRANT farmhand_agent TO farm_operator", "42501"),
    ("an operator's login", "become another", "CREATE ROLE mine SUPERUSER", "42501"),
    ("an operator's login", "give a token more rights", "UPDATE farmhand.api_token SET role = 'admin'", "42501"),
    ("an operator's login", "give a token more rights", "UPDATE farmhand.api_token SET jobs = NULL", "42501"),
    ("an operator's login", "hide what they did", "DELETE FROM farmhand.audit", "42501"),
    ("an operator's login", "hide what they did", "TRUNCATE farmhand.audit", "42501"),
    ("an operator's login", "hide what they did", "SELECT farmhand.forget_audit(0)", "42501"),
    ("an operator's login", "hide what they did", "DELETE FROM farmhand.api_token", "42501"),
    ("an operator's login", "hide what they did", "UPDATE farmhand.event SET detail = '{}'", "42501"),
    ("an operator's login", "forge what ran", "UPDATE farmhand.run_history SET state = 'succeeded'", "42501"),
    ("an operator's login", "forge what ran", "DELETE FROM farmhand.run_history", "42501"),
    ("an operator's login", "forge what ran", "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk) VALUES (1, 1, 1, 'stdout', now(), now(), 'x')", "42501"),
    ("an operator's login", "delete history", "SELECT farmhand.drop_partitions(1, 1, 1)", "42501"),
    ("an operator's login", "delete history", "UPDATE farmhand.retention SET at_least = 1", "42501"),
    ("an operator's login", "stop all claims with one row", "UPDATE farmhand.epoch SET server = ''", "42501"),
    ("an operator's login", "silence notifications with one row", r#"INSERT INTO farmhand.notify_edge (job_id, target) VALUES (E'a\nb', 'ops')"#, "23514"),
    ("an operator's login", "silence notifications with one row", r#"INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at) VALUES ('x', '{"email": "x"}', '', '', now())"#, "23514"),
    ("a submitter's login", "run what it may not", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('j', 1, 'submitted', now(), now())", "42501"),
    ("a submitter's login", "run what it may not", r#"SELECT farmhand.submit('j', '{"LD_PRELOAD": "/tmp/x"}')"#, "22023"),
    ("a submitter's login", "run what it may not", "SELECT farmhand.submit('j', '[]')", "22023"),
    ("a submitter's login", "run what it may not", "SELECT farmhand.dispatch_rows('j')", "42501"),
    ("a submitter's login", "stop all claims with one row", "SELECT farmhand.submit('j', '{}', 'infinity')", "22023"),
    ("a submitter's login", "end others' runs", "UPDATE farmhand.run_live SET cancel_by = 'x'", "42501"),
    ("a submitter's login", "end others' runs", "SELECT farmhand.claim_gated('a', 1, gen_random_uuid(), 1)", "42501"),
    ("a submitter's login", "read what it may not", "SELECT spec FROM farmhand.job_revision", "42501"),
    ("a submitter's login", "read what it may not", "SELECT chunk FROM farmhand.run_log", "42501"),
    ("a submitter's login", "become another", "SELECT farmhand.known_credential(sha256('token'), false)", "42501"),
    ("a submitter's login", "become another", "SET ROLE farmhand_operator", "42501"),
    ("a submitter's login", "use numbers up", "SELECT nextval('farmhand.run_id_seq')", "42501"),
    ("a viewer's login", "run something", "SELECT farmhand.submit('j')", "42501"),
    ("a viewer's login", "run something", "UPDATE farmhand.job SET paused = false", "42501"),
    ("a viewer's login", "become another", "SELECT hash FROM farmhand.api_token", "42501"),
    ("a viewer's login", "become another", "SELECT hash FROM farmhand.web_session", "42501"),
    ("a viewer's login", "become another", "SELECT farmhand.begin_session(sha256('x'), sha256('token'), '', 60)", "42501"),
    ("a viewer's login", "become another", "SELECT key FROM farmhand.api_once", "42501"),
    ("a viewer's login", "end agents' connections", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'farm_agent'", "42501"),
    ("a viewer's login", "block agents", "BEGIN; LOCK TABLE farmhand.run_live IN EXCLUSIVE MODE", "42501"),
    ("a viewer's login", "block agents", "SELECT FROM farmhand.node FOR UPDATE", "42501"),
    ("a viewer's login", "hide or forge", "INSERT INTO farmhand.event (at, kind, severity) VALUES (now(), 'x', 'info')", "42501"),
    ("the owner of a dispatched table", "read the farm", "SELECT * FROM farmhand.job", "42501"),
    ("the owner of a dispatched table", "read the farm", "SELECT passwd FROM pg_shadow", "42501"),
    ("the owner of a dispatched table", "have its own command run", "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at) VALUES ('j', 2, '{}', '', 'anna', now())", "42501"),
    ("the owner of a dispatched table", "have its own command run", "SELECT farmhand.submit('j')", "42501"),
    ("the owner of a dispatched table", "become another", "SET ROLE farmhand_agent", "42501"),
    ("the owner of a dispatched table", "become another", "GRANT farmhand_operator TO farm_table", "42501"),
    ("the owner of a dispatched table", "replace what the farm calls", "CREATE FUNCTION farmhand.submit(text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'", "42501"),
    ("the owner of a dispatched table", "replace what the farm calls", "CREATE TABLE pg_catalog.run_live ()", "42501"),
    ("the login for users' rows", "read the farm", "SELECT * FROM farmhand.job", "42501"),
    ("the login for users' rows", "read the farm", "SELECT chunk FROM farmhand.run_log", "42501"),
    ("the login for users' rows", "read the farm", "SELECT message FROM farmhand.row_result", "42501"),
    ("the login for users' rows", "have its own command run", "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at) VALUES ('j', 2, '{}', '', 'anna', now())", "42501"),
    ("the login for users' rows", "have its own command run", "SELECT farmhand.submit('j')", "42501"),
    ("the login for users' rows", "have its own command run", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('j', 1, 'submitted', now(), now())", "42501"),
    ("the login for users' rows", "end runs, or act as a node", "UPDATE farmhand.run_live SET cancel_by = 'x'", "42501"),
    ("the login for users' rows", "end runs, or act as a node", "UPDATE farmhand.node SET open = false", "42501"),
    ("the login for users' rows", "end runs, or act as a node", "SELECT farmhand.claim_gated('a', 1, gen_random_uuid(), 1)", "42501"),
    ("the login for users' rows", "become another", "SELECT hash FROM farmhand.api_token", "42501"),
    ("the login for users' rows", "become another", "SET ROLE farmhand_agent", "42501"),
    ("the login for users' rows", "become another", "GRANT farmhand_agent TO farm_rows", "42501"),
    ("the login for users' rows", "use numbers up", "SELECT nextval('farmhand.run_id_seq')", "42501"),
];

#[tokio::test]
async fn each_login_is_refused_what_is_beyond_its_role() {
    let a = Attacked::new().await;
    let admin = connect(&a.test.url_as("postgres")).await;
    // Roles belong to the cluster, which tests share.
    let _ = admin.batch_execute("CREATE ROLE farm_table LOGIN").await;
    admin
        .exec(
            "CREATE SCHEMA shop AUTHORIZATION farm_table;
             CREATE TABLE shop.orders (id bigint PRIMARY KEY, sent_at timestamptz);
             ALTER TABLE shop.orders OWNER TO farm_table;
             GRANT SELECT, UPDATE ON shop.orders TO farm_agent;
             GRANT USAGE ON SCHEMA shop TO farm_agent",
        )
        .await;
    let mut open = Vec::new();
    for (position, goal, statement, code) in ATTACKS {
        let login = match *position {
            "an agent's login" => "farm_agent",
            "an operator's login" => "farm_operator",
            "a submitter's login" => "farm_submitter",
            "a viewer's login" => "farm_viewer",
            "the owner of a dispatched table" => "farm_table",
            "the login for users' rows" => "farm_rows",
            other => panic!("{other}: no such position"),
        };
        let client = connect(&a.test.url_as(login)).await;
        let answer = client.batch_execute(statement).await;
        let said = answer.err().and_then(|e| e.code().map(|c| c.code().to_owned()));
        if said.as_deref() != Some(*code) {
            open.push(format!("{position}, to {goal}: {statement}: {said:?}"));
        }
    }
    assert!(open.is_empty(), "not refused as it should be: {open:#?}");
    assert!(ATTACKS.len() >= 100);
}
