//! Causes that somebody said are known: what may be stored, for whom, and until when it holds.

use std::time::Duration;

use farmhand_core::cause::{Cause, LONGEST};
use farmhand_core::verdict::headline;
use farmhand_store::acknowledgements::{acknowledge, acknowledgements, unacknowledge};
use farmhand_store::reading::{self, FarmNow, Level};
use farmhand_store::retention::{Retention, forget};
use farmhand_tests::pg::connect;
use tokio_postgres::error::SqlState;

use crate::fixture::{Farm, expire_now, one, past, spec, success};

const HOUR: Duration = Duration::from_secs(3600);

async fn known(farm: &Farm, cause: &str) {
    let cause: Cause = cause.parse().unwrap();
    acknowledge(&farm.db, &cause, "ann@desk", HOUR, Some("known"))
        .await
        .unwrap();
}

/// The headline, and the causes of each finding; those of an acknowledged one in brackets.
async fn told(farm: &Farm) -> (String, Vec<String>) {
    let now = reading::farm(&farm.db).await.unwrap();
    let causes = (now.findings.iter()).map(|found| {
        let causes: Vec<_> = found.causes.iter().map(ToString::to_string).collect();
        match &found.acknowledged {
            Some(_) => format!("({})", causes.join(" ")),
            None => causes.join(" "),
        }
    });
    (headline(&now.findings), causes.collect())
}

async fn expect(farm: &Farm, headline: &str, causes: &[&str]) {
    let causes = causes.iter().map(|c| (*c).to_owned()).collect();
    assert_eq!(told(farm).await, (headline.to_owned(), causes));
}

const EXCEPT: &str = "well, except for 1 acknowledged cause";

#[tokio::test]
async fn the_database_refuses_what_is_out_of_bounds() {
    let farm = Farm::new().await;
    for (call, why) in [
        ("'broken', 'j', 'ann', '1 hour'", "a kind"),
        ("'failing', '', 'ann', '1 hour'", "no name"),
        ("'failing', repeat('j', 501), 'ann', '1 hour'", "a long name"),
        ("'failing', E'a\\nb', 'ann', '1 hour'", "a line break"),
        ("'stuck', 'j', 'ann', '1 hour'", "not a run"),
        ("'failing', 'j', '', '1 hour'", "nobody"),
        ("'failing', 'j', NULL, '1 hour'", "nobody"),
        ("'failing', 'j', 'ann', '0 seconds'", "until is at"),
        ("'failing', 'j', 'ann', '-1 hour'", "until is before at"),
        ("'failing', 'j', 'ann', '720 hours 1 second'", "for too long"),
        ("'failing', 'j', 'ann', 'infinity'::interval", "for ever"),
        ("'failing', 'j', 'ann', '1 hour', ''", "an empty note"),
        ("'failing', 'j', 'ann', '1 hour', repeat('x', 501)", "a long note"),
        ("'failing', 'j', 'ann', '1 hour', E'a\\nb'", "a note of two lines"),
    ] {
        let sql = format!("SELECT farmhand.acknowledge({call})");
        assert!(farm.sql.batch_execute(&sql).await.is_err(), "{why}: {sql}");
    }
    let told = "SELECT count(*) FROM farmhand.event WHERE kind = 'acknowledged'";
    assert_eq!(farm.i64(told).await, 0);
    let cause: Cause = "failing:j".parse().unwrap();
    acknowledge(&farm.db, &cause, "ann", LONGEST, None).await.unwrap();
    assert_eq!(farm.i64(told).await, 1);
}

#[tokio::test]
async fn operators_and_agents_may_and_nobody_else() {
    let farm = Farm::new().await;
    for (role, may) in [
        ("farm_agent", true),
        ("farm_operator", true),
        ("farm_viewer", false),
        ("farm_submitter", false),
    ] {
        let client = connect(&farm.test.url_as(role)).await;
        let name = format!("'failing', '{role}', 'ann'");
        let put = format!("SELECT farmhand.acknowledge({name}, '1 hour', 'a note')");
        let take = format!("SELECT farmhand.unacknowledge({name})");
        for statement in [put, take] {
            let done = client.batch_execute(&statement).await;
            let code = done.as_ref().err().and_then(|e| e.code());
            let denied = code == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
            assert_eq!((done.is_ok(), denied), (may, !may), "{role}: {statement}");
        }
    }
}

#[tokio::test]
async fn who_did_it_is_in_the_events_and_in_the_audit() {
    let farm = Farm::new().await;
    let text = |sql: &'static str| async { farm.text(sql).await.unwrap() };
    known(&farm, "failing:j").await;
    known(&farm, "lost:n1").await;
    known(&farm, "stuck:7").await;
    let cause: Cause = "failing:j".parse().unwrap();
    assert!(unacknowledge(&farm.db, &cause, "bob@desk").await.unwrap());
    assert!(!unacknowledge(&farm.db, &cause, "bob@desk").await.unwrap());
    let events =
        "SELECT string_agg(concat_ws(' ', kind, job_id, run_id, address, detail->>'by', detail->>'cause',
        detail->>'note'), '; ' ORDER BY event_id) FROM farmhand.event";
    assert_eq!(
        text(events).await,
        "acknowledged j ann@desk failing:j known; acknowledged n1 ann@desk lost:n1 known; \
         acknowledged 7 ann@desk stuck:7 known; unacknowledged j bob@desk failing:j"
    );
    let audit =
        "SELECT string_agg(DISTINCT kind || ' ' || coalesce(detail->>'op', '-'), '; ') FROM farmhand.audit";
    assert_eq!(
        text(audit).await,
        "acknowledged -; changed_acknowledgement delete; changed_acknowledgement insert; unacknowledged -"
    );
}

#[tokio::test]
async fn a_job_that_fails_anew_leads_again_and_one_that_still_fails_does_not() {
    let farm = Farm::new().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    farm.job("b", spec(), None).await;
    let set = |change: &'static str| async { farm.sql.batch_execute(change).await.unwrap() };
    set(
        "INSERT INTO farmhand.job_stat (job_id, consecutive_failures, last_success)
         VALUES ('a', 3, now() - interval '1 day')",
    )
    .await;
    expect(&farm, "attention", &["failing:a"]).await;
    known(&farm, "failing:a").await;
    expect(&farm, EXCEPT, &["(failing:a)"]).await;
    set("UPDATE farmhand.job_stat SET consecutive_failures = 4").await;
    expect(&farm, EXCEPT, &["(failing:a)"]).await;
    // Another job is another cause; it has never succeeded.
    set("INSERT INTO farmhand.job_stat (job_id, consecutive_failures) VALUES ('b', 1)").await;
    expect(&farm, "attention", &["failing:b", "(failing:a)"]).await;
    known(&farm, "failing:b").await;
    expect(
        &farm,
        "well, except for 2 acknowledged causes",
        &["(failing:a)", "(failing:b)"],
    )
    .await;
    // It went away, and came back.
    one(&farm, success(&me, &run)).await;
    expect(&farm, EXCEPT, &["(failing:b)"]).await;
    set("UPDATE farmhand.job_stat SET consecutive_failures = 1 WHERE job_id = 'a'").await;
    expect(&farm, "attention", &["failing:a", "(failing:b)"]).await;
    known(&farm, "failing:a").await;
    let cause: Cause = "failing:b".parse().unwrap();
    unacknowledge(&farm.db, &cause, "ann").await.unwrap();
    expect(&farm, "attention", &["failing:b", "(failing:a)"]).await;
}

#[tokio::test]
async fn an_expired_acknowledgement_has_no_effect_and_its_removal_is_not_in_the_audit() {
    let farm = Farm::new().await;
    farm.node("n1").await;
    farm.job("a", spec(), None).await;
    let set = |change: &'static str| async { farm.sql.batch_execute(change).await.unwrap() };
    set("INSERT INTO farmhand.job_stat (job_id, consecutive_failures) VALUES ('a', 3)").await;
    known(&farm, "failing:a").await;
    known(&farm, "lost:other").await;
    // Two hours pass.
    set(
        "UPDATE farmhand.acknowledgement SET at = at - interval '2 hours', until = until - interval '2 hours'
         WHERE kind = 'failing'",
    )
    .await;
    expect(&farm, "attention", &["failing:a"]).await;
    let left = |all: Vec<farmhand_store::acknowledgements::Acknowledgement>| -> Vec<String> {
        all.iter().map(|known| known.cause.to_string()).collect()
    };
    assert_eq!(left(acknowledgements(&farm.db).await.unwrap()), ["lost:other"]);
    let cause: Cause = "failing:a".parse().unwrap();
    assert!(!unacknowledge(&farm.db, &cause, "ann").await.unwrap());
    let deletions = "SELECT count(*) FROM farmhand.audit WHERE detail->>'op' = 'delete'";
    forget(&farm.db, Retention::default(), HOUR).await.unwrap();
    assert_eq!(farm.i64("SELECT count(*) FROM farmhand.acknowledgement").await, 1);
    assert_eq!(farm.i64(deletions).await, 0);
}

#[tokio::test]
async fn a_node_that_is_lost_anew_and_a_job_that_is_late_anew_lead_again() {
    let farm = Farm::new().await;
    let (me, _) = (farm.node("n1").await, farm.node("n2").await);
    farm.job("late", spec(), Some(past(600))).await;
    expire_now(&farm, &me).await;
    known(&farm, "lost:n1").await;
    known(&farm, "late:late").await;
    expect(
        &farm,
        "well, except for 2 acknowledged causes",
        &["(late:late)", "(lost:n1)"],
    )
    .await;
    let now: FarmNow = reading::farm(&farm.db).await.unwrap();
    assert_eq!(
        (now.level, now.overdue.len(), now.lost.len()),
        (Level::Well, 1, 1)
    );
    let acknowledged: Vec<_> = now.acknowledged.keys().map(ToString::to_string).collect();
    assert_eq!(acknowledged, ["late:late", "lost:n1"]);
    // As if both had been said long ago: what is there began later.
    let earlier = "UPDATE farmhand.acknowledgement SET at = at - interval '15 minutes'";
    farm.sql.batch_execute(earlier).await.unwrap();
    expect(&farm, "trouble", &["late:late", "lost:n1"]).await;
}

#[tokio::test]
async fn stuck_runs_blocked_and_expired_nodes_are_acknowledged_by_name() {
    let farm = Farm::new().await;
    let me = farm.node("n1").await;
    farm.node("n2").await;
    farm.node("n3").await;
    let run = farm.held_run(&me, "j", spec()).await;
    farm.sql
        .batch_execute(
            "UPDATE farmhand.node SET lease_until = now() - interval '1 minute' WHERE address = 'n1';
             UPDATE farmhand.node SET cannot_start = 'no space' WHERE address = 'n2'",
        )
        .await
        .unwrap();
    let stuck = format!("stuck:{}", run.run_id);
    expect(&farm, "trouble", &[stuck.as_str(), "blocked:n2"]).await;
    known(&farm, "blocked:n2").await;
    known(&farm, &stuck).await;
    let (stuck, except) = (format!("({stuck})"), "well, except for 2 acknowledged causes");
    expect(&farm, except, &[&stuck, "(blocked:n2)"]).await;
    // It renews, and its lease runs out again.
    let earlier = "UPDATE farmhand.acknowledgement SET at = at - interval '5 minutes' WHERE kind = 'stuck'";
    farm.sql.batch_execute(earlier).await.unwrap();
    expect(&farm, "trouble", &[&stuck[1..stuck.len() - 1], "(blocked:n2)"]).await;
}

#[tokio::test]
async fn runs_that_wait_are_acknowledged_by_job_and_later_ones_lead_again() {
    let farm = Farm::new().await;
    farm.node("n1").await;
    farm.due_runs("slow", 1).await;
    farm.due_runs("other", 1).await;
    let wait = |job: &str, minutes: u32| {
        format!(
            "UPDATE farmhand.run_live SET ready_at = now() - interval '{minutes} minutes', due_at = now()
             WHERE job_id = '{job}'"
        )
    };
    for sql in [wait("slow", 30), wait("other", 0)] {
        farm.sql.batch_execute(&sql).await.unwrap();
    }
    expect(&farm, "trouble", &["waiting:slow"]).await;
    known(&farm, "waiting:slow").await;
    expect(&farm, EXCEPT, &["(waiting:slow)"]).await;
    // A run of another job that waits for as long is another cause, though the acknowledged one is older.
    farm.sql.batch_execute(&wait("other", 10)).await.unwrap();
    expect(&farm, "trouble", &["waiting:other", "(waiting:slow)"]).await;
    let now = reading::farm(&farm.db).await.unwrap();
    assert_eq!(now.oldest_due.unwrap().job_id, "slow");
    // What became ready after the acknowledgement is another occurrence.
    let earlier = "UPDATE farmhand.acknowledgement SET at = at - interval '1 hour'";
    farm.sql.batch_execute(earlier).await.unwrap();
    expect(&farm, "trouble", &["waiting:slow"]).await;
}

#[tokio::test]
async fn whatever_is_acknowledged_first_twenty_others_are_still_read() {
    let farm = Farm::new().await;
    farm.node("n1").await;
    for n in 0..25 {
        farm.job(&format!("j{n:02}"), spec(), None).await;
    }
    farm.sql
        .batch_execute(
            "INSERT INTO farmhand.job_stat (job_id, consecutive_failures)
                 SELECT job_id, 100 - right(job_id, 2)::int FROM farmhand.job;
             SELECT farmhand.acknowledge('failing', 'j' || lpad(n::text, 2, '0'), 'ann', '1 hour')
                 FROM generate_series(0, 21) n",
        )
        .await
        .unwrap();
    let now = reading::farm(&farm.db).await.unwrap();
    let first: Vec<_> = now
        .failing
        .iter()
        .map(|job| job.job_id.as_str())
        .take(4)
        .collect();
    assert_eq!(first, ["j22", "j23", "j24", "j00"]);
    assert_eq!(
        now.findings[0].text,
        "3 jobs are failing: j22, 78 failures in a row"
    );
    assert_eq!(now.failing.len(), 20);
}

#[tokio::test]
async fn metrics_and_notifications_see_a_cause_as_if_nobody_had_acknowledged_it() {
    let farm = Farm::new().await;
    farm.node("n1").await;
    farm.job("late", spec(), Some(past(600))).await;
    known(&farm, "late:late").await;
    // No statement that measures or notifies reads the table.
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/store/src/sql");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let reads = std::fs::read_to_string(&path)
            .unwrap()
            .contains("farmhand.acknowledgement");
        let may = [
            "reading_farm.sql",
            "acknowledgements.sql",
            "drop_acknowledgements.sql",
        ]
        .contains(&name.as_str());
        assert_eq!(reads, may, "{name}");
    }
}
