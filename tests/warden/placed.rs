//! A signed definition says on which nodes it runs, and as how many instances: the warden holds a run's row against it.

use farmhand_core::definition::JobSpec;
use serde_json::json;

use crate::harness::id;
use crate::trust::Node;

/// What a run's row says beside the signed definition: which node, which instance, of what.
#[tokio::test]
async fn a_run_that_its_signed_definition_could_not_have_made_is_refused() {
    let mut node = Node::new().await;
    let table = |name: &str| json!({"name": name, "key": "id", "dispatch": "at", "max_running": 1});
    let each = json!({"command": "echo here", "run_on": "each-node"});
    let shards = json!({"command": "echo here", "instances": 3});
    let rows = json!({"command": ["echo", "here"], "table": table("orders")});
    let one = json!({"command": "echo here"});
    let zone = json!({"command": "echo here", "where": {"zone": "a"}});
    let there = json!({"command": "echo here", "where": {"node": ["n2", "n3"]}});
    for (nth, (definition, row, said)) in [
        (&each, json!({"node": "n1"}), Ok("here\n")),
        (&each, json!({"node": "n2"}), Err("for the node n2 alone")),
        (&each, json!({}), Err("the run names none")),
        (&one, json!({"node": "n2"}), Err("for the node n2 alone")),
        (&one, json!({"node": "n1"}), Ok("here\n")),
        (&shards, json!({"instance": 2, "instances": 3}), Ok("here\n")),
        (
            &shards,
            json!({"instance": 3, "instances": 3}),
            Err("instance 3 of 3"),
        ),
        (
            &shards,
            json!({"instance": 0, "instances": 2}),
            Err("instance 0 of 2"),
        ),
        (
            &shards,
            json!({"instance": -1, "instances": 3}),
            Err("instance -1 of 3"),
        ),
        (
            &one,
            json!({"instance": 1, "instances": 2}),
            Err("the definition has 1"),
        ),
        (&zone, json!({}), Err("the label zone=a")),
        (&there, json!({}), Err("the label node=n2 or n3")),
        (&one, json!({"kind": "continuous"}), Err("of the kind continuous")),
        (&one, json!({"kind": "table"}), Err("of the kind table")),
        (&rows, json!({"kind": "table", "key": "1"}), Ok("here 1\n")),
        (
            &rows,
            json!({"kind": "table", "key": "1", "spec": table("salaries")}),
            Err("not the one that"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let parsed: JobSpec = serde_json::from_value(definition.clone()).unwrap();
        let signed = node.sign("a", nth as u64 + 1, &parsed);
        let mut stored = serde_json::to_value(&parsed).unwrap();
        let mut row = row;
        if let Some(other) = row.as_object_mut().unwrap().remove("spec") {
            // The table of another definition.
            let mut changed = definition.clone();
            changed["table"] = other;
            stored = serde_json::to_value(serde_json::from_value::<JobSpec>(changed).unwrap()).unwrap();
        }
        let mut request = node.order(id(nth as i64 + 1, 1), "a", &stored, Some(signed));
        let order = request.order.as_mut().unwrap();
        let mut claimed = serde_json::to_value(&order.claimed).unwrap();
        claimed
            .as_object_mut()
            .unwrap()
            .extend(row.as_object().unwrap().clone());
        order.claimed = serde_json::from_value(claimed).unwrap();
        match said {
            Ok(said) => assert_eq!(node.says(request).await, said),
            Err(why) => {
                let refused = node.refused(request).await;
                assert!(refused.contains(why), "{row}: {refused}");
            }
        }
    }
}
