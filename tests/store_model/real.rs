//! The same statements through the store, with the model's small numbers turned into real ones.

use std::time::Duration;

use farmhand_core::definition::{Command, JobSpec};
use farmhand_store::jobs::{ApplyOutcome, JobChange, apply, submit};
use farmhand_store::protocol::{
    self, Attempt, Closed, Expired, Finish, FinishResult, Freed, Measured, NodeInfo, Opened, Release,
    Renewed, Retry,
};
use farmhand_store::{AttemptOutcome, Db, LeaseIdentity};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;
use serde_json::json;
use uuid::Uuid;

use crate::state::{self, ANY, Held, Node, RUNS, Reply, Run, RunState, Stmt};

const TTL: Duration = Duration::from_secs(30);
const JOBS: [&str; RUNS] = ["one", "other"];

pub struct Real {
    db: Db,
    sql: Client,
    other: Client,
    _test: TestDb,
    runs: [i64; RUNS],
}

impl Real {
    pub async fn new() -> Self {
        let test = TestDb::new().await;
        let (db, sql, other) = (test.db().await, test.client().await, test.client().await);
        for job in JOBS {
            let command = Some(Command::Argv(vec!["true".to_owned()]));
            let spec = JobSpec {
                command,
                ..JobSpec::default()
            };
            let change = JobChange {
                job_id: job.to_owned(),
                spec,
                next_run: None,
                source: "t.toml".to_owned(),
            };
            let applied = apply(&anna(&db), &[change], false, "model").await.unwrap();
            assert!(matches!(applied, ApplyOutcome::Done { .. }));
        }
        Self {
            db,
            sql,
            other,
            _test: test,
            runs: [0; RUNS],
        }
    }

    /// Two new due runs, no node.
    pub async fn begin(&mut self) {
        self.sql
            .batch_execute("DELETE FROM farmhand.run_live; DELETE FROM farmhand.node")
            .await
            .unwrap();
        for (run, job) in self.runs.iter_mut().zip(JOBS) {
            *run = submit(&self.db, job, &json!({}), None, None).await.unwrap();
        }
    }

    /// Somebody else's lock on a run.
    pub async fn lock(&self, run: usize) {
        let lock = format!(
            "BEGIN; SELECT FROM farmhand.run_live WHERE run_id = {} FOR UPDATE",
            self.runs[run]
        );
        self.other.batch_execute(&lock).await.unwrap();
    }

    pub async fn unlock(&self) {
        self.other.batch_execute("ROLLBACK").await.unwrap();
    }

    pub async fn run(&self, address: u8, stmt: Stmt, pick: u8) -> Reply {
        let db = &self.db;
        match stmt {
            Stmt::Open { incarnation, longer } => {
                let opened = protocol::open(db, &info(address, incarnation, longer))
                    .await
                    .unwrap();
                match opened {
                    Opened::Session(session) => Reply::Opened {
                        session: small(session),
                        server: 0,
                    },
                    Opened::Taken(_) | Opened::Closed(_) => Reply::Taken,
                }
            }
            Stmt::Renew {
                session,
                incarnation,
                longer,
                ..
            } => {
                match protocol::renew(
                    db,
                    &me(address, session, incarnation),
                    ttl(longer),
                    &protocol::NodeReport::default(),
                )
                .await
                .unwrap()
                {
                    Renewed::Lost => Reply::NoRow,
                    Renewed::Alive { held, .. } => {
                        let of = |r: usize| held.iter().find(|h| h.run_id == self.runs[r]);
                        let held = std::array::from_fn(|r| {
                            of(r).map_or((0, 0), |h| (small(i64::from(h.attempt)), small(h.fence >> 40)))
                        });
                        Reply::Renewed {
                            held,
                            server: 0,
                            epoch: 1,
                        }
                    }
                }
            }
            Stmt::Close {
                session,
                incarnation,
                known,
            } => {
                let may_free = |freed: &Freed| {
                    let r = self.runs.iter().position(|id| *id == freed.run_id);
                    r.is_some_and(|r| known[r] == ANY || i32::from(known[r]) == freed.attempt)
                };
                let closed = protocol::close_if(db, &me(address, session, incarnation), &[], may_free)
                    .await
                    .unwrap();
                updated(matches!(closed, Closed::Done { .. }))
            }
            Stmt::Claim {
                session, incarnation, ..
            } => {
                let only = [self.runs[usize::from(pick)]];
                let won = protocol::claim(db, &me(address, session, incarnation), 1, Some(&only))
                    .await
                    .unwrap();
                assert!(won.len() <= 1);
                won.first().map_or(Reply::NoRow, |c| {
                    assert_eq!(c.run_id, only[0]);
                    Reply::Claimed {
                        run: pick,
                        attempt: small(i64::from(c.attempt)),
                        fence: small(c.fence >> 40),
                    }
                })
            }
            Stmt::Finish { held } => {
                let end = success(self.attempt(held).await, held);
                fenced(protocol::finish(db, &[end]).await.unwrap().remove(0).1)
            }
            Stmt::Retry { held } => {
                let end = failure(self.attempt(held).await, held);
                fenced(protocol::retry(db, &[end]).await.unwrap().remove(0).1)
            }
            Stmt::Release { held } => {
                let given = [self.attempt(held).await];
                let me = me(held.address, held.session, 1);
                fenced(
                    protocol::release(db, &me, &given, Release::NeverStarted)
                        .await
                        .unwrap()
                        .remove(0)
                        .1,
                )
            }
            Stmt::Expire {
                address,
                session,
                incarnation,
                renewals,
            } => {
                let (name, incarnation) = (name_of(address), uuid(incarnation));
                let ended = protocol::expire(db, name, i64::from(session), incarnation, i64::from(renewals))
                    .await
                    .unwrap();
                updated(matches!(ended, Expired::Done { .. }))
            }
            Stmt::Sweep => {
                protocol::sweep(db).await.unwrap();
                Reply::Updated
            }
            Stmt::Poll { .. } | Stmt::OpenEpoch { .. } => unreachable!("not drawn"),
        }
    }

    /// The tables as the model would have them. Who held a run that is no longer held is the model's own
    /// memory.
    pub async fn db(&self, model: &state::Db) -> state::Db {
        let mut db = *model;
        db.nodes = [state::NO_NODE; 2];
        let nodes = "SELECT address, session, incarnation, open, renewals, ttl_ms FROM farmhand.node";
        for row in self.sql.query(nodes, &[]).await.unwrap() {
            let incarnation: Uuid = row.get(2);
            db.nodes[usize::from(row.get::<_, String>(0) == name_of(1))] = Node {
                session: small(row.get(1)),
                incarnation: u8::try_from(incarnation.as_u128()).unwrap(),
                open: row.get(3),
                renewals: small(row.get(4)),
                longer: small(row.get::<_, i64>(5) / 1_000) - 30,
            };
        }
        for r in 0..RUNS {
            let sql = "SELECT state, running_at, session, attempt, fence FROM farmhand.run WHERE run_id = $1";
            let row = self.sql.query_one(sql, &[&self.runs[r]]).await.unwrap();
            let attempt = small(i64::from(row.get::<_, i32>(3)));
            let state = match row.get(0) {
                "due" => RunState::Due,
                "running" => RunState::Running,
                _ => RunState::Final,
            };
            let held = state == RunState::Running;
            db.runs[r] = Run {
                state,
                attempt,
                address: if held {
                    u8::from(row.get::<_, String>(1) == name_of(1))
                } else {
                    model.runs[r].address
                },
                session: if held {
                    small(row.get(2))
                } else {
                    model.runs[r].session
                },
                fence: if held {
                    small(row.get::<_, i64>(4) >> 40)
                } else {
                    model.runs[r].fence
                },
            };
        }
        db
    }

    /// The model knows a fence by its epoch: the run's own is this far from it.
    async fn attempt(&self, held: Held) -> Attempt {
        let run_id = self.runs[usize::from(held.run)];
        let sql = "SELECT fence FROM farmhand.run WHERE run_id = $1";
        let row = self.sql.query_one(sql, &[&run_id]).await.unwrap();
        let own: i64 = row.get::<_, Option<i64>>(0).unwrap_or(0);
        Attempt {
            run_id,
            attempt: i32::from(held.attempt),
            fence: own + i64::from(held.fence) - (own >> 40),
        }
    }

    pub async fn takeovers(&self) -> u32 {
        let sql = "SELECT coalesce(max(takeovers), 0)::bigint FROM farmhand.run_live";
        u32::try_from(self.sql.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)).unwrap()
    }
}

/// As much of a reply as both sides tell; `expected` is the model's.
pub fn told(stmt: &Stmt, reply: Reply, expected: Reply) -> Reply {
    match (stmt, reply) {
        (_, Reply::Opened { session, .. }) => Reply::Opened { session, server: 0 },
        (_, Reply::Renewed { held, .. }) => Reply::Renewed {
            held,
            server: 0,
            epoch: 1,
        },
        // The store also remembers the ends of attempts that did not end their run; the model does not.
        (Stmt::Retry { .. } | Stmt::Release { .. }, Reply::AlreadyOwn) => Reply::NoRow,
        (Stmt::Finish { .. }, Reply::AlreadyOwn) if expected == Reply::NoRow => Reply::NoRow,
        _ => reply,
    }
}

pub fn changed(reply: &Reply) -> bool {
    !matches!(reply, Reply::NoRow | Reply::Taken | Reply::AlreadyOwn)
}

pub fn name(stmt: &Stmt) -> &'static str {
    match stmt {
        Stmt::Open { .. } => "open",
        Stmt::Renew { .. } => "renew",
        Stmt::Close { .. } => "close",
        Stmt::Claim { .. } => "claim",
        Stmt::Finish { .. } => "finish",
        Stmt::Retry { .. } => "retry",
        Stmt::Release { .. } => "release",
        Stmt::Expire { .. } => "expire",
        Stmt::Sweep => "sweep",
        _ => "other",
    }
}

fn fenced(result: FinishResult) -> Reply {
    match result {
        FinishResult::Done => Reply::Updated,
        FinishResult::AlreadyOwn => Reply::AlreadyOwn,
        FinishResult::Fenced { .. } => Reply::NoRow,
        FinishResult::ClaimsClosed => panic!("no round ends in the model"),
        FinishResult::Ended(state) => panic!("nothing was cancelled, yet {state:?}"),
    }
}

fn updated(done: bool) -> Reply {
    if done { Reply::Updated } else { Reply::NoRow }
}

fn small(n: i64) -> u8 {
    u8::try_from(n).expect("a short sequence")
}

fn name_of(address: u8) -> &'static str {
    ["a", "b"][usize::from(address)]
}

fn uuid(incarnation: u8) -> Uuid {
    Uuid::from_u128(u128::from(incarnation))
}

fn me(address: u8, session: u8, incarnation: u8) -> LeaseIdentity {
    LeaseIdentity {
        address: name_of(address).to_owned(),
        session: i64::from(session),
        incarnation: uuid(incarnation),
    }
}

fn ttl(longer: u8) -> Duration {
    TTL + Duration::from_secs(u64::from(longer))
}

pub fn info(address: u8, incarnation: u8, longer: u8) -> NodeInfo {
    NodeInfo {
        address: name_of(address).to_owned(),
        name: name_of(address).to_owned(),
        incarnation: uuid(incarnation),
        ttl: ttl(longer),
        slots: 8,
        labels: json!({}),
        version: "test".to_owned(),
        last_session: 0,
        machine: None,
    }
}

fn success(of: Attempt, held: Held) -> Finish {
    Finish {
        run_id: of.run_id,
        attempt: of.attempt,
        fence: of.fence,
        address: name_of(held.address).to_owned(),
        session: i64::from(held.session),
        state: farmhand_core::run::RunState::Succeeded,
        exit_code: Some(0),
        signal: None,
        reason: None,
        measured: Measured::default(),
        again: None,
    }
}

fn failure(of: Attempt, held: Held) -> Retry {
    Retry {
        run_id: of.run_id,
        attempt: of.attempt,
        fence: of.fence,
        address: name_of(held.address).to_owned(),
        session: i64::from(held.session),
        outcome: AttemptOutcome::Failed,
        exit_code: Some(1),
        signal: None,
        reason: None,
        measured: Measured::default(),
        delay: Duration::ZERO,
    }
}
