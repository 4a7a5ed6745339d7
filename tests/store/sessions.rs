use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::lease::MarksBelow;
use farmhand_store::jobs::{Withhold, withhold};
use farmhand_store::protocol::{
    Closed, Expired, FreedTo, Holder, NodeReport, Opened, Renewed, claim, close, expire, open, poll, readopt,
    renew,
};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, info, spec};

#[tokio::test]
async fn opening_twice_as_one_incarnation_finds_the_same_session() {
    let farm = Farm::new().await;
    let node = info("a", Uuid::new_v4(), json!({}));
    assert_eq!(open(&farm.db, &node).await.unwrap(), Opened::Session(1));
    assert_eq!(open(&farm.db, &node).await.unwrap(), Opened::Session(1));
}

#[tokio::test]
async fn a_second_incarnation_under_an_open_address_is_told_who_holds_it() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let other = open(&farm.db, &info("a", Uuid::new_v4(), json!({})))
        .await
        .unwrap();
    let renewals = farm.renewals("a").await;
    let server = farm.sql.value("SELECT farmhand.server()").await;
    assert_eq!(
        other,
        Opened::Taken(Holder {
            session: me.session,
            incarnation: me.incarnation,
            renewals,
            ttl_ms: 30_000,
            machine: None,
            server,
        })
    );
}

#[tokio::test]
async fn session_numbers_are_never_reused() {
    let farm = Farm::new().await;
    let mut last = 0;
    for _ in 0..3 {
        let me = farm.node("a").await;
        assert!(me.session > last, "{} after {last}", me.session);
        last = me.session;
        assert_eq!(
            close(&farm.db, &me).await.unwrap(),
            Closed::Done { freed: vec![] }
        );
        assert_eq!(close(&farm.db, &me).await.unwrap(), Closed::Already);
    }
}

#[tokio::test]
async fn a_renewal_shows_what_the_session_holds() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let Renewed::Alive { held, .. } = renew(&farm.db, &me, TTL, &NodeReport::default()).await.unwrap() else {
        panic!("lost")
    };
    assert_eq!(held.len(), 1);
    assert_eq!(
        (held[0].run_id, held[0].attempt, held[0].cancel),
        (run.run_id, 1, false)
    );
}

#[tokio::test]
async fn an_expired_session_renews_no_more_and_its_runs_are_due_again() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", spec()).await;
    let renewals = farm.renewals("a").await;
    let Expired::Done { freed } = expire(&farm.db, "a", a.session, a.incarnation, renewals)
        .await
        .unwrap()
    else {
        panic!("changed")
    };
    assert_eq!(freed.len(), 1);
    assert_eq!(
        (freed[0].run_id, freed[0].to, freed[0].takeovers),
        (run.run_id, FreedTo::Due, 1)
    );
    assert_eq!(
        renew(&farm.db, &a, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Lost
    );

    let again = claim(&farm.db, &b, 10, None).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].run_id, again[0].attempt), (run.run_id, 2));
    assert!(again[0].fence > run.fence);
    farm.is("SELECT count(*) FROM farmhand.attempt WHERE outcome = 'lost'", 1)
        .await;
}

#[tokio::test]
async fn a_renewal_between_watching_and_expiring_keeps_the_session() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let renewals = farm.renewals("a").await;
    assert!(matches!(
        renew(&farm.db, &me, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Alive { .. }
    ));
    assert_eq!(
        expire(&farm.db, "a", me.session, me.incarnation, renewals)
            .await
            .unwrap(),
        Expired::Changed
    );
    assert!(matches!(
        renew(&farm.db, &me, Duration::from_secs(9), &NodeReport::default())
            .await
            .unwrap(),
        Renewed::Alive { .. }
    ));
}

#[tokio::test]
async fn readopting_goes_on_with_this_very_session_and_makes_no_row() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.node("b").await;
    let same = info("a", me.incarnation, json!({"role": "db"}));
    let renewals = farm.renewals("a").await;
    assert!(readopt(&farm.db, me.session, &same, false).await.unwrap());
    assert!(farm.renewals("a").await > renewals, "a challenger sees it");
    // Another address whose session has the same number, a number that is not its own, one that has no row.
    assert!(
        !readopt(&farm.db, me.session, &info("b", me.incarnation, json!({})), false)
            .await
            .unwrap()
    );
    assert!(!readopt(&farm.db, me.session + 1, &same, false).await.unwrap());
    assert!(
        !readopt(&farm.db, me.session, &info("c", me.incarnation, json!({})), false)
            .await
            .unwrap()
    );
    farm.is("SELECT count(*) FROM farmhand.node", 2).await;
    let renewals = farm.renewals("a").await;
    expire(&farm.db, "a", me.session, me.incarnation, renewals)
        .await
        .unwrap();
    assert!(!readopt(&farm.db, me.session, &same, false).await.unwrap());
}

#[tokio::test]
async fn a_node_that_leaves_is_draining_until_its_next_agent_whatever_an_operator_wants() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let same = info("a", me.incarnation, json!({}));
    let state = async || farm.text("SELECT state FROM farmhand.node").await.unwrap();
    let leaves = async |leaving| readopt(&farm.db, me.session, &same, leaving).await.unwrap();
    let told = async |order| withhold(&anna(&farm.db), "a", order, "eve").await.unwrap();
    let seen = async || poll(&farm.db, &me, &MarksBelow::default()).await.unwrap();
    assert!(leaves(true).await && seen().await.leaving);
    assert_eq!(state().await, "draining");
    assert!(!seen().await.draining, "no operator drained it");
    told(Withhold::Resume).await;
    assert_eq!(state().await, "draining", "it leaves all the same");
    // The next agent goes on with the session.
    assert!(leaves(false).await && !seen().await.leaving);
    assert_eq!(state().await, "ready");
    // What an operator wants outlives it.
    told(Withhold::Drain { within: None }).await;
    leaves(true).await;
    leaves(false).await;
    assert_eq!(state().await, "draining");
    told(Withhold::Resume).await;
    // It left in order: the next session is a new one.
    leaves(true).await;
    close(&farm.db, &me).await.unwrap();
    assert_eq!(state().await, "closed");
    farm.node("a").await;
    assert_eq!(state().await, "ready");
}
