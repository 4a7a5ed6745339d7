//! A firing has one outcome, and a job's health follows from it, whichever of its runs ends last.

use farmhand_core::definition::{JobSpec, RunOn};
use farmhand_core::run::RunState;
use farmhand_core::trigger::FiringEnd;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{Retried, retry_run};
use farmhand_store::protocol::{Claimed, Finish, claim, finish};
use farmhand_store::reading::{JobsFilter, Paging, farm as moment, jobs};
use farmhand_tests::acting::anna;

use crate::fixture::{Farm, one, spec, success};

fn shards(instances: u32) -> JobSpec {
    JobSpec { instances, ..spec() }
}

fn ended(me: &LeaseIdentity, run: &Claimed, state: RunState) -> Finish {
    Finish {
        state,
        ..success(me, run)
    }
}

/// Submits `j` and claims all of its runs, in the order of their shards.
async fn fired(farm: &Farm, me: &LeaseIdentity) -> Vec<Claimed> {
    farm.i64("SELECT farmhand.submit('j')").await;
    let mut runs = claim(&farm.db, me, 9, None).await.unwrap();
    runs.sort_by_key(|run| run.instance);
    runs
}

async fn health(farm: &Farm) -> (Option<String>, i64) {
    let state = farm.text("SELECT last_state FROM farmhand.job_status").await;
    let failures = "SELECT consecutive_failures::bigint FROM farmhand.job_status";
    (state, farm.i64(failures).await)
}

#[tokio::test]
async fn a_failed_shard_fails_its_firing_whichever_shard_ends_last() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", shards(4), None).await;
    for bad in 0..4 {
        let runs = fired(&farm, &me).await;
        assert_eq!(runs.len(), 4);
        for run in &runs {
            let state = if run.instance == bad {
                RunState::Failed
            } else {
                RunState::Succeeded
            };
            one(&farm, ended(&me, run, state)).await;
        }
        assert_eq!(
            health(&farm).await,
            (Some("failed".to_owned()), i64::from(bad) + 1),
            "shard {bad} failed"
        );
    }
    // Every place that tells a job's health says so.
    let now = moment(&farm.db).await.unwrap();
    assert_eq!(
        (
            now.failing[0].consecutive_failures,
            now.failing[0].last_state.as_deref()
        ),
        (4, Some("failed"))
    );
    let page = jobs(&farm.db, &JobsFilter::default(), &Paging::first(1))
        .await
        .unwrap();
    assert_eq!(page.items[0].last_state, Some(RunState::Failed));
    assert_eq!(
        farm.i64("SELECT count(*) FROM farmhand.job_stat WHERE last_success IS NOT NULL")
            .await,
        0,
        "no firing succeeded"
    );
}

#[tokio::test]
async fn a_firing_counts_once_however_many_of_its_runs_fail() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", shards(3), None).await;
    for firing in 1..=2 {
        let runs = fired(&farm, &me).await;
        // Two in one statement, one by itself.
        let ends: Vec<_> = runs[..2]
            .iter()
            .map(|r| ended(&me, r, RunState::Failed))
            .collect();
        finish(&farm.db, &ends).await.unwrap();
        one(&farm, ended(&me, &runs[2], RunState::TimedOut)).await;
        assert_eq!(health(&farm).await, (Some("failed".to_owned()), firing));
    }
}

#[tokio::test]
async fn a_success_counts_when_all_of_the_firing_have_succeeded() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", shards(2), None).await;
    for run in fired(&farm, &me).await {
        one(&farm, ended(&me, &run, RunState::Failed)).await;
    }
    let runs = fired(&farm, &me).await;
    one(&farm, ended(&me, &runs[0], RunState::Succeeded)).await;
    assert_eq!(
        health(&farm).await,
        (Some("failed".to_owned()), 1),
        "one is still running"
    );
    one(&farm, ended(&me, &runs[1], RunState::Succeeded)).await;
    assert_eq!(health(&farm).await, (Some("succeeded".to_owned()), 0));
}

#[tokio::test]
async fn an_each_node_job_that_fails_on_one_node_is_failing() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let everywhere = JobSpec {
        run_on: RunOn::EachNode,
        ..spec()
    };
    farm.job("j", everywhere, None).await;
    farm.i64("SELECT farmhand.submit('j')").await;
    let (on_a, on_b) = (
        claim(&farm.db, &a, 9, None).await.unwrap().remove(0),
        claim(&farm.db, &b, 9, None).await.unwrap().remove(0),
    );
    one(&farm, ended(&a, &on_a, RunState::Failed)).await;
    one(&farm, ended(&b, &on_b, RunState::Succeeded)).await;
    assert_eq!(health(&farm).await, (Some("failed".to_owned()), 1));
}

#[tokio::test]
async fn a_shard_that_succeeds_when_repeated_makes_its_firing_a_success() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", shards(2), None).await;
    let runs = fired(&farm, &me).await;
    one(&farm, ended(&me, &runs[0], RunState::Failed)).await;
    one(&farm, ended(&me, &runs[1], RunState::Succeeded)).await;
    let again = retry_run(&anna(&farm.db), runs[0].run_id, "eve", false, None)
        .await
        .unwrap();
    assert!(matches!(again, Retried::Run(_)), "{again:?}");
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    one(&farm, ended(&me, &again, RunState::Succeeded)).await;
    assert_eq!(health(&farm).await, (Some("succeeded".to_owned()), 0));
}

/// The database's decision is the one of core, for every set of ends of two shards.
#[tokio::test]
async fn the_database_decides_a_firing_as_core_does() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", shards(2), None).await;
    let all = [
        RunState::Succeeded,
        RunState::Failed,
        RunState::TimedOut,
        RunState::Cancelled,
    ];
    for first in all {
        for second in all {
            let runs = fired(&farm, &me).await;
            let firing = runs[0].firing.expect("several runs");
            let says = format!("SELECT farmhand.firing_end({firing}, {firing})");
            one(&farm, ended(&me, &runs[0], first)).await;
            assert_eq!(farm.text(&says).await, None, "one is still running");
            one(&farm, ended(&me, &runs[1], second)).await;
            let core = FiringEnd::of([first, second]);
            let core = serde_json::to_value(core).unwrap();
            assert_eq!(
                farm.text(&says).await.as_deref(),
                core.as_str(),
                "{first} and {second}"
            );
        }
    }
}

/// A set without a bad end is counted by a short query, any other by a long one: both say what one end after the other would.
#[tokio::test]
async fn a_set_of_ends_counts_as_its_ends_do_one_after_the_other() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let all = [RunState::Succeeded, RunState::Failed, RunState::Cancelled];
    let mut counted = [("j", None, false, 0_i64), ("k", None, false, 0)];
    for nth in 0..27 {
        farm.due_runs("j", 3).await;
        farm.due_runs("k", 1).await;
        let mut runs = claim(&farm.db, &me, 9, None).await.unwrap();
        runs.sort_by_key(|run| run.run_id);
        let states = [nth, nth / 3, nth / 9, nth].map(|n| all[n % 3]);
        let ends: Vec<_> = runs
            .iter()
            .zip(states)
            .map(|(run, state)| ended(&me, run, state))
            .collect();
        assert_eq!(finish(&farm.db, &ends).await.unwrap().len(), 4);
        for (run, state) in runs.iter().zip(states) {
            let [j, k] = &mut counted;
            let (_, last, good, bad) = if run.job_id == "j" { j } else { k };
            *last = Some(state);
            match state {
                RunState::Succeeded => (*good, *bad) = (true, 0),
                RunState::Failed => *bad += 1,
                _ => {}
            }
        }
        for (job, last, good, bad) in &counted {
            let stored = format!(
                "SELECT concat_ws(' ', last_state, last_success IS NOT NULL, consecutive_failures)
                 FROM farmhand.job_stat WHERE job_id = '{job}' AND last_finished >= last_run_started"
            );
            let expected = format!("{} {} {bad}", last.unwrap(), if *good { "t" } else { "f" });
            assert_eq!(farm.text(&stored).await, Some(expected), "{job} after {states:?}");
        }
    }
}
