//! Continuous jobs: one live run per instance, whatever comes between a round and the next.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::definition::{Enabled, JobSpec, OnLost, StreamSpec};
use farmhand_core::run::RunState;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{cancel, delete, pause, resume};
use farmhand_store::protocol::{
    Claimed, Finish, FinishResult, Freed, Lose, LostWhy, claim, finish, left_over, lose, sweep,
};

use crate::fixture::{Farm, expire_now, one, past, spec, success};

pub fn looping(instances: u32) -> JobSpec {
    JobSpec {
        schedule: vec!["@continuous".to_owned()],
        instances,
        ..spec()
    }
}

/// A stream that goes on where its file grows.
pub fn following() -> JobSpec {
    JobSpec {
        stream: Some(StreamSpec {
            file: Some("/l".to_owned()),
            follow: true,
            ..StreamSpec::default()
        }),
        ..looping(1)
    }
}

pub async fn checkpoint(farm: &Farm, run: i64) {
    let insert = format!(
        "INSERT INTO farmhand.progress (run_id, attempt, at, checkpoint) VALUES ({run}, 1, now(), 'line 7')"
    );
    farm.exec(&insert).await;
}

/// The end of a round, with the next one due after `again`.
pub fn round(me: &LeaseIdentity, run: &Claimed, state: RunState, again: Duration) -> Finish {
    Finish {
        state,
        again: Some(again),
        exit_code: Some(i32::from(state != RunState::Succeeded)),
        ..success(me, run)
    }
}

pub fn done(me: &LeaseIdentity, run: &Claimed) -> Finish {
    round(me, run, RunState::Succeeded, Duration::ZERO)
}

pub fn failed(me: &LeaseIdentity, run: &Claimed) -> Finish {
    round(me, run, RunState::Failed, Duration::ZERO)
}

pub async fn claimed(farm: &Farm, me: &LeaseIdentity) -> Vec<Claimed> {
    claim(&farm.db, me, 99, None).await.unwrap()
}

pub async fn one_claimed(farm: &Farm, me: &LeaseIdentity) -> Claimed {
    let mut runs = claimed(farm, me).await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

pub async fn live(farm: &Farm) -> i64 {
    farm.i64("SELECT count(*) FROM farmhand.run_live").await
}

/// state, reason, count of every record, oldest first.
async fn history(farm: &Farm) -> Vec<(String, Option<String>, i64)> {
    let rows = farm
        .sql
        .query(
            "SELECT state, reason, count FROM farmhand.run_history ORDER BY run_id",
            &[],
        )
        .await
        .unwrap();
    rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect()
}

#[tokio::test]
async fn applying_makes_one_round_per_instance_and_their_ends_make_the_next() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(3), None).await;
    let runs = claimed(&farm, &me).await;
    let mut instances: Vec<_> = runs.iter().map(|r| (r.instance, r.instances)).collect();
    instances.sort_unstable();
    assert_eq!(instances, [(0, 3), (1, 3), (2, 3)]);
    let ends: Vec<Finish> = runs.iter().map(|r| done(&me, r)).collect();
    for (_, result) in finish(&farm.db, &ends).await.unwrap() {
        assert_eq!(result, FinishResult::Done);
    }
    let next = claimed(&farm, &me).await;
    assert_eq!(next.len(), 3);
    assert!(
        next.iter()
            .all(|n| n.attempt == 1 && runs.iter().all(|r| r.run_id < n.run_id && r.fence < n.fence))
    );
}

#[tokio::test]
async fn neighbouring_successes_are_one_record_and_a_failure_is_its_own() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    for _ in 0..5 {
        let run = one_claimed(&farm, &me).await;
        assert_eq!(one(&farm, done(&me, &run)).await, FinishResult::Done);
    }
    let run = one_claimed(&farm, &me).await;
    one(&farm, round(&me, &run, RunState::Failed, Duration::ZERO)).await;
    let mut last = one_claimed(&farm, &me).await;
    assert_eq!(last.retries, 1, "the failures in a row");
    for _ in 0..2 {
        one(&farm, done(&me, &last)).await;
        last = one_claimed(&farm, &me).await;
        assert_eq!(last.retries, 0);
    }
    let states: Vec<_> = history(&farm).await.into_iter().map(|h| (h.0, h.2)).collect();
    assert_eq!(
        states,
        [
            ("succeeded".to_owned(), 5),
            ("failed".to_owned(), 1),
            ("succeeded".to_owned(), 2)
        ]
    );
    let spans = "SELECT count(*) FROM farmhand.run_history \
                 WHERE (count > 1) = (first_due < last_due) AND due_at = last_due";
    farm.is(spans, 3).await;
    farm.is("SELECT consecutive_failures::bigint FROM farmhand.job_stat", 0)
        .await;
}

/// Operators may write runs, and no history: what a run says of the record before it must not have an agent delete another's.
#[tokio::test]
async fn a_round_that_names_a_record_of_another_job_or_instance_folds_nothing() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("mine", looping(2), None).await;
    farm.job("other", looping(1), None).await;
    for run in claimed(&farm, &me).await {
        assert_eq!(one(&farm, done(&me, &run)).await, FinishResult::Done);
    }
    for (job, instance) in [("other", 0), ("mine", 1)] {
        let point = format!(
            "UPDATE farmhand.run_live r SET made = jsonb_build_object('fold_run', h.run_id, 'fold_at', h.finished_at) FROM farmhand.run_history h
             WHERE r.job_id = 'mine' AND r.instance = 0 AND h.job_id = '{job}' AND h.instance = {instance}"
        );
        farm.exec(&point).await;
        let runs = claimed(&farm, &me).await;
        let round = runs.iter().find(|run| run.job_id == "mine" && run.instance == 0);
        assert_eq!(
            one(&farm, done(&me, round.expect("a round"))).await,
            FinishResult::Done
        );
        let kept = format!(
            "SELECT count(*) FROM farmhand.run_history WHERE job_id = '{job}' AND instance = {instance} AND count = 1"
        );
        assert_eq!(farm.i64(&kept).await, 1, "{job} {instance}");
    }
}

#[tokio::test]
async fn a_fold_keeps_the_output_of_its_last_round_only() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let mut last = 0;
    for _ in 0..3 {
        let run = one_claimed(&farm, &me).await;
        farm.sql
            .exec_with(
                "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
                 VALUES ($1, 1, 0, 'stdout', now(), now(), 'x')",
                &[&run.run_id],
            )
            .await;
        one(&farm, done(&me, &run)).await;
        last = run.run_id;
    }
    farm.is("SELECT count(*) FROM farmhand.run_log", 1).await;
    farm.is("SELECT run_id FROM farmhand.run_log", last).await;
    farm.is("SELECT run_id FROM farmhand.run_history", last).await;
}

#[tokio::test]
async fn another_revision_begins_another_record() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    let changed = JobSpec {
        priority: 5,
        ..looping(1)
    };
    farm.job("loop", changed, None).await;
    assert_eq!(live(&farm).await, 1, "the old revision's round goes on");
    one(&farm, done(&me, &run)).await;
    let next = one_claimed(&farm, &me).await;
    assert_eq!((run.rev, next.rev, next.priority), (1, 2, 5));
    one(&farm, done(&me, &next)).await;
    let revs = "SELECT count(DISTINCT rev) FROM farmhand.run_history WHERE count = 1";
    farm.is(revs, 2).await;
}

#[tokio::test]
async fn a_round_that_was_taken_over_has_a_record_of_its_own() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &a).await;
    one(&farm, done(&a, &run)).await;
    one_claimed(&farm, &a).await;
    expire_now(&farm, &a).await;
    let again = one_claimed(&farm, &b).await;
    assert_eq!(again.attempt, 2);
    one(&farm, done(&b, &again)).await;
    let next = one_claimed(&farm, &b).await;
    one(&farm, done(&b, &next)).await;
    farm.is("SELECT count(*) FROM farmhand.run_history", 3).await;
}

#[tokio::test]
async fn a_stale_holder_ends_nothing_and_makes_no_round() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.job("loop", looping(1), None).await;
    let stale = one_claimed(&farm, &a).await;
    expire_now(&farm, &a).await;
    let fresh = one_claimed(&farm, &b).await;
    assert_eq!(fresh.run_id, stale.run_id);
    assert!(matches!(
        one(&farm, done(&a, &stale)).await,
        FinishResult::Fenced { .. }
    ));
    assert_eq!((live(&farm).await, history(&farm).await.len()), (1, 0));
}

#[tokio::test]
async fn an_end_whose_reply_was_lost_is_known_again_even_when_it_has_folded_away() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let first = one_claimed(&farm, &me).await;
    one(&farm, done(&me, &first)).await;
    assert_eq!(one(&farm, done(&me, &first)).await, FinishResult::AlreadyOwn);
    let second = one_claimed(&farm, &me).await;
    one(&farm, done(&me, &second)).await;
    assert_eq!(one(&farm, done(&me, &first)).await, FinishResult::AlreadyOwn);
    farm.is("SELECT count::bigint FROM farmhand.run_history", 2).await;
}

#[tokio::test]
async fn a_pause_lets_the_round_end_and_makes_no_other_until_the_job_is_resumed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(2), None).await;
    let run = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    pause(&anna(&farm.db), "loop", "ops", None).await.unwrap();
    assert_eq!(live(&farm).await, 1, "the round that waited is gone");
    one(&farm, done(&me, &run)).await;
    assert_eq!(live(&farm).await, 0);
    assert_eq!(
        history(&farm).await,
        [
            ("succeeded".to_owned(), None, 1),
            ("skipped".to_owned(), Some("paused".to_owned()), 1),
        ]
    );
    assert!(sweep(&farm.db).await.unwrap().is_empty());
    assert_eq!(live(&farm).await, 0, "a sweep does not undo a pause");
    resume(&anna(&farm.db), "loop", 1, None, &[], "ops")
        .await
        .unwrap();
    assert_eq!(claimed(&farm, &me).await.len(), 2);
}

/// A loop whose first round has failed, and whose next one waits.
async fn backs_off() -> (Farm, LeaseIdentity) {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    one(
        &farm,
        round(&me, &run, RunState::Failed, Duration::from_secs(300)),
    )
    .await;
    (farm, me)
}

#[tokio::test]
async fn a_round_in_its_pause_is_dropped_without_a_record() {
    let (farm, me) = backs_off().await;
    assert!(claimed(&farm, &me).await.is_empty());
    pause(&anna(&farm.db), "loop", "ops", None).await.unwrap();
    assert_eq!((live(&farm).await, history(&farm).await.len()), (0, 1));
}

#[tokio::test]
async fn a_new_revision_does_not_wait_for_the_old_ones_back_off() {
    let (farm, me) = backs_off().await;
    let fixed = JobSpec {
        priority: 1,
        ..looping(1)
    };
    farm.job("loop", fixed, None).await;
    let next = one_claimed(&farm, &me).await;
    assert_eq!((next.rev, next.retries), (2, 0));
}

#[tokio::test]
async fn fewer_instances_end_after_their_round_and_more_begin_at_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(3), None).await;
    let runs = claimed(&farm, &me).await;
    farm.job("loop", looping(1), None).await;
    assert_eq!(live(&farm).await, 3);
    let ends: Vec<Finish> = runs.iter().map(|r| done(&me, r)).collect();
    finish(&farm.db, &ends).await.unwrap();
    let left = one_claimed(&farm, &me).await;
    assert_eq!((left.instance, left.instances), (0, 1));
    farm.job("loop", looping(2), None).await;
    assert_eq!(one_claimed(&farm, &me).await.instance, 1);
}

#[tokio::test]
async fn a_deleted_disabled_or_rescheduled_job_loops_no_more() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for job in ["gone", "off", "cron"] {
        farm.job(job, looping(2), None).await;
    }
    let running = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    delete(&anna(&farm.owner), &["gone".to_owned()], "ops")
        .await
        .unwrap();
    let off = JobSpec {
        enabled: Enabled::No,
        ..looping(2)
    };
    farm.job("off", off, None).await;
    let cron = JobSpec {
        schedule: vec!["@daily".to_owned()],
        ..spec()
    };
    farm.job("cron", cron, Some(past(-3600))).await;
    assert_eq!(live(&farm).await, 1);
    one(&farm, done(&me, &running)).await;
    assert_eq!(live(&farm).await, 0);
    let withdrawn = "SELECT count(*) FROM farmhand.run_history WHERE reason = 'withdrawn'";
    farm.is(withdrawn, 5).await;
}

#[tokio::test]
async fn a_round_that_may_not_run_twice_is_lost_and_the_loop_goes_on() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let once = JobSpec {
        on_lost: OnLost::Fail,
        ..looping(2)
    };
    farm.job("loop", once, None).await;
    let runs = claimed(&farm, &a).await;
    let b = farm.node("b").await;
    let lost = Lose {
        run_id: runs[0].run_id,
        attempt: 1,
        fence: runs[0].fence,
        address: "a".to_owned(),
        session: a.session,
        why: LostWhy::Warden,
    };
    lose(&farm.db, &[lost]).await.unwrap();
    expire_now(&farm, &a).await;
    // Each of the next pauses first.
    assert_eq!(claimed(&farm, &b).await.len(), 0);
    farm.exec("UPDATE farmhand.run_live SET ready_at = now()").await;
    assert_eq!(claimed(&farm, &b).await.len(), 2);
    let states: Vec<_> = history(&farm).await.into_iter().map(|h| h.0).collect();
    assert_eq!(states, ["lost", "lost"]);
}

#[tokio::test]
async fn cancelling_a_round_that_waits_makes_the_next_due_at_once() {
    let (farm, me) = backs_off().await;
    let waiting = farm.i64("SELECT run_id FROM farmhand.run_live").await;
    cancel(&anna(&farm.db), waiting, "ops").await.unwrap();
    assert_ne!(one_claimed(&farm, &me).await.run_id, waiting);
}

#[tokio::test]
async fn a_sweep_restores_a_round_whose_row_was_deleted_by_hand() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(2), None).await;
    farm.sql
        .exec_with("DELETE FROM farmhand.run_live WHERE instance = 1", &[])
        .await;
    let hour = Duration::from_secs(3600);
    assert!(left_over(&farm.db, hour).await.unwrap().to_sweep());
    let freed: Vec<Freed> = sweep(&farm.db).await.unwrap();
    assert!(freed.is_empty());
    assert!(!left_over(&farm.db, hour).await.unwrap().to_sweep());
    assert_eq!(claimed(&farm, &me).await.len(), 2);
}
