//! When a job was last started.

use std::time::Duration;

use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{Claimed, Retry, claim, retry};
use jiff::Timestamp;

use crate::fixture::{Farm, failure, past, until_blocked};

async fn last_start(farm: &Farm, job_id: &str) -> Option<Timestamp> {
    let sql = "SELECT last_run_started FROM farmhand.job_status WHERE job_id = $1";
    farm.sql.query_one(sql, &[&job_id]).await.unwrap().get(0)
}

/// As `failure`, started at this instant; the next attempt is an hour later.
fn failed(me: &LeaseIdentity, run: &Claimed, at: Option<Timestamp>) -> Retry {
    let mut end = failure(me, run, Duration::from_secs(3_600));
    end.measured.started_at = at;
    end
}

#[tokio::test]
async fn a_start_that_is_told_together_with_its_end_is_the_jobs_last_one() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 3).await;
    let runs = claim(&farm.db, &me, 3, None).await.unwrap();
    let never = failed(&me, &runs[0], None);
    retry(&farm.db, &[never]).await.unwrap();
    assert_eq!(last_start(&farm, "j").await, None);
    retry(&farm.db, &[failed(&me, &runs[1], Some(past(1)))])
        .await
        .unwrap();
    assert_eq!(last_start(&farm, "j").await, Some(past(1)));
    let attempts = "SELECT count(*) FROM farmhand.attempt a JOIN farmhand.job_status s \
                    ON s.job_id = a.job_id AND s.last_run_started = a.started_at";
    farm.is(attempts, 1).await;
    retry(&farm.db, &[failed(&me, &runs[2], Some(past(60)))])
        .await
        .unwrap();
    assert_eq!(last_start(&farm, "j").await, Some(past(1)), "the latest stands");
}

/// Of what one statement ends, one run is tried again and another is over: both are counted in the order of their jobs.
#[tokio::test]
async fn ends_of_attempts_lock_what_counts_them_in_the_order_of_jobs() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("a", 1).await;
    farm.due_runs("z", 1).await;
    let runs = claim(&farm.db, &me, 2, None).await.unwrap();
    farm.exec(
        "INSERT INTO farmhand.job_stat (job_id) VALUES ('a'), ('z');
             UPDATE farmhand.run_live SET cancel_by = 'x' WHERE job_id = 'a'",
    )
    .await;
    let (db, ends) = (
        farm.db.clone(),
        runs.iter()
            .map(|run| failed(&me, run, Some(past(1))))
            .collect::<Vec<_>>(),
    );
    let lock = |job: &str| format!("SELECT FROM farmhand.job_stat WHERE job_id = '{job}' FOR UPDATE");
    let begin = format!("BEGIN; SET LOCAL lock_timeout = '5s'; {}", lock("a"));
    farm.exec(&begin).await;
    let ending = tokio::spawn(async move { retry(&db, &ends).await });
    until_blocked(&farm).await;
    farm.exec(&lock("z")).await;
    farm.exec("COMMIT").await;
    assert_eq!(ending.await.unwrap().unwrap().len(), 2);
    let counted = "SELECT count(*) FROM farmhand.job_stat WHERE last_run_started IS NOT NULL";
    farm.is(counted, 2).await;
}
