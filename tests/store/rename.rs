//! A job gets another name, and its history goes with it.

use std::collections::BTreeMap;

use farmhand_core::definition::JobSpec;
use farmhand_core::due;
use farmhand_store::StoreError;
use farmhand_store::jobs::{
    ApplyOutcome, Backfilled, Blocked, JobChange, Scope, apply, apply_signed, backfill, delete, job,
    move_runs, ran_instants, rename, renamed_to, revisions, submit,
};
use farmhand_store::protocol::{claim, jobs_since, left_over, retry};
use farmhand_store::reading::{self, RunFilter};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::fixture::{Farm, failure, one, past, spec, success};
use super::reading::{farm, page};
use super::triggers::{fired, take};

/// Applies definitions of which one is of a job under another name.
async fn apply_renamed(farm: &Farm, (former, name): (&str, &str), changes: &[JobChange]) {
    let renames = [(former.to_owned(), name.to_owned())];
    let scope = Scope {
        renames: &renames,
        ..Scope::default()
    };
    let none = BTreeMap::new();
    let outcome = apply_signed(&farm.owner, changes, &none, (None, None), scope, "tester").await;
    assert!(matches!(outcome, Ok(ApplyOutcome::Done { .. })), "{outcome:?}");
}

async fn renamed(farm: &Farm, former: &str, name: &str) {
    match rename(&farm.owner, former, name, "tester").await.unwrap() {
        ApplyOutcome::Done { applied, .. } => assert_eq!(applied.len(), 1, "{former}"),
        other => panic!("{former}: {other:?}"),
    }
}

async fn refused(farm: &Farm, former: &str, name: &str) -> String {
    match rename(&farm.owner, former, name, "tester").await {
        Err(StoreError::Refused(why)) => why,
        other => panic!("{former}: {other:?}"),
    }
}

fn change(job_id: &str, spec: JobSpec) -> JobChange {
    JobChange {
        job_id: job_id.to_owned(),
        spec,
        next_run: None,
        source: "test.toml".to_owned(),
    }
}

#[tokio::test]
async fn what_is_known_of_a_job_goes_with_it_to_its_new_name() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let first = farm.held_run(&me, "old", spec()).await;
    retry(&farm.db, &[failure(&me, &first, std::time::Duration::ZERO)])
        .await
        .unwrap();
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    one(&farm, success(&me, &again)).await;
    let key = Some("once");
    let second = submit(&farm.db, "old", &json!({}), None, key).await.unwrap();
    let run = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    let mut bad = success(&me, &run);
    bad.state = farmhand_core::run::RunState::Failed;
    one(&farm, bad).await;
    let before = reading::job(&db, "old").await.unwrap().unwrap().job;
    let seen = jobs_since(&farm.db, 0).await.unwrap();
    let seen = seen.iter().map(|job| job.seq).max().unwrap();

    renamed(&farm, "old", "new").await;
    let hour = std::time::Duration::from_secs(3600);
    assert!(left_over(&farm.db, hour).await.unwrap().to_move);
    while move_runs(&farm.db).await.unwrap() > 0 {}

    assert!(!left_over(&farm.db, hour).await.unwrap().to_move);
    let after = reading::job(&db, "new").await.unwrap().unwrap().job;
    assert_eq!(job(&farm.db, "old").await.unwrap(), None);
    let known = |job: &reading::JobItem| {
        (
            job.rev,
            job.next_run,
            job.last_state,
            job.last_success,
            job.consecutive_failures,
            job.source.clone(),
        )
    };
    assert_eq!(known(&after), known(&before));
    assert_eq!(revisions(&farm.db, "new", 10).await.unwrap().len(), 1);
    let runs = async |name: &str| -> Vec<i64> {
        let filter = RunFilter {
            job: Some(name.to_owned()),
            ..RunFilter::default()
        };
        let list = reading::runs(&db, &filter, &page(None, 10)).await.unwrap();
        list.items.into_iter().map(|run| run.run_id).collect()
    };
    assert_eq!(runs("new").await, [second, first.run_id]);
    assert_eq!(runs("old").await, Vec::<i64>::new());
    let attempts = "SELECT count(*) FROM farmhand.attempt WHERE job_id = 'new'";
    assert_eq!(farm.i64(attempts).await, 1);
    // Agents hear of both names.
    let mut news: Vec<String> = (jobs_since(&farm.db, seen).await.unwrap().into_iter())
        .map(|job| job.job_id)
        .collect();
    news.sort();
    assert_eq!(news, ["new", "old"]);
    // The old name says so, an idempotency key is still known, and it runs.
    assert_eq!(renamed_to(&farm.db, "old").await.unwrap().as_deref(), Some("new"));
    let error = submit(&farm.db, "old", &json!({}), None, None).await.unwrap_err();
    assert!(error.to_string().contains(r#"it is called "new" now"#), "{error}");
    assert_eq!(
        submit(&farm.db, "new", &json!({}), None, key).await.unwrap(),
        second
    );
    // Who renamed what is an event, and in the audit.
    let told = "SELECT count(*) FROM farmhand.audit WHERE kind = 'job_renamed' AND job_id = 'new'
        AND detail->>'by' = 'tester' AND detail->>'from' = 'old'";
    assert_eq!(farm.i64(told).await, 1);
}

#[tokio::test]
async fn a_job_with_live_runs_a_taken_name_and_a_signature_are_refused() {
    let farm = Farm::new().await;
    farm.due_runs("busy", 2).await;
    let why = refused(&farm, "busy", "new").await;
    assert!(
        why.contains("2 of its runs have not ended") && why.contains("pause it"),
        "{why}"
    );
    farm.job("a", spec(), None).await;
    farm.job("b", spec(), None).await;
    let why = refused(&farm, "a", "b").await;
    assert!(why.contains(r#"there is a job "b""#), "{why}");
    farm.sql
        .batch_execute("INSERT INTO farmhand.job_signature VALUES ('a', 1, '{}', 'k', 's', 'tester', now())")
        .await
        .unwrap();
    let why = refused(&farm, "a", "c").await;
    assert!(
        why.contains("it is signed") && why.contains(r#"renamed_from = "a""#),
        "{why}"
    );
    let none = rename(&farm.owner, "nix", "c", "tester").await.unwrap();
    assert!(matches!(none, ApplyOutcome::Done { applied, .. } if applied.is_empty()));
    // A job that is triggered by it would hear of it no more.
    let mut child = spec();
    child.triggered_by = vec!["b".to_owned()];
    farm.job("child", child, None).await;
    let refused = rename(&farm.owner, "b", "c", "tester").await.unwrap();
    assert!(matches!(refused, ApplyOutcome::Refused(_)), "{refused:?}");
    assert!(job(&farm.db, "b").await.unwrap().is_some());
}

#[tokio::test]
async fn a_job_is_renamed_again_and_back_and_each_former_name_leads_to_the_present_one() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    one(&farm, success(&me, &run)).await;
    renamed(&farm, "a", "b").await;
    renamed(&farm, "b", "c").await;
    assert_eq!(renamed_to(&farm.db, "a").await.unwrap().as_deref(), Some("c"));
    renamed(&farm, "c", "a").await;
    while move_runs(&farm.owner).await.unwrap() > 0 {}
    for former in ["b", "c"] {
        assert_eq!(renamed_to(&farm.db, former).await.unwrap().as_deref(), Some("a"));
    }
    assert_eq!(renamed_to(&farm.db, "a").await.unwrap(), None);
    let filter = RunFilter {
        job: Some("a".to_owned()),
        ..RunFilter::default()
    };
    let list = reading::runs(&db, &filter, &page(None, 10)).await.unwrap();
    assert_eq!(list.items.len(), 1);
    // A former name is free when its job is gone; runs of the new job stay with it.
    delete(&farm.owner, &["a".to_owned()], "tester").await.unwrap();
    farm.job("b", spec(), None).await;
    let run = submit(&farm.db, "b", &json!({}), None, None).await.unwrap();
    let held = claim(&farm.db, &me, 1, Some(&[run])).await.unwrap().remove(0);
    one(&farm, success(&me, &held)).await;
    assert_eq!(move_runs(&farm.owner).await.unwrap(), 0);
}

/// The history of the one that has ended follows its new name later.
#[tokio::test]
async fn a_triggered_job_waits_for_the_history_of_a_parent_that_was_renamed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("p", spec(), None).await;
    farm.job("old", spec(), None).await;
    let at = past(60);
    fired(&farm, &["p", "old"], at).await;
    let run = take(&farm, &me, "old").await;
    one(&farm, success(&me, &run)).await;
    renamed(&farm, "old", "new").await;
    let stands = "SELECT farmhand.parent_stands('new', (SELECT min(due_at) FROM farmhand.run), false)->>";
    let told = farm.text(&format!("{stands}'wait'")).await;
    assert_eq!(told.as_deref(), Some("to_come"));
    let made = backfill(&farm.db, "new", 1, &[at], "tester").await.unwrap();
    assert_eq!(made, Backfilled::Done { run_ids: vec![] }, "it has run");
    let ran = ran_instants(&farm.db, "new", at, past(0)).await.unwrap();
    assert!(ran.contains_key(&at), "the preview says so, too");
    while move_runs(&farm.db).await.unwrap() > 0 {}
    let told = farm.text(&format!("{stands}'end'")).await;
    assert_eq!(told.as_deref(), Some("success"));
}

#[tokio::test]
async fn an_apply_renames_with_the_jobs_that_are_triggered_and_refuses_a_former_name() {
    let farm = Farm::new().await;
    farm.job("old", spec(), None).await;
    let mut child = spec();
    child.triggered_by = vec!["old".to_owned()];
    farm.job("child", child.clone(), None).await;
    child.triggered_by = vec!["new".to_owned()];
    let changes = [change("new", spec()), change("child", child)];
    for _ in 0..2 {
        apply_renamed(&farm, ("old", "new"), &changes).await;
    }
    assert_eq!(job(&farm.db, "new").await.unwrap().unwrap().rev, 1);
    assert_eq!(
        farm.i64("SELECT count(*) FROM farmhand.trigger_edge WHERE parent = 'new'")
            .await,
        1
    );
    let outcome = apply(&farm.owner, &[change("old", spec())], false, "tester")
        .await
        .unwrap();
    let blocked = Blocked::Renamed {
        job_id: "old".to_owned(),
        to: "new".to_owned(),
    };
    assert_eq!(outcome, ApplyOutcome::Blocked(vec![blocked]));
}

/// Where the name decides when a schedule fires, the instants move with it.
#[tokio::test]
async fn a_job_whose_instants_go_by_its_name_is_next_due_by_its_new_one() {
    let farm = Farm::new().await;
    let mut hashed = spec();
    hashed.schedule = vec!["H H H * *".to_owned()];
    let is_instant = |name: &str, at: Timestamp| {
        let (schedule, policy) = due::compile(name, &hashed).unwrap();
        due::next_run(&schedule, &policy, at - SignedDuration::from_secs(1)) == Some(at)
    };
    let next = async |name: &str| job(&farm.db, name).await.unwrap().unwrap().next_run.unwrap();
    // Not one of its instants.
    let copied = past(-1_000_000);
    farm.job("a", hashed.clone(), Some(copied)).await;
    renamed(&farm, "a", "b").await;
    assert!(is_instant("b", next("b").await), "{}", next("b").await);
    assert!(
        !is_instant("a", next("b").await),
        "another one than under the former name"
    );
    // The same by an apply that changes nothing else.
    apply_renamed(&farm, ("b", "c"), &[change("c", hashed.clone())]).await;
    assert!(is_instant("c", next("c").await), "{}", next("c").await);
    // What is overdue gets its outcome first.
    let overdue = past(60);
    let sql = format!("UPDATE farmhand.job SET next_run = '{overdue}' WHERE job_id = 'c'");
    farm.sql.batch_execute(&sql).await.unwrap();
    let blocked = rename(&farm.owner, "c", "d", "tester").await.unwrap();
    let wanted = Blocked::Overdue {
        job_id: "c".to_owned(),
        rev: 1,
        next_run: overdue,
    };
    assert_eq!(blocked, ApplyOutcome::Blocked(vec![wanted]));
    assert!(job(&farm.db, "c").await.unwrap().is_some());
}
