use std::time::Duration;

use farmhand_core::definition::{JobSpec, Overlap};
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{
    Cancelled, Submission, Submitted, Withhold, cancel, submit, submit_overlapping, withhold,
};
use farmhand_store::protocol::{Claimed, Skipped, claim, finish, open_epoch, retry, vouch};
use farmhand_tests::acting::anna;
use jiff::Timestamp;
use serde_json::json;

use crate::epochs::{renewed, replace, restart, shown};
use crate::fixture::{Farm, failure, on_each_node, past, sharded, spec, success};

pub async fn with(farm: &Farm, overlap: Overlap, at: Timestamp) {
    farm.job("j", JobSpec { overlap, ..spec() }, Some(at)).await;
}

/// Makes the job due again at `at`.
pub async fn due_again(farm: &Farm, at: Timestamp) {
    farm.sql
        .exec_with("UPDATE farmhand.job SET next_run = $1", &[&at])
        .await;
}

pub async fn claims(farm: &Farm, me: &LeaseIdentity) -> Vec<Claimed> {
    claim(&farm.db, me, 99, None).await.unwrap()
}

/// A run of the job `j` that somebody asks for under this rule.
async fn by_hand(farm: &Farm, overlap: Overlap) -> Submitted {
    let asked = Submission {
        job_id: "j",
        params: &json!({}),
        key: None,
        overlap,
        by: None,
    };
    submit_overlapping(&anna(&farm.db), asked, true).await.unwrap()
}

#[tokio::test]
async fn skip_records_the_instant_while_an_earlier_run_lives() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Skip, past(60)).await;
    farm.fire_at("j", past(60), &[past(60)]).await;
    let run = claims(&farm, &me).await.remove(0);

    due_again(&farm, past(30)).await;
    let fired = farm.fire_at("j", past(30), &[past(30)]).await;
    assert!(fired[0].run_ids.is_empty());
    assert_eq!(
        (fired[0].skipped[0].reason.as_str(), fired[0].skipped[0].count),
        ("overlap", 1)
    );

    finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    due_again(&farm, past(10)).await;
    assert_eq!(farm.fire_at("j", past(10), &[past(10)]).await[0].run_ids.len(), 1);
}

#[tokio::test]
async fn skip_still_runs_all_missed_instants_one_after_the_other() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Skip, past(60)).await;
    let instants = [past(60), past(40), past(20)];
    assert_eq!(farm.fire_at("j", past(60), &instants).await[0].run_ids.len(), 3);
    for expected in instants {
        let mut held = claims(&farm, &me).await;
        assert_eq!(held.len(), 1);
        let run = held.remove(0);
        assert_eq!(run.due_at, expected);
        finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    }
    assert!(claims(&farm, &me).await.is_empty());
}

#[tokio::test]
async fn queue_holds_runs_back_and_lets_them_go_in_order() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    for at in [past(90), past(60), past(30)] {
        due_again(&farm, at).await;
        assert_eq!(farm.fire_at("j", at, &[at]).await[0].run_ids.len(), 1);
    }
    let first = claims(&farm, &me).await;
    assert_eq!(first.len(), 1);
    farm.says(
        "SELECT reason FROM farmhand.run WHERE state = 'due' LIMIT 1",
        Some("overlap"),
    )
    .await;
    finish(&farm.db, &[success(&me, &first[0])]).await.unwrap();
    let second = claims(&farm, &me).await;
    assert_eq!(second.len(), 1);
    // The one in front is cancelled: the last one goes.
    assert!(matches!(
        cancel(&anna(&farm.db), second[0].run_id, "eve").await.unwrap(),
        Cancelled::Requested { .. }
    ));
    finish(&farm.db, &[success(&me, &second[0])]).await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 1);
}

#[tokio::test]
async fn what_waits_for_an_end_that_was_recorded_before_claims_were_open_goes_when_they_are() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Queue, past(90)).await;
    let instants = [past(90), past(60), past(30)];
    farm.fire_at("j", past(90), &instants).await;
    for (nth, instant) in instants.into_iter().enumerate() {
        let run = claims(&farm, &me).await.remove(0);
        assert_eq!(run.due_at, instant);
        let memory = renewed(&farm, &me, 0).await;
        match nth {
            0 => replace(&farm).await,
            _ => restart(&farm).await,
        }
        finish(&farm.db, &[success(&me, &run)]).await.unwrap();
        assert!(claims(&farm, &me).await.is_empty());
        match nth {
            0 => {
                let key = shown(&farm).await.key();
                open_epoch(&farm.db, &key, "a", Some(&memory)).await.unwrap();
            }
            _ => assert!(vouch(&farm.db, &memory).await.unwrap()),
        }
    }
}

#[tokio::test]
async fn replace_asks_the_holder_to_end_and_runs_only_the_newest() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Replace, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let old = claims(&farm, &me).await.remove(0);

    due_again(&farm, past(60)).await;
    let fired = farm.fire_at("j", past(60), &[past(60)]).await;
    assert_eq!(fired[0].cancelling, [old.run_id]);
    let waiting = fired[0].run_ids[0];
    assert!(claims(&farm, &me).await.is_empty());

    // A third one replaces the second, which never started.
    due_again(&farm, past(30)).await;
    let newest = farm.fire_at("j", past(30), &[past(30)]).await[0].run_ids[0];
    farm.is_now(waiting, "cancelled", Some("replaced")).await;

    finish(&farm.db, &[success(&me, &old)]).await.unwrap();
    let held = claims(&farm, &me).await;
    assert_eq!(held.iter().map(|c| c.run_id).collect::<Vec<_>>(), [newest]);
}

#[tokio::test]
async fn replace_leaves_alone_what_runs_on_a_node_that_gets_no_new_run() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let each = on_each_node(Overlap::Replace);
    farm.job("j", each, Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let (on_a, on_b) = (
        claims(&farm, &a).await.remove(0),
        claims(&farm, &b).await.remove(0),
    );
    assert!(
        withhold(&anna(&farm.db), "a", Withhold::Cordon, "eve")
            .await
            .unwrap()
    );
    due_again(&farm, past(60)).await;
    let fired = farm.fire_at("j", past(60), &[past(60)]).await;
    assert_eq!(fired[0].cancelling, [on_b.run_id]);
    assert_eq!(fired[0].run_ids.len(), 1);
    by_hand(&farm, Overlap::Replace).await;
    let told = "SELECT run_id FROM farmhand.run_live WHERE cancel_by IS NOT NULL";
    assert_eq!(farm.i64(told).await, on_b.run_id, "and not {}", on_a.run_id);
}

#[tokio::test]
async fn allow_lets_runs_overlap() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Allow, past(90)).await;
    farm.fire_at("j", past(90), &[past(90), past(60), past(30)]).await;
    assert_eq!(claims(&farm, &me).await.len(), 3);
}

#[tokio::test]
async fn all_shards_of_an_instant_are_let_go_together() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let sharded = sharded(Overlap::Queue, 3);
    farm.job("j", sharded, Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90), past(60)]).await;
    let first = claims(&farm, &me).await;
    assert_eq!(first.len(), 3);
    for run in &first[..2] {
        finish(&farm.db, &[success(&me, run)]).await.unwrap();
        assert!(
            claims(&farm, &me).await.is_empty(),
            "a shard of the earlier instant still runs"
        );
    }
    finish(&farm.db, &[success(&me, &first[2])]).await.unwrap();
    assert_eq!(claims(&farm, &me).await.len(), 3);
}

/// A run that is asked for tomorrow stands in no one's way today.
#[tokio::test]
async fn a_run_for_later_holds_up_no_instant_before_it() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::Replace] {
        let farm = Farm::new().await;
        let me = farm.node("a").await;
        with(&farm, overlap, past(90)).await;
        let later = submit(&farm.db, "j", &json!({}), Some(past(-3600)), None)
            .await
            .unwrap();
        let fired = farm.fire_at("j", past(90), &[past(90), past(60)]).await;
        let newest = *fired[0].run_ids.last().unwrap();
        loop {
            let held = claims(&farm, &me).await;
            assert_eq!(held.len(), 1, "{overlap:?}");
            finish(&farm.db, &[success(&me, &held[0])]).await.unwrap();
            if held[0].run_id == newest {
                break;
            }
        }
        let made = by_hand(&farm, overlap).await;
        assert_eq!((made.skipped, made.live), (0, 0), "{overlap:?}");
        assert_eq!(claims(&farm, &me).await[0].run_id, made.run_id, "{overlap:?}");
        assert_eq!(farm.state(later).await, ("due".to_owned(), None), "{overlap:?}");
    }
}

#[tokio::test]
async fn replace_ends_what_was_made_under_an_earlier_rule_and_no_run_by_hand() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Skip, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let old = claims(&farm, &me).await.remove(0);
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let by_hand = claims(&farm, &me).await.remove(0);

    with(&farm, Overlap::Replace, past(60)).await;
    due_again(&farm, past(60)).await;
    let fired = farm.fire_at("j", past(60), &[past(60)]).await;
    assert_eq!(fired[0].cancelling, [old.run_id]);
    assert!(claims(&farm, &me).await.is_empty(), "the old one still runs");
    finish(&farm.db, &[success(&me, &old)]).await.unwrap();
    assert_eq!(claims(&farm, &me).await[0].run_id, fired[0].run_ids[0]);
    assert_eq!(farm.state(by_hand.run_id).await.0, "running", "beside it");
}

#[tokio::test]
async fn a_run_by_hand_that_replaces_waits_for_all_that_it_ends() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    with(&farm, Overlap::Replace, past(90)).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let others = claims(&farm, &me).await;
    assert_eq!(others.len(), 2);
    let made = by_hand(&farm, Overlap::Replace).await;
    for other in &others {
        assert!(claims(&farm, &me).await.is_empty());
        finish(&farm.db, &[success(&me, other)]).await.unwrap();
    }
    assert_eq!(claims(&farm, &me).await[0].run_id, made.run_id);
}

#[tokio::test]
async fn latest_lets_only_the_newest_firing_of_the_schedule_wait() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", sharded(Overlap::Latest, 2), Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let running = claims(&farm, &me).await;
    assert_eq!(running.len(), 2);
    let asked = by_hand(&farm, Overlap::Queue).await.run_id;
    due_again(&farm, past(60)).await;
    let displaced = farm.fire_at("j", past(60), &[past(80), past(60)]).await.remove(0);
    assert_eq!(
        (displaced.run_ids.len(), &displaced.skipped[..]),
        (2, &[replaced(1)][..]),
        "of two instants the last"
    );
    due_again(&farm, past(30)).await;
    let fired = farm.fire_at("j", past(30), &[past(30)]).await.remove(0);
    assert_eq!(
        (&fired.skipped[..], fired.cancelling.len()),
        (&[replaced(1)][..], 0)
    );
    for run in displaced.run_ids {
        farm.is_now(run, "skipped", Some("replaced")).await;
    }
    let ends: Vec<_> = running.iter().map(|run| success(&me, run)).collect();
    finish(&farm.db, &ends).await.unwrap();
    // The one by hand comes later, and neither displaced nor was displaced.
    let next = claims(&farm, &me).await;
    assert_eq!(
        next.iter().map(|run| run.due_at).collect::<Vec<_>>(),
        [past(30), past(30)]
    );
    let ends: Vec<_> = next.iter().map(|run| success(&me, run)).collect();
    finish(&farm.db, &ends).await.unwrap();
    assert!(claims(&farm, &me).await.iter().any(|run| run.run_id == asked));
}

/// A run that is tried again later is in the way and is not displaced; on each node one firing waits.
#[tokio::test]
async fn latest_leaves_retries_alone_and_counts_on_each_node() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.job("j", on_each_node(Overlap::Latest), Some(past(90))).await;
    farm.fire_at("j", past(90), &[past(90)]).await;
    let (on_a, on_b) = (
        claims(&farm, &a).await.remove(0),
        claims(&farm, &b).await.remove(0),
    );
    finish(&farm.db, &[success(&b, &on_b)]).await.unwrap();
    retry(&farm.db, &[failure(&a, &on_a, Duration::from_secs(600))])
        .await
        .unwrap();
    due_again(&farm, past(60)).await;
    farm.fire_at("j", past(60), &[past(60)]).await;
    assert_eq!(claims(&farm, &b).await.len(), 1, "nothing is in its way there");
    due_again(&farm, past(30)).await;
    let fired = farm.fire_at("j", past(30), &[past(30)]).await.remove(0);
    assert_eq!(fired.skipped, [replaced(1)]);
    farm.is("SELECT count(*) FROM farmhand.run_live WHERE gate = 'overlap'", 2)
        .await;
    farm.is_now(on_a.run_id, "due", Some("retry")).await;
}

fn replaced(count: i64) -> Skipped {
    Skipped {
        reason: "replaced".to_owned(),
        count,
    }
}
