use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::run::RunState;
use farmhand_store::jobs::{Cancelled, cancel};
use farmhand_store::protocol::{Attempt, FinishResult, Release, claim, release, retry, sweep};

use crate::fixture::{Farm, expire_now, failure, one, spec, success};

#[tokio::test]
async fn cancelling_a_due_run_ends_it_at_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    release(&farm.db, &me, &[Attempt::from(&run)], Release::Drained)
        .await
        .unwrap();
    assert_eq!(
        cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap(),
        Cancelled::Now
    );
    assert_eq!(farm.state(run.run_id).await.0, "cancelled");
    farm.says("SELECT cancel_by FROM farmhand.run_history", Some("eve"))
        .await;
    assert_eq!(
        cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap(),
        Cancelled::AlreadyFinal(RunState::Cancelled)
    );
    assert_eq!(
        cancel(&anna(&farm.db), 999_999, "eve").await.unwrap(),
        Cancelled::NotFound
    );
}

#[tokio::test]
async fn cancelling_a_held_run_asks_its_holder_and_survives_its_end() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let asked = Cancelled::Requested { node: "a".to_owned() };
    // The holder ends it.
    let run = farm.held_run(&a, "j", spec()).await;
    assert_eq!(cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap(), asked);
    assert_eq!(farm.state(run.run_id).await.0, "running");
    let mut end = success(&a, &run);
    end.state = RunState::Cancelled;
    assert_eq!(one(&farm, end).await, FinishResult::Done);
    // The holder retries it.
    let run = farm.held_run(&a, "k", spec()).await;
    cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap();
    let ended = retry(&farm.db, &[failure(&a, &run, Duration::ZERO)])
        .await
        .unwrap();
    assert_eq!(ended[0].1, FinishResult::Ended(RunState::Cancelled));
    // The holder is lost.
    let run = farm.held_run(&a, "l", spec()).await;
    cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap();
    expire_now(&farm, &a).await;
    assert_eq!(farm.state(run.run_id).await.0, "cancelled");
    assert!(claim(&farm.db, &b, 9, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_of_an_ended_session_is_cancelled_when_it_is_freed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    // As after an expiry that passed over it, because somebody had locked it.
    let end = "UPDATE farmhand.node SET session = session + 1, open = false, lost_at = now()";
    farm.exec(end).await;
    assert_eq!(
        cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap(),
        Cancelled::Held
    );
    // A new session of its node knows nothing of it.
    farm.node("a").await;
    assert_eq!(
        cancel(&anna(&farm.db), run.run_id, "eve").await.unwrap(),
        Cancelled::Held
    );
    assert_eq!(farm.state(run.run_id).await.0, "running");
    sweep(&farm.db).await.unwrap();
    assert_eq!(farm.state(run.run_id).await.0, "cancelled");
}
