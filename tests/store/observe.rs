//! Jobs that observe: their instants are recorded, and nothing that could be claimed is made.

use farmhand_core::definition::{Enabled, JobSpec, Overlap, RunOn};
use farmhand_core::due::{SkipFold, SkipReason};
use farmhand_core::health::JobHealth;
use farmhand_store::jobs::{Backfilled, Retried, backfill, ran_instants, retry_run, submit};
use farmhand_store::protocol::{Fire, claim, fire, fire_boot, jobs_since};
use farmhand_store::reading::{self, JobCondition, JobState, JobsFilter, Paging};
use farmhand_store::{Db, StoreError};
use farmhand_tests::acting::anna;
use jiff::Timestamp;
use serde_json::json;

use crate::boots::boot_job;
use crate::fixture::{Farm, firing, past, spec, success};

fn observing(spec: JobSpec) -> JobSpec {
    JobSpec {
        enabled: Enabled::Observe,
        ..spec
    }
}

/// What is recorded of a job: each row's node, reason, first instant, and how many it stands for.
async fn recorded(farm: &Farm, job: &str) -> Vec<(Option<String>, String, Timestamp, i64)> {
    let rows = farm
        .sql
        .query(
            "SELECT node, reason, (extract(epoch FROM first_due))::bigint, count FROM farmhand.run_history
             WHERE job_id = $1 AND state = 'skipped' ORDER BY first_due, node",
            &[&job],
        )
        .await
        .unwrap();
    rows.iter()
        .map(|row| {
            let at = Timestamp::from_second(row.get(2)).unwrap();
            (row.get(0), row.get(1), at, row.get(3))
        })
        .collect()
}

async fn live(farm: &Farm) -> i64 {
    farm.i64("SELECT count(*) FROM farmhand.run_live").await
}

#[tokio::test]
async fn each_instant_is_recorded_and_nothing_can_be_claimed_whatever_overlap_says() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    for overlap in Overlap::ALL {
        let job = overlap.as_str();
        let at = past(180);
        farm.job(
            job,
            observing(JobSpec {
                overlap: *overlap,
                ..spec()
            }),
            Some(at),
        )
        .await;
        let instants = [at, past(120), past(60)];
        let plan = Fire {
            skipped: vec![SkipFold {
                reason: SkipReason::Missed,
                first: past(600),
                last: past(300),
                count: 6,
            }],
            ..firing(job, 1, at, &instants)
        };
        let fired = fire(&farm.db, &[plan]).await.unwrap();
        assert_eq!(fired[0].run_ids, Vec::<i64>::new(), "{job}");
        // One row each, so that they can be compared with what cron did; what is not run otherwise is told as always.
        let observed = |at| (None, "observed".to_owned(), at, 1);
        let missed = (None, "missed".to_owned(), past(600), 6);
        let wanted: Vec<_> = std::iter::once(missed).chain(instants.map(observed)).collect();
        assert_eq!(recorded(&farm, job).await, wanted, "{job}");
    }
    assert_eq!(live(&farm).await, 0);
    assert!(claim(&farm.db, &me, 99, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_job_of_each_node_is_recorded_for_each_and_its_absence_too() {
    let farm = Farm::new().await;
    let each = || {
        observing(JobSpec {
            run_on: RunOn::EachNode,
            instances: 2,
            ..spec()
        })
    };
    farm.job("early", each(), Some(past(60))).await;
    farm.fire_at("early", past(60), &[past(60)]).await;
    let nowhere = (None, "no_node".to_owned(), past(60), 1);
    assert_eq!(recorded(&farm, "early").await, [nowhere]);

    farm.node("a").await;
    farm.node("b").await;
    farm.job("each", each(), Some(past(120))).await;
    farm.fire_at("each", past(120), &[past(120), past(60)]).await;
    let of = |node: &str, at| (Some(node.to_owned()), "observed".to_owned(), at, 1);
    let wanted = [past(120), past(60)]
        .map(|at| [of("a", at), of("b", at)])
        .concat();
    assert_eq!(recorded(&farm, "each").await, wanted);
    assert_eq!(live(&farm).await, 0);
}

#[tokio::test]
async fn a_boot_is_recorded_on_its_node() {
    let farm = Farm::new().await;
    farm.job("warm", observing(boot_job()), None).await;
    let a = farm.node("a").await;
    let booted = fire_boot(&farm.db, &a, "boot-1").await.unwrap().unwrap();
    assert!(booted.run_ids.is_empty());
    let rows = recorded(&farm, "warm").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].0.as_deref(), rows[0].1.as_str()),
        (Some("a"), "observed")
    );
    assert_eq!(live(&farm).await, 0);
}

#[tokio::test]
async fn a_plan_that_was_made_before_it_observed_fires_nothing() {
    let farm = Farm::new().await;
    let at = past(60);
    farm.job("j", spec(), Some(at)).await;
    // Decided with the first revision, as an agent does that has not yet read the second.
    let stale = firing("j", 1, at, &[at]);
    farm.sql
        .exec_with(
            "UPDATE farmhand.job SET next_run = now() + interval '1 hour'",
            &[],
        )
        .await;
    farm.job("j", observing(spec()), Some(at)).await;
    assert!(fire(&farm.db, &[stale]).await.unwrap().is_empty());
    assert_eq!(live(&farm).await, 0);
    // What an agent of a release without `observe` reads is no definition to it.
    let row = jobs_since(&farm.db, 0).await.unwrap().remove(0);
    assert_eq!(row.spec["enabled"], "observe");
}

async fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused(text) if text.contains("observes: nothing of it is executed")),
        "{error:?}"
    );
}

#[tokio::test]
async fn nobody_can_run_it_by_hand() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let rev = farm.job("j", observing(spec()), None).await;
    farmhand_store::protocol::finish(&farm.db, &[success(&me, &run)])
        .await
        .unwrap();
    refused(submit(&farm.db, "j", &json!({}), None, None).await).await;
    let again = retry_run(&anna(&farm.db), run.run_id, "eve", false, None)
        .await
        .unwrap();
    assert_eq!(again, Retried::Observes);
    let filled = backfill(&anna(&farm.db), "j", rev, &[past(600)], "eve")
        .await
        .unwrap();
    assert_eq!(filled, Backfilled::Observes);
    assert_eq!(live(&farm).await, 0);
}

#[tokio::test]
async fn what_cron_was_to_run_is_not_made_up_for_once_the_job_runs_itself() {
    let farm = Farm::new().await;
    farm.job("j", observing(spec()), Some(past(600))).await;
    farm.fire_at("j", past(600), &[past(600)]).await;
    let rev = farm.job("j", spec(), None).await;
    let ran = ran_instants(&farm.db, "j", past(900), past(60)).await.unwrap();
    assert_eq!(ran.into_iter().collect::<Vec<_>>(), [(past(600), true)]);
    let filled = backfill(&anna(&farm.db), "j", rev, &[past(600)], "eve")
        .await
        .unwrap();
    assert_eq!(filled, Backfilled::Done { run_ids: vec![] });
}

async fn listed(db: &Db, condition: JobCondition) -> Vec<(String, JobState, JobHealth)> {
    let filter = JobsFilter {
        state: Some(condition),
        ..JobsFilter::default()
    };
    let page = reading::jobs(db, &filter, &Paging::default()).await.unwrap();
    (page.items.into_iter())
        .map(|job| (job.job_id, job.state, job.health))
        .collect()
}

#[tokio::test]
async fn it_is_shown_as_observing_and_its_success_is_not_waited_for() {
    let farm = Farm::new().await;
    let soon = past(-3600);
    let scheduled = || JobSpec {
        schedule: vec!["@hourly".to_owned()],
        ..spec()
    };
    farm.job("real", scheduled(), Some(soon)).await;
    farm.job("shadow", observing(scheduled()), Some(soon)).await;
    assert_eq!(
        listed(&farm.db, JobCondition::Observing).await,
        [("shadow".to_owned(), JobState::Observing, JobHealth::Observing)]
    );
    assert_eq!(
        listed(&farm.db, JobCondition::Enabled).await,
        [("real".to_owned(), JobState::Enabled, JobHealth::Enabled)]
    );
    let words = "SELECT string_agg(job_id || '=' || state, ' ' ORDER BY job_id) FROM farmhand.job_status";
    farm.says(words, Some("real=enabled shadow=observing")).await;
    // `waits` is what has a deadline for its next success.
    let statement = include_str!("../../common/store/src/sql/snapshot_jobs.sql");
    let rows = farm.sql.query(&statement.replace("$2", "10"), &[]).await.unwrap();
    let waits: Vec<(String, bool)> = rows
        .iter()
        .map(|row| (row.get("job_id"), row.get("waits")))
        .collect();
    assert_eq!(waits, [("real".to_owned(), true), ("shadow".to_owned(), false)]);
}
