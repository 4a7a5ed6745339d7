//! Pools as pages show them: who has a place, and who waits for how long.

use farmhand_core::definition::JobSpec;
use farmhand_store::reading;

use super::fixture::past;
use super::gates::{gated, pooled};
use super::reading::farm;

#[tokio::test]
async fn a_pool_has_its_holders_and_those_that_have_waited_longest() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    farm.pool("p", 1).await;
    farm.pool("q", 1).await;
    farm.needy("j", pooled("p")).await;
    farm.needy("k", pooled("p")).await;
    let first = farm.submitted("j").await;
    assert_eq!(gated(&farm, &me, 9).await.len(), 1);
    let (second, third) = (farm.submitted("k").await, farm.submitted("j").await);
    let later = farm.submitted("k").await;
    farm.exec(&format!(
        "UPDATE farmhand.run_live SET ready_at = now() - interval '2 minutes' WHERE run_id = {third};
             UPDATE farmhand.run_live SET ready_at = now() + interval '1 hour' WHERE run_id = {later}"
    ))
    .await;
    let pool = reading::pool(&db, "p").await.unwrap().unwrap();
    assert_eq!(pool.holders.len(), 1);
    let holder = &pool.holders[0];
    assert_eq!(
        (
            holder.run_id,
            holder.job_id.as_str(),
            holder.node.as_str(),
            holder.per_node
        ),
        (first, "j", "n1", false)
    );
    let waiters: Vec<_> = (pool.waiters.iter())
        .map(|run| (run.run_id, run.job_id.as_str()))
        .collect();
    assert_eq!(
        (waiters, pool.waiting),
        (vec![(third, "j"), (second, "k")], 2),
        "the longest wait first"
    );
    assert!(pool.waiters[0].ready_at < past(119));
    let empty = reading::pool(&db, "q").await.unwrap().unwrap();
    assert_eq!(
        (empty.holders.len(), empty.waiters.len(), empty.waiting),
        (0, 0, 0)
    );

    for _ in 0..60 {
        farm.submitted("j").await;
    }
    let pool = reading::pool(&db, "p").await.unwrap().unwrap();
    assert_eq!(
        (pool.waiters.len(), pool.waiting, pool.waiters[0].run_id),
        (50, 62, third)
    );
}

#[tokio::test]
async fn a_thousand_runs_that_wait_hide_no_other_job() {
    let (farm, db) = farm().await;
    farm.node("n1").await;
    farm.pool("p", 0).await;
    let many = JobSpec {
        instances: 1_100,
        ..pooled("p")
    };
    farm.needy("bulk", many).await;
    farm.needy("nightly", pooled("p")).await;
    farm.submitted("bulk").await;
    farm.submitted("nightly").await;
    let long = "UPDATE farmhand.run_live SET ready_at = now() - interval '5 hours' WHERE job_id = 'nightly'";
    farm.exec(long).await;
    let now = reading::farm(&db).await.unwrap();
    assert_eq!(now.oldest_gated.unwrap().job_id, "nightly");
}

#[tokio::test]
async fn all_places_that_are_taken_are_counted() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    farm.pool("p", 300).await;
    let job = JobSpec {
        instances: 250,
        node_pool: Some("p".to_owned()),
        ..pooled("p")
    };
    farm.needy("j", job).await;
    farm.submitted("j").await;
    assert_eq!(gated(&farm, &me, 250).await.len(), 250);
    let pool = reading::pool(&db, "p").await.unwrap().unwrap();
    assert_eq!(
        (pool.in_use, pool.on_nodes["n1"], pool.holders.len()),
        (250, 250, 200)
    );
}
