//! A login that is bound to its node acts for no other. Each attack is seen to succeed before the binding, and refused after it.

use farmhand_tests::farm::{CALM, Farm, SOON};
use farmhand_tests::pg::Client;
use farmhand_tests::pg::connect;

use super::logins::{Attacked, DENIED, refused};

/// By the login of node `n1`, against node `n2`, which runs run 101 in its session 5.
#[rustfmt::skip]
const ATTACKS: &[(&str, &str)] = &[
    ("take its lease", "UPDATE farmhand.node SET incarnation = gen_random_uuid(), renewals = renewals + 1 WHERE address = 'n2'"),
    ("renew its lease", "UPDATE farmhand.node SET renewals = renewals + 1, lease_until = now() + interval '1 day' WHERE address = 'n2'"),
    ("end its session", "UPDATE farmhand.node SET session = session + 1, open = false WHERE address = 'n2'"),
    ("expire its lease while it lasts", "UPDATE farmhand.node SET session = session + 1, open = false, lost_at = now() WHERE address = 'n2'"),
    ("set its labels", r#"UPDATE farmhand.node SET labels = '{"zone": "x"}' WHERE address = 'n2'"#),
    ("set its slots", "UPDATE farmhand.node SET slots = 0 WHERE address = 'n2'"),
    ("become it", "UPDATE farmhand.node SET address = 'c' WHERE address = 'n2'"),
    ("open another node", "INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, version, started_at) VALUES ('c', 'c', 1, gen_random_uuid(), true, 3000, now(), 1, '', now())"),
    ("claim a run for it", "UPDATE farmhand.run_live SET state = 'running', running_at = 'n2', session = 5, attempt = 1, fence = 9, claimed_at = now() WHERE run_id = 102"),
    ("claim a run that is for it alone", "UPDATE farmhand.run_live SET state = 'running', running_at = 'n1', session = 5, attempt = 1, fence = 9, claimed_at = now() WHERE run_id = 103"),
    ("make a run that it runs", "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt, fence, claimed_at) VALUES ('j', 1, 'submitted', now(), now(), 'running', 'n2', 5, 1, 8, now())"),
    ("take its run over", "UPDATE farmhand.run_live SET running_at = 'n1', attempt = 2, fence = 9 WHERE run_id = 101"),
    ("free its run", "UPDATE farmhand.run_live SET state = 'due', running_at = NULL, session = NULL WHERE run_id = 101"),
    ("end its run", "DELETE FROM farmhand.run_live WHERE run_id = 101"),
    ("say that its run started", "UPDATE farmhand.run_live SET started_at = now() WHERE run_id = 101"),
    ("have its run lost when it is lost", "UPDATE farmhand.run_live SET on_lost = 'fail' WHERE run_id = 101"),
    ("write its run's end", "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by, running_at, session, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due) VALUES (101, 'j', 1, 'submitted', 0, 1, now(), now(), 'succeeded', 'holder', 'n2', 5, 1, 0, 0, '{}', now(), now(), now(), now())"),
    ("write that its run was taken over", "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by, running_at, session, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due) VALUES (101, 'j', 1, 'submitted', 0, 1, now(), now(), 'lost', 'takeover', 'n2', 5, 1, 0, 0, '{}', now(), now(), now(), now())"),
    ("write its attempt's end", "INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome, ended_by) VALUES (101, 'j', 1, 'n2', 5, 7, now(), now(), 'failed', 'holder')"),
    ("write that its run was cancelled", "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due) VALUES (101, 'j', 1, 'submitted', 0, 1, now(), now(), 'cancelled', 'cancel', 1, 0, 0, '{}', now(), now(), now(), now())"),
    ("write an attempt of its run in its own name", "INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome, ended_by) VALUES (101, 'j', 1, 'n1', 5, 7, now(), now(), 'failed', 'holder')"),
    ("write output of its run", "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk) VALUES (101, 1, 1, 'stdout', now(), now(), 'x')"),
    ("write output of a run that it ran", "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk) VALUES (100, 1, 2, 'stdout', now(), now(), 'x')"),
    ("write output of an attempt that it never made", "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk) VALUES (101, 9, 1, 'stdout', now(), now(), 'x')"),
    ("delete output of its run", "DELETE FROM farmhand.run_log WHERE run_id = 101"),
    ("report progress of its run", "INSERT INTO farmhand.progress (run_id, attempt, at, checkpoint) VALUES (101, 1, now(), 'x') ON CONFLICT (run_id) DO UPDATE SET checkpoint = 'x'"),
    ("forget its run's checkpoint", "DELETE FROM farmhand.progress WHERE run_id = 101"),
    ("report a task of its run", "INSERT INTO farmhand.task (run_id, task, attempt, address, outcome, ended_at, stored_at) VALUES (101, 't', 1, 'n1', 'succeeded', now(), now())"),
    ("report a line of its run", "INSERT INTO farmhand.stream_item (run_id, item, outcome, attempt, address, failures, line, stored_at) VALUES (101, 1, 'failed', 1, 'n1', 1, 'x', now())"),
    ("say that its row's run started", "INSERT INTO farmhand.row_result (run_id, attempt, job_id, rev, key, started_at) VALUES (101, 1, 'j', 1, 'k', now())"),
    ("say that it was started again", "INSERT INTO farmhand.node_boot (address, boot_id, seen_at) VALUES ('n2', 'x', now())"),
    ("refuse a definition for it", "INSERT INTO farmhand.refusal (job_id, rev, address, why, first_at, at) VALUES ('j', 1, 'n2', 'x', now(), now())"),
    ("expose the farm's metrics for it", "UPDATE farmhand.snapshot_lease SET address = 'n2', renewals = renewals + 1"),
];

/// What agents do for the whole farm, and pages for people.
const OPEN: &[&str] = &[
    "UPDATE farmhand.run_live SET cancel_requested = true, cancel_by = 'anna' WHERE run_id = 101",
    "UPDATE farmhand.node SET draining = true, withheld_by = 'anna', withheld_at = now() WHERE address = 'n2'",
    "DELETE FROM farmhand.run_live WHERE run_id = 102",
    "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at) VALUES ('j', 1, 'submitted', now(), now())",
];

async fn tried(client: &Client, statement: &str) -> Option<String> {
    let answer = client.batch_execute(&format!("BEGIN; {statement}")).await;
    client.exec("ROLLBACK").await;
    answer.err().map(|e| {
        e.as_db_error()
            .map_or(e.to_string(), |e| format!("{} {}", e.code().code(), e.message()))
    })
}

async fn attacked() -> Attacked {
    let a = Attacked::new().await;
    a.owner.exec(
        "INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, version, started_at)
             SELECT n, n, 5, gen_random_uuid(), true, 3600000, now() + interval '1 hour', 4, '', now()
             FROM unnest('{n1,n2}'::text[]) n;
         INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt,
             fence, claimed_at) VALUES (101, 'j', 1, 'submitted', now(), now(), 'running', 'n2', 5, 1, 7, now());
         INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at, node)
             VALUES (102, 'j', 1, 'submitted', now(), now(), NULL), (103, 'j', 1, 'submitted', now(), now(), 'n2');
         INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state,
             ended_by, running_at, session, attempt, retries, takeovers, params, created_at, finished_at, first_due,
             last_due) VALUES (100, 'j', 1, 'submitted', 0, 1, now(), now(), 'succeeded', 'holder', 'n2', 5, 1, 0, 0,
             '{}', now(), now(), now(), now());
         INSERT INTO farmhand.progress (run_id, attempt, at, checkpoint) VALUES (101, 1, now(), 'half');
         INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
             VALUES (101, 1, 0, 'stdout', now(), now(), 'x')"
    ).await;
    a
}

#[tokio::test]
async fn a_bound_login_acts_for_no_other_node_and_no_other_login_for_its_node() {
    let a = attacked().await;
    let as_a = connect(&a.test.url_as("farm_n1")).await;
    for (goal, statement) in ATTACKS {
        assert_eq!(
            tried(&as_a, statement).await,
            None,
            "{goal}: possible without a binding"
        );
    }
    a.operator
        .exec("SELECT farmhand.bind_node('n1', 'farm_n1', 'anna')")
        .await;
    // A bound login against a node that nobody is bound to.
    let mut open = Vec::new();
    for (goal, statement) in ATTACKS {
        let said = tried(&as_a, statement).await.unwrap_or_default();
        if !said.starts_with("42501 ") || !said.contains("is bound to the node \"n1\"") {
            open.push(format!("{goal}: {said}"));
        }
    }
    assert!(open.is_empty(), "by a bound login: {open:#?}");
    a.operator
        .exec("SELECT farmhand.unbind_node('n1'); SELECT farmhand.bind_node('n2', 'farm_n2', 'anna')")
        .await;
    // An unbound login against a bound node. Other nodes are still its to open.
    for (goal, statement) in ATTACKS.iter().filter(|(goal, _)| *goal != "open another node") {
        let said = tried(&as_a, statement).await.unwrap_or_default();
        if !said.starts_with("42501 ") || !said.contains("\"n2\" is bound to the login \"farm_n2\"") {
            open.push(format!("{goal}: {said}"));
        }
    }
    assert!(open.is_empty(), "by an unbound login: {open:#?}");
    for statement in OPEN {
        assert_eq!(tried(&as_a, statement).await, None, "{statement}");
    }
    let own = connect(&a.test.url_as("farm_n2")).await;
    for (goal, statement) in ATTACKS
        .iter()
        .filter(|(goal, _)| !["open another node", "become it"].contains(goal))
    {
        // These name the other node.
        let others = [
            "claim a run that is for it alone",
            "take its run over",
            "write an attempt of its run in its own name",
        ];
        if others.contains(goal) {
            continue;
        }
        assert_eq!(tried(&own, statement).await, None, "{goal}: by its own login");
    }
}

#[tokio::test]
async fn only_operators_bind_and_what_they_do_is_in_the_audit() {
    let a = attacked().await;
    for login in [&a.agent, &connect(&a.test.url_as("farm_viewer")).await] {
        refused(login, "SELECT farmhand.bind_node('n1', 'farm_n1', 'x')", DENIED).await;
        refused(login, "SELECT farmhand.unbind_node('n1')", DENIED).await;
        refused(
            login,
            "INSERT INTO farmhand.node_login VALUES ('n1', 'farm_n1', 'x')",
            DENIED,
        )
        .await;
        refused(login, "SELECT farmhand.check_logins(false)", DENIED).await;
    }
    refused(
        &a.agent,
        "ALTER TABLE farmhand.node DISABLE TRIGGER as_node",
        DENIED,
    )
    .await;
    a.operator
        .exec("SELECT farmhand.bind_node('n1', 'farm_n1', 'anna')")
        .await;
    let noted =
        "SELECT role || ' ' || actor || ' ' || address FROM farmhand.audit WHERE kind = 'changed_node_login'";
    assert_eq!(
        a.text(noted).await.as_deref(),
        Some("farm_operator farm_operator: anna n1")
    );
    // A role is no login of agents, and a login has one node.
    let invalid = &tokio_postgres::error::SqlState::INVALID_PARAMETER_VALUE;
    refused(
        &a.operator,
        "SELECT farmhand.bind_node('n2', 'farm_operator', 'anna')",
        invalid,
    )
    .await;
    refused(
        &a.operator,
        "SELECT farmhand.bind_node('n2', 'farm_n1', 'anna')",
        invalid,
    )
    .await;
    // Who sets a role is still who has logged in.
    let as_b = connect(&a.test.url_as("farm_n2")).await;
    as_b.exec("SET ROLE farmhand_agent").await;
    refused(
        &as_b,
        "UPDATE farmhand.node SET slots = 0 WHERE address = 'n1'",
        DENIED,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_login_is_bound_to_another_node_is_told_so_and_does_not_start() {
    let mut farm = Farm::new().agents(1).ttl(CALM).prepare().await;
    let url = farm.database.agent_url().replace("farm_agent", "farm_n1");
    farm.agents[0]
        .env
        .push(("FARMHAND_DATABASE_URL".to_owned(), url.clone()));
    farm.ok(&["node", "bind", "n9", "farm_n1"]);
    let says = r#"the login "farm_n1" is bound to the node "n9" and acts for no other, so not for "n1""#;
    farm.agents[0].spawn();
    farm.eventually("the agent says why it ends", SOON, async || {
        let log = farm.agents[0].log();
        log.contains(says).then_some(()).ok_or(log)
    })
    .await;
    let doctor = farm
        .command(&["doctor", "--address", "n1", "--state-dir", "/tmp"])
        .env("FARMHAND_DATABASE_URL", &url)
        .output()
        .expect("farmhand starts");
    let found = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(found.contains(says), "{found}");
    assert!(
        farm.ok(&["node", "ls"])
            .contains("n9 is bound to the login farm_n1")
    );
}
