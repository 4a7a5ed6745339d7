use farmhand_tests::acting::anna;
use std::collections::HashMap;
use std::time::Duration;

use farmhand_core::definition::{JobSpec, OnLost};
use farmhand_core::run::RunState;
use farmhand_store::jobs::{Retried, retried_runs, retry_run};
use farmhand_store::protocol::{
    Attempt, Finish, FinishResult, Now, Release, claim, close, finish, release, retry,
};

use crate::fixture::{Farm, expire_now, failure, one, spec, success};

#[tokio::test]
async fn a_finish_moves_the_run_to_history_with_what_was_measured() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    assert_eq!(one(&farm, success(&me, &run)).await, FinishResult::Done);
    let row = farm
        .sql
        .query_one(
            "SELECT state, exit_code, cpu_ms, max_rss_bytes, running_at, attempt, fence, finished_at IS NOT NULL,
                 due_at = $2
             FROM farmhand.run WHERE run_id = $1",
            &[&run.run_id, &run.due_at],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "succeeded");
    assert_eq!(
        (row.get::<_, i32>(1), row.get::<_, i64>(2), row.get::<_, i64>(3)),
        (0, 5, 1 << 20)
    );
    assert_eq!((row.get::<_, &str>(4), row.get::<_, i32>(5)), ("a", 1));
    assert_eq!(
        (row.get::<_, i64>(6), row.get::<_, bool>(7), row.get::<_, bool>(8)),
        (run.fence, true, true)
    );
    farm.is("SELECT count(*) FROM farmhand.run_live", 0).await;
}

#[tokio::test]
async fn a_finish_whose_reply_was_lost_is_recognised_when_repeated() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    assert_eq!(one(&farm, success(&me, &run)).await, FinishResult::Done);
    assert_eq!(one(&farm, success(&me, &run)).await, FinishResult::AlreadyOwn);
    farm.is("SELECT count(*) FROM farmhand.run_history", 1).await;
}

#[tokio::test]
async fn a_stale_finish_changes_nothing() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let old = farm.held_run(&a, "j", spec()).await;
    expire_now(&farm, &a).await;
    // Due again.
    let due = one(&farm, success(&a, &old)).await;
    assert_eq!(
        due,
        FinishResult::Fenced {
            now: Now::Due { attempt: 1 }
        }
    );
    // Held by another.
    let new = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    let held = one(&farm, success(&a, &old)).await;
    let now = Now::Running {
        attempt: 2,
        address: "b".to_owned(),
        session: b.session,
    };
    assert_eq!(held, FinishResult::Fenced { now });
    assert_eq!(farm.state(old.run_id).await.0, "running");
    // Finished by another.
    let mut failed = success(&b, &new);
    failed.state = RunState::Failed;
    assert_eq!(one(&farm, failed).await, FinishResult::Done);
    let after = one(&farm, success(&a, &old)).await;
    let now = Now::Final {
        state: RunState::Failed,
        attempt: 2,
    };
    assert_eq!(after, FinishResult::Fenced { now });
    assert_eq!(farm.state(old.run_id).await.0, "failed");
    // Never heard of.
    let mut ghost = success(&a, &old);
    ghost.run_id = 999_999;
    assert_eq!(one(&farm, ghost).await, FinishResult::Fenced { now: Now::Gone });
}

#[tokio::test]
async fn each_part_of_the_fence_is_needed_to_finish() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let wrong: [fn(&mut Finish); 4] = [
        |f| f.attempt += 1,
        |f| f.fence += 1,
        |f| f.session += 1,
        |f| f.address = "b".to_owned(),
    ];
    for spoil in wrong {
        let mut end = success(&me, &run);
        spoil(&mut end);
        assert!(matches!(one(&farm, end).await, FinishResult::Fenced { .. }));
        assert_eq!(farm.state(run.run_id).await.0, "running");
    }
    assert_eq!(one(&farm, success(&me, &run)).await, FinishResult::Done);
}

#[tokio::test]
async fn a_takeovers_end_is_not_taken_for_the_holders_own() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let at_most_once = JobSpec {
        on_lost: OnLost::Fail,
        ..spec()
    };
    let run = farm.held_run(&me, "j", at_most_once).await;
    expire_now(&farm, &me).await;
    farm.is_now(run.run_id, "lost", Some("holder lost")).await;
    assert_eq!(farm.ends_told().await.as_deref(), Some("j 1 a lost holder lost"));
    let now = Now::Final {
        state: RunState::Lost,
        attempt: 1,
    };
    assert_eq!(one(&farm, success(&me, &run)).await, FinishResult::Fenced { now });
}

#[tokio::test]
async fn a_set_of_ends_is_judged_run_by_run() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let (good, stale) = (
        farm.held_run(&me, "j", spec()).await,
        farm.held_run(&me, "k", spec()).await,
    );
    let mut old = success(&me, &stale);
    old.attempt = 9;
    let answers = finish(&farm.db, &[old, success(&me, &good)]).await.unwrap();
    assert!(matches!(answers[0], (of, FinishResult::Fenced { .. }) if of.run_id == stale.run_id));
    assert_eq!(answers[1], (Attempt::from(&good), FinishResult::Done));
}

#[tokio::test]
async fn a_stale_and_a_fresh_attempt_of_one_run_are_told_apart_in_one_set() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let old = farm.held_run(&a, "j", spec()).await;
    expire_now(&farm, &a).await;
    let again = farm.node("a").await;
    let new = claim(&farm.db, &again, 1, None).await.unwrap().remove(0);
    // And one of them twice over.
    let set = [success(&a, &old), success(&again, &new), success(&again, &new)];
    let answers = finish(&farm.db, &set).await.unwrap();
    assert!(
        matches!(answers[0].1, FinishResult::Fenced { .. }),
        "{:?}",
        answers[0]
    );
    assert_eq!(
        (&answers[1].1, &answers[2].1),
        (&FinishResult::Done, &FinishResult::Done)
    );
    farm.is("SELECT count(*) FROM farmhand.run_history", 1).await;
}

#[tokio::test]
async fn a_retry_waits_for_its_backoff_and_counts() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let wait = failure(&me, &run, Duration::from_secs(3600));
    assert_eq!(
        retry(&farm.db, std::slice::from_ref(&wait)).await.unwrap()[0].1,
        FinishResult::Done
    );
    assert_eq!(
        retry(&farm.db, &[wait]).await.unwrap()[0].1,
        FinishResult::AlreadyOwn
    );
    farm.is_now(run.run_id, "due", Some("retry")).await;
    assert!(claim(&farm.db, &me, 1, None).await.unwrap().is_empty());
    farm.exec("UPDATE farmhand.run_live SET ready_at = now()").await;
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!((again.attempt, again.retries, again.takeovers), (2, 1, 0));
    let row = farm
        .sql
        .query_one(
            "SELECT attempt, outcome, ended_by, exit_code FROM farmhand.attempt",
            &[],
        )
        .await
        .unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (1, "failed"));
    assert_eq!((row.get::<_, &str>(2), row.get::<_, i32>(3)), ("holder", 3));
}

#[tokio::test]
async fn a_sixth_takeover_fails_the_run_as_poison() {
    let farm = Farm::new().await;
    let mut me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    for takeover in 1..=5 {
        expire_now(&farm, &me).await;
        me = farm.node("a").await;
        let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
        assert_eq!(
            (again.takeovers, again.retries, again.attempt),
            (takeover, 0, takeover + 1)
        );
    }
    assert_eq!(farm.ends_told().await, None);
    expire_now(&farm, &me).await;
    farm.is_now(run.run_id, "failed", Some("poison")).await;
    assert_eq!(farm.ends_told().await.as_deref(), Some("j 6 a failed poison"));
}

#[tokio::test]
async fn a_close_counts_no_takeover() {
    let farm = Farm::new().await;
    let mut me = farm.node("a").await;
    farm.held_run(&me, "j", spec()).await;
    for _ in 0..7 {
        close(&farm.db, &me).await.unwrap();
        me = farm.node("a").await;
        assert_eq!(claim(&farm.db, &me, 1, None).await.unwrap()[0].takeovers, 0);
    }
}

#[tokio::test]
async fn a_run_that_never_started_is_given_back_even_at_most_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let at_most_once = JobSpec {
        on_lost: OnLost::Fail,
        ..spec()
    };
    let run = farm.held_run(&me, "j", at_most_once).await;
    let given = release(&farm.db, &me, &[Attempt::from(&run)], Release::NeverStarted)
        .await
        .unwrap();
    assert_eq!(given, [(Attempt::from(&run), FinishResult::Done)]);
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!((again.attempt, again.takeovers, again.retries), (2, 0, 0));
    // Killed while running is another matter.
    let given = release(&farm.db, &me, &[Attempt::from(&again)], Release::Drained)
        .await
        .unwrap();
    assert_eq!(
        given,
        [(Attempt::from(&again), FinishResult::Ended(RunState::Lost))]
    );
}

#[tokio::test]
async fn a_finished_run_is_run_again_as_a_new_one() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    assert_eq!(
        retry_run(&anna(&farm.db), run.run_id, "eve", false, None)
            .await
            .unwrap(),
        Retried::NotFinal
    );
    one(&farm, success(&me, &run)).await;
    let none = retried_runs(&farm.db, &[run.run_id], None).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    let Retried::Run(new) = retry_run(&anna(&farm.db), run.run_id, "eve", false, None)
        .await
        .unwrap()
    else {
        panic!("no new run")
    };
    assert_eq!(
        retried_runs(&farm.db, &[run.run_id, new], None).await.unwrap(),
        [run.run_id]
    );
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!(
        (again.run_id, again.parent_run, again.attempt),
        (new, Some(run.run_id), 1)
    );
    assert_eq!(again.due_at, run.due_at);
    assert_eq!(
        retry_run(&anna(&farm.db), 999_999, "eve", false, None)
            .await
            .unwrap(),
        Retried::NotFound
    );
}

#[tokio::test]
async fn failures_in_a_row_are_counted_until_a_success() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let failures = "SELECT consecutive_failures::bigint FROM farmhand.job_status";
    for n in 1..=3 {
        farm.exec("UPDATE farmhand.job SET next_run = NULL, scheduled = false, decided_until = NULL")
            .await;
        let run = farm
            .held_run(
                &me,
                "j",
                JobSpec {
                    priority: n,
                    ..spec()
                },
            )
            .await;
        let mut end = success(&me, &run);
        end.state = RunState::TimedOut;
        one(&farm, end).await;
        farm.is(failures, i64::from(n)).await;
    }
    farm.exec("UPDATE farmhand.job SET next_run = NULL, scheduled = false, decided_until = NULL")
        .await;
    let run = farm
        .held_run(
            &me,
            "j",
            JobSpec {
                priority: 9,
                ..spec()
            },
        )
        .await;
    one(&farm, success(&me, &run)).await;
    farm.is(failures, 0).await;
    farm.says("SELECT last_state FROM farmhand.job_status", Some("succeeded"))
        .await;
}

#[tokio::test]
async fn a_set_with_two_attempts_of_one_run_says_of_each_what_became_of_it() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let stale = farm.held_run(&a, "j", spec()).await;
    expire_now(&farm, &a).await;
    let fresh = claim(&farm.db, &b, 1, None).await.unwrap().remove(0);
    let ends = [success(&b, &fresh), success(&a, &stale)];
    let results: HashMap<_, _> = finish(&farm.db, &ends).await.unwrap().into_iter().collect();
    assert_eq!(results.len(), 2, "{results:?}");
    assert_eq!(results[&Attempt::from(&fresh)], FinishResult::Done);
    let refused = &results[&Attempt::from(&stale)];
    assert!(matches!(refused, FinishResult::Fenced { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_retry_that_ended_its_run_says_so_when_it_is_repeated() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let wanted = "UPDATE farmhand.run_live SET cancel_by = 'x'";
    farm.exec(wanted).await;
    let again = failure(&me, &run, Duration::ZERO);
    for _reply_lost in 0..2 {
        let told = retry(&farm.db, std::slice::from_ref(&again)).await.unwrap();
        assert_eq!(told[0].1, FinishResult::Ended(RunState::Cancelled));
    }
}
