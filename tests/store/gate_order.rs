//! In which order runs get pools, locks and rates.

use std::time::Duration;

use farmhand_core::definition::JobSpec;
use farmhand_core::lease::MarksBelow;
use farmhand_store::protocol::{NodeReport, claim_any, finish, poll, renew, retry};
use farmhand_store::{Db, Note};
use serde_json::json;

use crate::fixture::{Farm, TTL, expire_now, failure, spec, success};
use crate::gates::{gated, ids, locked, pooled, reason};

#[tokio::test]
async fn locks_are_taken_all_at_once_or_not_at_all() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.needy("ab", locked(&["a", "b"])).await;
    farm.needy("ba", locked(&["b", "a"])).await;
    farm.needy("c", locked(&["c"])).await;
    let first = farm.submitted("ab").await;
    let second = farm.submitted("ba").await;
    let third = farm.submitted("c").await;
    let held = gated(&farm, &a, 9).await;
    assert_eq!(ids(&held), [first, third]);
    assert!(gated(&farm, &b, 9).await.is_empty());
    assert_eq!(reason(&farm, second).await.as_deref(), Some("lock"));
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    assert_eq!(ids(&gated(&farm, &b, 9).await), [second]);
}

#[tokio::test]
async fn a_stream_of_runs_with_one_lock_does_not_starve_one_that_needs_two() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.needy("one", locked(&["a"])).await;
    farm.needy("other", locked(&["b"])).await;
    farm.needy("both", locked(&["a", "b"])).await;
    farm.submitted("one").await;
    let mut held = gated(&farm, &a, 1).await;
    let both = farm.submitted("both").await;
    for _ in 0..3 {
        farm.submitted("one").await;
        farm.submitted("other").await;
    }
    assert!(
        gated(&farm, &a, 9).await.is_empty(),
        "b is kept for the run in front"
    );
    finish(&farm.db, &[success(&a, &held.remove(0))]).await.unwrap();
    assert_eq!(ids(&gated(&farm, &a, 9).await), [both]);
}

#[tokio::test]
async fn the_first_that_waits_for_a_pool_keeps_its_locks_and_those_behind_it_do_not() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 1).await;
    farm.needy("in", pooled("p")).await;
    for (name, lock) in [("first", "x"), ("second", "y")] {
        let job = JobSpec {
            pool: Some("p".to_owned()),
            ..locked(&[lock])
        };
        farm.needy(name, job).await;
    }
    farm.needy("x", locked(&["x"])).await;
    farm.needy("y", locked(&["y"])).await;
    farm.submitted("in").await;
    let held = gated(&farm, &a, 1).await;
    let first = farm.submitted("first").await;
    farm.submitted("second").await;
    farm.submitted("x").await;
    let y = farm.submitted("y").await;
    assert_eq!(ids(&gated(&farm, &a, 9).await), [y]);
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    assert_eq!(ids(&gated(&farm, &a, 9).await), [first]);
}

#[tokio::test]
async fn a_rate_counts_starts_retries_among_them() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let job = JobSpec {
        rate: Some("3/1h".to_owned()),
        ..spec()
    };
    farm.needy("j", job).await;
    for _ in 0..4 {
        farm.submitted("j").await;
    }
    let held = gated(&farm, &a, 2).await;
    assert_eq!(held.len(), 2);
    retry(&farm.db, &[failure(&a, &held[0], Duration::ZERO)])
        .await
        .unwrap();
    let again = gated(&farm, &a, 9).await;
    assert_eq!(ids(&again), [held[0].run_id], "the third start");
    let waiting = farm
        .i64("SELECT min(run_id) FROM farmhand.run WHERE state = 'due'")
        .await;
    assert_eq!(reason(&farm, waiting).await.as_deref(), Some("rate"));
    let at = poll(&farm.db, &a, &MarksBelow::default())
        .await
        .unwrap()
        .gated_at
        .expect("a time");
    let wait = at.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((3500..=3600).contains(&wait), "{wait}");
    // What a dead node ran waits for a start of its own, as the others do.
    let b = farm.node("b").await;
    expire_now(&farm, &a).await;
    assert!(gated(&farm, &b, 9).await.is_empty());
    // An hour later.
    farm.exec("UPDATE farmhand.rate_start SET at = at - interval '1 hour'")
        .await;
    assert_eq!(gated(&farm, &b, 9).await.len(), 3);
    farm.is("SELECT count(*) FROM farmhand.rate_start", 3).await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_delays_a_rate_by_one_window_at_most() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let job = JobSpec {
        rate: Some("1/1m".to_owned()),
        ..spec()
    };
    farm.needy("j", job).await;
    farm.submitted("j").await;
    farm.submitted("j").await;
    assert_eq!(gated(&farm, &a, 9).await.len(), 1);
    farm.exec("UPDATE farmhand.rate_start SET at = at + interval '5 hours'")
        .await;
    let seen = poll(&farm.db, &a, &MarksBelow::default()).await.unwrap();
    assert!(
        seen.gated_at.expect("a time") <= seen.db_now,
        "somebody is to correct it"
    );
    assert!(gated(&farm, &a, 9).await.is_empty());
    let at = poll(&farm.db, &a, &MarksBelow::default())
        .await
        .unwrap()
        .gated_at
        .expect("a time");
    assert!(at.duration_since(jiff::Timestamp::now()).as_secs() <= 60, "{at}");
}

#[tokio::test]
async fn higher_priority_goes_first_and_runs_without_needs_keep_their_places() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 9).await;
    for (name, priority, pool) in [("low", -1, Some("p")), ("high", 5, Some("p")), ("plain", 0, None)] {
        let job = JobSpec {
            priority,
            pool: pool.map(str::to_owned),
            ..spec()
        };
        farm.needy(name, job).await;
    }
    let low = farm.submitted("low").await;
    let plain = [farm.submitted("plain").await, farm.submitted("plain").await];
    let high = farm.submitted("high").await;
    let mut won = ids(&claim_any(&farm.db, &a, 2, true).await.unwrap());
    won.sort_unstable();
    assert_eq!(won, [plain[0], high]);
    assert_eq!(ids(&claim_any(&farm.db, &a, 1, true).await.unwrap()), [plain[1]]);
    assert_eq!(ids(&claim_any(&farm.db, &a, 1, true).await.unwrap()), [low]);
}

#[tokio::test]
async fn a_run_that_no_node_may_run_keeps_nobody_waiting() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let elsewhere = JobSpec {
        placement: [("gpu".to_owned(), "yes".to_owned())].into(),
        ..locked(&["x", "y"])
    };
    farm.needy("gpu", elsewhere).await;
    farm.needy("x", locked(&["x"])).await;
    farm.needy("y", locked(&["y"])).await;
    let first = farm.submitted("x").await;
    assert_eq!(ids(&gated(&farm, &a, 1).await), [first]);
    farm.submitted("gpu").await;
    let y = farm.submitted("y").await;
    let held = gated(&farm, &a, 9).await;
    assert_eq!(ids(&held), [y], "no lock is kept for what cannot run");
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    let gpu = farm.node_with("g", json!({"gpu": "yes"})).await;
    farm.submitted("y").await;
    assert!(gated(&farm, &a, 9).await.is_empty());
    assert!(gated(&farm, &gpu, 9).await.is_empty());
}

#[tokio::test]
async fn a_run_that_waits_for_a_node_pool_keeps_its_lock() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("disk", 1).await;
    let disk = |job: JobSpec| JobSpec {
        node_pool: Some("disk".to_owned()),
        ..job
    };
    farm.needy("x", locked(&["x"])).await;
    farm.needy("disk", disk(spec())).await;
    farm.needy("both", disk(locked(&["x"]))).await;
    farm.submitted("x").await;
    farm.submitted("disk").await;
    let held = gated(&farm, &a, 9).await;
    assert_eq!(held.len(), 2);
    let both = farm.submitted("both").await;
    let behind = farm.submitted("x").await;
    farm.submitted("disk").await;
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    assert!(gated(&farm, &a, 9).await.is_empty(), "x is kept");
    finish(&farm.db, &[success(&a, &held[1])]).await.unwrap();
    assert_eq!(ids(&gated(&farm, &a, 9).await), [both]);
    assert_eq!(reason(&farm, behind).await.as_deref(), Some("lock"));
}

#[tokio::test]
async fn a_run_for_another_node_keeps_its_lock_and_its_place_while_that_node_has_a_slot() {
    let farm = Farm::new().await;
    let (a, gpu) = (
        farm.node("a").await,
        farm.node_with("g", json!({"gpu": "yes"})).await,
    );
    farm.pool("p", 1).await;
    let needs = || JobSpec {
        pool: Some("p".to_owned()),
        ..locked(&["x"])
    };
    let there = JobSpec {
        placement: [("gpu".to_owned(), "yes".to_owned())].into(),
        ..needs()
    };
    farm.needy("gpu", there).await;
    farm.needy("any", needs()).await;
    farm.needy("in-pool", pooled("p")).await;
    farm.submitted("any").await;
    let held = gated(&farm, &a, 9).await;
    let first = farm.submitted("gpu").await;
    farm.submitted("gpu").await;
    let any = farm.submitted("any").await;
    farm.submitted("in-pool").await;
    let (keeper, mut notes) = Db::dedicated(&farm.test.config());
    renew(&keeper, &a, Duration::from_secs(3), &NodeReport::default())
        .await
        .unwrap();
    assert_eq!(notes.recv().await, Some(Note::Reconnected { direct: true }));
    finish(&farm.db, &[success(&a, &held[0])]).await.unwrap();
    let told = notes.recv().await;
    assert!(
        matches!(&told, Some(Note::Due { run_id, node: Some(node), .. }) if *run_id == first && node == "g"),
        "{told:?}"
    );
    assert!(
        gated(&farm, &a, 9).await.is_empty(),
        "they are left to the other node"
    );
    let there = gated(&farm, &gpu, 9).await;
    assert_eq!(ids(&there), [first]);

    // All its slots are taken: nobody waits for it.
    farm.held_run(&gpu, "plain", spec()).await;
    let slots = "UPDATE farmhand.node SET slots = 1 WHERE address = 'g'";
    farm.exec(slots).await;
    finish(&farm.db, &[success(&gpu, &there[0])]).await.unwrap();
    assert_eq!(ids(&gated(&farm, &a, 9).await), [any]);
}

#[tokio::test]
async fn nothing_is_kept_for_a_node_that_renews_and_claims_nothing() {
    let farm = Farm::new().await;
    let (a, gpu) = (
        farm.node("a").await,
        farm.node_with("g", json!({"gpu": "yes"})).await,
    );
    let there = |job: JobSpec| JobSpec {
        placement: [("gpu".to_owned(), "yes".to_owned())].into(),
        ..job
    };
    farm.needy("waits", there(locked(&["x", "y"]))).await;
    farm.needy("free", there(locked(&["z"]))).await;
    for lock in ["x", "y", "z"] {
        farm.needy(lock, locked(&[lock])).await;
    }
    farm.submitted("x").await;
    assert_eq!(gated(&farm, &a, 9).await.len(), 1);
    // The one has to wait for x and keeps y, the other could begin there at once.
    farm.submitted("waits").await;
    farm.submitted("free").await;
    let behind = [farm.submitted("y").await, farm.submitted("z").await];
    assert!(gated(&farm, &a, 9).await.is_empty());
    let report = NodeReport {
        cannot_start: Some("no claim is answered".to_owned()),
        ..NodeReport::default()
    };
    renew(&farm.db, &gpu, TTL, &report).await.unwrap();
    assert_eq!(ids(&gated(&farm, &a, 9).await), behind);
}

#[tokio::test]
async fn a_run_whose_pool_nobody_can_enter_keeps_no_lock() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 0).await;
    farm.pool("q", 1).await;
    let shut = JobSpec {
        pool: Some("p".to_owned()),
        ..locked(&["x"])
    };
    farm.needy("shut", shut).await;
    farm.needy(
        "gone",
        JobSpec {
            pool: None,
            node_pool: Some("q".to_owned()),
            ..locked(&["x"])
        },
    )
    .await;
    farm.needy("x", locked(&["x"])).await;
    farm.submitted("shut").await;
    farm.submitted("gone").await;
    farm.exec("DELETE FROM farmhand.pool WHERE name = 'q'").await;
    let run = farm.submitted("x").await;
    assert_eq!(ids(&gated(&farm, &a, 9).await), [run]);
}

#[tokio::test]
async fn nothing_is_kept_for_a_node_that_refuses_the_run() {
    let farm = Farm::new().await;
    let (a, _b, c) = (farm.node("a").await, farm.node("b").await, farm.node("c").await);
    farm.held_run(&c, "plain", spec()).await;
    farm.needy("signed", locked(&["x"])).await;
    farm.needy("x", locked(&["x"])).await;
    farm.exec(
        "UPDATE farmhand.node SET slots = 1 WHERE address = 'c';
             INSERT INTO farmhand.refusal (job_id, rev, address, why, first_at, at)
             SELECT 'signed', 1, n, 'no key', now(), now() FROM unnest('{a,b}'::text[]) n",
    )
    .await;
    farm.submitted("signed").await;
    let x = farm.submitted("x").await;
    assert_eq!(
        ids(&gated(&farm, &a, 9).await),
        [x],
        "the only one that takes it has no slot"
    );
}

#[tokio::test]
async fn a_run_of_an_older_revision_forgets_no_start_of_the_present_rate() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    let job = |rate: &str| JobSpec {
        rate: Some(rate.parse().unwrap()),
        ..spec()
    };
    farm.needy("j", job("5/1m")).await;
    farm.submitted("j").await;
    let held = gated(&farm, &a, 9).await;
    retry(&farm.db, &[failure(&a, &held[0], Duration::ZERO)])
        .await
        .unwrap();
    farm.needy("j", job("2/1h")).await;
    farm.exec("UPDATE farmhand.rate_start SET at = at - interval '2 minutes'")
        .await;
    assert_eq!(gated(&farm, &a, 9).await.len(), 1, "the retry, by its own rate");
    farm.submitted("j").await;
    assert!(gated(&farm, &a, 9).await.is_empty(), "two starts within the hour");
}
