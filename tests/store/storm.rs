//! Everything at once: agents that claim, finish, retry, die, are expired and come back, in an order of
//! chance, on one database. What must hold at the end holds whatever the order was.

use farmhand_tests::acting::anna;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use farmhand_core::definition::{JobSpec, Overlap};
use farmhand_core::lease::MarksBelow;
use farmhand_store::jobs::{cancel, submit};
use farmhand_store::protocol::{
    Attempt, Claimed, Expired, FinishResult, NodeReport, Opened, Release, Renewed, claim, close, expire,
    finish, fire, open, overdue, poll, release, renew, retry, sweep,
};
use farmhand_store::{Db, LeaseIdentity};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, failure, firing, info, past, spec, success};

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>. A storm is repeatable as far as its choices go.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

struct Agent {
    db: Db,
    me: LeaseIdentity,
    held: Vec<Claimed>,
    /// Attempts of ended sessions, whose holder does not know yet.
    stale: Vec<(LeaseIdentity, Claimed)>,
    finished: Vec<(i64, i64)>,
    fences: Vec<(i64, i64)>,
}

impl Agent {
    async fn open(db: Db, address: &str) -> Self {
        let me = session(&db, address).await.expect("a free address");
        Self {
            db,
            me,
            held: Vec::new(),
            stale: Vec::new(),
            finished: Vec::new(),
            fences: Vec::new(),
        }
    }

    /// The session ended behind its back: what it held is stale now, and it comes back.
    async fn lost(&mut self) {
        let old = self.me.clone();
        self.stale
            .extend(self.held.drain(..).map(|run| (old.clone(), run)));
        if let Some(me) = session(&self.db, &old.address).await {
            self.me = me;
        }
    }

    async fn step(&mut self, chance: &mut Chance) {
        match chance.below(100) {
            0..30 => {
                let won = claim(
                    &self.db,
                    &self.me,
                    1 + i64::try_from(chance.below(4)).unwrap(),
                    None,
                )
                .await
                .unwrap();
                self.fences.extend(won.iter().map(|c| (c.run_id, c.fence)));
                self.held.extend(won);
            }
            30..55 => self.finish_some(chance).await,
            55..62 => {
                if let Some(run) = self.held.pop() {
                    retry(&self.db, &[failure(&self.me, &run, Duration::ZERO)])
                        .await
                        .unwrap();
                }
            }
            62..66 => {
                if let Some(run) = self.held.pop() {
                    let given = [Attempt::from(&run)];
                    release(&self.db, &self.me, &given, Release::NeverStarted)
                        .await
                        .unwrap();
                }
            }
            66..76 => {
                if renew(&self.db, &self.me, TTL, &NodeReport::default())
                    .await
                    .unwrap()
                    == Renewed::Lost
                {
                    self.lost().await;
                }
            }
            76..82 => self.expire_a_neighbour().await,
            82..85 => {
                close(&self.db, &self.me).await.unwrap();
                self.lost().await;
            }
            85..88 => {
                sweep(&self.db).await.unwrap();
            }
            88..92 => {
                if let Some(run) = self.held.first() {
                    cancel(&anna(&self.db), run.run_id, "storm").await.unwrap();
                }
            }
            92..96 => {
                submit(&self.db, "queue", &json!({}), None, None).await.unwrap();
            }
            _ => self.fire_all().await,
        }
    }

    async fn finish_some(&mut self, chance: &mut Chance) {
        let keep = self.held.len() - self.held.len().min(usize::try_from(chance.below(4)).unwrap());
        let mut ends: Vec<_> = self
            .held
            .split_off(keep)
            .iter()
            .map(|r| success(&self.me, r))
            .collect();
        let fresh = ends.len();
        ends.extend(self.stale.drain(..).map(|(me, run)| success(&me, &run)));
        for (n, (of, answer)) in finish(&self.db, &ends).await.unwrap().into_iter().enumerate() {
            if answer == FinishResult::Done {
                assert!(n < fresh || self.me.session > 0);
                self.finished.push((of.run_id, i64::from(of.attempt)));
            }
        }
    }

    async fn expire_a_neighbour(&mut self) {
        let all = MarksBelow {
            ttls: vec![i64::MAX],
            marks: vec![i64::MAX],
        };
        let seen = poll(&self.db, &self.me, &all).await.unwrap().silent;
        let after = seen.iter().filter(|n| n.address > self.me.address);
        if let Some(n) = after.chain(&seen).next() {
            let ended = expire(&self.db, &n.address, n.session, n.incarnation, n.renewals)
                .await
                .unwrap();
            assert!(matches!(ended, Expired::Done { .. } | Expired::Changed));
        }
    }

    async fn fire_all(&mut self) {
        let due = overdue(&self.db, 100).await.unwrap();
        let fires: Vec<_> = due
            .iter()
            .map(|d| {
                let mut f = firing(&d.job_id, d.rev, d.next_run, &[d.next_run]);
                f.following = Some(Timestamp::from_second(d.next_run.as_second() + 1).unwrap());
                f
            })
            .collect();
        fire(&self.db, &fires).await.unwrap();
    }
}

async fn session(db: &Db, address: &str) -> Option<LeaseIdentity> {
    let incarnation = Uuid::new_v4();
    match open(db, &info(address, incarnation, json!({}))).await.unwrap() {
        Opened::Session(session) => Some(LeaseIdentity {
            address: address.to_owned(),
            session,
            incarnation,
        }),
        _ => None,
    }
}

async fn storm(seed: u64) {
    let farm = Farm::new().await;
    for (job, overlap) in [
        ("skip", Overlap::Skip),
        ("queue", Overlap::Queue),
        ("replace", Overlap::Replace),
        ("allow", Overlap::Allow),
    ] {
        let instances = if job == "queue" { 3 } else { 1 };
        let shape = JobSpec {
            overlap,
            instances,
            ..spec()
        };
        farm.job(job, shape, Some(past(40))).await;
    }
    let agents = (0..5).map(|n| {
        let config = farm.test.config();
        tokio::spawn(async move {
            let mut agent = Agent::open(Db::new(&config), &format!("n{n}")).await;
            let mut chance = Chance(seed * 1000 + n);
            for _ in 0..120 {
                agent.step(&mut chance).await;
            }
            close(&agent.db, &agent.me).await.unwrap();
            (agent.finished, agent.fences)
        })
    });
    let (mut finished, mut fences) = (Vec::new(), Vec::new());
    for agent in agents.collect::<Vec<_>>() {
        let (f, c) = agent.await.unwrap();
        finished.extend(f);
        fences.extend(c);
    }
    // One more session ends whatever a session lost to an expire without knowing still holds.
    sweep(&farm.db).await.unwrap();
    let held = farm.i64("SELECT count(*) FROM farmhand.run_live r JOIN farmhand.node n ON n.address = r.running_at WHERE NOT n.open").await;
    assert_eq!(held, 0, "an ended session holds nothing");
    let runs: HashSet<_> = finished.iter().map(|f| f.0).collect();
    assert_eq!(runs.len(), finished.len(), "no run is finished twice");
    let distinct: HashSet<_> = fences.iter().map(|f| f.1).collect();
    assert_eq!(distinct.len(), fences.len(), "no fence is given twice");

    let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
    for (run, fence) in &fences {
        let entry = newest.entry(*run).or_insert(*fence);
        *entry = (*fence).max(*entry);
    }
    let rows = farm
        .sql
        .query(
            "SELECT run_id, fence, state, attempt::bigint FROM farmhand.run WHERE fence IS NOT NULL",
            &[],
        )
        .await
        .unwrap();
    for row in rows {
        let (run_id, fence): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(
            newest.get(&run_id),
            Some(&fence),
            "the last claim's fence is the highest"
        );
    }
    let twice = farm
        .i64("SELECT count(*) FROM (SELECT run_id FROM farmhand.run GROUP BY run_id HAVING count(*) > 1) d")
        .await;
    assert_eq!(twice, 0, "a run is live or finished, not both");
    let lost = farm
        .i64(
            "SELECT count(*) FROM farmhand.run_live l WHERE l.attempt <> (
                 SELECT count(*) FROM farmhand.attempt a WHERE a.run_id = l.run_id) AND l.state = 'due'",
        )
        .await;
    assert_eq!(lost, 0, "every attempt of a waiting run is recorded");
    let doubles = farm
        .i64(
            "SELECT count(*) FROM (SELECT job_id, d FROM (
                 SELECT job_id, instance, due_at AS d FROM farmhand.run WHERE kind = 'scheduled' AND state <> 'skipped'
                 UNION ALL
                 SELECT job_id, 0, first_due FROM farmhand.run WHERE state = 'skipped') a
             GROUP BY job_id, instance, d HAVING count(*) > 1) x",
        )
        .await;
    assert_eq!(doubles, 0, "an instant has one outcome");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_order_every_run_has_one_owner_and_one_end() {
    for seed in 1..=3 {
        storm(seed).await;
    }
}
