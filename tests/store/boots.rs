use farmhand_core::definition::{Enabled, JobSpec, Overlap, RunOn};
use farmhand_store::jobs::pause;
use farmhand_store::protocol::{self, Booted, claim, close};
use farmhand_store::{Db, LeaseIdentity, StoreError};
use farmhand_tests::acting::anna;
use serde_json::json;

use crate::fixture::{Farm, spec, until_blocked};
use crate::rounds_races::APPLY;

/// While claims are open.
async fn fire_boot(db: &Db, me: &LeaseIdentity, boot_id: &str) -> Result<Booted, StoreError> {
    Ok(protocol::fire_boot(db, me, boot_id).await?.expect("open claims"))
}

/// How many runs a boot makes.
async fn runs_made(farm: &Farm, me: &LeaseIdentity, boot_id: &str) -> usize {
    fire_boot(&farm.db, me, boot_id).await.unwrap().run_ids.len()
}

pub fn boot_job() -> JobSpec {
    JobSpec {
        schedule: vec!["\t@Reboot\n".to_owned(), "0 3 * * *".to_owned()],
        run_on: RunOn::EachNode,
        ..spec()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_node_fires_its_reboot_jobs_once_per_boot() {
    let farm = Farm::new().await;
    farm.job("warm", boot_job(), None).await;
    farm.job("other", spec(), None).await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let first = fire_boot(&farm.db, &a, "boot-1").await.unwrap();
    assert_eq!(first.run_ids.len(), 1);
    assert_eq!(runs_made(&farm, &a, "boot-1").await, 0);
    // Another node, even with the same boot: two agents on one machine.
    assert_eq!(runs_made(&farm, &b, "boot-1").await, 1);
    // It is claimed where it was fired, and nowhere else.
    let claimed = claim(&farm.db, &b, 10, Some(&first.run_ids)).await.unwrap();
    assert!(claimed.is_empty());
    let claimed = claim(&farm.db, &a, 10, None).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].run_id, first.run_ids[0]);

    // The agent restarts, then the machine.
    close(&farm.db, &a).await.unwrap();
    let a = farm.node("a").await;
    assert_eq!(runs_made(&farm, &a, "boot-1").await, 0);
    close(&farm.db, &a).await.unwrap();
    let again = farm.node("a").await;
    // The leftover of the first boot is due again: the second boot's run is skipped, by name.
    assert_eq!(runs_made(&farm, &again, "boot-2").await, 0);
    let skipped =
        "SELECT count(*) FROM farmhand.run WHERE state = 'skipped' AND reason = 'overlap' AND node = 'a'";
    farm.is(skipped, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_opens_of_one_boot_fire_it_once() {
    let farm = Farm::new().await;
    for n in 0..20 {
        farm.job(&format!("j{n:02}"), boot_job(), None).await;
    }
    let a = farm.node("a").await;
    let mut racers = Vec::new();
    for _ in 0..6 {
        let (db, me) = (farm.test.db().await, a.clone());
        racers.push(tokio::spawn(async move {
            fire_boot(&db, &me, "boot-1").await.unwrap().run_ids.len()
        }));
    }
    let mut made = 0;
    for racer in racers {
        made += racer.await.unwrap();
    }
    assert_eq!(made, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_during_an_apply_of_the_job_fires_it() {
    let farm = Farm::new().await;
    farm.job("warm", boot_job(), None).await;
    let a = farm.node("a").await;
    let ops = farm.test.client().await;
    ops.exec(APPLY).await;
    let (db, me) = (farm.db.clone(), a.clone());
    let firing = tokio::spawn(async move { fire_boot(&db, &me, "boot-1").await.unwrap() });
    until_blocked(&farm).await;
    ops.exec("COMMIT").await;
    assert_eq!(firing.await.unwrap().run_ids.len(), 1);
    farm.is("SELECT rev FROM farmhand.run_live", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_applied_after_the_boot_waits_for_the_next_one() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    assert_eq!(runs_made(&farm, &a, "boot-1").await, 0);
    farm.job("late", boot_job(), None).await;
    assert_eq!(runs_made(&farm, &a, "boot-1").await, 0);
    assert_eq!(runs_made(&farm, &a, "boot-2").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_that_may_not_run_is_recorded_with_its_reason() {
    let farm = Farm::new().await;
    farm.job("asleep", boot_job(), None).await;
    pause(&anna(&farm.db), "asleep", "tester", None).await.unwrap();
    let holidays = JobSpec {
        exclude: vec!["2000-01-01..2100-01-01".to_owned()],
        ..boot_job()
    };
    farm.job("holidays", holidays, None).await;
    let over = JobSpec {
        end: Some("2020-01-01T00:00:00Z".to_owned()),
        ..boot_job()
    };
    farm.job("over", over, None).await;
    let elsewhere = JobSpec {
        placement: [("role".to_owned(), "db".to_owned())].into(),
        ..boot_job()
    };
    farm.job("elsewhere", elsewhere, None).await;
    let off = JobSpec {
        enabled: Enabled::No,
        ..boot_job()
    };
    farm.job("off", off, None).await;
    let a = farm.node_with("a", json!({"role": "web"})).await;
    assert_eq!(runs_made(&farm, &a, "boot-1").await, 0);
    let rows = farm
        .text(
            "SELECT string_agg(job_id || ' ' || state || ' ' || reason, ', ' ORDER BY job_id) FROM farmhand.run",
        )
        .await;
    assert_eq!(
        rows.as_deref(),
        Some("asleep skipped paused, holidays skipped calendar, over skipped ended")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_of_a_session_that_is_over_fires_nothing() {
    let farm = Farm::new().await;
    farm.job("warm", boot_job(), None).await;
    let a = farm.node("a").await;
    close(&farm.db, &a).await.unwrap();
    assert_eq!(runs_made(&farm, &a, "boot-1").await, 0);
    let b = farm.node("a").await;
    assert_eq!(runs_made(&farm, &b, "boot-1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn replace_at_a_boot_ends_what_the_boot_before_left() {
    let farm = Farm::new().await;
    let job = JobSpec {
        overlap: Overlap::Replace,
        ..boot_job()
    };
    farm.job("warm", job, None).await;
    let a = farm.node("a").await;
    let first = fire_boot(&farm.db, &a, "boot-1").await.unwrap().run_ids[0];
    let second = fire_boot(&farm.db, &a, "boot-2").await.unwrap().run_ids[0];
    farm.is_now(first, "cancelled", Some("replaced")).await;
    farm.is_now(second, "due", None).await;
}
