//! What makes runs by itself makes none while claims are closed: their numbers may have been given already.

use farmhand_store::protocol::{claim, finish, open_epoch, settle, sweep};
use farmhand_store::tables::dispatch;

use crate::epochs::{replace, shown};
use crate::fixture::{Farm, success};
use crate::rounds::looping;
use crate::triggers::after;

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
    farm.sql.batch_execute(rounds).await.unwrap();
    replace(&farm).await;
    assert_eq!(made(&farm).await, [0; 3]);
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", None).await.unwrap();
    assert_eq!(made(&farm).await, [1; 3]);
}
