//! `catch_up.within`: what nobody claims in time is skipped.

use std::time::Duration;

use farmhand_core::definition::{CatchUp, JobSpec, Overlap};
use farmhand_core::lease::MarksBelow;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{Retried, retry_run, submit};
use farmhand_store::protocol::{end_late, finish, left_over, poll};
use farmhand_tests::acting::anna;
use serde_json::json;

use crate::fixture::{Farm, expire_now, past, spec, success};
use crate::gates::gated;
use crate::overlap::{claims, due_again};
use crate::triggers::{after, ends};

const HOUR: Duration = Duration::from_secs(3600);

/// A job whose runs wait for so many seconds.
fn within(seconds: u64, overlap: Overlap) -> JobSpec {
    JobSpec {
        overlap,
        catch_up: CatchUp {
            within: Some(Duration::from_secs(seconds)),
            ..CatchUp::default()
        },
        ..spec()
    }
}

/// Runs that a node claims, with needs and without.
async fn taken(farm: &Farm, me: &LeaseIdentity) -> usize {
    gated(farm, me, 9).await.len() + claims(farm, me).await.len()
}

#[tokio::test]
async fn what_nobody_claims_in_time_is_skipped_and_keeps_nothing_waiting() {
    for locks in [Vec::new(), vec!["l".to_owned()]] {
        let farm = Farm::new().await;
        let me = farm.node("a").await;
        let job = JobSpec {
            locks,
            ..within(3600, Overlap::Skip)
        };
        farm.job("j", job, Some(past(7200))).await;
        let late = farm.fire_at("j", past(7200), &[past(7200)]).await[0].run_ids[0];
        assert_eq!(taken(&farm, &me).await, 0);
        let now = poll(&farm.db, &me, &MarksBelow::default()).await.unwrap();
        assert_eq!((now.earliest_ready, now.gated_at), (None, None));
        due_again(&farm, past(60)).await;
        assert_eq!(farm.fire_at("j", past(60), &[past(60)]).await[0].run_ids.len(), 1);
        assert_eq!(taken(&farm, &me).await, 1, "the next instant is in time");

        assert!(left_over(&farm.db, HOUR).await.unwrap().too_late);
        let ended = end_late(&farm.db).await.unwrap();
        assert_eq!((ended[0].job_id.as_str(), ended[0].skipped[0].count), ("j", 1));
        assert!(!left_over(&farm.db, HOUR).await.unwrap().too_late);
        farm.is_now(late, "skipped", Some("too_late")).await;
    }
}

#[tokio::test]
async fn what_was_claimed_once_or_made_by_hand_is_never_too_late() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.job("j", within(3600, Overlap::Allow), Some(past(3000)))
        .await;
    farm.fire_at("j", past(3000), &[past(3000)]).await;
    assert_eq!(claims(&farm, &a).await.len(), 1);
    expire_now(&farm, &a).await;
    submit(&farm.db, "j", &json!({}), Some(past(7200)), None)
        .await
        .unwrap();
    // As old as if an hour had passed.
    farm.exec("UPDATE farmhand.run_live SET expires_at = expires_at - interval '1 hour'")
        .await;
    let held = claims(&farm, &b).await;
    assert_eq!(held.len(), 2, "one taken over, one by hand");
    finish(&farm.db, &[success(&b, &held[0])]).await.unwrap();
    let again = retry_run(&anna(&farm.db), held[0].run_id, "eve", false, None)
        .await
        .unwrap();
    assert!(matches!(again, Retried::Run(_)));
    farm.is(
        "SELECT count(*) FROM farmhand.run_live WHERE expires_at IS NOT NULL",
        0,
    )
    .await;
}

#[tokio::test]
async fn a_triggered_run_has_its_time_from_the_end_that_triggered_it() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("parent", spec(), Some(past(7200))).await;
    let child = JobSpec {
        catch_up: within(3600, Overlap::Skip).catch_up,
        ..after(&["parent"])
    };
    farm.job("child", child, None).await;
    farm.fire_at("parent", past(7200), &[past(7200)]).await;
    let run = claims(&farm, &me).await.remove(0);
    ends(&farm, success(&me, &run)).await;
    farm.is(
        "SELECT count(*) FROM farmhand.run_live WHERE job_id = 'child' AND expires_at - created_at
            BETWEEN interval '59 minutes' AND interval '61 minutes'",
        1,
    )
    .await;
    assert_eq!(claims(&farm, &me).await.len(), 1);
}

#[tokio::test]
async fn what_waited_for_too_long_is_not_let_go() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", within(3600, Overlap::Queue), Some(past(3000)))
        .await;
    farm.fire_at("j", past(3000), &[past(3000), past(2000), past(1000)])
        .await;
    let run = claims(&farm, &me).await.remove(0);
    farm.exec(
        "UPDATE farmhand.run_live SET expires_at = now() WHERE expires_at < now() + interval '30 minutes'",
    )
    .await;
    finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    assert_eq!(claims(&farm, &me).await.remove(0).due_at, past(1000));
    assert_eq!(end_late(&farm.db).await.unwrap()[0].skipped[0].count, 1);
}
