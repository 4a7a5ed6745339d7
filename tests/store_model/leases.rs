//! The statements of named leases against the model's meaning of them (`tests/model/named.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::definition::{Command, JobSpec};
use farmhand_core::lease::MarksBelow;
use farmhand_store::jobs::{JobChange, apply, submit};
use farmhand_store::leases::{self, Acquired};
use farmhand_store::protocol::{Opened, claim_gated, open, poll};
use farmhand_store::{Db, LeaseIdentity};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::TestDb;
use serde_json::json;

use crate::Chance;
use crate::named::{AGENT, Fence, Key, Named, Reply, Row, Stmt};
use crate::real::info;

const NAME: &str = "report";
const JOB: &str = "reporter";
const TTL: Duration = Duration::from_secs(3);

/// What the model's small numbers are in the database.
#[derive(Default)]
struct Known {
    fences: BTreeMap<Fence, i64>,
    keys: BTreeMap<String, Key>,
}

impl Known {
    fn fence(&self, of: Fence) -> i64 {
        self.fences.get(&of).copied().unwrap_or(1)
    }

    fn text(&self, of: Key) -> String {
        let known = self.keys.iter().find(|(_, key)| **key == of);
        known.map_or_else(|| "0 0 elsewhere".to_owned(), |(text, _)| text.clone())
    }
}

/// One that was given, or none that ever was.
fn any_fence(chance: &mut Chance, known: &Known) -> Fence {
    let nth = chance.below(known.fences.len() + 1);
    known.fences.keys().rev().nth(nth).copied().unwrap_or((9, 9))
}

/// One that was seen, mostly the newest; or that of another server.
fn any_key(chance: &mut Chance, known: &Known, row: Option<Row>) -> Option<Key> {
    let newest = row.map(|row| (row, 0));
    match chance.below(6) {
        0 => None,
        1 => newest.map(|(row, _)| (row, 1)),
        2 => known
            .keys
            .values()
            .nth(chance.below(known.keys.len().max(1)))
            .copied(),
        _ => newest.filter(|key| known.keys.values().any(|seen| seen == key)),
    }
}

/// A node, and a job that has the name among its locks.
async fn agent(db: &Db) -> LeaseIdentity {
    let spec = JobSpec {
        command: Some(Command::Argv(vec!["true".to_owned()])),
        locks: vec![NAME.to_owned(), "other".to_owned()],
        ..JobSpec::default()
    };
    let change = JobChange {
        job_id: JOB.to_owned(),
        spec,
        next_run: None,
        source: "t.toml".to_owned(),
    };
    apply(&anna(db), &[change], false, "model").await.unwrap();
    let info = info(0, 1, 0);
    let Opened::Session(session) = open(db, &info).await.unwrap() else {
        panic!("the node is new")
    };
    LeaseIdentity {
        address: info.address,
        session,
        incarnation: info.incarnation,
    }
}

#[tokio::test]
async fn every_statement_of_named_leases_means_what_the_model_says() {
    let test = TestDb::new().await;
    let (db, sql) = (test.db().await, test.client().await);
    let model = Named {
        removed: Vec::new(),
        copies: 0,
        run: true,
        lease: 2,
        wait: 2,
    };
    let me = agent(&db).await;
    let mut effects = [0; 5];
    for round in 0..40 {
        let mut chance = Chance(round);
        let begin = "DELETE FROM farmhand.run_live; DELETE FROM farmhand.lease; DELETE FROM farmhand.epoch WHERE epoch > 1;
            UPDATE farmhand.epoch SET server = farmhand.server()";
        sql.exec(begin).await;
        submit(&db, JOB, &json!({}), None, None).await.unwrap();
        let mut s = model.start();
        let mut known = Known::default();
        for step in 0..40 {
            let place = format!("round {round}, step {step}: {s:?}");
            let stmt = match chance.below(18) {
                0 if s.closed.is_none() => {
                    sql.exec("UPDATE farmhand.epoch SET server = '1 elsewhere'").await;
                    s.closed = Some(0);
                    continue;
                }
                0 | 1 if s.closed.is_some() => {
                    s.epoch += 1;
                    s.closed = None;
                    let open = format!(
                        "INSERT INTO farmhand.epoch (epoch, server, opened_by) VALUES ({}, farmhand.server(), 'model')",
                        s.epoch
                    );
                    sql.exec(&open).await;
                    continue;
                }
                0..6 => Stmt::Acquire(any_key(&mut chance, &known, s.db.row)),
                6..10 => Stmt::Renew(any_fence(&mut chance, &known)),
                10..12 => Stmt::Release(any_fence(&mut chance, &known)),
                // Only while the run waits does the agent look for it.
                12..14 if !s.db.run => Stmt::Poll,
                14..16 if !s.db.run => match any_key(&mut chance, &known, s.db.row) {
                    Some(key) => Stmt::Free(key),
                    None => continue,
                },
                16 if s.db.run => {
                    let end = "DELETE FROM farmhand.run_live";
                    sql.exec(end).await;
                    submit(&db, JOB, &json!({}), None, None).await.unwrap();
                    s.db.run = false;
                    s.clients[AGENT].command = None;
                    continue;
                }
                _ => Stmt::Claim,
            };
            let before = s.db.row;
            let expected = model.serve(&mut s, stmt);
            match stmt {
                Stmt::Acquire(seen) => {
                    let seen = seen.map(|key| known.text(key));
                    match (
                        leases::acquire(&db, NAME, TTL, seen.as_deref()).await.unwrap(),
                        expected,
                    ) {
                        (Acquired::Granted(real), Reply::Granted(fence)) => {
                            assert!(known.fences.values().all(|before| *before < real), "{place}");
                            assert_eq!(real >> 40, i64::from(s.epoch), "{place}");
                            known.fences.insert(fence, real);
                            effects[usize::from(before.is_some())] += 1;
                        }
                        (Acquired::Held { key, ttl }, Reply::HeldBy(held)) => {
                            assert_eq!(
                                (*known.keys.entry(key).or_insert(held), ttl),
                                (held, Some(TTL)),
                                "{place}"
                            );
                        }
                        (Acquired::Held { key, ttl: None }, Reply::HeldByRun) => {
                            assert!(key.starts_with("run "), "{key}");
                        }
                        (Acquired::Closed, Reply::Closed) => {}
                        other => panic!("{stmt:?} {other:?}, {place}"),
                    }
                }
                Stmt::Renew(fence) => {
                    let own = leases::renew(&db, NAME, known.fence(fence)).await.unwrap();
                    assert_eq!(own, expected == Reply::Renewed, "{stmt:?} {place}");
                }
                Stmt::Release(fence) => {
                    let own = leases::release(&db, NAME, known.fence(fence)).await.unwrap();
                    assert_eq!(own, before != s.db.row, "{stmt:?} {place}");
                    effects[2] += u32::from(own);
                }
                Stmt::Poll => {
                    let polled = poll(&db, &me, &MarksBelow::default()).await.unwrap();
                    let shown = polled.awaited_leases.into_iter().flatten().next();
                    match (shown, expected) {
                        (Some(lease), Reply::HeldBy(held)) => {
                            assert_eq!(*known.keys.entry(lease.shown).or_insert(held), held, "{place}");
                        }
                        (None, Reply::Nothing) => {}
                        other => panic!("{other:?}, {place}"),
                    }
                }
                Stmt::Free(seen) => {
                    let freed = leases::free(&db, NAME, &known.text(seen)).await.unwrap();
                    assert_eq!(freed.is_some(), before != s.db.row, "{stmt:?} {place}");
                    effects[3] += u32::from(freed.is_some());
                }
                Stmt::Claim => {
                    let won = claim_gated(&db, &me, 1).await.unwrap();
                    effects[4] += u32::from(!won.is_empty());
                }
            }
            let running = "SELECT count(*) FROM farmhand.holding";
            let running: i64 = sql.query_one(running, &[]).await.unwrap().get(0);
            assert_eq!(running, i64::from(s.db.run), "{stmt:?} {place}");
            let row = sql
                .query_opt("SELECT fence, renewals FROM farmhand.lease", &[])
                .await
                .unwrap();
            let row: Option<(i64, i64)> = row.map(|row| (row.get(0), row.get(1)));
            let wanted =
                s.db.row
                    .map(|row| (known.fence(row.fence), i64::from(row.renewals)));
            assert_eq!(row, wanted, "{stmt:?} {place}");
        }
    }
    println!("taken, taken over, released, freed, claimed: {effects:?}");
    assert!(effects.iter().all(|n| *n > 0), "{effects:?}");
}
