//! Who is restricted to some jobs does with these what their role may; how the restriction is set, and what it is kept for.

use farmhand_tests::pg::connect;
use tokio_postgres::error::SqlState;

use super::logins::{Attacked, DENIED, make_team, refused};

/// Of the team is `team.j`, of another `j`, which follows it.
const JOBS: &str = "
    INSERT INTO farmhand.job_revision SELECT 'team.j', rev, spec, source, applied_by, applied_at FROM farmhand.job_revision;
    INSERT INTO farmhand.job (job_id, rev, seq, enabled, scheduled, overlap, on_lost, priority, instances, each_node,
        source, applied_by, applied_at)
        VALUES ('team.j', 1, 0, true, false, 'allow', 'rerun', 0, 1, false, '', 'anna', now());
    INSERT INTO farmhand.trigger_edge (parent, child, nth, on_end, several) VALUES ('team.j', 'j', 1, 'success', false)";

const RESTRICT: &str = "INSERT INTO farmhand.restriction (kind, name, jobs, set_by)
    VALUES ('login', 'farm_team_operator', '{team.*,nightly}', 'anna'), ('login', 'farm_team_submitter', '{team.*}', 'anna')";

#[tokio::test]
async fn a_restricted_login_does_with_its_own_jobs_what_its_role_may() {
    let a = Attacked::new().await;
    make_team(&a.test).await;
    a.owner.exec(JOBS).await;
    a.operator.exec(RESTRICT).await;
    let operator = connect(&a.test.url_as("farm_team_operator")).await;
    for statement in [
        "SELECT farmhand.submit('team.j')",
        "UPDATE farmhand.job SET paused = true WHERE job_id = 'team.j'",
        "UPDATE farmhand.job_seq SET seq = seq + 1",
        "UPDATE farmhand.run_live SET cancel_requested = true WHERE job_id = 'team.j'",
        // Its end is told to the other team's job, because that team said so.
        "WITH gone AS (DELETE FROM farmhand.run_live r WHERE job_id = 'team.j' RETURNING r AS run)
         SELECT farmhand.write_ends((SELECT array_agg(h) FROM gone, LATERAL farmhand.ended(gone.run, 'succeeded', 'x', 'holder') h))",
        "INSERT INTO farmhand.job_revision SELECT 'nightly', rev, spec, source, applied_by, applied_at
         FROM farmhand.job_revision WHERE job_id = 'team.j'",
        "SELECT farmhand.acquire('team.lock', '10 s')",
        // Before many runs are ended, one event says so.
        "INSERT INTO farmhand.event (at, kind, severity, detail) VALUES (now(), 'cancel_many', 'info', '{\"by\": \"me\"}')",
    ] {
        operator.batch_execute(statement).await.expect(statement);
    }
    let told = "SELECT string_agg(child || '<' || parent, ' ') FROM farmhand.triggering";
    assert_eq!(a.text(told).await.as_deref(), Some("j<team.j"));
    let submitter = connect(&a.test.url_as("farm_team_submitter")).await;
    submitter.exec("SELECT farmhand.submit('team.j')").await;
    // A name that only begins alike is another.
    refused(&submitter, "SELECT farmhand.submit('nightly')", DENIED).await;
    // It reads the whole farm.
    let seen = operator
        .query("SELECT job_id FROM farmhand.job", &[])
        .await
        .expect("jobs");
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn a_restricted_operator_frees_no_lease_of_another_login() {
    let a = Attacked::new().await;
    make_team(&a.test).await;
    a.owner.exec(RESTRICT).await;
    let fence: i64 = a
        .operator
        .value("SELECT farmhand.acquire('team.lock', '30 s')")
        .await;
    let team = connect(&a.test.url_as("farm_team_operator")).await;
    let freed = "SELECT farmhand.release('team.lock', $1)";
    let by_team: bool = team.query_one(freed, &[&fence]).await.expect("an answer").get(0);
    let by_holder: bool = a
        .operator
        .query_one(freed, &[&fence])
        .await
        .expect("an answer")
        .get(0);
    assert_eq!((by_team, by_holder), (false, true));
}

#[tokio::test]
async fn a_restriction_that_could_restrict_nobody_is_refused_and_each_is_in_the_audit() {
    let a = Attacked::new().await;
    make_team(&a.test).await;
    let insert = |name: &str, jobs: &str| {
        format!(
            "INSERT INTO farmhand.restriction (kind, name, jobs, set_by) VALUES ('login', '{name}', '{jobs}', 'anna')"
        )
    };
    for (name, jobs) in [
        ("farm_agent", "{team.*}"),
        ("farm", "{team.*}"),
        ("postgres", "{team.*}"),
        ("nobody.here", "{team.*}"),
        ("farm_team_operator", "{*}"),
        ("farm_team_operator", "{a*b}"),
        ("farm_team_operator", "{NULL}"),
    ] {
        refused(
            &a.operator,
            &insert(name, jobs),
            &SqlState::INVALID_PARAMETER_VALUE,
        )
        .await;
    }
    let none = insert("farm_team_operator", "{}");
    refused(&a.operator, &none, &SqlState::CHECK_VIOLATION).await;
    a.operator.exec(&insert("farm_team_operator", "{team.*}")).await;
    let last = "SELECT concat_ws('|', kind, role, detail) FROM farmhand.audit ORDER BY audit_id DESC LIMIT 1";
    let said = a.text(last).await.unwrap_or_default();
    assert!(
        said.starts_with("changed_restriction|farm_operator|") && said.contains("team.*"),
        "{said}"
    );
    refused(&a.agent, "SELECT * FROM farmhand.restriction", DENIED).await;
}
