//! Interleavings that only two connections can make, each held in place by a real lock.

use std::time::Duration;

use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{
    Attempt, Closed, Expired, FinishResult, FreedTo, NodeReport, Now, Renewed, claim, close, close_if,
    expire, finish, free_ended, left_over, renew, sweep,
};
use farmhand_tests::pg::Client;
use tokio_postgres::types::Type;

use crate::fixture::{Farm, TTL, past, spec, success, until_blocked};

const CLAIM: &str = include_str!("../../common/store/src/sql/claim.sql");

/// A claim whose transaction stays open.
async fn claim_in_flight(client: &Client, me: &LeaseIdentity, statement: &str) -> usize {
    client.exec("BEGIN").await;
    let none: Option<Vec<i64>> = None;
    let rows = client
        .query_typed(
            statement,
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
                (&10_i64, Type::INT8),
                (&none, Type::INT8_ARRAY),
            ],
        )
        .await
        .unwrap();
    rows.len()
}

async fn due_run(farm: &Farm, job_id: &str) -> i64 {
    let at = past(60);
    farm.job(job_id, spec(), Some(at)).await;
    farm.fire_at(job_id, at, &[at]).await[0].run_ids[0]
}

#[tokio::test]
async fn an_expire_waits_for_the_claim_in_flight_and_frees_what_it_claimed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run_id = due_run(&farm, "j").await;
    let renewals = farm.renewals("a").await;
    let claimer = farm.test.client().await;
    assert_eq!(claim_in_flight(&claimer, &me, CLAIM).await, 1);

    let (db, dead) = (farm.db.clone(), me.clone());
    let expiring = tokio::spawn(async move {
        expire(&db, "a", dead.session, dead.incarnation, renewals)
            .await
            .unwrap()
    });
    until_blocked(&farm).await;
    claimer.exec("COMMIT").await;

    let Expired::Done { freed } = expiring.await.unwrap() else {
        panic!("changed")
    };
    assert_eq!(
        freed.len(),
        1,
        "the claim was not in the first statement's snapshot"
    );
    assert_eq!((freed[0].run_id, freed[0].to), (run_id, FreedTo::Due));
    assert_eq!(farm.state(run_id).await.0, "due");
}

#[tokio::test]
async fn a_claim_that_waits_for_the_end_of_its_own_session_claims_nothing() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run_id = due_run(&farm, "j").await;
    let ender = farm.test.client().await;
    ender
        .exec("BEGIN; UPDATE farmhand.node SET session = session + 1, open = false")
        .await;

    let (db, late) = (farm.db.clone(), me.clone());
    let claiming = tokio::spawn(async move { claim(&db, &late, 10, None).await.unwrap() });
    until_blocked(&farm).await;
    ender.exec("COMMIT").await;
    assert_eq!(claiming.await.unwrap(), vec![]);
    assert_eq!(farm.state(run_id).await.0, "due");
}

#[tokio::test]
async fn a_renewal_does_not_wait_for_a_claim_in_flight() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    due_run(&farm, "j").await;
    let claimer = farm.test.client().await;
    assert_eq!(claim_in_flight(&claimer, &me, CLAIM).await, 1);
    assert!(matches!(
        renew(&farm.db, &me, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Alive { .. }
    ));
    claimer.exec("COMMIT").await;
}

#[tokio::test]
async fn a_close_waits_for_the_claim_in_flight_too() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run_id = due_run(&farm, "j").await;
    let claimer = farm.test.client().await;
    assert_eq!(claim_in_flight(&claimer, &me, CLAIM).await, 1);
    let (db, own) = (farm.db.clone(), me.clone());
    let closing = tokio::spawn(async move { close(&db, &own).await.unwrap() });
    until_blocked(&farm).await;
    claimer.exec("COMMIT").await;
    closing.await.unwrap();
    assert_eq!(farm.state(run_id).await.0, "due");
}

#[tokio::test]
async fn a_claim_that_commits_after_its_sessions_end_is_swept() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run_id = due_run(&farm, "j").await;
    let claimer = farm.test.client().await;
    // Without its lock the claim can be overtaken; the sweep must cope with whatever made it so.
    let unlocked = CLAIM.replace("FOR KEY SHARE OF n", "");
    assert_ne!(unlocked, CLAIM);
    assert_eq!(claim_in_flight(&claimer, &me, &unlocked).await, 1);
    let renewals = farm.renewals("a").await;
    assert_eq!(
        expire(&farm.db, "a", me.session, me.incarnation, renewals)
            .await
            .unwrap(),
        Expired::Done { freed: vec![] }
    );
    claimer.exec("COMMIT").await;
    assert_eq!(farm.state(run_id).await.0, "running");

    let hour = Duration::from_secs(3600);
    assert!(left_over(&farm.db, hour).await.unwrap().to_sweep());
    let freed = sweep(&farm.db).await.unwrap();
    assert_eq!(freed.len(), 1);
    assert_eq!(farm.state(run_id).await.0, "due");
    assert_eq!(sweep(&farm.db).await.unwrap(), vec![]);
    let left = left_over(&farm.db, hour).await.unwrap();
    assert!(!left.to_sweep() && !left.to_abandon);
}

#[tokio::test]
async fn an_end_that_waits_for_its_run_to_be_taken_away_changes_nothing() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let taker = farm.test.client().await;
    // What an expiry does to a held run, not yet committed.
    taker.exec(
        "BEGIN; UPDATE farmhand.run_live SET state = 'due', running_at = NULL, session = NULL, takeovers = 1"
    ).await;
    let (db, end) = (farm.db.clone(), success(&me, &run));
    let ending = tokio::spawn(async move { finish(&db, &[end]).await.unwrap() });
    until_blocked(&farm).await;
    taker.exec("COMMIT").await;
    let now = Now::Due { attempt: 1 };
    assert_eq!(
        ending.await.unwrap(),
        [(Attempt::from(&run), FinishResult::Fenced { now })]
    );
    assert_eq!(farm.state(run.run_id).await.0, "due");
    farm.is("SELECT count(*) FROM farmhand.run_history", 0).await;
}

#[tokio::test]
async fn an_end_that_waits_for_a_request_to_cancel_records_it() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let asker = farm.test.client().await;
    asker
        .exec("BEGIN; UPDATE farmhand.run_live SET cancel_by = 'ops'")
        .await;
    let (db, end) = (farm.db.clone(), success(&me, &run));
    let ending = tokio::spawn(async move { finish(&db, &[end]).await.unwrap() });
    until_blocked(&farm).await;
    asker.exec("COMMIT").await;
    assert_eq!(ending.await.unwrap(), [(Attempt::from(&run), FinishResult::Done)]);
    let kept = "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded' AND cancel_by = 'ops'";
    farm.is(kept, 1).await;
}

/// A transaction of somebody else's that has locked this run and goes on.
async fn lock_run(farm: &Farm, run_id: i64) -> Client {
    let other = farm.test.client().await;
    let lock = format!("BEGIN; SELECT FROM farmhand.run_live WHERE run_id = {run_id} FOR UPDATE");
    other.exec(&lock).await;
    other
}

#[tokio::test]
async fn a_run_that_somebody_has_locked_keeps_no_other_of_its_node_from_being_taken_over() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let first = farm.held_run(&me, "j", spec()).await.run_id;
    let second = farm.held_run(&me, "k", spec()).await.run_id;
    let other = lock_run(&farm, first).await;
    let renewals = farm.renewals("a").await;
    let expired = expire(&farm.db, "a", me.session, me.incarnation, renewals).await;
    let Expired::Done { freed } = expired.unwrap() else {
        panic!("changed")
    };
    assert_eq!(freed.iter().map(|f| f.run_id).collect::<Vec<_>>(), [second]);
    assert_eq!(farm.state(first).await.0, "running", "nobody may claim it");
    let hour = Duration::from_secs(3600);
    assert!(left_over(&farm.db, hour).await.unwrap().to_free);
    assert_eq!(sweep(&farm.db).await.unwrap(), vec![]);
    let again = free_ended(&farm.db).await.unwrap();
    assert_eq!((again.freed, again.left), (vec![], true));

    other.exec("ROLLBACK").await;
    let again = free_ended(&farm.db).await.unwrap();
    assert_eq!((again.freed.len(), again.left), (1, false));
    assert_eq!((again.freed[0].run_id, again.freed[0].takeovers), (first, 1));
    let again = free_ended(&farm.db).await.unwrap();
    assert_eq!((again.freed, again.left), (vec![], false));
    assert!(!left_over(&farm.db, hour).await.unwrap().to_free);
}

#[tokio::test]
async fn a_close_waits_for_whoever_has_locked_one_of_its_runs() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let first = farm.held_run(&me, "j", spec()).await.run_id;
    let second = farm.held_run(&me, "k", spec()).await.run_id;
    let other = lock_run(&farm, first).await;
    let (db, own) = (farm.db.clone(), me.clone());
    // It compares all that the session holds with what its agent knows: none may be left out.
    let closing = tokio::spawn(async move { close_if(&db, &own, &[], |freed| freed.run_id == second).await });
    until_blocked(&farm).await;
    other.exec("ROLLBACK").await;
    assert_eq!(closing.await.unwrap().unwrap(), Closed::Shared);
    assert_eq!(farm.state(first).await.0, "running");
    assert_eq!(farm.state(second).await.0, "running");
}

#[tokio::test]
async fn a_sweep_leaves_a_run_alone_that_a_newer_session_claims_just_now() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    // Session 1 ended, its run was left behind, and session 3 of the same address is open.
    let other = farm.test.client().await;
    other.exec("UPDATE farmhand.node SET session = 3").await;
    other
        .exec("BEGIN; UPDATE farmhand.run_live SET session = 3, attempt = attempt + 1")
        .await;
    assert_eq!(sweep(&farm.db).await.unwrap(), vec![]);
    other.exec("COMMIT").await;
    assert_eq!(sweep(&farm.db).await.unwrap(), vec![]);
    assert_eq!(farm.state(run.run_id).await.0, "running");
}

#[tokio::test]
async fn two_challengers_at_once_expire_one_session_once() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.held_run(&me, "j", spec()).await;
    let renewals = farm.renewals("a").await;
    let tries = (0..8).map(|_| {
        let (db, me) = (farm.db.clone(), me.clone());
        tokio::spawn(async move {
            expire(&db, "a", me.session, me.incarnation, renewals)
                .await
                .unwrap()
        })
    });
    let mut done = 0;
    for attempt in tries.collect::<Vec<_>>() {
        done += usize::from(matches!(attempt.await.unwrap(), Expired::Done { .. }));
    }
    assert_eq!(done, 1);
    farm.is("SELECT takeovers::bigint FROM farmhand.run_live", 1)
        .await;
}
