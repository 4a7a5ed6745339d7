//! One thing is told the same by every statement that tells it.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::health::{NodeFacts, NodeState};
use farmhand_core::run::RunState;
use farmhand_store::Severity;
use farmhand_store::events::{EventRow, record_events};
use farmhand_store::names::{Names, names};
use farmhand_store::protocol::{Finish, NodeInfo, finish};
use farmhand_store::reading::{self, EventsFilter, FarmNow, JobsFilter, Level, Paging, events_after};
use farmhand_store::snapshot::{stand, take};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Farm, expire_now, info, spec, success};
use crate::gates::{gated, locked, pooled};

fn texts(now: &FarmNow) -> Vec<String> {
    now.findings.iter().map(|found| found.text.clone()).collect()
}

/// The failing jobs of each place that names such jobs.
async fn failing(farm: &Farm) -> BTreeMap<&'static str, Vec<String>> {
    let now = reading::farm(&farm.db).await.unwrap();
    let filter = JobsFilter {
        state: "failing".parse().ok(),
        ..JobsFilter::default()
    };
    let listed = reading::jobs(&farm.db, &filter, &Paging::default())
        .await
        .unwrap();
    let seen = stand(&farm.db).await.unwrap();
    let taken = take(
        &farm.db,
        Uuid::from_u128(1),
        "a",
        seen,
        Some(Duration::from_secs(5)),
        Duration::from_secs(5),
        10,
    )
    .await;
    let metrics = taken.unwrap().expect("the lease").jobs;
    BTreeMap::from([
        ("verdict", now.failing.into_iter().map(|j| j.job_id).collect()),
        ("list", listed.items.into_iter().map(|j| j.job_id).collect()),
        (
            "metrics",
            (metrics.into_iter())
                .filter(|j| j.consecutive_failures > 0)
                .map(|j| j.job_id)
                .collect(),
        ),
    ])
}

#[tokio::test]
async fn a_failing_job_is_told_everywhere_and_nowhere_while_it_observes_or_is_paused_or_disabled() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for job in ["fails", "paused", "disabled", "observes"] {
        let run = farm.held_run(&me, job, spec()).await;
        let end = Finish {
            state: RunState::Failed,
            ..success(&me, &run)
        };
        finish(&farm.db, &[end]).await.unwrap();
    }
    for (_, jobs) in failing(&farm).await {
        assert_eq!(jobs.len(), 4, "{jobs:?}");
    }
    farm.exec(
        "UPDATE farmhand.job SET paused = true, paused_by = 'x', paused_at = now() WHERE job_id = 'paused';
             UPDATE farmhand.job SET enabled = false WHERE job_id = 'disabled';
             UPDATE farmhand.job SET observe = true WHERE job_id = 'observes'",
    )
    .await;
    let told = failing(&farm).await;
    let expected: BTreeMap<_, _> = (told.keys())
        .map(|place| (*place, vec!["fails".to_owned()]))
        .collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn every_list_of_nodes_has_one_word_for_each() {
    let farm = Farm::new().await;
    let mut sessions = Vec::new();
    for address in ["blocked", "cordoned", "expired", "lost", "ready"] {
        sessions.push(
            farm.opens(NodeInfo {
                ttl: Duration::from_secs(600),
                ..info(address, Uuid::new_v4(), json!({}))
            })
            .await,
        );
    }
    farm.held_run(&sessions[2], "j", spec()).await;
    expire_now(&farm, &sessions[3]).await;
    farm.exec(
        "UPDATE farmhand.node SET cannot_start = 'no more processes' WHERE address = 'blocked';
             UPDATE farmhand.node SET cordoned = true WHERE address = 'cordoned';
             UPDATE farmhand.node SET lease_until = now() - interval '1 minute' WHERE address = 'expired'",
    )
    .await;
    let all: BTreeMap<String, String> = ["blocked", "cordoned", "expired", "lost", "ready"]
        .map(|state| (state.to_owned(), state.to_owned()))
        .into();
    let open: BTreeMap<String, String> = (all.clone().into_iter()).filter(|(a, _)| a != "lost").collect();
    let (db, first) = (&farm.db, Paging::default());
    let page = reading::nodes(db, None, &first).await.unwrap().items.into_iter();
    assert_eq!(
        page.map(|n| (n.address, n.state.to_string()))
            .collect::<BTreeMap<_, _>>(),
        all
    );
    let hints = names(db, Names::Nodes, "").await.unwrap().into_iter();
    assert_eq!(
        hints
            .map(|n| (n.name, n.hint.unwrap_or_default()))
            .collect::<BTreeMap<_, _>>(),
        all
    );
    let leases = reading::leases(db, &first).await.unwrap().items.into_iter();
    assert_eq!(
        leases
            .map(|n| (n.address, n.state.to_string()))
            .collect::<BTreeMap<_, _>>(),
        open
    );
}

#[tokio::test]
async fn the_events_of_a_node_hold_the_end_of_its_session_by_another() {
    let farm = Farm::new().await;
    let event = |address: &str, detail| EventRow {
        kind: "expired".to_owned(),
        severity: Severity::Warning,
        job_id: None,
        run_id: None,
        attempt: None,
        address: Some(address.to_owned()),
        session: None,
        fence: None,
        detail,
    };
    let ended = [
        event("n2", json!({"expired": "n1"})),
        event("n2", json!({"expired": "n3"})),
    ];
    record_events(&farm.db, &ended).await.unwrap();
    for (node, events) in [("n1", 1), ("n2", 2), ("n3", 1), ("n4", 0)] {
        let filter = EventsFilter {
            node: Some(node.to_owned()),
            ..EventsFilter::default()
        };
        let after = events_after(&farm.db, &filter, 0, &[], 50).await.unwrap();
        let page = reading::events(&farm.db, &filter, &Paging::default())
            .await
            .unwrap();
        assert_eq!((after.len(), page.items.len()), (events, events), "{node}");
    }
}

#[tokio::test]
async fn the_verdict_names_what_a_run_waits_for_and_who_holds_it() {
    let farm = Farm::new().await;
    let me = farm.node("n1").await;
    let waited = "UPDATE farmhand.run_live SET ready_at = now() - interval '22 minutes', due_at = ready_at
        WHERE state = 'due'";
    farm.pool("db", 1).await;
    farm.needy("import", pooled("db")).await;
    farm.needy("export", pooled("db")).await;
    farm.submitted("import").await;
    let holder = gated(&farm, &me, 1).await[0].run_id;
    farm.exec("UPDATE farmhand.run_live SET started_at = now()").await;
    let waits = farm.submitted("export").await;
    farm.exec(waited).await;
    let now = reading::farm(&farm.db).await.unwrap();
    assert_eq!(
        (now.level, texts(&now)),
        (
            Level::Attention,
            vec![format!(
                "run {waits} of export has waited 22 min for pool db: run {holder} of import on n1 holds it"
            )]
        )
    );
    // Closed by its size, nothing holds it.
    farm.exec("DELETE FROM farmhand.run_live WHERE state = 'running'; UPDATE farmhand.pool SET size = 0")
        .await;
    let now = reading::farm(&farm.db).await.unwrap();
    assert_eq!(
        texts(&now),
        [format!(
            "run {waits} of export has waited 22 min for pool db, which has size 0"
        )]
    );
    farm.exec("DELETE FROM farmhand.run_live").await;
    farm.needy("one", locked(&["a", "b"])).await;
    farm.needy("two", locked(&["b"])).await;
    farm.submitted("one").await;
    let holder = gated(&farm, &me, 1).await[0].run_id;
    farm.exec("UPDATE farmhand.run_live SET started_at = now()").await;
    let waits = farm.submitted("two").await;
    farm.exec(waited).await;
    let now = reading::farm(&farm.db).await.unwrap();
    assert_eq!(
        texts(&now),
        [format!(
            "run {waits} of two has waited 22 min for lock b: run {holder} of one on n1 holds it"
        )]
    );
}

/// The database's word for a node is core's, for everything that it looks at.
#[tokio::test]
async fn the_database_decides_a_nodes_state_as_core_does() {
    let farm = Farm::new().await;
    farm.node("n1").await;
    for bits in 0..128_u8 {
        let bit = |n: u8| bits & (1 << n) != 0;
        let facts = NodeFacts {
            open: bit(0),
            over: bit(1),
            draining: bit(2) || bit(6),
            cordoned: bit(3),
            refuses: bit(4),
            ended_lately: bit(5),
        };
        let set = format!(
            "UPDATE farmhand.node SET open = {}, lease_until = now() + interval '{}', draining = {}, leaving = {}, cordoned = {},
                 cannot_start = {}, lost_at = now() - interval '{}'",
            facts.open,
            if facts.over { "-1 minute" } else { "1 minute" },
            bit(2),
            bit(6),
            facts.cordoned,
            if facts.refuses { "'no'" } else { "NULL" },
            if facts.ended_lately { "23 hours" } else { "25 hours" },
        );
        farm.exec(&set).await;
        let shown = reading::node(&farm.db, "n1").await.unwrap().unwrap().state;
        assert_eq!(shown, NodeState::of(&facts), "{facts:?}");
    }
}

#[tokio::test]
async fn a_node_that_cannot_start_runs_is_not_ready_for_the_sign_of_life_either() {
    let farm = Farm::new().await;
    farm.node("a").await;
    let ready = async || farmhand_store::notify::health(&farm.db).await.unwrap().ready;
    assert_eq!(ready().await, 1);
    let blocked = "UPDATE farmhand.node SET cannot_start = 'no more processes'";
    farm.exec(blocked).await;
    assert_eq!(ready().await, 0);
}
