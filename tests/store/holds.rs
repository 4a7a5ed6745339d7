use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_core::lease::MarksBelow;
use farmhand_store::protocol::{
    Expired, FinishResult, FreedTo, claim, claim_any, close, database, expire, finish, poll, raise_held,
    release_held, sweep,
};

use uuid::Uuid;

use crate::fixture::{Farm, past, spec, success};

fn holding() -> JobSpec {
    JobSpec {
        hold: Duration::from_secs(600),
        ..spec()
    }
}

async fn expire_now(farm: &Farm, me: &farmhand_store::LeaseIdentity) {
    let renewals = farm.renewals(&me.address).await;
    let done = expire(&farm.db, &me.address, me.session, me.incarnation, renewals)
        .await
        .unwrap();
    assert_eq!(
        done,
        Expired::Done { freed: vec![] },
        "a hold outlives its session"
    );
}

#[tokio::test]
async fn a_held_run_survives_expire_and_sweep_and_is_claimed_by_nobody() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", holding()).await;
    expire_now(&farm, &a).await;
    assert_eq!(sweep(&farm.db).await.unwrap(), vec![]);
    assert!(claim(&farm.db, &b, 9, None).await.unwrap().is_empty());
    assert_eq!(farm.state(run.run_id).await.0, "running");

    let seen = poll(&farm.db, &b, &MarksBelow::default()).await.unwrap();
    assert_eq!(seen.orphans.len(), 1);
    let orphan = &seen.orphans[0];
    assert_eq!(
        (orphan.run_id, orphan.attempt, orphan.session),
        (run.run_id, 1, a.session)
    );
    assert_eq!((orphan.hold_ms, orphan.ttl_ms), (600_000, 30_000));
}

#[tokio::test]
async fn a_held_over_run_is_released_exactly_once() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let run = farm.held_run(&a, "j", holding()).await;
    // Not while its session lives.
    assert_eq!(
        release_held(&farm.db, run.run_id, 1, "a", a.session)
            .await
            .unwrap(),
        None
    );
    expire_now(&farm, &a).await;
    let racing = (0..6).map(|_| {
        let (db, session) = (farm.db.clone(), a.session);
        tokio::spawn(async move { release_held(&db, run.run_id, 1, "a", session).await.unwrap() })
    });
    let mut freed = Vec::new();
    for r in racing.collect::<Vec<_>>() {
        freed.extend(r.await.unwrap());
    }
    assert_eq!(freed.len(), 1);
    assert_eq!((freed[0].to, freed[0].takeovers), (FreedTo::Due, 1));
    let again = claim(&farm.db, &b, 9, None).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].attempt, 2);
    // The one who held it comes back too late.
    farm.node("a").await;
    let answer = finish(&farm.db, &[success(&a, &run)]).await.unwrap().remove(0).1;
    assert!(matches!(answer, FinishResult::Fenced { .. }));
}

#[tokio::test]
async fn a_held_attempt_that_ends_under_its_old_session_is_recorded() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let run = farm.held_run(&a, "j", holding()).await;
    expire_now(&farm, &a).await;
    let answer = finish(&farm.db, &[success(&a, &run)]).await.unwrap().remove(0).1;
    assert_eq!(answer, FinishResult::Done);
    assert_eq!(farm.state(run.run_id).await.0, "succeeded");
}

#[tokio::test]
async fn a_close_ends_holds_too() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let run = farm.held_run(&a, "j", holding()).await;
    close(&farm.db, &a).await.unwrap();
    assert_eq!(farm.state(run.run_id).await.0, "due");
}

#[tokio::test]
async fn a_close_leaves_alone_what_an_earlier_session_holds_on() {
    let farm = Farm::new().await;
    let first = farm.node("a").await;
    let run = farm.held_run(&first, "j", holding()).await;
    expire_now(&farm, &first).await;
    // Another machine gets the address, while the attempt lives on where it was.
    let second = farm.node("a").await;
    close(&farm.db, &second).await.unwrap();
    assert_eq!(farm.state(run.run_id).await.0, "running");
    assert!(
        release_held(&farm.db, run.run_id, run.attempt, "a", first.session)
            .await
            .unwrap()
            .is_some()
    );
}

/// In a new epoch an attempt with a hold may live that the database does not know.
#[tokio::test]
async fn a_run_with_a_hold_waits_until_its_hold_is_over_in_this_epoch() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let at = past(60);
    farm.job("j", holding(), Some(at)).await;
    farm.fire_at("j", at, &[at]).await;
    farm.sql
        .batch_execute("UPDATE farmhand.epoch SET held_ms = 0")
        .await
        .unwrap();
    let epoch = database(&farm.db).await.unwrap().id;
    raise_held(&farm.db, epoch, Duration::from_secs(599))
        .await
        .unwrap();
    assert!(claim_any(&farm.db, &me, 9, true).await.unwrap().is_empty());
    // Of another epoch, and one that is less.
    raise_held(&farm.db, Uuid::new_v4(), Duration::from_secs(900))
        .await
        .unwrap();
    raise_held(&farm.db, epoch, Duration::from_secs(5)).await.unwrap();
    assert_eq!(farm.i64("SELECT held_ms FROM farmhand.epoch").await, 599_000);
    raise_held(&farm.db, epoch, Duration::from_secs(600))
        .await
        .unwrap();
    assert_eq!(claim_any(&farm.db, &me, 9, true).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_hold_is_not_over_because_its_node_is_back() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.held_run(&a, "j", holding()).await;
    let old = "UPDATE farmhand.run_live SET claimed_at = now() - interval '1 h', started_at = now() - interval '1 h'";
    farm.sql.batch_execute(old).await.unwrap();
    expire_now(&farm, &a).await;
    farm.node("a").await;
    let now = farmhand_store::reading::farm(&farm.db).await.unwrap();
    assert!(now.stuck.is_empty(), "{:?}", now.stuck);
    let seen = farmhand_store::snapshot::stand(&farm.db).await.unwrap();
    let limit = Duration::from_secs(5);
    let taken = farmhand_store::snapshot::take(&farm.db, seen.holder, "a", seen, None, limit, 10).await;
    assert!(taken.unwrap().unwrap().stuck.is_empty());
}

#[tokio::test]
async fn hundreds_of_held_runs_are_watched_at_once() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.held_run(&a, "j", holding()).await;
    let copies = "INSERT INTO farmhand.run_live SELECT (json_populate_record(r, json_build_object('run_id', r.run_id + i,
             'due_at', r.due_at - i * interval '1 hour'))).* FROM farmhand.run_live r, generate_series(1, 250) i";
    farm.sql.batch_execute(copies).await.unwrap();
    expire_now(&farm, &a).await;
    let seen = poll(&farm.db, &b, &MarksBelow::default()).await.unwrap();
    assert_eq!(seen.orphans.len(), 251);
}
