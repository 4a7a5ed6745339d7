//! Runs that take longer than usual, and nodes that come and go.

use std::time::Duration;

use farmhand_core::durations::Exceeded;
use farmhand_store::protocol::claim;
use farmhand_store::reading;
use farmhand_store::slow::{Running, mark};
use farmhand_store::snapshot::{self, FarmSnapshot};

use farmhand_core::notify::{TargetSpec, Topic};

use crate::fixture::{Farm, expire_now, one, spec, success};
use crate::notify;

const HOUR: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(5);

fn minute() -> Exceeded {
    Exceeded {
        p95: Duration::from_secs(60),
        runs: 40,
    }
}

/// Its attempt has run for so long.
async fn started(farm: &Farm, run: i64, seconds: i64) {
    let sql = format!(
        "UPDATE farmhand.run_live SET started_at = now() - interval '{seconds} s', claimed_at = now() - interval '{seconds} s'
         WHERE run_id = {run}"
    );
    farm.exec(&sql).await;
}

async fn gauges(farm: &Farm) -> FarmSnapshot {
    let stand = snapshot::stand(&farm.db).await.unwrap();
    let taken = snapshot::take(&farm.db, stand.holder, "a", stand, Some(LIMIT), LIMIT, 10).await;
    taken.unwrap().unwrap()
}

async fn found(farm: &Farm) -> Vec<Running> {
    gauges(farm).await.running
}

async fn causes(farm: &Farm) -> Vec<String> {
    let now = reading::farm(&farm.db).await.unwrap();
    now.findings.iter().map(|f| f.causes[0].to_string()).collect()
}

#[tokio::test]
async fn a_slow_run_is_one_event_and_shown_everywhere_until_it_ends() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    started(&farm, run.run_id, 5).await;
    assert!(found(&farm).await.is_empty(), "ten seconds are the least");
    started(&farm, run.run_id, 7200).await;
    let seen = found(&farm).await;
    assert_eq!(
        (seen.len(), seen[0].run_id, seen[0].node.as_str()),
        (1, run.run_id, "a")
    );
    assert!(seen[0].lasted() >= 2 * HOUR && seen[0].lasted() < 3 * HOUR);
    assert_eq!(
        mark(&farm.db, &[(&seen[0], minute())]).await.unwrap(),
        [run.run_id]
    );
    assert!(
        mark(&farm.db, &[(&seen[0], minute())]).await.unwrap().is_empty(),
        "no news"
    );
    assert!(found(&farm).await.is_empty(), "it is known");

    // The verdict, the run, the gauges.
    let now = reading::farm(&farm.db).await.unwrap();
    let texts: Vec<_> = now.findings.iter().map(|f| f.text.as_str()).collect();
    let why = "longer than usual: 95 of 100 of its last 40 successes took at most 1m";
    assert_eq!(
        texts,
        [format!("run {} of j has run for 120 min on a, {why}", run.run_id)]
    );
    let detail = reading::run(&farm.db, run.run_id).await.unwrap().unwrap();
    assert_eq!(detail.exceeded, Some(minute()));
    let gauges = gauges(&farm).await;
    assert_eq!((gauges.slow_runs, gauges.slow[0].job_id.as_str()), (1, "j"));
    assert!(gauges.slow[0].age >= 7200.0 && !gauges.slow_ended, "{gauges:?}");

    // Another attempt is slow by itself, and nobody is told of it again.
    let cause = format!("slow:{}", run.run_id);
    assert_eq!(causes(&farm).await, [cause.as_str()]);
    expire_now(&farm, &me).await;
    let me = farm.node("a").await;
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    started(&farm, run.run_id, 600).await;
    assert!(causes(&farm).await.is_empty(), "an earlier attempt says nothing");
    let seen = found(&farm).await;
    assert!(mark(&farm.db, &[(&seen[0], minute())]).await.unwrap().is_empty());
    assert_eq!(causes(&farm).await, [cause]);

    one(&farm, success(&me, &again)).await;
    assert!(causes(&farm).await.is_empty());
    assert_eq!(
        reading::run(&farm.db, run.run_id)
            .await
            .unwrap()
            .unwrap()
            .exceeded,
        None
    );
    // What had ended is not marked, and what is over is forgotten.
    assert!(self::gauges(&farm).await.slow_ended);
    assert!(mark(&farm.db, &[(&seen[0], minute())]).await.unwrap().is_empty());
    farm.is("SELECT count(*) FROM farmhand.slow_run", 0).await;
}

#[tokio::test]
async fn a_run_that_is_stuck_is_told_as_that_and_not_as_slow() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    started(&farm, run.run_id, 600).await;
    let seen = found(&farm).await;
    mark(&farm.db, &[(&seen[0], minute())]).await.unwrap();
    farm.exec("UPDATE farmhand.run_live SET hard_ms = 60000").await;
    assert_eq!(causes(&farm).await, [format!("stuck:{}", run.run_id)]);
}

#[tokio::test]
async fn a_node_that_was_lost_three_times_within_an_hour_and_is_back_is_flapping() {
    let farm = Farm::new().await;
    farm.node("b").await;
    let lost = |times: i32, minutes: i32| {
        format!(
            "INSERT INTO farmhand.event (at, kind, severity, address, detail)
             SELECT now() - interval '{minutes} minutes', 'expired', 'warning', 'b', '{{\"expired\": \"a\"}}'
             FROM generate_series(1, {times})"
        )
    };
    let set = async |sql: String| farm.exec(&sql).await;
    let me = farm.node("a").await;
    set(lost(2, 10)).await;
    set(lost(5, 70)).await;
    assert!(causes(&farm).await.is_empty(), "two within the hour");
    set(lost(1, 5)).await;
    assert_eq!(causes(&farm).await, ["flapping:a"]);
    let now = reading::farm(&farm.db).await.unwrap();
    assert_eq!(
        now.findings[0].text,
        "1 node is flapping: a, lost 3 times within an hour and back each time"
    );
    // While it is away, it is lost.
    expire_now(&farm, &me).await;
    assert_eq!(causes(&farm).await, ["lost:a"]);
}

#[tokio::test]
async fn a_run_that_takes_longer_than_usual_is_told_once_to_who_asked_for_it() {
    for (on, messages) in [(Topic::CHOSEN.to_vec(), 0), (vec![Topic::Slow], 1)] {
        let farm = notify::farm_with(TargetSpec { on, ..notify::hook() }).await;
        let me = farm.node("a").await;
        let run = farm.held_run(&me, "j", notify::told()).await;
        let slow = format!(
            "INSERT INTO farmhand.slow_run (run_id, job_id, attempt, p95_ms, runs) VALUES ({}, 'j', 1, 90000, 40)
             ON CONFLICT (run_id) DO UPDATE SET attempt = excluded.attempt",
            run.run_id
        );
        for _ in 0..2 {
            farm.exec(&slow).await;
        }
        farm.is("SELECT count(*) FROM farmhand.notify_note", 1).await;
        assert_eq!(notify::settled(&farm).await, messages);
        let text = format!(
            "j run {} on a takes longer than usual: 95 of 100 of its last 40 successes took at most 1m30s",
            run.run_id
        );
        let body = "SELECT body->>'text' FROM farmhand.notification WHERE topic = 'slow'";
        assert_eq!(farm.text(body).await, (messages > 0).then_some(text));
    }
}
