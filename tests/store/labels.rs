//! Which nodes the labels of a job let in.

use farmhand_core::definition::{JobSpec, RunOn};
use farmhand_store::protocol::claim;
use serde_json::json;

use crate::fixture::{Farm, past, spec};

#[tokio::test]
async fn a_list_of_values_lets_in_each_node_that_has_one_of_them() {
    let farm = Farm::new().await;
    let mut nodes = Vec::new();
    for (address, role) in [("a", "web"), ("b", "batch"), ("c", "db")] {
        let labels = json!({"node": address, "role": role});
        nodes.push(farm.node_with(address, labels).await);
    }
    let wanted = json!({"node": ["a", "b", "gone"], "role": ["batch", "db"]});
    let wanted = JobSpec {
        placement: serde_json::from_value(wanted).unwrap(),
        ..spec()
    };
    let at = past(60);
    farm.job("one", wanted.clone(), Some(at)).await;
    let each = JobSpec {
        run_on: RunOn::EachNode,
        ..wanted
    };
    farm.job("each", each, Some(at)).await;
    assert_eq!(farm.fire_at("each", at, &[at]).await[0].run_ids.len(), 1);
    farm.fire_at("one", at, &[at]).await;
    let [a, b, c] = &nodes[..] else {
        panic!("three nodes")
    };
    for other in [a, c] {
        assert_eq!(claim(&farm.db, other, 9, None).await.unwrap(), vec![]);
    }
    assert_eq!(claim(&farm.db, b, 9, None).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_node_has_no_label_that_says_it_is_another() {
    let farm = Farm::new().await;
    farm.node_with("a", json!({"node": "a"})).await;
    let as_b = "UPDATE farmhand.node SET labels = '{\"node\": \"b\"}' WHERE address = 'a'";
    let refused = farm.sql.batch_execute(as_b).await.unwrap_err();
    assert_eq!(
        refused.code(),
        Some(&tokio_postgres::error::SqlState::CHECK_VIOLATION)
    );
}
