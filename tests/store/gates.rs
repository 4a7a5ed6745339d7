//! What passes the gates of pools, locks and rates, and what gives back its place.

use farmhand_tests::acting::anna;
use std::time::Duration;

use farmhand_core::definition::{JobSpec, Overlap};
use farmhand_store::LeaseIdentity;
use farmhand_store::jobs::{
    ApplyOutcome, Blocked, JobChange, PoolChange, apply_all, backfill, cancel, retry_run, submit,
};
use farmhand_store::pools::{gate_facts, set_pool};
use farmhand_store::protocol::{Claimed, claim, claim_gated, finish, retry, sweep};
use farmhand_store::reading::pool;
use serde_json::json;

use crate::fixture::{Farm, expire_now, failure, past, spec, success};

impl Farm {
    pub async fn pool(&self, name: &str, size: u32) {
        let pool = PoolChange {
            name: name.to_owned(),
            size,
            source: "test.toml".to_owned(),
        };
        let done = apply_all(&anna(&self.owner), &[], Some(&[pool]), None, false, "tester")
            .await
            .unwrap();
        assert!(matches!(done, ApplyOutcome::Done { .. }), "{done:?}");
    }

    /// A job that is only submitted.
    pub async fn needy(&self, name: &str, spec: JobSpec) {
        self.job(name, spec, None).await;
    }

    pub async fn submitted(&self, job: &str) -> i64 {
        submit(&self.db, job, &json!({}), None, None).await.unwrap()
    }
}

pub fn pooled(pool: &str) -> JobSpec {
    JobSpec {
        pool: Some(pool.to_owned()),
        ..spec()
    }
}

pub fn locked(locks: &[&str]) -> JobSpec {
    JobSpec {
        locks: locks.iter().map(|l| (*l).to_owned()).collect(),
        ..spec()
    }
}

pub async fn gated(farm: &Farm, me: &LeaseIdentity, limit: i64) -> Vec<Claimed> {
    claim_gated(&farm.db, me, limit).await.unwrap()
}

pub fn ids(runs: &[Claimed]) -> Vec<i64> {
    runs.iter().map(|r| r.run_id).collect()
}

pub async fn reason(farm: &Farm, run: i64) -> Option<String> {
    farm.state(run).await.1
}

#[tokio::test]
async fn a_pool_lets_as_many_in_as_it_has_places_farm_wide() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.pool("p", 3).await;
    farm.needy("j", pooled("p")).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(farm.submitted("j").await);
    }
    assert!(
        claim(&farm.db, &a, 9, None).await.unwrap().is_empty(),
        "not past the gate"
    );
    let first = gated(&farm, &a, 2).await;
    let second = gated(&farm, &b, 9).await;
    assert_eq!((ids(&first), ids(&second)), (runs[..2].to_vec(), vec![runs[2]]));
    assert!(gated(&farm, &a, 9).await.is_empty());
    assert_eq!(reason(&farm, runs[3]).await.as_deref(), Some("pool"));
    assert_eq!(reason(&farm, runs[0]).await, None);
    finish(&farm.db, &[success(&a, &first[1])]).await.unwrap();
    assert_eq!(reason(&farm, runs[3]).await, None, "there is a place now");
    assert_eq!(ids(&gated(&farm, &a, 9).await), [runs[3]]);
}

#[tokio::test]
async fn a_pool_is_resized_at_once_and_shrinking_ends_nothing() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 2).await;
    farm.needy("j", pooled("p")).await;
    for _ in 0..6 {
        farm.submitted("j").await;
    }
    let held = gated(&farm, &a, 9).await;
    assert_eq!(held.len(), 2);
    assert!(set_pool(&anna(&farm.db), "p", 3, "eve").await.unwrap());
    let more = gated(&farm, &a, 9).await;
    assert_eq!(more.len(), 1);
    assert!(set_pool(&anna(&farm.db), "p", 1, "eve").await.unwrap());
    finish(&farm.db, &[success(&a, &held[0]), success(&a, &held[1])])
        .await
        .unwrap();
    assert!(
        gated(&farm, &a, 9).await.is_empty(),
        "one is in it, one is its size"
    );
    finish(&farm.db, &[success(&a, &more[0])]).await.unwrap();
    assert_eq!(gated(&farm, &a, 9).await.len(), 1);
    assert!(set_pool(&anna(&farm.db), "p", 0, "eve").await.unwrap());
    assert!(gated(&farm, &a, 9).await.is_empty());
    assert!(!set_pool(&anna(&farm.db), "nope", 1, "eve").await.unwrap());
    let row = pool(&farm.db, "p").await.unwrap().unwrap();
    assert_eq!(
        (row.size, row.file_size, row.holders.len(), row.waiting, row.jobs),
        (0, 2, 1, 2, vec!["j".to_owned()])
    );
}

#[tokio::test]
async fn the_same_file_again_keeps_the_size_set_by_hand_and_another_size_in_it_counts() {
    let farm = Farm::new().await;
    farm.pool("p", 2).await;
    set_pool(&anna(&farm.db), "p", 5, "eve").await.unwrap();
    farm.pool("p", 2).await;
    farm.is("SELECT size::bigint FROM farmhand.pool", 5).await;
    farm.pool("p", 3).await;
    farm.is("SELECT size::bigint FROM farmhand.pool", 3).await;
}

#[tokio::test]
async fn pools_that_are_not_there_or_in_use_stop_an_apply() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let change = |spec| JobChange {
        job_id: "j".to_owned(),
        spec,
        next_run: None,
        source: "t".to_owned(),
    };
    let refused = apply_all(&anna(&farm.owner), &[change(pooled("p"))], None, None, false, "t")
        .await
        .unwrap();
    let no_pool = Blocked::NoPool {
        job_id: "j".to_owned(),
        pool: "p".to_owned(),
    };
    assert_eq!(refused, ApplyOutcome::Blocked(vec![no_pool]));
    farm.pool("p", 1).await;
    farm.needy("j", pooled("p")).await;
    let run = farm.submitted("j").await;
    let olga = anna(&farm.owner);
    let prune = || apply_all(&olga, &[], Some(&[]), None, true, "t");
    let in_use = Blocked::PoolInUse {
        pool: "p".to_owned(),
        runs: vec![run],
    };
    assert_eq!(
        prune().await.unwrap(),
        ApplyOutcome::Blocked(vec![in_use.clone()])
    );
    let held = gated(&farm, &a, 1).await;
    assert_eq!(prune().await.unwrap(), ApplyOutcome::Blocked(vec![in_use]));
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    assert!(matches!(prune().await.unwrap(), ApplyOutcome::Done { .. }));
    farm.is("SELECT count(*) FROM farmhand.pool", 0).await;
}

#[tokio::test]
async fn a_node_pool_counts_on_each_node() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.pool("disk", 1).await;
    let job = JobSpec {
        node_pool: Some("disk".to_owned()),
        ..spec()
    };
    farm.needy("j", job).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(farm.submitted("j").await);
    }
    assert_eq!(ids(&gated(&farm, &a, 9).await), [runs[0]]);
    assert_eq!(ids(&gated(&farm, &b, 9).await), [runs[1]]);
    assert_eq!(reason(&farm, runs[2]).await.as_deref(), Some("pool"));
}

#[tokio::test]
async fn every_way_of_making_a_run_meets_the_gate() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 1).await;
    let job = JobSpec {
        overlap: Overlap::Allow,
        ..pooled("p")
    };
    farm.job("j", job, Some(past(60))).await;
    farm.fire_at("j", past(60), &[past(60), past(50)]).await;
    farm.submitted("j").await;
    backfill(&anna(&farm.db), "j", 1, &[past(7200)], "t")
        .await
        .unwrap();
    let mut held = gated(&farm, &a, 9).await;
    assert_eq!(held.len(), 1);
    let ended = held.remove(0);
    finish(&farm.db, &[success(&a, &ended)]).await.unwrap();
    retry_run(&anna(&farm.db), ended.run_id, "t", false, None)
        .await
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let mut held = gated(&farm, &a, 9).await;
        assert_eq!(held.len(), 1);
        let run = held.remove(0);
        seen.push(run.kind.as_str());
        finish(&farm.db, &[success(&a, &run)]).await.unwrap();
    }
    seen.sort_unstable();
    assert_eq!(seen, ["backfill", "retry", "scheduled", "submitted"]);
    let passed = "SELECT count(*) FROM farmhand.run_live WHERE gate IS NULL";
    farm.is(passed, 0).await;
}

#[tokio::test]
async fn a_queued_run_goes_from_the_overlap_gate_to_the_pools() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 1).await;
    let job = JobSpec {
        overlap: Overlap::Queue,
        instances: 2,
        ..pooled("p")
    };
    farm.job("j", job, Some(past(60))).await;
    farm.fire_at("j", past(60), &[past(60), past(50)]).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        let mut held = gated(&farm, &a, 9).await;
        assert_eq!(held.len(), 1, "one place, however many instances");
        let run = held.remove(0);
        order.push((run.due_at, run.instance));
        finish(&farm.db, &[success(&a, &run)]).await.unwrap();
    }
    assert_eq!(
        order,
        [(past(60), 0), (past(60), 1), (past(50), 0), (past(50), 1)]
    );
}

#[tokio::test]
async fn a_takeover_releases_what_the_lost_attempt_held() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.pool("p", 1).await;
    let job = JobSpec {
        pool: Some("p".to_owned()),
        ..locked(&["x", "y"])
    };
    farm.needy("j", job).await;
    let (first, second) = (farm.submitted("j").await, farm.submitted("j").await);
    assert_eq!(ids(&gated(&farm, &a, 9).await), [first]);
    assert!(gated(&farm, &b, 9).await.is_empty());
    expire_now(&farm, &a).await;
    let again = gated(&farm, &b, 9).await;
    assert_eq!((ids(&again), again[0].attempt), (vec![first], 2));
    finish(&farm.db, &[success(&b, &again[0])]).await.unwrap();
    assert_eq!(ids(&gated(&farm, &b, 9).await), [second]);
}

#[tokio::test]
async fn a_run_that_waits_for_its_retry_holds_nothing() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.needy("j", locked(&["x"])).await;
    let (first, second) = (farm.submitted("j").await, farm.submitted("j").await);
    let held = gated(&farm, &a, 9).await;
    assert_eq!(ids(&held), [first]);
    retry(&farm.db, &[failure(&a, &held[0], Duration::from_secs(60))])
        .await
        .unwrap();
    assert_eq!(reason(&farm, first).await.as_deref(), Some("retry"));
    assert_eq!(ids(&gated(&farm, &a, 9).await), [second]);
}

#[tokio::test]
async fn cancelling_a_waiting_run_leaves_its_turn_to_the_next() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 1).await;
    farm.needy("j", pooled("p")).await;
    let runs = [farm.submitted("j").await, farm.submitted("j").await];
    cancel(&anna(&farm.db), runs[0], "eve").await.unwrap();
    assert_eq!(ids(&gated(&farm, &a, 9).await), [runs[1]]);
    sweep(&farm.db).await.unwrap();
}

#[tokio::test]
async fn a_run_that_waits_for_its_rate_is_nobodys_reason() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let rated = JobSpec {
        rate: Some("1/1h".parse().unwrap()),
        ..locked(&["x"])
    };
    farm.needy("rated", rated).await;
    farm.needy("x", locked(&["x"])).await;
    farm.submitted("rated").await;
    let held = gated(&farm, &a, 9).await;
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    farm.submitted("rated").await;
    let run = farm.submitted("x").await;
    assert_eq!(reason(&farm, run).await, None, "it is only to be claimed");
    let facts = gate_facts(&farm.db, "x", 1, run).await.unwrap().unwrap();
    assert_eq!(facts.before, []);
    assert_eq!(ids(&gated(&farm, &a, 9).await), [run]);
}

#[tokio::test]
async fn a_pool_of_each_node_that_is_full_where_the_run_may_run_is_its_reason() {
    let farm = Farm::new().await;
    farm.node("a").await;
    let g = farm.node_with("g", json!({"gpu": "yes"})).await;
    farm.pool("disk", 1).await;
    let job = JobSpec {
        node_pool: Some("disk".to_owned()),
        placement: [("gpu".to_owned(), "yes".to_owned())].into(),
        ..spec()
    };
    farm.needy("j", job).await;
    let (_first, second) = (farm.submitted("j").await, farm.submitted("j").await);
    let held = gated(&farm, &g, 9).await;
    let pool_full = async || {
        let facts = gate_facts(&farm.db, "j", 1, second).await.unwrap().unwrap();
        (reason(&farm, second).await, facts.pool_full)
    };
    let full = (Some("pool".to_owned()), true);
    assert_eq!(pool_full().await, full, "a has a place that it cannot use");
    finish(&farm.db, &[success(&g, &held[0])]).await.unwrap();
    farm.exec("UPDATE farmhand.node SET cordoned = true WHERE address = 'g'")
        .await;
    assert_eq!(
        pool_full().await,
        (None, false),
        "it waits for a node, not for the pool"
    );
}
