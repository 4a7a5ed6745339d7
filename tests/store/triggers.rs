//! Ends of jobs become runs of those that they trigger, each once.

use farmhand_core::definition::{JobSpec, Overlap, TriggerFault, TriggerOn};
use farmhand_core::lease::MarksBelow;
use farmhand_core::run::RunState;
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{ApplyOutcome, JobChange, apply, cancel, pause, retried_runs, retry_run, submit};
use farmhand_store::protocol::{Claimed, Finish, Fired, claim, finish, poll, settle};
use farmhand_store::reading;
use farmhand_tests::acting::anna;
use jiff::Timestamp;
use serde_json::json;

use crate::fixture::{Farm, expire_now, one, overlapping, past, spec, success, until_blocked};

pub fn after(parents: &[&str]) -> JobSpec {
    JobSpec {
        triggered_by: parents.iter().map(|p| (*p).to_owned()).collect(),
        ..spec()
    }
}

/// Runs that a schedule made, with the same instant for each job.
pub async fn fired(farm: &Farm, jobs: &[&str], at: Timestamp) {
    for job in jobs {
        farm.sql
            .exec_with(
                "UPDATE farmhand.job SET next_run = $1, scheduled = true WHERE job_id = $2",
                &[&at, job],
            )
            .await;
        assert_eq!(farm.fire_at(job, at, &[at]).await.len(), 1, "{job} fires");
    }
}

pub async fn take(farm: &Farm, me: &LeaseIdentity, job: &str) -> Claimed {
    let ids = farm
        .sql
        .query(
            "SELECT run_id FROM farmhand.run_live WHERE job_id = $1 AND state = 'due'",
            &[&job],
        )
        .await
        .unwrap();
    let ids: Vec<i64> = ids.iter().map(|row| row.get(0)).collect();
    let mut claimed = claim(&farm.db, me, 1, Some(&ids)).await.unwrap();
    assert_eq!(claimed.len(), 1, "a run of {job}");
    claimed.remove(0)
}

pub fn failed(me: &LeaseIdentity, run: &Claimed) -> Finish {
    Finish {
        state: RunState::Failed,
        exit_code: Some(1),
        ..success(me, run)
    }
}

pub async fn ends(farm: &Farm, end: Finish) -> Vec<Fired> {
    finish(&farm.db, &[end]).await.unwrap();
    settle(&farm.db, None).await.unwrap()
}

/// Why runs of a job were not made.
pub fn reasons(fired: &Fired) -> Vec<&str> {
    fired.skipped.iter().map(|skip| skip.reason.as_str()).collect()
}

async fn skipped(farm: &Farm, job: &str) -> Option<String> {
    farm.text(&format!(
        "SELECT reason FROM farmhand.run WHERE job_id = '{job}' AND state = 'skipped' AND kind = 'triggered'"
    ))
    .await
}

#[tokio::test]
async fn the_end_of_a_parent_makes_one_run_with_its_number_instant_and_parameters() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let mut parent = spec();
    parent.params = serde_json::from_value(json!({
        "day": {"type": "date"}, "since": {"type": "duration", "default": "5m"}, "own": {"type": "string"}
    }))
    .unwrap();
    let mut child = after(&["p"]);
    child.params =
        serde_json::from_value(json!({"day": {"type": "date"}, "since": {"type": "duration"}})).unwrap();
    farm.job("p", parent, None).await;
    farm.job("c", child, None).await;
    let params = json!({"day": "2026-11-20", "own": "x"});
    let run = submit(&farm.db, "p", &params, None, None).await.unwrap();
    let held = take(&farm, &me, "p").await;
    finish(&farm.db, &[success(&me, &held)]).await.unwrap();
    assert!(
        poll(&farm.db, &me, &MarksBelow::default())
            .await
            .unwrap()
            .unsettled
    );

    let made = settle(&farm.db, Some(&["p".to_owned()])).await.unwrap();
    assert_eq!((made.len(), made[0].run_ids.len()), (1, 1), "{made:?}");
    assert!(
        !poll(&farm.db, &me, &MarksBelow::default())
            .await
            .unwrap()
            .unsettled
    );
    assert_eq!(settle(&farm.db, None).await.unwrap(), []);
    let row = reading::run_row(&farm.db, made[0].run_ids[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.kind.as_str(), row.parent_run), ("triggered", Some(run)));
    assert_eq!(row.parents, Some(json!({"p": run})));
    assert_eq!(row.params, json!({"day": "2026-11-20", "since": "5m"}));
    assert_eq!((row.due_at, row.by_hand), (held.due_at, true));
    let claimed = take(&farm, &me, "c").await;
    assert_eq!(
        (claimed.parent_run, claimed.parents.clone()),
        (Some(run), Some(json!({"p": run})))
    );
    // A retry of it names the run that triggered both.
    one(&farm, success(&me, &claimed)).await;
    let both = [run, claimed.run_id];
    let none = retried_runs(&farm.db, &both, None).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    retry_run(&anna(&farm.db), claimed.run_id, "eve", false, None)
        .await
        .unwrap();
    assert_eq!(
        retried_runs(&farm.db, &both, None).await.unwrap(),
        [claimed.run_id]
    );
}

#[tokio::test]
async fn a_failed_parent_triggers_failure_and_finish_and_not_success() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("p", spec(), None).await;
    for (name, on) in [
        ("s", TriggerOn::Success),
        ("f", TriggerOn::Failure),
        ("e", TriggerOn::Finish),
    ] {
        let child = JobSpec {
            trigger_on: on,
            ..after(&["p"])
        };
        farm.job(name, child, None).await;
    }
    submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
    let run = take(&farm, &me, "p").await;
    let mut jobs: Vec<String> = ends(&farm, failed(&me, &run))
        .await
        .into_iter()
        .map(|t| t.job_id)
        .collect();
    jobs.sort();
    assert_eq!(jobs, ["e", "f"]);

    let run = submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
    cancel(&anna(&farm.db), run, "eve").await.unwrap();
    let made = settle(&farm.db, None).await.unwrap();
    // "e" is still live, so its overlap rule decides.
    assert_eq!((made.len(), made[0].job_id.as_str()), (1, "e"), "{made:?}");
    assert_eq!(reasons(&made[0]), ["overlap"]);
}

#[tokio::test]
async fn a_skipped_instant_of_a_parent_triggers_nothing() {
    let farm = Farm::new().await;
    farm.job("p", spec(), Some(past(60))).await;
    farm.job(
        "c",
        JobSpec {
            trigger_on: TriggerOn::Finish,
            ..after(&["p"])
        },
        None,
    )
    .await;
    farm.fire_at("p", past(60), &[past(60)]).await;
    fired(&farm, &["p"], past(30)).await;
    farm.is(
        "SELECT count(*) FROM farmhand.run_history WHERE reason = 'overlap'",
        1,
    )
    .await;
    assert_eq!(settle(&farm.db, None).await.unwrap(), []);
    farm.is("SELECT count(*) FROM farmhand.triggering", 0).await;
}

#[tokio::test]
async fn a_parent_that_is_lost_with_its_node_triggers_on_failure() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let once = JobSpec {
        on_lost: farmhand_core::definition::OnLost::Fail,
        ..spec()
    };
    farm.job("p", once, None).await;
    farm.job(
        "c",
        JobSpec {
            trigger_on: TriggerOn::Failure,
            ..after(&["p"])
        },
        None,
    )
    .await;
    submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
    take(&farm, &me, "p").await;
    expire_now(&farm, &me).await;
    assert_eq!(settle(&farm.db, None).await.unwrap()[0].run_ids.len(), 1);
}

#[tokio::test]
async fn settling_waits_for_whoever_settles_the_same_job_and_does_nothing_twice() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("p", spec(), None).await;
    farm.job("c", after(&["p"]), None).await;
    submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
    let run = take(&farm, &me, "p").await;
    finish(&farm.db, &[success(&me, &run)]).await.unwrap();
    let other = farm.test.client().await;
    other
        .exec("BEGIN; SELECT FROM farmhand.job WHERE job_id = 'c' FOR UPDATE")
        .await;
    let db = farm.db.clone();
    let settling = tokio::spawn(async move { settle(&db, None).await.unwrap() });
    until_blocked(&farm).await;
    other.exec("DELETE FROM farmhand.triggering; COMMIT").await;
    assert_eq!(settling.await.unwrap(), []);
}

#[tokio::test]
async fn the_overlap_rule_of_the_triggered_job_decides() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("p", overlapping(Overlap::Allow), None).await;
    for (name, overlap) in [
        ("skip", Overlap::Skip),
        ("queue", Overlap::Queue),
        ("replace", Overlap::Replace),
        ("allow", Overlap::Allow),
    ] {
        farm.job(
            name,
            JobSpec {
                overlap,
                ..after(&["p"])
            },
            None,
        )
        .await;
    }
    let mut last = Vec::new();
    for _ in 0..2 {
        submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
        let run = take(&farm, &me, "p").await;
        last = ends(&farm, success(&me, &run)).await;
    }
    assert_eq!(last.len(), 4);
    assert_eq!(skipped(&farm, "skip").await.as_deref(), Some("overlap"));
    farm.says(
        "SELECT gate FROM farmhand.run_live WHERE job_id = 'queue' AND gate IS NOT NULL",
        Some("overlap"),
    )
    .await;
    farm.is(
        "SELECT count(*) FROM farmhand.run_live WHERE job_id = 'replace'",
        1,
    )
    .await;
    farm.says(
        "SELECT reason FROM farmhand.run_history WHERE job_id = 'replace'",
        Some("replaced"),
    )
    .await;
    farm.is(
        "SELECT count(*) FROM farmhand.run_live WHERE job_id = 'allow' AND gate IS NULL",
        2,
    )
    .await;
}

#[tokio::test]
async fn a_parameter_of_the_wrong_type_and_a_pause_are_recorded_with_their_reason() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let with = |params: serde_json::Value, spec: JobSpec| JobSpec {
        params: serde_json::from_value(params).unwrap(),
        ..spec
    };
    farm.job("p", with(json!({"n": {"type": "string"}}), spec()), None)
        .await;
    farm.job("c", with(json!({"n": {"type": "integer"}}), after(&["p"])), None)
        .await;
    submit(&farm.db, "p", &json!({"n": "seven"}), None, None)
        .await
        .unwrap();
    let run = take(&farm, &me, "p").await;
    assert_eq!(ends(&farm, success(&me, &run)).await[0].run_ids, [0_i64; 0]);
    let why = skipped(&farm, "c").await.unwrap();
    assert!(
        why.starts_with("params: parameter `n`: expected an integer"),
        "{why}"
    );

    farm.job("d", after(&["p"]), None).await;
    pause(&anna(&farm.db), "d", "eve", None).await.unwrap();
    submit(&farm.db, "p", &json!({}), None, None).await.unwrap();
    let run = take(&farm, &me, "p").await;
    ends(&farm, success(&me, &run)).await;
    assert_eq!(skipped(&farm, "d").await.as_deref(), Some("paused"));
}

#[tokio::test]
async fn an_each_node_parent_triggers_when_its_last_node_has_ended() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let each = JobSpec {
        run_on: farmhand_core::definition::RunOn::EachNode,
        ..spec()
    };
    farm.job("p", each, Some(past(60))).await;
    farm.job("c", after(&["p"]), None).await;
    assert_eq!(farm.fire_at("p", past(60), &[past(60)]).await[0].run_ids.len(), 2);
    let (on_a, on_b) = (take(&farm, &a, "p").await, take(&farm, &b, "p").await);
    assert_eq!(
        (on_a.firing, on_a.firing),
        (on_b.firing, Some(on_a.run_id.min(on_b.run_id)))
    );
    assert_eq!(ends(&farm, success(&a, &on_a)).await, []);
    let made = ends(&farm, success(&b, &on_b)).await;
    assert_eq!((made.len(), made[0].run_ids.len()), (1, 1), "{made:?}");
}

#[tokio::test]
async fn a_circle_and_an_unknown_parent_are_refused_whole() {
    let farm = Farm::new().await;
    farm.job("a", spec(), None).await;
    farm.job("b", after(&["a"]), None).await;
    let change = |job_id: &str, spec: JobSpec| JobChange {
        job_id: job_id.to_owned(),
        spec,
        next_run: None,
        source: "t".to_owned(),
    };
    let refused =
        async |changes: &[JobChange], prune: bool| match apply(&anna(&farm.owner), changes, prune, "t")
            .await
            .unwrap()
        {
            ApplyOutcome::Refused(faults) => faults,
            other => panic!("{other:?}"),
        };
    let circle = refused(&[change("a", after(&["b"])), change("new", spec())], false).await;
    assert_eq!(
        circle,
        [TriggerFault::Cycle(vec!["a".to_owned(), "b".to_owned()])]
    );
    assert_eq!(
        circle[0].to_string(),
        "a is triggered by b is triggered by a: a circle"
    );
    let unknown = |child: &str, parent: &str| TriggerFault::Unknown {
        child: child.to_owned(),
        parent: parent.to_owned(),
    };
    assert_eq!(
        refused(&[change("c", after(&["nobody"]))], false).await,
        [unknown("c", "nobody")]
    );
    assert_eq!(
        refused(&[change("b", after(&["a"])), change("d", spec())], true).await,
        [unknown("b", "a")]
    );
    farm.is("SELECT count(*) FROM farmhand.job WHERE NOT deleted", 2)
        .await;
    farm.is("SELECT count(*) FROM farmhand.trigger_edge", 1).await;
    farm.job("b", spec(), None).await;
    farm.is("SELECT count(*) FROM farmhand.trigger_edge", 0).await;
}
