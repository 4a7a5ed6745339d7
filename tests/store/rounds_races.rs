//! A round's end against what changes its job meanwhile, each held in place by a real lock.

use farmhand_store::jobs::{ApplyOutcome, JobChange, apply, pause};
use farmhand_store::protocol::{Finish, FinishResult, claim, close, finish, sweep};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::Client;
use tokio_postgres::types::{Json, Type};

use crate::fixture::{Farm, expire_now, one, until_blocked};
use crate::rounds::{checkpoint, claimed, done, failed, following, live, looping, one_claimed};

const FINISH: &str = include_str!("../../common/store/src/sql/finish_round.sql");

/// An apply of the one job that there is, whose transaction stays open.
pub const APPLY: &str = "BEGIN; SELECT FROM farmhand.job FOR UPDATE;
     INSERT INTO farmhand.job_revision SELECT job_id, 2, spec, source, applied_by, applied_at
         FROM farmhand.job_revision;
     UPDATE farmhand.job SET rev = 2";

/// A round's end whose transaction stays open.
async fn finish_in_flight(client: &Client, end: &Finish) {
    client.exec("BEGIN").await;
    let ends = [end];
    client
        .query_typed(FINISH, &[(&Json(&ends[..]), Type::JSON)])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_pause_waits_for_the_end_in_flight_and_takes_the_round_it_made() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    let holder = farm.test.client().await;
    finish_in_flight(&holder, &done(&me, &run)).await;
    let db = farm.db.clone();
    let pausing = tokio::spawn(async move { pause(&anna(&db), "loop", "ops", None).await.unwrap() });
    until_blocked(&farm).await;
    holder.exec("COMMIT").await;
    pausing.await.unwrap();
    assert_eq!(live(&farm).await, 0);
}

#[tokio::test]
async fn an_end_that_waits_for_a_pause_makes_no_round() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    let ops = farm.test.client().await;
    let pausing = "BEGIN; SELECT FROM farmhand.job FOR UPDATE; UPDATE farmhand.job SET paused = true";
    ops.exec(pausing).await;
    let (db, end) = (farm.db.clone(), done(&me, &run));
    let finishing = tokio::spawn(async move { finish(&db, &[end]).await.unwrap() });
    until_blocked(&farm).await;
    ops.exec("COMMIT").await;
    assert_eq!(finishing.await.unwrap()[0].1, FinishResult::Done);
    assert_eq!(live(&farm).await, 0);
}

#[tokio::test]
async fn an_end_that_waits_for_an_apply_makes_a_round_of_the_new_revision() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    let ops = farm.test.client().await;
    ops.exec(&format!("{APPLY}, instances = 4")).await;
    let (db, end) = (farm.db.clone(), done(&me, &run));
    let finishing = tokio::spawn(async move { finish(&db, &[end]).await.unwrap() });
    until_blocked(&farm).await;
    ops.exec("COMMIT").await;
    finishing.await.unwrap();
    let next = one_claimed(&farm, &me).await;
    assert_eq!((next.rev, next.instances), (2, 4));
    sweep(&farm.db).await.unwrap();
    assert_eq!(claimed(&farm, &me).await.len(), 3, "a sweep makes what lacks");
}

#[tokio::test]
async fn an_end_that_waits_for_an_apply_hands_its_checkpoint_on() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", following(), None).await;
    let run = one_claimed(&farm, &me).await;
    checkpoint(&farm, run.run_id).await;
    let ops = farm.test.client().await;
    ops.exec(APPLY).await;
    let (db, end) = (farm.db.clone(), failed(&me, &run));
    let finishing = tokio::spawn(async move { finish(&db, &[end]).await.unwrap() });
    until_blocked(&farm).await;
    ops.exec("COMMIT").await;
    finishing.await.unwrap();
    assert_eq!(
        one_claimed(&farm, &me).await.checkpoint.as_deref(),
        Some("line 7")
    );
}

/// The revision is newer than what the claim's statement sees.
#[tokio::test]
async fn a_round_that_an_apply_renews_while_it_is_claimed_comes_with_its_definition() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let (ops, node) = (farm.test.client().await, farm.test.client().await);
    // The claim has its snapshot and waits for its node.
    let hold = "BEGIN; SELECT FROM farmhand.node FOR UPDATE";
    node.exec(hold).await;
    let (db, claimer) = (farm.db.clone(), me.clone());
    let claiming = tokio::spawn(async move { claim(&db, &claimer, 1, None).await.unwrap() });
    until_blocked(&farm).await;
    ops.exec(&format!("{APPLY}; UPDATE farmhand.run_live SET rev = 2; COMMIT"))
        .await;
    node.exec("COMMIT").await;
    let runs = claiming.await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].rev, runs[0].spec.is_null()), (2, false));
}

#[tokio::test]
async fn an_apply_waits_for_the_end_in_flight_and_renews_the_round_it_made() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("loop", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    let holder = farm.test.client().await;
    finish_in_flight(&holder, &done(&me, &run)).await;
    let db = farm.owner.clone();
    let change = JobChange {
        job_id: "loop".to_owned(),
        spec: looping(2),
        next_run: None,
        source: "test.toml".to_owned(),
    };
    let applying = tokio::spawn(async move { apply(&anna(&db), &[change], false, "ops").await.unwrap() });
    until_blocked(&farm).await;
    holder.exec("COMMIT").await;
    assert!(matches!(applying.await.unwrap(), ApplyOutcome::Done { .. }));
    let runs = claimed(&farm, &me).await;
    let seen: Vec<_> = runs.iter().map(|r| (r.instance, r.rev)).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(0, 2)) && seen.contains(&(1, 2)), "{seen:?}");
}

#[tokio::test]
async fn an_expiry_and_an_end_in_flight_leave_one_round_however_they_meet() {
    for end_first in [true, false] {
        let farm = Farm::new().await;
        let (a, b) = (farm.node("a").await, farm.node("b").await);
        farm.job("loop", looping(1), None).await;
        let run = one_claimed(&farm, &a).await;
        if end_first {
            let holder = farm.test.client().await;
            finish_in_flight(&holder, &done(&a, &run)).await;
            let (db, dead) = (farm.db.clone(), a.clone());
            let closing = tokio::spawn(async move { close(&db, &dead).await.unwrap() });
            until_blocked(&farm).await;
            holder.exec("COMMIT").await;
            closing.await.unwrap();
        } else {
            expire_now(&farm, &a).await;
            assert!(matches!(
                one(&farm, done(&a, &run)).await,
                FinishResult::Fenced { .. }
            ));
        }
        let next = one_claimed(&farm, &b).await;
        assert_eq!(next.run_id == run.run_id, !end_first);
        assert_eq!(live(&farm).await, 1);
    }
}

#[tokio::test]
async fn the_first_rounds_are_left_to_the_nodes_in_turn_and_later_ones_are_anybodys() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.job("loop", looping(5), None).await;
    let (first, second) = (claimed(&farm, &a).await, claimed(&farm, &b).await);
    let mut shares = [first.len(), second.len()];
    shares.sort_unstable();
    assert_eq!(shares, [2, 3], "though one node has room for all of them");
    for (me, runs) in [(&a, &first), (&b, &second)] {
        let ends: Vec<Finish> = runs.iter().map(|r| done(me, r)).collect();
        finish(&farm.db, &ends).await.unwrap();
    }
    assert_eq!(claimed(&farm, &a).await.len(), 5);
}

#[tokio::test]
async fn a_first_round_that_its_node_does_not_take_is_anybodys_after_three_seconds() {
    let farm = Farm::new().await;
    let (a, _b) = (farm.node("a").await, farm.node("b").await);
    farm.job("loop", looping(4), None).await;
    assert_eq!(claimed(&farm, &a).await.len(), 2);
    farm.sql
        .exec_with(
            "UPDATE farmhand.run_live SET ready_at = ready_at - interval '3 seconds' WHERE state = 'due'",
            &[],
        )
        .await;
    assert_eq!(claimed(&farm, &a).await.len(), 2);
}
