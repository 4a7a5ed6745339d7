//! Runs that only one node may run, and a node that will not.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::definition::{JobSpec, RunOn};
use farmhand_store::jobs::remove_node;
use farmhand_store::protocol::{abandon, claim, close, left_over, readopt};
use serde_json::json;

use crate::fixture::{Farm, info, past, spec};

const HOUR: Duration = Duration::from_secs(3600);

fn on_databases() -> JobSpec {
    JobSpec {
        run_on: RunOn::EachNode,
        placement: [("role".to_owned(), "db".to_owned())].into(),
        ..spec()
    }
}

/// A due run for each node that is a database.
async fn due(farm: &Farm) -> Vec<i64> {
    let at = past(60);
    farm.job("j", on_databases(), Some(at)).await;
    farm.fire_at("j", at, &[at]).await.remove(0).run_ids
}

#[tokio::test]
async fn a_run_for_a_node_whose_labels_changed_is_skipped_with_its_reason() {
    let farm = Farm::new().await;
    let a = farm.node_with("a", json!({"role": "db"})).await;
    let b = farm.node_with("b", json!({"role": "db"})).await;
    let runs = due(&farm).await;
    assert_eq!(runs.len(), 2);
    assert!(!left_over(&farm.db, HOUR).await.unwrap().to_abandon);
    let renamed = info("a", a.incarnation, json!({"role": "web"}));
    assert!(readopt(&farm.db, a.session, &renamed, false).await.unwrap());
    assert!(left_over(&farm.db, HOUR).await.unwrap().to_abandon);
    assert_eq!(abandon(&farm.db, HOUR).await.unwrap(), 1);
    let why = farm
        .text("SELECT state || ': ' || reason FROM farmhand.run_history WHERE node = 'a'")
        .await;
    assert_eq!(why.as_deref(), Some("skipped: the labels of its node changed"));
    assert_eq!(claim(&farm.db, &b, 9, None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_node_is_removed_when_its_session_is_over_and_its_runs_have_an_outcome() {
    let farm = Farm::new().await;
    let a = farm.node_with("a", json!({"role": "db"})).await;
    let runs = due(&farm).await;
    assert!(
        !remove_node(&anna(&farm.owner), "a", "tester").await.unwrap(),
        "it is open"
    );
    close(&farm.db, &a).await.unwrap();
    assert!(remove_node(&anna(&farm.owner), "a", "tester").await.unwrap());
    assert!(
        !remove_node(&anna(&farm.owner), "a", "tester").await.unwrap(),
        "it is gone"
    );
    farm.is("SELECT count(*) FROM farmhand.node", 0).await;
    farm.is_now(runs[0], "skipped", Some("its node was removed"))
        .await;
    let who = farm
        .text("SELECT detail->>'by' FROM farmhand.event WHERE kind = 'node_removed' AND address = 'a'")
        .await;
    assert_eq!(who.as_deref(), Some("tester"));
    // Its agent may come back.
    farm.node("a").await;
}

#[tokio::test]
async fn a_node_whose_run_is_not_free_yet_is_not_removed() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.held_run(&a, "j", spec()).await;
    let end = "UPDATE farmhand.node SET session = session + 1, open = false, lost_at = now()";
    farm.exec(end).await;
    assert!(!remove_node(&anna(&farm.owner), "a", "tester").await.unwrap());
}
