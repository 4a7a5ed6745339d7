//! What waits behind a live run: how long its queue may be, who lets it go, and who is told to end.

use farmhand_tests::acting::anna;
use std::future::Future;
use std::time::Duration;

use farmhand_core::definition::{JobSpec, Overlap, RunOn};
use farmhand_store::jobs::{Retried, Wish, retry_one, submit};
use farmhand_store::protocol::{Claimed, finish, fire, settle};
use farmhand_store::{LeaseIdentity, Note};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fixture::{
    Farm, firing, listening, on_each_node, overlapping, past, spec, success, until_blocked,
};
use crate::overlap::{claims, due_again, with};
use crate::triggers::{after, ends};

/// Runs of the job `j` that wait behind others on the node `a`.
const FULL: &str = "INSERT INTO farmhand.run_live (job_id, rev, kind, node, due_at, ready_at, gate, overlap)
    SELECT 'j', 1, 'scheduled', 'a', now() - i * interval '1 hour', now(), 'overlap', 'queue' FROM generate_series(1, 1000) i";

async fn has_a_run_on_b_and_none_on_a(farm: &Farm) {
    let made = "SELECT string_agg(node, ' ') FROM farmhand.run_live WHERE job_id = 'j' AND gate IS NULL";
    farm.says(made, Some("b")).await;
    let skipped = "SELECT string_agg(node, ' ') FROM farmhand.run_history WHERE reason = 'queue_full'";
    farm.says(skipped, Some("a")).await;
}

#[tokio::test]
async fn a_full_queue_of_one_node_skips_no_instant_on_another() {
    let farm = Farm::new().await;
    let _nodes = (farm.node("a").await, farm.node("b").await);
    let each = on_each_node(Overlap::Queue);
    farm.job("j", each, Some(past(60))).await;
    farm.exec(FULL).await;
    farm.fire_at("j", past(60), &[past(60)]).await;
    has_a_run_on_b_and_none_on_a(&farm).await;
}

#[tokio::test]
async fn a_full_queue_of_one_node_skips_no_triggered_run_on_another() {
    let farm = Farm::new().await;
    let (a, _b) = (farm.node("a").await, farm.node("b").await);
    let parent = farm.held_run(&a, "p", spec()).await;
    let each = JobSpec {
        overlap: Overlap::Queue,
        run_on: RunOn::EachNode,
        ..after(&["p"])
    };
    farm.job("j", each, None).await;
    farm.exec(FULL).await;
    ends(&farm, success(&a, &parent)).await;
    has_a_run_on_b_and_none_on_a(&farm).await;
}

/// A run by hand of the job `j`, which was made without a rule.
async fn by_hand(farm: &Farm, me: &LeaseIdentity) -> Claimed {
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    claims(farm, me).await.remove(0)
}

/// `makes` makes a run that is to wait for one by hand, whose end another transaction is just writing.
async fn lets_go_what_was_made_during_its_end<T>(
    farm: &Farm,
    me: &LeaseIdentity,
    run: &Claimed,
    makes: impl Future<Output = T>,
) {
    let slow = farm.test.client().await;
    let end = format!(
        "BEGIN; DELETE FROM farmhand.run_live WHERE run_id = {}",
        run.run_id
    );
    slow.exec(&end).await;
    let ends = async {
        until_blocked(farm).await;
        slow.exec("COMMIT").await;
    };
    tokio::join!(makes, ends);
    assert_eq!(claims(farm, me).await.len(), 1);
}

#[tokio::test]
async fn an_instant_that_is_fired_during_the_end_of_a_run_by_hand_does_not_wait_for_it() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    let run = by_hand(&farm, &me).await;
    let fires = [firing("j", 1, past(90), &[past(90)])];
    lets_go_what_was_made_during_its_end(&farm, &me, &run, fire(&farm.db, &fires)).await;
}

#[tokio::test]
async fn a_job_that_is_triggered_during_the_end_of_its_run_by_hand_does_not_wait_for_it() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let parent = farm.held_run(&me, "p", spec()).await;
    let queues = JobSpec {
        overlap: Overlap::Queue,
        ..after(&["p"])
    };
    farm.job("j", queues, None).await;
    let run = by_hand(&farm, &me).await;
    finish(&farm.db, &[success(&me, &parent)]).await.unwrap();
    lets_go_what_was_made_during_its_end(&farm, &me, &run, settle(&farm.db, None)).await;
}

#[tokio::test]
async fn the_end_of_a_run_by_hand_lets_go_an_instant_that_is_just_being_fired() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    let run = by_hand(&farm, &me).await;
    let slow = farm.test.client().await;
    let fires = serde_json::to_value([firing("j", 1, past(90), &[past(90)])]).unwrap();
    let fires = format!("BEGIN; SELECT * FROM farmhand.fire('{fires}', 0)");
    slow.exec(&fires).await;
    let (db, end) = (farm.db.clone(), success(&me, &run));
    let finishing = tokio::spawn(async move { finish(&db, &[end]).await.unwrap() });
    until_blocked(&farm).await;
    slow.exec("COMMIT").await;
    finishing.await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 1);
}

/// Ends lock runs by their numbers.
#[tokio::test]
async fn a_firing_locks_what_is_replaced_and_what_promotes_in_the_order_in_which_ends_do() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let replaces = overlapping(Overlap::Replace);
    let low = farm.held_run(&me, "r", replaces).await;
    with(&farm, Overlap::Queue, past(30)).await;
    let high = by_hand(&farm, &me).await;
    due_again(&farm, past(30)).await;
    let ends = farm.test.client().await;
    let end = async |run: &Claimed| {
        let gone = format!("DELETE FROM farmhand.run_live WHERE run_id = {}", run.run_id);
        ends.exec(&gone).await;
    };
    ends.exec("BEGIN").await;
    end(&low).await;
    let fires = ["j", "r"].map(|job| firing(job, 1, past(30), &[past(30)]));
    let ending = async {
        until_blocked(&farm).await;
        end(&high).await;
        ends.exec("COMMIT").await;
    };
    let (fired, ()) = tokio::join!(fire(&farm.db, &fires), ending);
    assert_eq!(fired.unwrap().len(), 2);
}

/// The next note of a run that is to end.
async fn told_to_end(notes: &mut mpsc::Receiver<Note>) -> (i64, String) {
    let told = async {
        loop {
            if let Note::Cancel { run_id, node } = notes.recv().await.unwrap() {
                return (run_id, node);
            }
        }
    };
    timeout(Duration::from_secs(20), told).await.expect("a note")
}

#[tokio::test]
async fn the_holder_of_a_run_that_is_replaced_is_told_at_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let (_keeper, mut notes) = listening(&farm).await;
    with(&farm, Overlap::Replace, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let old = claims(&farm, &me).await.remove(0);
    due_again(&farm, past(60)).await;
    farm.fire_at("j", past(60), &[past(60)]).await;
    assert_eq!(told_to_end(&mut notes).await, (old.run_id, "a".to_owned()));

    let triggered = JobSpec {
        overlap: Overlap::Replace,
        ..after(&["p"])
    };
    let first = farm.held_run(&me, "p", spec()).await;
    farm.job("child", triggered, None).await;
    ends(&farm, success(&me, &first)).await;
    let old = claims(&farm, &me).await.remove(0);
    submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
    let second = claims(&farm, &me).await.remove(0);
    ends(&farm, success(&me, &second)).await;
    assert_eq!(told_to_end(&mut notes).await, (old.run_id, "a".to_owned()));
}

/// Ended runs of the job `j`, the oldest first.
async fn all_failed(farm: &Farm) -> Vec<i64> {
    let fail = "WITH gone AS (DELETE FROM farmhand.run_live r WHERE r.job_id = 'j' RETURNING r), kept AS (
            INSERT INTO farmhand.run_history SELECT k.* FROM gone g
            CROSS JOIN LATERAL farmhand.ended(g.r, 'failed', NULL, 'holder') k RETURNING run_id)
        SELECT array_agg(run_id ORDER BY run_id) FROM kept";
    farm.sql.value(fail).await
}

async fn runs_again(farm: &Farm, run_id: i64) -> i64 {
    let wish = Wish {
        by: "eve",
        from_failed: false,
        once: None,
        told: true,
        queued: true,
    };
    match retry_one(&anna(&farm.db), run_id, wish).await.unwrap() {
        Retried::Run(new) => new,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn runs_that_are_run_again_together_begin_one_after_the_other_on_each_node() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let each = on_each_node(Overlap::Skip);
    farm.job("j", each, None).await;
    for _ in 0..2 {
        submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    }
    for run in all_failed(&farm).await {
        runs_again(&farm, run).await;
    }
    let mut of_a = claims(&farm, &a).await;
    assert_eq!((of_a.len(), claims(&farm, &b).await.len()), (1, 1));
    // Another node's end lets nothing go here, one's own does.
    finish(&farm.db, &[success(&a, &of_a.remove(0))]).await.unwrap();
    assert_eq!(
        (claims(&farm, &a).await.len(), claims(&farm, &b).await.len()),
        (1, 0)
    );
}

#[tokio::test]
async fn a_run_that_is_run_again_waits_for_one_by_hand_and_not_where_runs_may_overlap() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let runs = overlapping(Overlap::Skip);
    farm.job("j", runs, None).await;
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let failed = all_failed(&farm).await[0];
    let by_hand = by_hand(&farm, &me).await;
    runs_again(&farm, failed).await;
    assert_eq!(claims(&farm, &me).await.len(), 0);
    finish(&farm.db, &[success(&me, &by_hand)]).await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 1);
    let runs = overlapping(Overlap::Allow);
    farm.job("j", runs, None).await;
    runs_again(&farm, failed).await;
    assert_eq!(claims(&farm, &me).await.len(), 1);
}
