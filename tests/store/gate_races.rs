//! Pools, locks and rates with many agents at once: no place is given twice, no run is left behind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use farmhand_core::definition::JobSpec;
use farmhand_store::jobs::submit;
use farmhand_store::leases::{self, Acquired};
use farmhand_store::migrate::migrate;
use farmhand_store::notify;
use farmhand_store::partitions::ensure_partitions;
use farmhand_store::protocol::{Claimed, claim_any, claim_gated, finish, force_expire, raise_sequences};
use farmhand_store::{Db, LeaseIdentity};
use farmhand_tests::acting::anna;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, info, opened, spec, success, until_blocked};
use crate::gates::{locked, pooled};
use crate::rounds::looping;

/// How much of each resource the agents of this test believe to hold. Counted up after a claim was answered and
/// down before its end is sent, so that more than there may be is a mistake of the database's.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<HashMap<String, i64>>>);

impl Ledger {
    fn change(&self, me: &LeaseIdentity, run: &Claimed, by: i64) {
        let spec: JobSpec = serde_json::from_value((*run.spec).clone()).unwrap();
        let node_pool = spec.node_pool.map(|p| format!("{p} of {}", me.address));
        let names = spec.pool.into_iter().chain(node_pool).chain(spec.locks);
        let mut held = self.0.lock().unwrap();
        for name in names {
            let most = match name.as_str() {
                "wide" => 3,
                name if name.starts_with("disk of ") => 2,
                _ => 1,
            };
            let now = held.entry(name.clone()).or_default();
            *now += by;
            assert!(*now <= most, "{name}: {now} at once, by run {}", run.run_id);
        }
    }
}

/// Claims and finishes until nothing is left; every tenth time it dies with what it holds, and comes back.
async fn agent(db: Db, address: String, ledger: Ledger, until: Instant) -> usize {
    let mut me = opened(&db, info(&address, Uuid::new_v4(), json!({}))).await;
    let mut done = 0;
    for round in 1.. {
        let now = farmhand_store::reading::farm(&db).await.unwrap();
        let left = now.running + now.due + now.waiting;
        if left == 0 {
            break;
        }
        assert!(Instant::now() < until, "{left} runs were left behind");
        let won = claim_any(&db, &me, 3, true).await.unwrap();
        won.iter().for_each(|run| ledger.change(&me, run, 1));
        tokio::task::yield_now().await;
        won.iter().for_each(|run| ledger.change(&me, run, -1));
        if round % 10 == 0 {
            force_expire(&anna(&db), &address, me.session).await.unwrap();
            me = opened(&db, info(&address, Uuid::new_v4(), json!({}))).await;
            continue;
        }
        let ends: Vec<_> = won.iter().map(|run| success(&me, run)).collect();
        done += finish(&db, &ends).await.unwrap().len();
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_agents_at_once_never_hold_more_than_there_is_and_leave_nothing() {
    let farm = Farm::new().await;
    for (pool, size) in [("wide", 3), ("disk", 2)] {
        farm.pool(pool, size).await;
    }
    let both = JobSpec {
        pool: Some("wide".to_owned()),
        ..locked(&["b"])
    };
    let disk = JobSpec {
        node_pool: Some("disk".to_owned()),
        ..locked(&["c"])
    };
    let node = JobSpec {
        node_pool: Some("disk".to_owned()),
        ..spec()
    };
    let jobs = [
        ("pooled", pooled("wide")),
        ("ab", locked(&["a", "b"])),
        ("ba", locked(&["b", "a"])),
        ("bc", locked(&["b", "c"])),
        ("c", locked(&["c"])),
        ("both", both),
        ("disk", disk),
        ("node", node),
        ("plain", spec()),
    ];
    for (name, spec) in &jobs {
        farm.needy(name, spec.clone()).await;
    }
    for _ in 0..15 {
        for (name, _) in &jobs {
            submit(&farm.db, name, &json!({}), None, None).await.unwrap();
        }
    }
    let (ledger, until) = (Ledger::default(), Instant::now() + Duration::from_secs(150));
    let agents: Vec<_> = (0..8)
        .map(|n| {
            let db = Db::new(&farm.test.config());
            tokio::spawn(agent(db, format!("n{n}"), ledger.clone(), until))
        })
        .collect();
    let mut done = 0;
    for agent in agents {
        done += agent.await.unwrap();
    }
    let ended = farm
        .i64("SELECT count(*) FROM farmhand.run WHERE state IN ('succeeded', 'failed')")
        .await;
    assert_eq!(ended, 135);
    assert!(done <= 135, "{done}");
    farm.is("SELECT count(*) FROM farmhand.run_live", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waited_for_another_sees_what_it_took() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    farm.pool("p", 1).await;
    farm.needy("j", pooled("p")).await;
    farm.submitted("j").await;
    farm.submitted("j").await;
    let slow = farm.test.client().await;
    slow.exec("BEGIN").await;
    let won = slow
        .query(
            "SELECT farmhand.claim_gated($1, $2, $3, 9)",
            &[&a.address, &a.session, &a.incarnation],
        )
        .await
        .unwrap();
    assert_eq!(won.len(), 1);
    let (db, me) = (farm.db.clone(), b.clone());
    let other = tokio::spawn(async move { claim_any(&db, &me, 9, true).await.unwrap() });
    until_blocked(&farm).await;
    slow.exec("COMMIT").await;
    assert!(
        other.await.unwrap().is_empty(),
        "the only place was taken meanwhile"
    );
}

#[tokio::test]
async fn a_run_that_somebody_has_locked_delays_no_other() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 1).await;
    farm.needy("j", pooled("p")).await;
    let (first, second) = (farm.submitted("j").await, farm.submitted("j").await);
    let other = farm.test.client().await;
    other.exec_with("BEGIN", &[]).await;
    other
        .exec_with(
            "SELECT FROM farmhand.run_live WHERE run_id = $1 FOR UPDATE",
            &[&first],
        )
        .await;
    let won = claim_any(&farm.db, &a, 9, true).await.unwrap();
    assert_eq!(won[0].run_id, second);
    other.exec_with("ROLLBACK", &[]).await;
}

/// Pages of run_live read by a statement, and whether it was read as a whole.
async fn cost(farm: &Farm, statement: &str) -> (i64, i64) {
    let c = farm.test.client().await;
    c.exec(&format!("BEGIN; {statement}")).await;
    let row = c
        .query_one(
            "SELECT seq_scan::bigint, (seq_tup_read + idx_tup_fetch)::bigint
             FROM pg_stat_xact_user_tables WHERE schemaname = 'farmhand' AND relname = 'run_live'",
            &[],
        )
        .await
        .unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_long_queue_at_a_pool_costs_a_claim_and_a_poll_no_more_than_a_short_one() {
    let farm = Farm::new().await;
    let a = farm.node("a").await;
    farm.pool("p", 2).await;
    farm.needy("j", pooled("p")).await;
    farm.needy("other", locked(&["x"])).await;
    farm.needy("plain", spec()).await;
    for job in ["j", "other", "plain"] {
        farm.sql
            .exec_with(
                "INSERT INTO farmhand.run_live (job_id, rev, kind, due_at, ready_at, gate)
                 SELECT $1, 1, 'submitted', now() - interval '1 minute', now() - interval '1 minute',
                     (SELECT n.gate FROM farmhand.need n WHERE n.job_id = $1)
                 FROM generate_series(1, 20000)",
                &[&job],
            )
            .await;
    }
    farm.exec("ANALYZE farmhand.run_live").await;
    let claims = format!(
        "SELECT farmhand.claim_gated('a', {}, '{}', 8)",
        a.session, a.incarnation
    );
    for statement in [
        claims.as_str(),
        "SELECT farmhand.gated_at('a')",
        "SELECT * FROM farmhand.waiting",
        "SELECT * FROM farmhand.holding",
    ] {
        let (scans, rows) = cost(&farm, statement).await;
        assert_eq!(scans, 0, "{statement} reads the whole queue");
        assert!(rows < 300, "{statement} reads {rows} of 60,000 runs");
    }
    assert_eq!(claim_any(&farm.db, &a, 8, true).await.unwrap().len(), 8);
}

/// It needs what its new revision needs, which this claim has not looked at.
#[tokio::test]
async fn a_round_that_an_apply_gives_another_lock_is_left_to_the_next_claim() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let often = JobSpec {
        rate: Some("3/1h".to_owned()),
        priority: 9,
        ..spec()
    };
    farm.needy("first", often).await;
    farm.submitted("first").await;
    let needs = |lock: &str| JobSpec {
        locks: vec![lock.to_owned()],
        ..looping(1)
    };
    farm.job("loop", needs("y"), None).await;
    // Corrected by the claim, which waits for it with the list of what is to be claimed in its hands.
    let later = "INSERT INTO farmhand.rate_start VALUES ('first', now() + interval '1 hour', 1, 1)";
    farm.exec(later).await;
    let holder = farm.test.client().await;
    let hold = "BEGIN; SELECT FROM farmhand.rate_start FOR UPDATE";
    holder.exec(hold).await;
    let (db, claimer) = (farm.db.clone(), me.clone());
    let claiming = tokio::spawn(async move { claim_gated(&db, &claimer, 9).await.unwrap() });
    until_blocked(&farm).await;
    farm.job("loop", needs("z"), None).await;
    holder.exec("COMMIT").await;
    let jobs = |runs: Vec<Claimed>| -> Vec<String> { runs.into_iter().map(|run| run.job_id).collect() };
    assert_eq!(jobs(claiming.await.unwrap()), ["first"]);
    assert_eq!(jobs(claim_gated(&farm.db, &me, 9).await.unwrap()), ["loop"]);
}

#[tokio::test]
async fn a_run_with_needs_is_written_once() {
    let farm = Farm::new().await;
    farm.pool("p", 2).await;
    farm.needy("j", pooled("p")).await;
    let c = farm.test.client().await;
    c.exec("BEGIN; SELECT farmhand.submit('j') FROM generate_series(1, 300)")
        .await;
    let written = "SELECT n_tup_ins::bigint, n_tup_upd::bigint FROM pg_stat_xact_user_tables
        WHERE schemaname = 'farmhand' AND relname = 'run_live'";
    let row = c.query_one(written, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (300, 0));
    c.exec("ROLLBACK").await;
}

/// Whoever may connect may take advisory locks, and keep them.
#[tokio::test]
async fn no_lock_that_a_stranger_can_take_stands_in_front_of_a_claim_an_epoch_or_a_migration() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", locked(&["x"]), None).await;
    submit(&farm.owner, "j", &json!({}), None, None).await.unwrap();
    let stranger = farm.test.client().await;
    let taken = "SELECT pg_advisory_lock(7377299466905054820 + n) FROM generate_series(0, 9) n;
        SELECT pg_advisory_lock(c, hashtext(name)) FROM unnest(ARRAY[1718771553, 1919907699, 1919905645]) c,
            unnest(ARRAY['x', 'y', 'j']) name";
    stranger.exec(taken).await;
    let won = claim_any(&farm.db, &me, 9, true).await.unwrap();
    assert_eq!(won.len(), 1);
    let asked = leases::acquire(&farm.owner, "y", TTL, None).await.unwrap();
    assert!(matches!(asked, Acquired::Granted(_)), "{asked:?}");
    raise_sequences(&farm.db, 0).await.unwrap();
    ensure_partitions(&farm.db, 30).await.unwrap();
    assert!(!matches!(
        notify::settle(&farm.db, &[]).await.unwrap(),
        notify::Settled::Busy
    ));
    migrate(&farm.test.config()).await.unwrap();
    let asks = "SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace AND p.prosrc LIKE '%advisory%'";
    farm.is(asks, 0).await;
}

#[tokio::test]
async fn runs_without_needs_are_claimed_while_those_with_needs_have_to_wait() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", locked(&["x"]), None).await;
    submit(&farm.owner, "j", &json!({}), None, None).await.unwrap();
    farm.due_runs("plain", 1).await;
    let other = farm.test.client().await;
    let lock = "BEGIN; SELECT FROM farmhand.alone WHERE what = 'claims with needs' FOR UPDATE";
    other.exec(lock).await;
    let partial = claim_any(&farm.db, &me, 9, true).await.unwrap_err();
    let jobs: Vec<&str> = partial.won.iter().map(|run| run.job_id.as_str()).collect();
    assert_eq!(jobs, ["plain"], "{}", partial.error);
    other.exec("ROLLBACK").await;
    assert_eq!(claim_any(&farm.db, &me, 9, true).await.unwrap().len(), 1);
}
