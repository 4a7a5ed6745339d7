//! A stream that follows its file keeps its place from round to round, however one ends.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::run::RunState;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{cancel, pause, resume};
use farmhand_store::protocol::{Claimed, Lose, LostWhy, lose};

use crate::fixture::{Farm, one};
use crate::rounds::{checkpoint, failed, following, one_claimed, round};

async fn farm() -> (Farm, LeaseIdentity, Claimed) {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", following(), None).await;
    let run = one_claimed(&farm, &me).await;
    checkpoint(&farm, run.run_id).await;
    (farm, me, run)
}

async fn next(farm: &Farm, me: &LeaseIdentity) -> Option<String> {
    one_claimed(farm, me).await.checkpoint
}

const PLACE: Option<&str> = Some("line 7");

#[tokio::test]
async fn after_a_cancelled_wait() {
    let (farm, me, run) = farm().await;
    let end = round(&me, &run, RunState::Failed, Duration::from_secs(300));
    one(&farm, end).await;
    let waiting = farm.i64("SELECT run_id FROM farmhand.run_live").await;
    cancel(&anna(&farm.db), waiting, "ops").await.unwrap();
    assert_eq!(next(&farm, &me).await.as_deref(), PLACE);
}

#[tokio::test]
async fn after_nodes_that_were_lost_too_often() {
    let (farm, me, run) = farm().await;
    let often = "UPDATE farmhand.run_live SET takeovers = 5";
    farm.exec(often).await;
    let lost = Lose {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        address: me.address.clone(),
        session: me.session,
        why: LostWhy::Warden,
    };
    lose(&farm.db, &[lost]).await.unwrap();
    let over = "UPDATE farmhand.run_live SET ready_at = now()";
    farm.exec(over).await;
    assert_eq!(next(&farm, &me).await.as_deref(), PLACE);
}

#[tokio::test]
async fn over_a_pause() {
    for wait in [Duration::ZERO, Duration::from_secs(300)] {
        let (farm, me, run) = farm().await;
        one(&farm, round(&me, &run, RunState::Failed, wait)).await;
        pause(&anna(&farm.db), "loop", "ops", None).await.unwrap();
        resume(&anna(&farm.db), "loop", 1, None, &[], "ops")
            .await
            .unwrap();
        assert_eq!(next(&farm, &me).await.as_deref(), PLACE, "{wait:?}");
    }
}

#[tokio::test]
async fn a_round_that_was_cancelled_under_a_pause_has_the_next_begin_anew() {
    let (farm, me, run) = farm().await;
    pause(&anna(&farm.db), "loop", "ops", None).await.unwrap();
    let mut end = failed(&me, &run);
    end.state = RunState::Cancelled;
    one(&farm, end).await;
    resume(&anna(&farm.db), "loop", 1, None, &[], "ops")
        .await
        .unwrap();
    assert_eq!(next(&farm, &me).await, None);
}
