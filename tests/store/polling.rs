use farmhand_core::definition::JobSpec;
use farmhand_core::lease::MarksBelow;
use farmhand_store::jobs::{Withhold, cancel, withhold};
use farmhand_store::protocol::poll;
use farmhand_tests::acting::anna;
use serde_json::json;

use crate::fixture::{Farm, past, spec};

#[tokio::test]
async fn a_poll_shows_what_a_stopwatch_needs() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let all = MarksBelow {
        ttls: vec![i64::MAX],
        marks: vec![i64::MAX],
    };
    let poll = poll(&farm.db, &a, &all).await.unwrap();
    let seen = &poll.silent[0];
    assert_eq!(
        (seen.session, seen.incarnation, seen.ttl_ms),
        (b.session, b.incarnation, 30_000)
    );
    assert_eq!(seen.renewals, farm.renewals("b").await);
    assert_eq!(
        poll.database.epoch,
        farm.i64("SELECT max(epoch) FROM farmhand.epoch").await
    );
    assert!(poll.database.open);
    assert_eq!(poll.live_addresses, ["a", "b"]);
}

#[tokio::test]
async fn a_poll_tells_when_the_next_work_is_ready_for_this_node() {
    let farm = Farm::new().await;
    let plain = farm.node("plain").await;
    let batch = farm.node_with("batch", json!({"role": "batch"})).await;
    assert_eq!(
        poll(&farm.db, &plain, &MarksBelow::default())
            .await
            .unwrap()
            .earliest_ready,
        None
    );
    let at = past(60);
    let wanted = JobSpec {
        placement: [("role".to_owned(), "batch".to_owned())].into(),
        ..spec()
    };
    farm.job("j", wanted, Some(at)).await;
    let before = poll(&farm.db, &plain, &MarksBelow::default()).await.unwrap();
    assert_eq!(before.earliest_next_run, Some(at));
    farm.fire_at("j", at, &[at]).await;
    assert_eq!(
        poll(&farm.db, &plain, &MarksBelow::default())
            .await
            .unwrap()
            .earliest_ready,
        None
    );
    let poll = poll(&farm.db, &batch, &MarksBelow::default()).await.unwrap();
    assert_eq!(poll.earliest_ready, Some(at));
    assert!(poll.earliest_next_run.is_none_or(|next| next > poll.db_now));
}

#[tokio::test]
async fn cancelling_reaches_the_holder_by_its_poll() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", spec()).await;
    cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap();
    let cancels = poll(&farm.db, &a, &MarksBelow::default()).await.unwrap().cancels;
    assert_eq!(cancels.len(), 1);
    assert_eq!(
        (cancels[0].run_id, cancels[0].by.as_deref()),
        (run.run_id, Some("eve"))
    );
    assert!(
        poll(&farm.db, &b, &MarksBelow::default())
            .await
            .unwrap()
            .cancels
            .is_empty()
    );
}

#[tokio::test]
async fn a_poll_tells_a_node_that_it_is_cordoned() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    withhold(&anna(&farm.db), "a", Withhold::Cordon, "eve")
        .await
        .unwrap();
    let poll = poll(&farm.db, &me, &MarksBelow::default()).await.unwrap();
    assert!(poll.cordoned && !poll.draining);
    assert!(poll.live_addresses.is_empty());
}
