//! Ends of flows' tasks: who may record them, what a retry takes over, how long they are kept.

use farmhand_core::definition::{FlowSpec, JobSpec, Resume, TaskSpec};
use farmhand_store::jobs::{Retried, retry_run};
use farmhand_store::protocol::{Attempt, Claimed, claim};
use farmhand_store::tasks::{TaskEnd, drop_older_than, record_tasks, tasks};
use farmhand_tests::acting::anna;
use jiff::Timestamp;

use super::fixture::*;

fn end(task: &str, outcome: &str) -> TaskEnd {
    TaskEnd {
        task: task.to_owned(),
        outcome: outcome.to_owned(),
        started_at: None,
        ended_at: Timestamp::now(),
        exit_code: None,
        signal: None,
        cpu_ms: None,
        max_rss_bytes: None,
        reason: None,
        blame: Vec::new(),
    }
}

fn flow(resume: Resume) -> JobSpec {
    let names = ["a", "b", "c"].map(|n| (n.to_owned(), TaskSpec::default()));
    JobSpec {
        command: None,
        flow: Some(FlowSpec {
            tasks: names.into(),
            ..FlowSpec::default()
        }),
        resume,
        ..spec()
    }
}

fn done(run: &Claimed) -> Vec<String> {
    let mut done: Vec<String> = run.done.iter().flatten().cloned().collect();
    done.sort();
    done
}

#[tokio::test]
async fn a_retry_from_the_failed_task_on_takes_over_what_succeeded_and_a_plain_one_nothing() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", flow(Resume::Restart)).await;
    let ends = [end("a", "succeeded"), end("b", "failed"), end("c", "skipped")];
    let new = record_tasks(&farm.db, Attempt::from(&run), me.session, &ends)
        .await
        .unwrap();
    assert_eq!(new, 3);
    one(&farm, success(&me, &run)).await;

    let Retried::Run(from_failed) = retry_run(&anna(&farm.db), run.run_id, "eve", true, None)
        .await
        .unwrap()
    else {
        panic!("no new run")
    };
    let taken: Vec<_> = tasks(&farm.db, from_failed).await.unwrap();
    let taken: Vec<_> = taken.iter().map(|t| (t.end.task.as_str(), t.attempt)).collect();
    assert_eq!(taken, [("a", 0)]);
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!((again.run_id, done(&again)), (from_failed, vec!["a".to_owned()]));

    let Retried::Run(plain) = retry_run(&anna(&farm.db), run.run_id, "eve", false, None)
        .await
        .unwrap()
    else {
        panic!("no new run")
    };
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!((again.run_id, done(&again)), (plain, Vec::new()));
}

#[tokio::test]
async fn a_task_whose_last_end_is_a_failure_runs_again_although_it_had_succeeded_before() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", flow(Resume::Restart)).await;
    let first = [end("a", "succeeded"), end("b", "succeeded")];
    record_tasks(&farm.db, Attempt::from(&run), me.session, &first)
        .await
        .unwrap();
    expire_now(&farm, &me).await;
    let me = farm.node("a").await;
    let second = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!(second.attempt, 2);
    let ends = [end("a", "failed")];
    record_tasks(&farm.db, Attempt::from(&second), me.session, &ends)
        .await
        .unwrap();
    one(&farm, success(&me, &second)).await;
    retry_run(&anna(&farm.db), run.run_id, "eve", true, None)
        .await
        .unwrap();
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    assert_eq!(done(&again), ["b"]);
}

#[tokio::test]
async fn an_end_is_recorded_once_and_not_for_a_run_that_moved_on() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", flow(Resume::SkipFinished)).await;
    let record = async |attempt, session| {
        let ends = [end("a", "succeeded")];
        let of = Attempt {
            attempt,
            ..Attempt::from(&run)
        };
        record_tasks(&farm.db, of, session, &ends).await.unwrap()
    };
    assert_eq!(record(1, me.session).await, 1);
    assert_eq!(record(1, me.session).await, 0, "it is there");
    assert_eq!(record(1, me.session + 1).await, 0, "not this session's");
    assert_eq!(record(2, me.session).await, 0, "not this attempt");
    expire_now(&farm, &me).await;
    let late = [end("b", "succeeded")];
    let new = record_tasks(&farm.db, Attempt::from(&run), me.session, &late)
        .await
        .unwrap();
    assert_eq!(new, 0, "a stale holder records nothing");
}

#[tokio::test]
async fn old_ends_are_deleted_but_not_those_of_a_run_that_lives() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let over = farm.held_run(&me, "over", flow(Resume::Restart)).await;
    let lives = farm.held_run(&me, "lives", flow(Resume::Restart)).await;
    let fresh = farm.held_run(&me, "fresh", flow(Resume::Restart)).await;
    for run in [&over, &lives, &fresh] {
        let ends = [end("a", "succeeded")];
        record_tasks(&farm.db, Attempt::from(run), me.session, &ends)
            .await
            .unwrap();
    }
    one(&farm, success(&me, &over)).await;
    one(&farm, success(&me, &fresh)).await;
    let older = format!(
        "UPDATE farmhand.task SET stored_at = stored_at - interval '8 days' WHERE run_id <> {}",
        fresh.run_id
    );
    farm.exec(&older).await;
    assert_eq!(drop_older_than(&farm.db, 7).await.unwrap(), 0, "its run is known");
    let gone = format!("DELETE FROM farmhand.run_history WHERE run_id = {}", over.run_id);
    farm.exec(&gone).await;
    assert_eq!(drop_older_than(&farm.db, 7).await.unwrap(), 1);
    let left = async |run: &Claimed| tasks(&farm.db, run.run_id).await.unwrap().len();
    assert_eq!(
        (left(&over).await, left(&lives).await, left(&fresh).await),
        (0, 1, 1)
    );
}
