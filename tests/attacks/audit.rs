//! Changes by plain SQL leave a trace; what agents do all day leaves none.

use super::logins::Attacked;

/// What there is to be changed.
const MORE: &str = "
    INSERT INTO farmhand.job_signature (job_id, rev, document, key_name, signature, stored_by, stored_at)
        VALUES ('j', 1, 'as signed', 'anna', 'x', 'anna', now());
    INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, version, started_at)
        VALUES ('n', 'n', 1, gen_random_uuid(), true, 10000, now(), 4, '1', now());
    INSERT INTO farmhand.refusal (job_id, rev, address, why, first_at, at) VALUES ('j', 1, 'n', 'unsigned', now(), now())";

#[tokio::test]
async fn no_row_that_decides_what_runs_is_changed_without_a_trace() {
    let a = Attacked::new().await;
    a.owner.exec(MORE).await;
    for (statement, kind, shows) in [
        ("SELECT farmhand.submit('j')", "run_submitted", "\"runs\": 1"),
        ("UPDATE farmhand.api_token SET hash = sha256('mine')", "changed_api_token", "hash"),
        ("UPDATE farmhand.job_signature SET document = 'another'", "changed_job_signature", "another"),
        (
            "INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node, source, applied_by, applied_at)
                 VALUES ('k', 1, 2, true, false, 'allow', 'rerun', 0, 1, false, '', 'bob', now())",
            "changed_job",
            "enabled",
        ),
        ("UPDATE farmhand.job SET placement = ARRAY['{\"rack\": \"b\"}'::jsonb]", "changed_job", "rack"),
        ("UPDATE farmhand.job SET priority = 100", "changed_job", "priority"),
        ("UPDATE farmhand.job SET instances = 7", "changed_job", "instances"),
        ("UPDATE farmhand.job SET on_lost = 'fail'", "changed_job", "on_lost"),
        ("UPDATE farmhand.job SET next_run = '2099-01-01Z'", "changed_job", "next_run"),
        (
            "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, made)
                 SELECT 'j', 1, 'submitted', now(), now(), '{\"submitted_by\": \"anna\"}' FROM generate_series(1, 3)",
            "changed_run_live",
            "\"runs\": 3",
        ),
        ("UPDATE farmhand.run_live SET params = '{\"to\": \"me\"}'", "changed_run_live", "params"),
        ("UPDATE farmhand.run_live SET ready_at = 'infinity'", "changed_run_live", "ready_at"),
        ("DELETE FROM farmhand.run_live", "changed_run_live", "delete"),
        (
            "INSERT INTO farmhand.run_history SELECT h.* FROM jsonb_populate_record(NULL::farmhand.run_live,
                 '{\"run_id\": 77, \"job_id\": \"j\", \"rev\": 1, \"kind\": \"submitted\", \"instance\": 0, \"instances\": 1,
                   \"due_at\": \"2026-01-01Z\", \"ready_at\": \"2026-01-01Z\", \"attempt\": 1, \"retries\": 0, \"takeovers\": 0,
                   \"params\": {}, \"created_at\": \"2026-01-01Z\", \"made\": {}}') r,
                 LATERAL farmhand.ended(r, 'succeeded', 'x', 'holder') h",
            "changed_run_history",
            "succeeded",
        ),
        ("INSERT INTO farmhand.notify_edge (job_id, target) VALUES ('j', 'ops')", "changed_notify_edge", "ops"),
        ("DELETE FROM farmhand.notify_edge", "changed_notify_edge", "ops"),
        (
            "INSERT INTO farmhand.trigger_edge (parent, child, nth, on_end, several) VALUES ('j', 'k', 1, 'success', false)",
            "changed_trigger_edge",
            "success",
        ),
        ("DELETE FROM farmhand.trigger_edge", "changed_trigger_edge", "delete"),
        ("INSERT INTO farmhand.need (job_id, rev, gate) VALUES ('j', 1, 'lock')", "changed_need", "lock"),
        ("UPDATE farmhand.node SET session = session + 1", "changed_node", "session"),
        ("UPDATE farmhand.node SET labels = '{\"rack\": \"b\"}'", "changed_node", "rack"),
        ("DELETE FROM farmhand.refusal", "changed_refusal", "unsigned"),
        ("DELETE FROM farmhand.node", "changed_node", "delete"),
    ] {
        a.operator.batch_execute(statement).await.expect(statement);
        let last = "SELECT concat_ws('|', kind, role, detail) FROM farmhand.audit ORDER BY audit_id DESC LIMIT 1";
        let said = a.text(last).await.unwrap_or_default();
        assert!(
            said.starts_with(&format!("{kind}|farm_operator|")) && said.contains(shows),
            "{statement}: {said}"
        );
    }
    let hashes = "SELECT count(*)::text FROM farmhand.audit
                  WHERE detail::text LIKE '%' || encode(sha256('mine'), 'hex') || '%'";
    assert_eq!(a.text(hashes).await.as_deref(), Some("0"));
}

#[tokio::test]
async fn the_audit_is_in_the_servers_log_as_it_happens() {
    let a = Attacked::new().await;
    let forged = "UPDATE farmhand.job SET paused = true, paused_by = 'bob'";
    a.operator.batch_execute(forged).await.expect(forged);
    let logged = a.test.log();
    let line = logged
        .lines()
        .find(|line| line.contains("farmhand audit") && line.contains("farm_operator"))
        .unwrap_or_default();
    for part in [
        "LOG:",
        "\"kind\": \"changed_job\"",
        "\"role\": \"farm_operator\"",
        "bob",
    ] {
        assert!(line.contains(part), "{part} in {logged}");
    }
}

#[tokio::test]
async fn what_agents_do_all_day_fills_no_audit() {
    let a = Attacked::new().await;
    for client in [&a.agent, &a.owner] {
        for statement in [
            "UPDATE farmhand.job SET next_run = now(), scheduled = true, decided_until = now()",
            "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('j', 1, 'scheduled', now(), now())",
            "UPDATE farmhand.run_live SET state = 'running', running_at = 'n', session = 1, attempt = 1, fence = 1,
                 claimed_at = now()",
            "UPDATE farmhand.run_live SET state = 'due', running_at = NULL, session = NULL, ready_at = now(), retries = 1",
            "INSERT INTO farmhand.run_history SELECT h.* FROM farmhand.run_live r,
                 LATERAL farmhand.ended(r, 'succeeded', NULL, 'holder') h",
            "DELETE FROM farmhand.run_live",
        ] {
            client.batch_execute(statement).await.expect(statement);
        }
    }
    let told = "SELECT string_agg(kind || detail, ' ') FROM farmhand.audit WHERE kind IN
                ('changed_job', 'changed_run_live', 'changed_run_history') AND role <> 'farm_operator'
                AND NOT (kind = 'changed_job' AND detail->>'op' = 'insert')";
    assert_eq!(a.text(told).await, None);
}

#[tokio::test]
async fn nobody_is_named_for_what_another_did() {
    let a = Attacked::new().await;
    for (statement, kind, actor) in [
        ("UPDATE farmhand.job SET paused = true, paused_by = 'bob'", "changed_job", "farm_operator: bob"),
        ("UPDATE farmhand.job SET priority = 100", "changed_job", "farm_operator"),
        (
            "INSERT INTO farmhand.run_history SELECT h.* FROM jsonb_populate_record(NULL::farmhand.run_live,
                 '{\"run_id\": 77, \"job_id\": \"j\", \"rev\": 1, \"kind\": \"submitted\", \"instance\": 0, \"instances\": 1,
                   \"due_at\": \"2026-01-01Z\", \"ready_at\": \"2026-01-01Z\", \"attempt\": 1, \"retries\": 0, \"takeovers\": 0,
                   \"params\": {}, \"created_at\": \"2026-01-01Z\", \"made\": {\"submitted_by\": \"anna\"},
                   \"cancel_by\": \"bob\"}') r,
                 LATERAL farmhand.ended(r, 'cancelled', 'cancelled', 'cancel') h",
            "changed_run_history",
            "farm_operator: bob",
        ),
        (
            "INSERT INTO farmhand.job_revision (job_id, rev, spec, source, applied_by, applied_at)
                 SELECT 'k', rev, spec, source, applied_by, applied_at FROM farmhand.job_revision",
            "changed_job_revision",
            "farm_operator",
        ),
    ] {
        a.operator.batch_execute(statement).await.expect(statement);
        let last = format!("SELECT actor FROM farmhand.audit WHERE kind = '{kind}' ORDER BY audit_id DESC LIMIT 1");
        assert_eq!(a.text(&last).await.as_deref(), Some(actor), "{statement}");
    }
}
