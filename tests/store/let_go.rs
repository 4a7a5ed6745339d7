//! What the end of a run brings with it, in its own transaction: what waits for it goes, and people hear of it.

use std::time::Duration;

use farmhand_core::definition::{JobSpec, OnLost, Overlap};
use farmhand_core::lease::MarksBelow;
use farmhand_core::run::goes_to;
use farmhand_store::jobs::{cancel, submit};
use farmhand_store::protocol::{Lose, LostWhy, abandon, close, close_if, finish, lose, poll, settle, sweep};
use farmhand_store::{LeaseIdentity, Note};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::Client;
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{
    Farm, expire_now, listening, on_each_node, one, past, sharded, spec, success, until_blocked,
};
use crate::overlap::{claims, due_again, with};
use crate::rounds::{claimed, failed, looping};

const PENDING: &str = "SELECT count(*) FROM farmhand.pending";

async fn begun(farm: &Farm, sql: &str) -> Client {
    let other = farm.test.client().await;
    other.exec(&format!("BEGIN; {sql}")).await;
    other
}

async fn unsettled(farm: &Farm, me: &LeaseIdentity) -> bool {
    poll(&farm.db, me, &MarksBelow::default())
        .await
        .unwrap()
        .unsettled
}

#[tokio::test]
async fn where_a_run_goes_is_one_decision_in_the_database_and_here() {
    let farm = Farm::new().await;
    let bools = [false, true];
    let mut cells = 0;
    for cancels in bools {
        for fails in bools {
            for ran in bools {
                for counts in bools {
                    for takeovers in 0..8 {
                        let on_lost = if fails { "fail" } else { "rerun" };
                        let sql = format!(
                            "SELECT farmhand.goes_to({cancels}, '{on_lost}', {ran}, {takeovers}, {counts})"
                        );
                        let here = goes_to(cancels, fails, ran, takeovers, counts);
                        assert_eq!(farm.text(&sql).await.as_deref(), Some(here.as_str()), "{sql}");
                        cells += 1;
                    }
                }
            }
        }
    }
    assert_eq!(cells, 128);
}

/// Whoever has the job locked may be waiting for the very run that ends: the end waits for nobody, and leaves a note.
#[tokio::test]
async fn an_end_that_finds_its_job_locked_leaves_a_note_and_the_next_poll_lets_go_what_waits() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    farm.fire_at("j", past(90), &[past(90), past(60)]).await;
    let run = claims(&farm, &me).await.remove(0);
    let other = begun(&farm, "SELECT FROM farmhand.job WHERE job_id = 'j' FOR UPDATE").await;
    let ended = timeout(Duration::from_secs(10), one(&farm, success(&me, &run)));
    ended.await.expect("it waits for nobody");
    assert!(claims(&farm, &me).await.is_empty());
    farm.is(PENDING, 1).await;
    assert!(unsettled(&farm, &me).await);
    settle(&farm.db, None).await.unwrap();
    assert_eq!(farm.i64(PENDING).await, 1, "it is locked still");

    other.exec("ROLLBACK").await;
    settle(&farm.db, None).await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 1);
    farm.is(PENDING, 0).await;
    assert!(!unsettled(&farm, &me).await);
}

#[tokio::test]
async fn of_two_ends_that_do_not_see_each_other_one_leaves_a_note() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let pair = sharded(Overlap::Queue, 2);
    farm.job("j", pair, Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90), past(60)]).await;
    let runs = claims(&farm, &me).await;
    assert_eq!(runs.len(), 2);
    let first = format!(
        "WITH gone AS (DELETE FROM farmhand.run_live r WHERE r.run_id = {} RETURNING r AS run)
         SELECT farmhand.write_ends((SELECT array_agg(k) FROM gone
             CROSS JOIN LATERAL farmhand.ended(gone.run, 'succeeded', NULL, 'cancel') k))",
        runs[0].run_id
    );
    let other = begun(&farm, &first).await;
    // Their statistics are the same row, for which the second waits.
    let (ended, ()) = tokio::join!(one(&farm, success(&me, &runs[1])), async {
        until_blocked(&farm).await;
        other.exec("COMMIT").await;
    });
    drop(ended);
    settle(&farm.db, None).await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 2);
    farm.is(PENDING, 0).await;
}

#[tokio::test]
async fn an_end_waits_for_a_firing_that_makes_a_run_wait_for_it_and_lets_that_go() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let run = claims(&farm, &me).await.remove(0);
    due_again(&farm, past(60)).await;
    let fires = format!(
        r#"SELECT farmhand.fire('[{{"job_id": "j", "rev": 1, "seen": "{0}", "following": "2100-01-01Z", "due": ["{0}"],
            "late_ms": 0, "skipped": []}}]', 1)"#,
        past(60)
    );
    let firing = begun(&farm, &fires).await;
    let (_, ()) = tokio::join!(one(&farm, success(&me, &run)), async {
        until_blocked(&farm).await;
        firing.exec("COMMIT").await;
    });
    assert_eq!(claims(&farm, &me).await.len(), 1);
    farm.is(PENDING, 0).await;
}

#[tokio::test]
async fn a_firing_does_not_keep_the_run_that_another_waits_for_from_being_claimed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let firing = begun(&farm, "SELECT farmhand.lock_blockers('{j}', '{}')").await;
    assert_eq!(claims(&farm, &me).await.len(), 1);
    firing.exec("COMMIT").await;
}

#[tokio::test]
async fn a_firing_of_which_somebody_has_a_run_locked_is_let_go_as_a_whole_later() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let pair = sharded(Overlap::Queue, 2);
    farm.job("j", pair, Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90), past(60)]).await;
    let runs = claims(&farm, &me).await;
    one(&farm, success(&me, &runs[0])).await;
    let waits = farm.i64("SELECT max(run_id) FROM farmhand.run_live").await;
    let other = begun(
        &farm,
        &format!("SELECT FROM farmhand.run_live WHERE run_id = {waits} FOR UPDATE"),
    )
    .await;
    one(&farm, success(&me, &runs[1])).await;
    assert!(claims(&farm, &me).await.is_empty());
    other.exec("ROLLBACK").await;
    settle(&farm.db, None).await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 2);
}

#[tokio::test]
async fn an_abandoned_run_lets_go_what_waits_for_it() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let each = on_each_node(Overlap::Queue);
    farm.job("j", each, Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let run = claims(&farm, &a).await.remove(0);
    one(&farm, success(&a, &run)).await;
    with(&farm, Overlap::Queue, past(60)).await;
    farm.fire_at("j", past(60), &[past(60)]).await;
    assert!(claims(&farm, &a).await.is_empty(), "one waits for the run of b");
    close(&farm.db, &b).await.unwrap();
    farm.exec("DELETE FROM farmhand.node WHERE address = 'b'").await;
    assert_eq!(abandon(&farm.db, Duration::from_secs(3600)).await.unwrap(), 1);
    assert_eq!(claims(&farm, &a).await.len(), 1);
}

/// A command that kills its node would otherwise do so again and again.
#[tokio::test]
async fn the_round_after_a_lost_one_pauses_as_after_a_failure() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let fails = JobSpec {
        on_lost: OnLost::Fail,
        ..looping(1)
    };
    farm.job("loop", fails, None).await;
    let first = claimed(&farm, &me).await.remove(0);
    one(&farm, failed(&me, &first)).await;
    let second = claimed(&farm, &me).await.remove(0);
    // What finds the round missing then is the sweep.
    let other = begun(&farm, "SELECT FROM farmhand.job FOR UPDATE").await;
    let lost = Lose {
        run_id: second.run_id,
        attempt: second.attempt,
        fence: second.fence,
        address: "a".to_owned(),
        session: me.session,
        why: LostWhy::Warden,
    };
    lose(&farm.db, &[lost]).await.unwrap();
    other.exec("ROLLBACK").await;
    sweep(&farm.db).await.unwrap();
    let paused = "SELECT retries::bigint FROM farmhand.run_live WHERE reason = 'backoff' AND ready_at > now() + interval '500 ms'";
    assert_eq!(farm.i64(paused).await, 2, "the second failure in a row");
    let waiting = farm.i64("SELECT run_id FROM farmhand.run_live").await;
    cancel(&anna(&farm.db), waiting, "ops").await.unwrap();
    assert_eq!(claimed(&farm, &me).await.len(), 1, "somebody wants the next now");
}

#[tokio::test]
async fn what_waits_for_a_lock_of_a_dead_node_is_told_of_at_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let locks = JobSpec {
        locks: vec!["l".to_owned()],
        on_lost: OnLost::Fail,
        ..spec()
    };
    farm.job("j", locks, None).await;
    for _ in 0..2 {
        submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    }
    let held = farmhand_store::protocol::claim_gated(&farm.db, &me, 9)
        .await
        .unwrap();
    assert_eq!(held.len(), 1);
    let waits = farm
        .i64("SELECT run_id FROM farmhand.run_live WHERE state = 'due'")
        .await;
    let (_keeper, mut notes) = listening(&farm).await;
    expire_now(&farm, &me).await;
    let prompted = async {
        loop {
            if let Note::Due { run_id, .. } = notes.recv().await.unwrap()
                && run_id == waits
            {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), prompted)
        .await
        .expect("a note of it");
}

#[tokio::test]
async fn a_run_that_is_replaced_before_it_began_has_its_event_and_says_by_what() {
    let farm = Farm::new().await;
    farm.node("a").await;
    with(&farm, Overlap::Replace, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    due_again(&farm, past(60)).await;
    farm.fire_at("j", past(60), &[past(60)]).await;
    assert_eq!(farm.ends_told().await.as_deref(), Some("j 0 cancelled replaced"));
    let by = farm.text("SELECT cancel_by FROM farmhand.run_history").await;
    assert_eq!(by.as_deref(), Some("replace"));
}

#[tokio::test]
async fn a_run_that_its_holder_ends_badly_has_one_event_with_the_end() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let failure = farmhand_store::protocol::Finish {
        state: farmhand_core::run::RunState::Failed,
        exit_code: Some(3),
        ..success(&me, &run)
    };
    finish(&farm.db, &[failure]).await.unwrap();
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let run = claims(&farm, &me).await.remove(0);
    finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    assert_eq!(farm.ends_told().await.as_deref(), Some("j 1 a failed"));
    let code = farm
        .text("SELECT detail->>'exit_code' FROM farmhand.event WHERE kind = 'run_ended'")
        .await;
    assert_eq!(code.as_deref(), Some("3"));
}

#[tokio::test]
async fn a_run_of_which_nothing_was_started_is_due_again_when_its_session_is_closed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let once = || JobSpec {
        on_lost: OnLost::Fail,
        ..spec()
    };
    let unstarted = farm.held_run(&me, "j", once()).await.run_id;
    let begun = farm.held_run(&me, "k", once()).await.run_id;
    close_if(&farm.db, &me, &[unstarted], |_| true).await.unwrap();
    assert_eq!(farm.state(unstarted).await.0, "due");
    assert_eq!(farm.state(begun).await.0, "lost");
}
