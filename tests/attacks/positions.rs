//! Attacks by SQL: from which position, for what, how, and the database's answer. docs/guides/security.md has the positions and
//! goals as a table, which `tests/repo` compares with this list.

use farmhand_tests::pg::connect;

use super::logins::{Attacked, make_team};

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
    ("an agent's login", "hide what it did", "UPDATE farmhand.audit SET role = 'anna'", "42501"),
    ("an agent's login", "hide what it did", "ALTER TABLE farmhand.api_token DISABLE TRIGGER note_change", "42501"),
    ("an agent's login", "hide what it did", "SET session_replication_role = replica", "42501"),
    ("an agent's login", "hide what it did", "SET log_min_messages = panic", "42501"),
    ("an agent's login", "blame another", "INSERT INTO farmhand.audit (at, kind, role, detail) VALUES (now(), 'x', 'anna', '{}')", "42501"),
    ("an agent's login", "blame another", "SELECT farmhand.note_action('x', 'anna', NULL, NULL, NULL, '{}')", "42501"),
    ("an agent's login", "blame another", "INSERT INTO farmhand.event (at, kind, severity) VALUES (now() - interval '1 hour', 'x', 'info')", "42501"),
    ("an agent's login", "delete history", "TRUNCATE farmhand.run_log", "42501"),
    ("an agent's login", "delete history", "DELETE FROM farmhand.event", "42501"),
    ("an agent's login", "delete history", "SELECT farmhand.drop_partitions(0, 0, 0)", "22023"),
    ("an agent's login", "delete history", "UPDATE farmhand.retention SET at_least = 1", "42501"),
    ("an agent's login", "use numbers up", "SELECT setval('farmhand.run_id_seq', 9223372036854775806)", "42501"),
    ("an agent's login", "use numbers up", "SELECT setval('farmhand.fence_seq', 9223372036854775806)", "42501"),
    ("an operator's login", "read or write tables that are not theirs", r#"INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at) VALUES ('t', 1, '{"command": "id", "table": {"schema": "shop", "name": "orders", "key": "id", "dispatch": "sent_at"}}', '', '', now())"#, "42501"),
    ("an operator's login", "read or write tables that are not theirs", "SELECT * FROM shop.orders", "42501"),
    ("an operator's login", "change a definition without a new revision", "UPDATE farmhand.job_revision SET spec = '{}'", "42501"),
    ("an operator's login", "change a definition without a new revision", "DELETE FROM farmhand.job_revision", "42501"),
    ("an operator's login", "become another", "INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at) VALUES (sha256('x'), 1, '', now())", "42501"),
    ("an operator's login", "become another", "SELECT farmhand.begin_session(sha256('x'), sha256('token'), '', 60)", "42501"),
    ("an operator's login", "become another", "SET ROLE farm_agent", "42501"),
    ("an operator's login", "become another", "GRANT farmhand_agent TO farm_operator", "42501"),
    ("an operator's login", "become another", "CREATE ROLE mine SUPERUSER", "42501"),
    ("an operator's login", "hide what they did", "DELETE FROM farmhand.audit", "42501"),
    ("an operator's login", "hide what they did", "TRUNCATE farmhand.audit", "42501"),
    ("an operator's login", "hide what they did", "SELECT farmhand.forget_audit(0)", "42501"),
    ("an operator's login", "hide what they did", "DELETE FROM farmhand.api_token", "42501"),
    ("an operator's login", "hide what they did", "UPDATE farmhand.event SET detail = '{}'", "42501"),
    ("an operator's login", "forge what ran", "UPDATE farmhand.run_history SET state = 'succeeded'", "42501"),
    ("an operator's login", "forge what ran", "DELETE FROM farmhand.run_history", "42501"),
    ("an operator's login", "forge what ran", "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk) VALUES (1, 1, 1, 'stdout', now(), now(), 'x')", "42501"),
    ("an operator's login", "forge what ran", "INSERT INTO farmhand.event (at, kind, severity) VALUES (now() - interval '1 hour', 'x', 'info')", "42501"),
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
    ("a submitter's login", "end others' runs", "UPDATE farmhand.run_live SET cancel_requested = true", "42501"),
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
    ("a restricted operator's login", "change another team's job", "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at) VALUES ('j', 2, '{}', '', 'anna', now())", "42501"),
    ("a restricted operator's login", "change another team's job", "UPDATE farmhand.job SET paused = true, next_run = NULL WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "change another team's job", "UPDATE farmhand.job SET job_id = 'team.k' WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "change another team's job", "UPDATE farmhand.job SET job_id = 'k' WHERE job_id = 'team.j'", "42501"),
    ("a restricted operator's login", "change another team's job", "INSERT INTO farmhand.job SELECT 'k', rev, seq, kind, work, enabled, paused, paused_by, paused_at, pause_reason, deleted, scheduled, next_run, decided_until, overlap, on_lost, priority, hard_ms, placement, instances, each_node, source, applied_by, applied_at FROM farmhand.job WHERE job_id = 'team.j'", "42501"),
    ("a restricted operator's login", "change another team's job", "INSERT INTO farmhand.job_signature (job_id, rev, document, key_name, signature, stored_by, stored_at) VALUES ('j', 1, '', '', '', '', now())", "42501"),
    ("a restricted operator's login", "change another team's job", "INSERT INTO farmhand.need (job_id, rev, gate, locks) VALUES ('j', 1, 'lock', '{x}')", "42501"),
    ("a restricted operator's login", "change another team's job", "INSERT INTO farmhand.notify_edge (job_id, target) VALUES ('j', 'ops')", "42501"),
    ("a restricted operator's login", "change another team's job", "INSERT INTO farmhand.job_stat (job_id, last_state) VALUES ('j', 'failed')", "42501"),
    ("a restricted operator's login", "change another team's job", "UPDATE farmhand.job SET seq = 9223372036854775806 WHERE job_id = 'team.j'", "42501"),
    ("a restricted operator's login", "change another team's job", "UPDATE farmhand.job_seq SET seq = 0", "42501"),
    ("a restricted operator's login", "run another team's job", "SELECT farmhand.submit('j')", "42501"),
    ("a restricted operator's login", "run another team's job", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('j', 1, 'submitted', now(), now())", "42501"),
    ("a restricted operator's login", "run another team's job", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) SELECT 'j', 1, 'backfill', t, now() FROM generate_series(now() - interval '3 days', now(), '1 day') t", "42501"),
    ("a restricted operator's login", "run another team's job", "UPDATE farmhand.run_live SET job_id = 'j' WHERE job_id = 'team.j'", "42501"),
    ("a restricted operator's login", "run another team's job", "INSERT INTO farmhand.trigger_edge (parent, child, nth, on_end, several) VALUES ('team.j', 'j', 1, 'success', false)", "42501"),
    ("a restricted operator's login", "run another team's job", "INSERT INTO farmhand.triggering (child, parent, run_id, due_at, by_hand) SELECT 'j', 'team.j', run_id, now(), true FROM farmhand.run_live WHERE job_id = 'team.j'", "42501"),
    ("a restricted operator's login", "end another team's runs", "UPDATE farmhand.run_live SET cancel_requested = true WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "end another team's runs", "DELETE FROM farmhand.run_live WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "end another team's runs", "UPDATE farmhand.run_live SET job_id = 'team.j' WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "end another team's runs", "DELETE FROM farmhand.triggering", "42501"),
    ("a restricted operator's login", "falsify another team's runs", "INSERT INTO farmhand.run_history SELECT h.* FROM farmhand.run_live r, LATERAL farmhand.ended(r, 'succeeded', 'x', 'holder') h WHERE r.job_id = 'j'", "42501"),
    ("a restricted operator's login", "falsify another team's runs", r#"INSERT INTO farmhand.run_history SELECT h.* FROM farmhand.run_live r, LATERAL farmhand.ended(jsonb_populate_record(r, '{"job_id": "team.j"}'), 'succeeded', 'x', 'holder') h WHERE r.job_id = 'j'"#, "42501"),
    ("a restricted operator's login", "falsify another team's runs", "INSERT INTO farmhand.task (run_id, task, attempt, outcome, ended_at, stored_at) SELECT run_id, 't', 0, 'succeeded', now(), now() FROM farmhand.run_live WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "falsify another team's runs", "INSERT INTO farmhand.stream_item (run_id, item, outcome, of_run, attempt, failures, line, stored_at) SELECT m.run_id, 1, 'waiting', o.run_id, 0, 0, '', now() FROM farmhand.run_live m, farmhand.run_live o WHERE m.job_id = 'team.j' AND o.job_id = 'j'", "42501"),
    ("a restricted operator's login", "falsify another team's runs", "INSERT INTO farmhand.event (at, kind, severity, job_id) VALUES (now(), 'job_paused', 'info', 'j')", "42501"),
    ("a restricted operator's login", "falsify another team's runs", "INSERT INTO farmhand.event (at, kind, severity, run_id) SELECT now(), 'cancel', 'info', run_id FROM farmhand.run_live WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "falsify another team's runs", "INSERT INTO farmhand.notify_note (job_id, what, run_id, attempt, outcome) VALUES ('j', 'end', 1, 1, 'failed')", "42501"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at) SELECT last_value + 1, 'team.j', 1, 'submitted', now(), now() FROM farmhand.run_id_seq", "42501"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, firing) SELECT 'team.j', 1, 'submitted', now(), now(), run_id FROM farmhand.run_live WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt, fence, claimed_at) VALUES ('team.j', 1, 'submitted', now(), now(), 'running', 'n', 1, 1, 1, now())", "42501"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.need (job_id, rev, gate, rate_count, rate_ms) VALUES ('team.j', 1, 'rate', 1, 9223372036854775807)", "23514"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "UPDATE farmhand.job SET instances = 10001 WHERE job_id = 'team.j'", "23514"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.event (event_id, at, kind, severity, job_id) VALUES (9223372036854775807, now(), 'x', 'info', 'team.j')", "42501"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.notify_note (id, job_id, what, run_id, attempt, outcome) OVERRIDING SYSTEM VALUE VALUES (9223372036854775807, 'team.j', 'end', 2, 1, 'failed')", "42501"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, instances, instance, spread) VALUES ('team.j', 1, 'submitted', now(), now(), 2, 1, 9223372036854775807)", "23514"),
    ("a restricted operator's login", "keep another team's runs from being made or ended", "SELECT farmhand.acquire('stock', '10 s')", "42501"),
    ("a restricted operator's login", "reach what all share", "UPDATE farmhand.node SET draining = true", "42501"),
    ("a restricted operator's login", "reach what all share", "DELETE FROM farmhand.node", "42501"),
    ("a restricted operator's login", "reach what all share", "UPDATE farmhand.pool SET size = 0", "42501"),
    ("a restricted operator's login", "reach what all share", r#"UPDATE farmhand.notify_target SET spec = '{"webhook": "https://h"}'"#, "42501"),
    ("a restricted operator's login", "reach what all share", "INSERT INTO farmhand.notification (target, channel, topic, key, body) VALUES ('ops', 'email', 'test', 'x', '{}')", "42501"),
    ("a restricted operator's login", "reach what all share", "INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome, ended_by) VALUES (1, 'team.j', 1, 'n', 1, 1, now(), now(), 'lost', 'takeover')", "42501"),
    ("a restricted operator's login", "lift the restriction", "DELETE FROM farmhand.restriction", "42501"),
    ("a restricted operator's login", "lift the restriction", "UPDATE farmhand.restriction SET jobs = '{team.*,j}'", "42501"),
    ("a restricted operator's login", "lift the restriction", "UPDATE farmhand.restriction SET name = 'farm_operator' WHERE name = 'farm_team_operator'", "42501"),
    ("a restricted operator's login", "lift the restriction", "INSERT INTO farmhand.restriction (kind, name, jobs, set_by) VALUES ('login', 'farm_operator', '{team.*}', '')", "42501"),
    ("a restricted operator's login", "lift the restriction", "INSERT INTO farmhand.api_token (name, hash, role, created_by, expires_at) VALUES ('me', sha256('x'), 'admin', '', now() + interval '1 day')", "42501"),
    ("a restricted operator's login", "lift the restriction", "UPDATE farmhand.api_token SET hash = sha256('mine') WHERE name = 'boss'", "42501"),
    ("a restricted operator's login", "lift the restriction", "DELETE FROM farmhand.web_session", "42501"),
    ("a restricted operator's login", "lift the restriction", "SET ROLE farmhand_operator; UPDATE farmhand.job SET paused = true, next_run = NULL WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "lift the restriction", "SET farmhand.token = '1'; UPDATE farmhand.job SET paused = true, next_run = NULL WHERE job_id = 'j'", "42501"),
    ("a restricted operator's login", "lift the restriction", "CREATE TEMP TABLE mine (x integer); CREATE FUNCTION pg_temp.mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE farmhand.job SET paused = true, next_run = NULL WHERE job_id = ''j''; RETURN NEW; END'; CREATE TRIGGER mine BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION pg_temp.mine(); INSERT INTO mine VALUES (1)", "42501"),
    ("a restricted submitter's login", "run another team's job", "SELECT farmhand.submit('j')", "42501"),
    ("a restricted submitter's login", "run another team's job", "SELECT farmhand.submit('j', '{}', now(), 'once')", "42501"),
    ("a restricted submitter's login", "keep another team's runs from being made or ended", "SELECT farmhand.acquire('stock', '10 s')", "42501"),
    ("an agent's login", "act for a token beyond its jobs", "SET farmhand.token = '2'; UPDATE farmhand.job SET paused = true, next_run = NULL WHERE job_id = 'j'", "42501"),
    ("an agent's login", "act for a token beyond its jobs", "SET farmhand.token = '2'; SELECT farmhand.submit('j')", "42501"),
    ("an agent's login", "act for a token beyond its jobs", "SET farmhand.token = '2'; UPDATE farmhand.run_live SET cancel_requested = true", "42501"),
    ("an agent's login", "act for a token beyond its jobs", "SET farmhand.token = '2'; UPDATE farmhand.node SET draining = true", "42501"),
    ("an agent's login", "act for a token beyond its jobs", "SET farmhand.token = '2'; UPDATE farmhand.pool SET size = 0", "42501"),
    ("an agent's login", "act for a token that is revoked", "SET farmhand.token = '3'; UPDATE farmhand.job SET paused = true, next_run = NULL WHERE job_id = 'team.j'", "42501"),
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
    ("the login for users' rows", "end runs, or act as a node", "UPDATE farmhand.run_live SET cancel_requested = true", "42501"),
    ("the login for users' rows", "end runs, or act as a node", "UPDATE farmhand.node SET open = false", "42501"),
    ("the login for users' rows", "end runs, or act as a node", "SELECT farmhand.claim_gated('a', 1, gen_random_uuid(), 1)", "42501"),
    ("the login for users' rows", "become another", "SELECT hash FROM farmhand.api_token", "42501"),
    ("the login for users' rows", "become another", "SET ROLE farmhand_agent", "42501"),
    ("the login for users' rows", "become another", "GRANT farmhand_agent TO farm_rows", "42501"),
    ("the login for users' rows", "use numbers up", "SELECT nextval('farmhand.run_id_seq')", "42501"),
];

/// Another team's job is `j`; these are the jobs, tokens and logins of the team, and what all share.
const TEAM: &str = r#"
    INSERT INTO farmhand.job_revision SELECT 'team.j', rev, spec, source, applied_by, applied_at FROM farmhand.job_revision;
    INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node,
        source, applied_by, applied_at)
        VALUES ('team.j', 1, 1, true, false, 'allow', 'rerun', 0, 1, false, '', 'anna', now());
    UPDATE farmhand.job_seq SET seq = 1;
    INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('team.j', 1, 'submitted', now(), now());
    INSERT INTO farmhand.triggering (child, parent, run_id, due_at, by_hand) VALUES ('j', 'team.j', 2, now(), true);
    INSERT INTO farmhand.api_token (name, hash, role, created_by, expires_at)
        VALUES ('team', sha256('team'), 'operator', 'anna', now() + interval '1 hour'),
            ('gone', sha256('gone'), 'operator', 'anna', now() + interval '1 hour');
    UPDATE farmhand.api_token SET revoked_at = now() WHERE name = 'gone';
    INSERT INTO farmhand.web_session (hash, token_id, remote, expires_at)
        VALUES (sha256('s'), 1, '', now() + interval '1 hour');
    INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, version, started_at)
        VALUES ('n', 'n', 1, gen_random_uuid(), true, 10000, now(), 4, '1', now());
    INSERT INTO farmhand.pool VALUES ('p', 1, 1, '', 'anna', now());
    INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at)
        VALUES ('ops', '{"webhook": "https://ops"}', '', '', now());
    INSERT INTO farmhand.restriction (kind, name, jobs, set_by) VALUES ('login', 'farm_team_operator', '{team.*}', 'anna'),
        ('login', 'farm_team_submitter', '{team.*}', 'anna'), ('token', '2', '{team.*}', 'anna')"#;

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
    make_team(&a.test).await;
    a.owner.exec(TEAM).await;
    let mut open = Vec::new();
    for (position, goal, statement, code) in ATTACKS {
        let login = match *position {
            "an agent's login" => "farm_agent",
            "an operator's login" => "farm_operator",
            "a submitter's login" => "farm_submitter",
            "a viewer's login" => "farm_viewer",
            "a restricted operator's login" => "farm_team_operator",
            "a restricted submitter's login" => "farm_team_submitter",
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
    assert!(ATTACKS.len() >= 120);
}
