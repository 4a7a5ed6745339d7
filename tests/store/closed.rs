//! What makes runs by itself makes none while claims are closed: their numbers may have been given already.

use farmhand_core::lease::Remembered;
use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{FinishResult, claim, finish, fire_boot, open_epoch, remind, settle, sweep};
use farmhand_store::tables::dispatch;

use crate::boots::boot_job;
use crate::epochs::{renewed, replace, shown};
use crate::fixture::{Farm, one, spec, success};
use crate::rounds::{claimed, done, live, looping, one_claimed};
use crate::triggers::after;

/// Opens claims, as an agent that remembers nothing.
async fn open(farm: &Farm) {
    let key = shown(farm).await.key();
    open_epoch(&farm.db, &key, "a", None)
        .await
        .unwrap()
        .expect("an epoch");
}

/// Runs made by triggers, by rows and by rounds.
async fn made(farm: &Farm) -> [i64; 3] {
    settle(&farm.db, None).await.unwrap();
    dispatch(&farm.db, "orders").await.unwrap();
    sweep(&farm.db).await.unwrap();
    let mut made = [0; 3];
    for (made, kind) in made.iter_mut().zip(["triggered", "table", "continuous"]) {
        *made = farm
            .i64(&format!(
                "SELECT count(*) FROM farmhand.run_live WHERE kind = '{kind}'"
            ))
            .await;
    }
    made
}

#[tokio::test]
async fn no_trigger_row_or_round_makes_a_run_while_claims_are_closed_and_none_is_lost() {
    let (farm, me) = crate::tables::farm_with(1, 5).await;
    farm.job("looping", looping(1), None).await;
    farm.due_runs("parent", 1).await;
    farm.job("child", after(&["parent"]), None).await;
    for run in claim(&farm.db, &me, 9, None).await.unwrap() {
        finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    }
    let rounds = "DELETE FROM farmhand.run_live";
    farm.exec(rounds).await;
    replace(&farm).await;
    assert_eq!(made(&farm).await, [0; 3]);
    open(&farm).await;
    assert_eq!(made(&farm).await, [1; 3]);
}

/// As in a copy: agents have seen the numbers up to `run`, and its sequence is behind them.
async fn copy_behind(farm: &Farm, me: &LeaseIdentity, run: i64) -> Remembered {
    let memory = Remembered {
        run,
        ..renewed(farm, me, 0).await
    };
    replace(farm).await;
    memory
}

#[tokio::test]
async fn the_end_of_a_round_waits_for_open_claims_and_the_next_round_gets_a_number_of_its_own() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("looping", looping(1), None).await;
    let run = one_claimed(&farm, &me).await;
    let memory = copy_behind(&farm, &me, run.run_id + 500).await;
    assert_eq!(one(&farm, done(&me, &run)).await, FinishResult::ClaimsClosed);
    let held = "SELECT count(*) FROM farmhand.run_live WHERE state = 'running'";
    assert_eq!(
        (farm.i64(held).await, live(&farm).await),
        (1, 1),
        "nothing is changed"
    );
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", Some(&memory)).await.unwrap();
    assert_eq!(one(&farm, done(&me, &run)).await, FinishResult::Done);
    let next = one_claimed(&farm, &me).await;
    assert!(next.run_id > memory.run, "{}", next.run_id);
}

#[tokio::test]
async fn the_end_of_a_round_that_moved_on_is_refused_once_claims_are_open() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("looping", looping(1), None).await;
    let mut run = one_claimed(&farm, &me).await;
    run.fence += 1;
    replace(&farm).await;
    assert_eq!(one(&farm, done(&me, &run)).await, FinishResult::ClaimsClosed);
    open(&farm).await;
    assert!(matches!(
        one(&farm, done(&me, &run)).await,
        FinishResult::Fenced { .. }
    ));
}

#[tokio::test]
async fn a_boot_waits_for_open_claims_and_is_fired_once() {
    let farm = Farm::new().await;
    farm.job("warm", boot_job(), None).await;
    let me = farm.node("a").await;
    let memory = copy_behind(&farm, &me, 5_000).await;
    assert_eq!(fire_boot(&farm.db, &me, "boot-1").await.unwrap(), None);
    assert_eq!(live(&farm).await, 0);
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", Some(&memory)).await.unwrap();
    let booted = fire_boot(&farm.db, &me, "boot-1").await.unwrap();
    assert_eq!(booted.expect("open claims").run_ids, [5_001]);
    let again = fire_boot(&farm.db, &me, "boot-1").await.unwrap();
    assert!(again.expect("open claims").run_ids.is_empty());
}

#[tokio::test]
async fn applying_a_continuous_job_makes_its_rounds_when_claims_are_open() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    replace(&farm).await;
    farm.job("looping", looping(2), None).await;
    assert_eq!(live(&farm).await, 0);
    open(&farm).await;
    sweep(&farm.db).await.unwrap();
    assert_eq!(claimed(&farm, &me).await.len(), 2);
}

#[tokio::test]
async fn what_is_submitted_while_claims_are_closed_has_a_number_above_those_of_the_agents_that_came() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", spec(), None).await;
    let memory = copy_behind(&farm, &me, 5_000).await;
    remind(&farm.db, &memory).await.unwrap();
    farm.is("SELECT farmhand.submit('j')", 5_001).await;
}
