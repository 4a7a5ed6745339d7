//! What is left of a job that is deleted, and what a new one of its name finds.

use farmhand_core::definition::Overlap;
use farmhand_core::run::RunState;
use farmhand_store::jobs::{ApplyOutcome, apply, delete};
use farmhand_store::protocol::claim;
use farmhand_tests::acting::anna;
use serde_json::{Value, json};

use crate::fixture::{Farm, one, overlapping, past, spec, success};

/// What was done with the jobs, as programs see it.
fn applied(outcome: ApplyOutcome) -> Value {
    match outcome {
        ApplyOutcome::Done { applied, .. } => serde_json::to_value(applied).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Runs of `job` that wait: for a pool, for others, for their time, and after a failure.
async fn waiting(farm: &Farm, job: &str) {
    let sql = format!(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, gate, attempt)
         SELECT '{job}', 1, 'submitted', now(), now() + n * interval '1 hour', CASE n WHEN 0 THEN 'overlap' END, n % 2
         FROM generate_series(0, 3) n"
    );
    farm.exec(&sql).await;
}

const LEFT: &str =
    "SELECT string_agg(concat_ws(' ', state, reason, cancel_by, n), ', ' ORDER BY state) FROM (
    SELECT r.state, r.reason, h.cancel_by, count(*) AS n FROM farmhand.run r
    LEFT JOIN farmhand.run_history h USING (run_id) GROUP BY 1, 2, 3) s";

#[tokio::test]
async fn deleting_a_job_withdraws_what_waits_and_leaves_what_runs() {
    let farm = Farm::new().await;
    let me = farm.node("n1").await;
    farm.held_run(&me, "j", spec()).await;
    farm.job("other", spec(), None).await;
    waiting(&farm, "j").await;
    waiting(&farm, "other").await;
    let gone = delete(&anna(&farm.owner), &["j".to_owned()], "eve")
        .await
        .unwrap();
    assert_eq!(
        applied(gone),
        json!([{"job_id": "j", "rev": 1, "change": "deleted", "withdrawn": 4, "running": 1}])
    );
    let left = farm.text(LEFT).await;
    assert_eq!(
        left.as_deref(),
        Some("cancelled withdrawn eve 4, due 3, due overlap 1, running 1")
    );
    // The same of what files define no more.
    let pruned = apply(&anna(&farm.owner), &[], true, "eve").await.unwrap();
    assert_eq!(applied(pruned)[0]["withdrawn"], 4);
    let left = farm.text(LEFT).await;
    assert_eq!(left.as_deref(), Some("cancelled withdrawn eve 8, running 1"));
    let told = "SELECT string_agg(job_id || ' ' || (detail->>'withdrawn'), ', ' ORDER BY job_id)
        FROM farmhand.event WHERE kind = 'job_deleted'";
    farm.says(told, Some("j 4, other 4")).await;
}

#[tokio::test]
async fn a_new_job_of_a_deleted_ones_name_is_not_failing_and_has_no_run_that_waits() {
    let farm = Farm::new().await;
    let me = farm.node("n1").await;
    let skip = || overlapping(Overlap::Skip);
    let run = farm.held_run(&me, "j", skip()).await;
    let mut end = success(&me, &run);
    end.state = RunState::Failed;
    one(&farm, end).await;
    let failures = "SELECT count(*) FROM farmhand.job_stat WHERE consecutive_failures > 0";
    farm.is(failures, 1).await;
    waiting(&farm, "j").await;
    let runs = farm
        .i64("SELECT max(run_id) FROM farmhand.run_live WHERE gate IS NULL AND attempt = 0")
        .await;
    farm.sql
        .exec_with(
            "UPDATE farmhand.run_live SET ready_at = now() WHERE run_id = $1",
            &[&runs],
        )
        .await;
    assert_eq!(claim(&farm.db, &me, 1, Some(&[runs])).await.unwrap().len(), 1);
    delete(&anna(&farm.owner), &["j".to_owned()], "eve")
        .await
        .unwrap();
    // What came to wait since: a run that was taken over, an end that was to trigger it.
    waiting(&farm, "j").await;
    let end = "INSERT INTO farmhand.triggering (child, parent, run_id, due_at, by_hand) VALUES ('j', 'p', 1, now(), false)";
    farm.exec(end).await;

    let at = past(30);
    farm.job("j", skip(), Some(at)).await;
    let waits = "SELECT (SELECT count(*) FROM farmhand.run_live WHERE state = 'due') + (SELECT count(*) FROM farmhand.triggering)";
    farm.is(waits, 0).await;
    farm.is(failures, 0).await;
    // The old run goes on, and counts.
    farm.fire_at("j", at, &[at]).await;
    let skipped = "SELECT count(*) FROM farmhand.run_history WHERE state = 'skipped' AND reason = 'overlap'";
    farm.is(skipped, 1).await;
}
