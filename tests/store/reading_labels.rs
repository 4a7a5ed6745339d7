//! Lists of runs by a label of their job and by a parameter.

use farmhand_core::run::RunState;
use farmhand_store::jobs::submit;
use farmhand_store::protocol::claim;
use farmhand_store::reading::{self, RunFilter};
use serde_json::json;

use super::fixture::{one, past, spec, success};
use super::reading::{farm, page};

#[tokio::test]
async fn runs_are_filtered_by_a_label_of_their_job_and_by_a_parameter_in_each_list() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let mut placed = spec();
    placed.placement = serde_json::from_value(json!({"role": ["batch", "gpu"]})).unwrap();
    let tenant = json!({"type": "integer", "default": 7});
    placed.params = [("tenant".to_owned(), serde_json::from_value(tenant).unwrap())].into();
    farm.job("placed", placed, None).await;
    farm.job("other", spec(), None).await;
    let mut made = Vec::new();
    for (job, params) in [
        ("placed", json!({})),
        ("placed", json!({"tenant": 8})),
        ("other", json!({})),
    ] {
        made.push(submit(&farm.db, job, &params, None, None).await.unwrap());
    }
    let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
    let filters = |base: &RunFilter| {
        [
            ("role", "batch", "", ""),
            ("role", "web", "", ""),
            ("", "", "tenant", "7"),
            ("role", "batch", "tenant", "8"),
            ("", "", "tenant", "9"),
        ]
        .map(|(label, is, param, value)| RunFilter {
            label: pair(label, is).filter(|(label, _)| !label.is_empty()),
            param: pair(param, value).filter(|(param, _)| !param.is_empty()),
            ..base.clone()
        })
    };
    let expected: [&[i64]; 5] = [&[made[1], made[0]], &[], &[made[0]], &[made[1]], &[]];
    let check = async |base: RunFilter| {
        for (filter, wanted) in filters(&base).into_iter().zip(expected) {
            let list = reading::runs(&db, &filter, &page(None, 10)).await.unwrap();
            let found: Vec<i64> = list.items.iter().map(|run| run.run_id).collect();
            assert_eq!(found, wanted, "{filter:?}");
        }
    };
    check(RunFilter::default()).await;
    check(RunFilter {
        states: vec![RunState::Due],
        ..RunFilter::default()
    })
    .await;
    let labelled = farm.node_with("n2", json!({"role": "batch"})).await;
    for node in [&me, &labelled] {
        for run in claim(&farm.db, node, 3, None).await.unwrap() {
            let mut bad = success(node, &run);
            bad.state = RunState::Failed;
            one(&farm, bad).await;
        }
    }
    check(RunFilter {
        states: vec![RunState::Failed],
        ..RunFilter::default()
    })
    .await;
    check(RunFilter {
        since: Some(past(3600)),
        ..RunFilter::default()
    })
    .await;
}
