//! The TTL in a node's row is what challengers wait for: it never falls below one that a living deadline came from.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::lease::MarksBelow;
use farmhand_store::protocol::{
    Expired, NodeInfo, NodeReport, Opened, Renewed, close, expire, open, poll, renew,
};
use serde_json::json;
use uuid::Uuid;

use crate::epochs;
use crate::fixture::{Farm, info};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(5);

fn node(incarnation: Uuid, ttl: Duration) -> NodeInfo {
    NodeInfo {
        ttl,
        ..info("a", incarnation, json!({}))
    }
}

async fn ttl(farm: &Farm) -> i64 {
    farm.i64("SELECT ttl_ms FROM farmhand.node WHERE address = 'a'")
        .await
}

#[tokio::test]
async fn a_renewal_with_a_shorter_ttl_does_not_shorten_the_wait_of_challengers() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for (said, kept) in [(LONG, 60_000), (SHORT, 60_000)] {
        let renewed = renew(&farm.db, &me, said, &NodeReport::default()).await.unwrap();
        assert!(matches!(renewed, Renewed::Alive { .. }));
        assert_eq!(ttl(&farm).await, kept, "after {said:?}");
    }
}

#[tokio::test]
async fn adopting_a_session_with_a_shorter_ttl_keeps_the_longer_one() {
    let farm = Farm::new().await;
    let incarnation = Uuid::new_v4();
    for (said, kept) in [(LONG, 60_000), (SHORT, 60_000), (LONG * 2, 120_000)] {
        let opened = open(&farm.db, &node(incarnation, said)).await.unwrap();
        assert_eq!(opened, Opened::Session(1));
        assert_eq!(ttl(&farm).await, kept, "after {said:?}");
    }
}

#[tokio::test]
async fn the_next_session_takes_a_shorter_ttl() {
    let farm = Farm::new().await;
    open(&farm.db, &node(Uuid::new_v4(), LONG)).await.unwrap();
    let renewals = farm.renewals("a").await;
    let incarnation: Uuid = farm.sql.value("SELECT incarnation FROM farmhand.node").await;
    let done = expire(&farm.db, "a", 1, incarnation, renewals).await.unwrap();
    assert!(matches!(done, Expired::Done { .. }));
    open(&farm.db, &node(Uuid::new_v4(), SHORT)).await.unwrap();
    assert_eq!(ttl(&farm).await, 5_000);
}

#[tokio::test]
async fn the_longest_lease_stays_recorded_when_its_session_is_over() {
    let farm = Farm::new().await;
    let incarnation = Uuid::new_v4();
    open(&farm.db, &node(incarnation, SHORT)).await.unwrap();
    let other = farm.node("b").await;
    let longest = async || {
        poll(&farm.db, &other, &MarksBelow::default())
            .await
            .unwrap()
            .database
            .longest_lease_ms
    };
    // The other one's.
    assert_eq!(longest().await, 30_000);
    let me = farmhand_store::LeaseIdentity {
        address: "a".to_owned(),
        session: 1,
        incarnation,
    };
    renew(&farm.db, &me, LONG, &NodeReport::default()).await.unwrap();
    assert_eq!(longest().await, 60_000);
    close(&farm.db, &me).await.unwrap();
    open(&farm.db, &node(Uuid::new_v4(), SHORT)).await.unwrap();
    assert_eq!(longest().await, 60_000);
}

#[tokio::test]
async fn a_lease_of_an_epoch_before_the_last_no_longer_counts() {
    let farm = Farm::new().await;
    let long = node(Uuid::new_v4(), LONG);
    open(&farm.db, &long).await.unwrap();
    let me = farmhand_store::LeaseIdentity {
        address: "a".to_owned(),
        session: 1,
        incarnation: long.incarnation,
    };
    close(&farm.db, &me).await.unwrap();
    farm.node("b").await;
    let mut longest = vec![];
    for _ in 0..3 {
        epochs::replace(&farm).await;
        let now = epochs::shown(&farm).await;
        longest.push(now.longest_lease_ms);
        epochs::open_epoch(&farm.db, &now.key(), "b", None).await.unwrap();
    }
    assert_eq!(longest, [60_000, 60_000, 30_000]);
}

#[tokio::test]
async fn a_bump_takes_over_how_long_leases_are() {
    let farm = Farm::new().await;
    let long = node(Uuid::new_v4(), LONG);
    open(&farm.db, &long).await.unwrap();
    farm.exec("UPDATE farmhand.node SET open = false").await;
    for _ in 0..3 {
        let now = farmhand_store::epochs::newest(&farm.db).await.unwrap();
        farmhand_store::epochs::bump(&anna(&farm.owner), now.id, 0, "ops")
            .await
            .unwrap();
    }
    assert_eq!(epochs::shown(&farm).await.longest_lease_ms, 60_000);
}
