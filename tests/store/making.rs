//! The tables by which runs are made: the database's and the core's are the same.

use farmhand_tests::acting::anna;
use std::collections::BTreeMap;

use farmhand_core::definition::{Enabled, JobSpec, Overlap, ParamSpec, ParamType, RunOn};
use farmhand_core::health::JobState;
use farmhand_core::making::{MAX_QUEUED, Maker, may_make, overlap_says};
use farmhand_store::jobs::{
    Backfilled, Retried, Submission, backfill, cancel, pause, retry_run, submit, submit_overlapping,
};
use farmhand_store::protocol::{claim, fire_boot};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::boots::boot_job;
use crate::fixture::{Farm, past, sharded, spec, success, until_blocked};
use crate::triggers::{ends, reasons};

#[tokio::test]
async fn what_a_state_means_for_a_maker_is_one_table() {
    let farm = Farm::new().await;
    let states = JobState::ALL.iter().copied().map(Some).chain([None]);
    for (maker, state) in
        (Maker::ALL.iter()).flat_map(|maker| states.clone().map(move |state| (*maker, state)))
    {
        for observes in [false, true] {
            let row = farm
                .sql
                .query_one(
                    "SELECT farmhand.may_make($1, $2, $3)",
                    &[
                        &maker.as_str(),
                        &state.map_or("deleted", JobState::as_str),
                        &observes,
                    ],
                )
                .await
                .unwrap();
            let making = may_make(maker, state, observes);
            assert_eq!(
                row.get::<_, &str>(0),
                making.as_str(),
                "{maker} {state:?} {observes}"
            );
        }
    }
}

/// A pause hides that a job observes, and nothing of it is executed all the same.
#[tokio::test]
async fn a_paused_job_that_observes_makes_nothing_by_hand() {
    let farm = Farm::new().await;
    let observes = JobSpec {
        enabled: Enabled::Observe,
        ..spec()
    };
    let rev = farm.job("j", observes, Some(past(60))).await;
    pause(&anna(&farm.db), "j", "somebody", None).await.unwrap();
    let submitted = submit(&farm.db, "j", &json!({}), None, None).await;
    assert!(submitted.unwrap_err().to_string().contains("observes"));
    let filled = backfill(&anna(&farm.db), "j", rev, &[past(120)], "somebody").await;
    assert_eq!(filled.unwrap(), Backfilled::Observes);
}

#[tokio::test]
async fn what_an_overlap_rule_says_is_one_table() {
    let farm = Farm::new().await;
    let queues = [
        None,
        Some(0),
        Some(1),
        Some(MAX_QUEUED - 2),
        Some(MAX_QUEUED - 1),
        Some(MAX_QUEUED),
    ];
    let numbers = (1..=3_i64).flat_map(|instants| (1..=instants).map(move |nth| (nth, instants)));
    for rule in Overlap::ALL {
        for ((nth, instants), queued) in numbers.clone().flat_map(|n| queues.map(|queued| (n, queued))) {
            for live in [false, true] {
                let row = farm
                    .sql
                    .query_one(
                        "SELECT farmhand.overlap_says($1, $2, $3, $4, $5)",
                        &[&rule.as_str(), &live, &queued, &nth, &instants],
                    )
                    .await
                    .unwrap();
                let says = overlap_says(*rule, live, queued, nth, instants);
                let cell = format!("{rule} {live} {queued:?} {nth} of {instants}");
                assert_eq!(row.get::<_, &str>(0), says.as_str(), "{cell}");
            }
        }
    }
}

/// Runs of no node may be on any, and those of a node are of the whole job.
#[tokio::test]
async fn a_job_whose_run_on_is_changed_does_not_run_beside_itself() {
    for (before, after) in [(RunOn::One, RunOn::EachNode), (RunOn::EachNode, RunOn::One)] {
        let farm = Farm::new().await;
        let a = farm.node("a").await;
        let job = |run_on, overlap| JobSpec {
            run_on,
            overlap,
            ..spec()
        };
        farm.job("j", job(before, Overlap::Skip), Some(past(300))).await;
        farm.fire_at("j", past(300), &[past(300)]).await;
        let run = claim(&farm.db, &a, 1, None).await.unwrap().remove(0);

        farm.job("j", job(after, Overlap::Skip), Some(past(200))).await;
        let fired = farm.fire_at("j", past(200), &[past(200)]).await;
        assert_eq!(
            (reasons(&fired[0]), fired[0].run_ids.len()),
            (vec!["overlap"], 0),
            "{after:?}"
        );

        farm.job("j", job(after, Overlap::Queue), Some(past(100))).await;
        let fired = farm.fire_at("j", past(100), &[past(100)]).await;
        assert_eq!(fired[0].run_ids.len(), 1, "{after:?}");
        assert_eq!(claim(&farm.db, &a, 1, None).await.unwrap().len(), 0, "{after:?}");
        ends(&farm, success(&a, &run)).await;
        assert_eq!(claim(&farm.db, &a, 1, None).await.unwrap().len(), 1, "{after:?}");
    }
}

/// Firings are counted, and not their shards; and what waits by hand or for a backfill is none of the schedule's.
#[tokio::test]
async fn the_queue_of_a_schedule_is_as_long_as_its_firings() {
    let farm = Farm::new().await;
    farm.node("a").await;
    let sharded = sharded(Overlap::Queue, 100);
    let first = past(3600);
    let rev = farm.job("j", sharded, Some(first)).await;
    let hours: Vec<Timestamp> = (1..=1_100)
        .map(|n| first - SignedDuration::from_hours(n))
        .collect();
    let filled = backfill(&anna(&farm.db), "j", rev, &hours[..12], "somebody").await;
    assert!(matches!(filled, Ok(Backfilled::Done { run_ids }) if run_ids.len() == 1_200));
    for nth in 0..12 {
        farm.exec("UPDATE farmhand.job SET next_run = now() - interval '1 minute', scheduled = true")
            .await;
        let seen: std::time::SystemTime = farm.sql.value("SELECT next_run FROM farmhand.job").await;
        let at = Timestamp::try_from(seen).unwrap();
        let fired = farm.fire_at("j", at, &[at]).await;
        assert_eq!(
            (fired[0].run_ids.len(), fired[0].skipped.len()),
            (100, 0),
            "{nth}"
        );
    }
}

#[tokio::test]
async fn a_boot_replaces_what_runs_and_says_what_it_skips() {
    let farm = Farm::new().await;
    let job = |overlap| JobSpec {
        overlap,
        ..boot_job()
    };
    farm.job("replaces", job(Overlap::Replace), None).await;
    farm.job("skips", job(Overlap::Skip), None).await;
    let a = farm.node("a").await;
    let booted = fire_boot(&farm.db, &a, "boot-1").await.unwrap().unwrap();
    assert_eq!(booted.run_ids.len(), 2);
    let claimed = claim(&farm.db, &a, 2, None).await.unwrap();
    let old = claimed.iter().find(|run| run.job_id == "replaces").unwrap();

    let booted = fire_boot(&farm.db, &a, "boot-2").await.unwrap().unwrap();
    let [replaces, skips] = &booted.fired[..] else {
        panic!("{booted:?}")
    };
    assert_eq!(
        (&replaces.cancelling, replaces.run_ids.len()),
        (&vec![old.run_id], 1)
    );
    assert_eq!((reasons(skips), skips.run_ids.len()), (vec!["overlap"], 0));
    assert!(claim(&farm.db, &a, 1, None).await.unwrap().is_empty());
    ends(&farm, success(&a, old)).await;
    assert_eq!(
        claim(&farm.db, &a, 1, None).await.unwrap()[0].run_id,
        replaces.run_ids[0]
    );
}

/// Its end that is being written is waited for, or what the boot makes would wait for nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_boot_sees_the_end_of_what_its_run_would_wait_for() {
    let farm = Farm::new().await;
    let queues = JobSpec {
        overlap: Overlap::Queue,
        ..boot_job()
    };
    farm.job("j", queues, None).await;
    let a = farm.node("a").await;
    submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let ops = farm.test.client().await;
    ops.exec("BEGIN; DELETE FROM farmhand.run_live").await;
    let (db, me) = (farm.db.clone(), a.clone());
    let boot = tokio::spawn(async move { fire_boot(&db, &me, "boot-1").await.unwrap().unwrap() });
    until_blocked(&farm).await;
    ops.exec("COMMIT").await;
    assert_eq!(boot.await.unwrap().run_ids.len(), 1);
    farm.is("SELECT count(*) FROM farmhand.run_live WHERE gate IS NULL", 1)
        .await;
}

#[tokio::test]
async fn the_queue_of_runs_by_hand_has_a_bound_of_its_own() {
    let farm = Farm::new().await;
    farm.due_runs("j", 1).await;
    farm.exec(
        "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, gate, overlap)
             SELECT 'j', 1, 'submitted', now(), now(), 'overlap', 'queue' FROM generate_series(1, 999)",
    )
    .await;
    let queues = Submission {
        job_id: "j",
        params: &json!({}),
        key: None,
        overlap: Overlap::Queue,
        by: Some("somebody"),
    };
    let last = submit_overlapping(&anna(&farm.db), queues, true).await.unwrap();
    assert_eq!((last.runs, last.skipped, last.live), (1, 0, 1_000));
    let one_more = submit_overlapping(&anna(&farm.db), queues, true).await.unwrap();
    assert_eq!((one_more.runs, one_more.skipped, one_more.live), (1, 1, 1_000));
    farm.is_now(one_more.run_id, "skipped", Some("queue_full")).await;
    let by = format!(
        "SELECT submitted_by FROM farmhand.run_history WHERE run_id = {}",
        one_more.run_id
    );
    farm.says(&by, Some("somebody")).await;
}

#[tokio::test]
async fn a_run_is_not_repeated_with_parameters_that_its_job_does_not_have() {
    let farm = Farm::new().await;
    let job = |kind| JobSpec {
        params: BTreeMap::from([(
            "n".to_owned(),
            ParamSpec {
                kind,
                default: None,
                required: false,
            },
        )]),
        ..spec()
    };
    farm.job("j", job(ParamType::Integer), None).await;
    let run = submit(&farm.db, "j", &json!({"n": 5}), None, None).await.unwrap();
    cancel(&anna(&farm.db), run, "somebody").await.unwrap();
    let again = retry_run(&anna(&farm.db), run, "somebody", false, None)
        .await
        .unwrap();
    assert!(matches!(again, Retried::Run(_)), "{again:?}");
    farm.job("j", job(ParamType::Boolean), None).await;
    let again = retry_run(&anna(&farm.db), run, "somebody", false, None)
        .await
        .unwrap();
    assert!(
        matches!(&again, Retried::Unfit(why) if why.contains("must be of type boolean")),
        "{again:?}"
    );
    farm.job("j", spec(), None).await;
    let again = retry_run(&anna(&farm.db), run, "somebody", false, None)
        .await
        .unwrap();
    assert!(
        matches!(&again, Retried::Unfit(why) if why.contains("has no parameter")),
        "{again:?}"
    );
}
