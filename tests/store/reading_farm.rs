//! The farm as pages see it: its verdict, its lanes, its nodes, what changed.

use farmhand_core::explain::Gate;
use farmhand_store::events::{EventRow, record_events};
use farmhand_store::protocol::{NodeReport, claim, renew};
use farmhand_store::reading::{self, BarEnd, LeaseTrouble, Level, NodeState, Page, Paging, Reading, Window};
use farmhand_store::{Db, Severity, StoreError};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::fixture::{Farm, TTL, expire_now, one, past, spec, success};

async fn farm() -> (Farm, Db) {
    let farm = Farm::new().await;
    let reading = Reading::new(&farm.test.config()).db().clone();
    (farm, reading)
}

fn lately() -> Window {
    let now = Timestamp::now();
    Window {
        from: now - SignedDuration::from_mins(10),
        to: now + SignedDuration::from_mins(10),
        nodes: Vec::new(),
        job: None,
    }
}

#[tokio::test]
async fn an_empty_farm_and_a_working_one_are_well() {
    let (farm, db) = farm().await;
    assert_eq!(reading::farm(&db).await.unwrap().level, Level::Well);
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    one(&farm, success(&me, &run)).await;
    let now = reading::farm(&db).await.unwrap();
    assert_eq!((now.level, now.findings), (Level::Well, Vec::new()));
    assert_eq!(now.nodes.get(&NodeState::Ready), Some(&1));
    assert_eq!(now.next[0].job_id, "a");
}

#[tokio::test]
async fn what_is_late_stuck_failing_or_lost_is_named() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    farm.node("n2").await;
    let run = farm.held_run(&me, "bad", spec()).await;
    let mut end = success(&me, &run);
    end.state = farmhand_core::run::RunState::Failed;
    one(&farm, end).await;
    farm.job("late", spec(), Some(past(600))).await;
    let held = farm.held_run(&me, "stuck", spec()).await;
    farm.exec("UPDATE farmhand.node SET lease_until = now() - interval '1 minute' WHERE address = 'n1'")
        .await;
    let now = reading::farm(&db).await.unwrap();
    assert_eq!(now.level, Level::Trouble);
    assert_eq!(now.overdue[0].job_id, "late");
    assert_eq!(
        (now.stuck[0].run_id, now.stuck[0].state),
        (held.run_id, LeaseTrouble::Expired)
    );
    assert_eq!(
        (
            now.failing[0].job_id.as_str(),
            now.failing[0].consecutive_failures
        ),
        ("bad", 1)
    );
    assert_eq!(
        (now.lost[0].address.as_str(), now.lost[0].state),
        ("n1", NodeState::Expired)
    );
    expire_now(&farm, &me).await;
    let now = reading::farm(&db).await.unwrap();
    assert_eq!((now.lost[0].state, now.stuck.len()), (NodeState::Lost, 0));
    assert_eq!(now.oldest_due.unwrap().run_id, held.run_id);
}

#[tokio::test]
async fn a_run_that_never_started_is_stuck_once_although_its_timeout_is_over() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    let sql = "UPDATE farmhand.run_live SET claimed_at = now() - interval '5 minutes', hard_ms = 15000";
    farm.exec(sql).await;
    let now = reading::farm(&db).await.unwrap();
    let stuck = (now.stuck.len(), now.stuck[0].run_id, now.stuck[0].state);
    assert_eq!(stuck, (1, run.run_id, LeaseTrouble::Stalled));
    assert!(now.findings[0].text.starts_with("run "), "{:?}", now.findings);
}

/// Whoever may write jobs and runs can store one.
#[tokio::test]
async fn a_time_that_no_client_could_read_keeps_nobody_from_reading_lists() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    farm.held_run(&me, "a", spec()).await;
    let by_next = reading::JobsFilter {
        order: reading::JobOrder::Next,
        ..reading::JobsFilter::default()
    };
    for at in ["infinity", "-infinity", "12345-01-01Z"] {
        let sql = format!(
            "UPDATE farmhand.job SET next_run = '{at}'; UPDATE farmhand.run_live SET due_at = '{at}', started_at = '{at}'"
        );
        farm.exec(&sql).await;
        let now = reading::farm(&db).await.unwrap();
        let overdue = usize::from(at == "-infinity");
        assert_eq!((now.next.len(), now.overdue.len()), (1, overdue), "{at}");
        let first = Paging::default();
        let runs = reading::runs(&db, &reading::RunFilter::default(), &first).await;
        let jobs = reading::jobs(&db, &by_next, &first).await;
        let listed = (runs.unwrap().items.len(), jobs.unwrap().items.len());
        assert_eq!(listed, (1, 1), "{at}");
        farmhand_store::notify::health(&farm.db).await.unwrap();
    }
}

#[tokio::test]
async fn the_lanes_show_who_took_over_from_whom_and_mark_the_zombie() {
    let (farm, db) = farm().await;
    let (dead, heir) = (farm.node("n1").await, farm.node("n2").await);
    let run = farm.held_run(&dead, "a", spec()).await;
    expire_now(&farm, &dead).await;
    let again = claim(&farm.db, &heir, 1, None).await.unwrap().remove(0);
    let fenced = EventRow {
        kind: "fenced".to_owned(),
        severity: Severity::Warning,
        job_id: Some("a".to_owned()),
        run_id: Some(run.run_id),
        attempt: Some(1),
        address: Some("n1".to_owned()),
        session: None,
        fence: Some(run.fence),
        detail: json!({}),
    };
    record_events(&farm.db, &[fenced]).await.unwrap();

    let picture = reading::lanes(&db, &lately()).await.unwrap();
    assert_eq!(
        (picture.lanes.len(), picture.folded, picture.bands.len()),
        (2, 0, 0)
    );
    assert_eq!(picture.lanes[0].state, NodeState::Lost);
    let (lost, now) = (&picture.bars[0], &picture.bars[1]);
    assert_eq!(
        (lost.end, lost.node.as_str(), lost.fence),
        (BarEnd::Lost, "n1", run.fence)
    );
    let successor = lost.successor.as_ref().unwrap();
    assert_eq!((successor.node.as_str(), successor.fence), ("n2", again.fence));
    assert_eq!(lost.fenced[0].kind, "fenced");
    assert!(lost.gap_from.is_some());
    assert_eq!(
        (now.end, now.took_over_from, now.to),
        (BarEnd::Running, Some(1), None)
    );

    one(&farm, success(&heir, &again)).await;
    let only = Window {
        nodes: vec!["n2".to_owned()],
        job: Some("a".to_owned()),
        ..lately()
    };
    let picture = reading::lanes(&db, &only).await.unwrap();
    assert_eq!((picture.lanes.len(), picture.bars.len()), (1, 1));
    assert_eq!(picture.bars[0].end, BarEnd::Succeeded);
}

#[tokio::test]
async fn the_lanes_show_when_a_node_was_without_the_database() {
    let (farm, db) = farm().await;
    farm.node("n1").await;
    let back = EventRow {
        kind: "database_back".to_owned(),
        severity: Severity::Warning,
        job_id: None,
        run_id: None,
        attempt: None,
        address: Some("n1".to_owned()),
        session: None,
        fence: None,
        detail: json!({"away_ms": 42_000}),
    };
    record_events(&farm.db, &[back]).await.unwrap();
    let picture = reading::lanes(&db, &lately()).await.unwrap();
    let [outage] = &picture.outages[..] else {
        panic!("{:?}", picture.outages);
    };
    assert_eq!(outage.node, "n1");
    assert_eq!(outage.to.duration_since(outage.from).as_secs(), 42);
}

#[tokio::test]
async fn too_many_attempts_become_bands() {
    let (farm, db) = farm().await;
    farm.node("n1").await;
    farm.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, \
         ended_by, running_at, session, fence, attempt, retries, takeovers, params, created_at, claimed_at, \
         finished_at, first_due, last_due) \
         SELECT n, 'a', 1, 'submitted', 0, 1, now(), now(), CASE n % 10 WHEN 0 THEN 'failed' ELSE 'succeeded' END, \
         'holder', CASE n % 2 WHEN 0 THEN 'n1' ELSE 'gone' END, 1, n, 1, 0, 0, '{}', now(), \
         now() - interval '9 minutes', now() - (n % 480) * interval '1 second', now(), now() \
         FROM generate_series(1, 2500) n"
    ).await;
    let picture = reading::lanes(&db, &lately()).await.unwrap();
    assert!(picture.bars.is_empty());
    let sum = |of: fn(&reading::Band) -> i64| picture.bands.iter().map(of).sum::<i64>();
    assert_eq!((sum(|b| b.ended), sum(|b| b.bad)), (2500, 250));
    let nodes: std::collections::BTreeSet<_> = picture.bands.iter().map(|b| b.node.as_deref()).collect();
    assert_eq!(nodes, [None, Some("n1")].into());
}

#[tokio::test]
async fn among_too_many_attempts_the_lost_ones_and_their_successors_are_still_drawn() {
    let (farm, db) = farm().await;
    let (dead, heir) = (farm.node("n1").await, farm.node("n2").await);
    let ended = farm.held_run(&dead, "a", spec()).await;
    let running = farm.held_run(&dead, "b", spec()).await;
    expire_now(&farm, &dead).await;
    let again = claim(&farm.db, &heir, 2, None).await.unwrap();
    let over = again.iter().find(|r| r.run_id == ended.run_id).unwrap();
    one(&farm, success(&heir, over)).await;
    // They end before the heir does: it is not among the first 2,000 that are read.
    farm.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, \
         ended_by, running_at, session, fence, attempt, retries, takeovers, params, created_at, claimed_at, \
         finished_at, first_due, last_due) \
         SELECT 100000 + n, 'c', 1, 'submitted', 0, 1, now(), now(), 'succeeded', 'holder', 'n2', 1, n, 1, 0, 0, '{}', \
         now(), now() - interval '5 minutes', now() - interval '1 minute', now(), now() FROM generate_series(1, 2500) n; \
         INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome, ended_by) \
         SELECT 200000 + n, 'd', 1, 'n2', 1, n, now() - interval '5 minutes', now() - interval '1 minute', 'failed', 'holder' \
         FROM generate_series(1, 2500) n"
    ).await;
    let picture = reading::lanes(&db, &lately()).await.unwrap();
    assert!(!picture.bands.is_empty());
    let drawn: Vec<_> = (picture.bars.iter())
        .map(|b| {
            (
                b.run_id,
                b.attempt,
                b.end,
                b.took_over_from,
                b.successor.is_some(),
            )
        })
        .collect();
    assert_eq!(drawn.len(), 4, "{drawn:?}");
    for run in [&ended, &running] {
        let end = if run.run_id == ended.run_id {
            BarEnd::Succeeded
        } else {
            BarEnd::Running
        };
        assert!(
            drawn.contains(&(run.run_id, 1, BarEnd::Lost, None, true)),
            "{drawn:?}"
        );
        assert!(drawn.contains(&(run.run_id, 2, end, Some(1), false)), "{drawn:?}");
    }
}

#[tokio::test]
async fn a_nodes_clock_offset_is_as_its_last_renewal_told_it() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let shown = async || reading::node(&db, "n1").await.unwrap().unwrap().clock_offset_ms;
    assert_eq!(shown().await, None);
    for offset in [Some(-1_234), Some(7), None] {
        renew(
            &farm.db,
            &me,
            TTL,
            &NodeReport {
                clock_offset_ms: offset,
                ..NodeReport::default()
            },
        )
        .await
        .unwrap();
        assert_eq!(shown().await, offset);
    }
}

#[tokio::test]
async fn a_window_that_ends_before_it_begins_or_is_too_long_is_refused() {
    let (_farm, db) = farm().await;
    for days in [-1, 8] {
        let window = Window {
            to: lately().from + SignedDuration::from_hours(24 * days),
            ..lately()
        };
        let error = reading::lanes(&db, &window).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
    }
}

#[tokio::test]
async fn a_long_run_that_ended_after_the_window_is_in_it() {
    let (farm, db) = farm().await;
    farm.node("n1").await;
    farm.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, \
         ended_by, running_at, session, fence, attempt, retries, takeovers, params, created_at, claimed_at, \
         finished_at, first_due, last_due) \
         VALUES (1, 'a', 1, 'submitted', 0, 1, now(), now(), 'succeeded', 'holder', 'n1', 1, 1, 1, 0, 0, '{}', now(), \
         now() - interval '10 hours', now(), now(), now())"
    ).await;
    let window = Window {
        from: Timestamp::now() - SignedDuration::from_hours(5),
        to: Timestamp::now() - SignedDuration::from_hours(4),
        ..lately()
    };
    assert_eq!(reading::lanes(&db, &window).await.unwrap().bars.len(), 1);
}

#[tokio::test]
async fn nodes_leases_and_pools_are_paged_by_name() {
    let (farm, db) = farm().await;
    let me = farm.node_with("n1", json!({"role": "batch"})).await;
    farm.node("n2").await;
    let run = farm.held_run(&me, "a", spec()).await;
    let first = reading::nodes(&db, None, &Paging::first(1)).await.unwrap();
    let node = &first.items[0];
    assert_eq!(
        (node.address.as_str(), node.running, node.state),
        ("n1", 1, NodeState::Ready)
    );
    assert_eq!(
        (node.runs[0].run_id, node.labels["role"].as_str()),
        (run.run_id, "batch")
    );
    let rest = Paging {
        cursor: first.next,
        limit: None,
    };
    let second: Page<_> = reading::nodes(&db, None, &rest).await.unwrap();
    assert_eq!((second.items[0].address.as_str(), second.next), ("n2", None));
    let none = reading::nodes(&db, Some(NodeState::Lost), &Paging::default())
        .await
        .unwrap();
    assert!(none.items.is_empty() && reading::node(&db, "n9").await.unwrap().is_none());
    let leases = reading::leases(&db, &Paging::first(1)).await.unwrap();
    assert_eq!(leases.items[0].runs[0].run_id, run.run_id);
    let rest = Paging {
        cursor: leases.next,
        limit: None,
    };
    assert_eq!(reading::leases(&db, &rest).await.unwrap().items[0].address, "n2");
    assert!(
        reading::pools(&db, &Paging::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn why_a_job_does_not_run_is_explained() {
    let (farm, db) = farm().await;
    farm.job("a", spec(), None).await;
    let said = reading::explain(&db, "a", None).await.unwrap();
    assert_eq!(said.job_id, "a");
    let said = reading::explain(&db, "nothing", None).await.unwrap();
    assert_eq!(said.held_by, Some(Gate::Exists));
}

#[tokio::test]
async fn the_marks_move_when_something_changes() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let before = reading::marks(&db, None).await.unwrap();
    assert_eq!(before, reading::marks(&db, None).await.unwrap());
    let run = farm.held_run(&me, "a", spec()).await;
    let held = reading::marks(&db, before.ended_at).await.unwrap();
    assert!(held.jobs > before.jobs && held.runs > before.runs && held.live[0].run_id == run.run_id);
    one(&farm, success(&me, &run)).await;
    let ended = reading::marks(&db, held.ended_at).await.unwrap();
    assert!(ended.live.is_empty() && ended.ended_at > held.ended_at);
    assert_eq!(ended.ended, [run.run_id]);
    expire_now(&farm, &me).await;
    assert_ne!(reading::marks(&db, None).await.unwrap().nodes, ended.nodes);
}
