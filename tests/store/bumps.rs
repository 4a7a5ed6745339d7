//! A new epoch by hand, and one whose number was guessed.

use farmhand_core::lease::Closed;
use farmhand_store::epochs;
use farmhand_store::protocol::{claim, vouch};
use farmhand_tests::acting::anna;

use crate::epochs::{open_epoch, renewed, replace, shown, told};
use crate::fixture::Farm;

#[tokio::test]
async fn a_bump_closes_claims_and_the_next_epoch_is_above_it() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 1).await;
    let memory = renewed(&farm, &me, 0).await;
    let before = epochs::newest(&farm.db).await.unwrap();
    let bumped = epochs::bump(&anna(&farm.owner), before.id, 7, "ops")
        .await
        .unwrap();
    assert_eq!(bumped, Some(8));
    let again = epochs::bump(&anna(&farm.owner), before.id, 7, "ops")
        .await
        .unwrap();
    assert_eq!(again, None, "of two one bumps");
    assert_eq!(told(&farm).await, [false; 5]);
    let now = epochs::newest(&farm.db).await.unwrap();
    assert_eq!(now.closed(), Some(Closed::Bumped));
    assert_eq!((now.opened_by.as_str(), now.open_nodes), ("ops", 1));
    assert_eq!(
        now.longest_lease_ms, before.longest_lease_ms,
        "the wait is not shorter"
    );
    assert!(
        !vouch(&farm.db, &memory).await.unwrap(),
        "it is watched all the same"
    );
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap(), vec![]);
    let audited = "SELECT actor FROM farmhand.audit ORDER BY audit_id DESC LIMIT 1";
    assert!(farm.text(audited).await.is_some_and(|by| by == "anna"));
    let key = shown(&farm).await.key();
    let epoch = open_epoch(&farm.db, &key, "a", Some(&memory)).await.unwrap();
    assert_eq!(epoch, Some(9));
    let claimed = claim(&farm.db, &me, 9, None).await.unwrap();
    assert_eq!(claimed[0].fence >> 40, 9);
}

#[tokio::test]
async fn a_replica_that_has_counted_less_than_its_rows_is_bumped_too() {
    let farm = Farm::new().await;
    let first = epochs::newest(&farm.db).await.unwrap();
    epochs::bump(&anna(&farm.owner), first.id, 0, "ops")
        .await
        .unwrap();
    let counted = "SELECT setval(pg_get_serial_sequence('farmhand.audit', 'audit_id'), 1, false)";
    assert_eq!(farm.i64(counted).await, 1, "as a logical replica has it");
    let now = epochs::newest(&farm.db).await.unwrap();
    let bumped = epochs::bump(&anna(&farm.owner), now.id, 0, "ops").await.unwrap();
    assert_eq!(bumped, Some(now.epoch + 1));
}

#[tokio::test]
async fn only_the_owner_bumps() {
    let farm = Farm::new().await;
    let now = epochs::newest(&farm.db).await.unwrap();
    let operator = farmhand_tests::pg::config(&farm.test.operator_url());
    let operator = farmhand_store::Db::connect(&operator).await.unwrap();
    assert_eq!(epochs::newest(&operator).await.unwrap(), now, "they see it");
    let refused = epochs::bump(&anna(&operator), now.id, 0, "ops").await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(shown(&farm).await.epoch, 1);
}

#[tokio::test]
async fn an_epoch_whose_number_was_guessed_says_so() {
    let farm = Farm::new().await;
    assert!(!epochs::newest(&farm.db).await.unwrap().guessed);
    replace(&farm).await;
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", None).await.unwrap();
    let guessed = epochs::newest(&farm.db).await.unwrap();
    assert!(guessed.guessed && guessed.open, "{guessed:?}");
    epochs::bump(&anna(&farm.owner), guessed.id, 0, "ops")
        .await
        .unwrap();
    let key = shown(&farm).await.key();
    open_epoch(&farm.db, &key, "a", None).await.unwrap();
    assert!(!epochs::newest(&farm.db).await.unwrap().guessed, "after a bump");
}
