//! The statements of named leases against the model's meaning of them (`tests/model/named.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_store::leases::{self, Asked};
use farmhand_tests::pg::TestDb;

use crate::Chance;
use crate::named::{Fence, Key, Named, Reply, Row, Stmt};

const NAME: &str = "report";
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

#[tokio::test]
async fn every_statement_of_named_leases_means_what_the_model_says() {
    let test = TestDb::new().await;
    let (db, sql) = (test.db().await, test.client().await);
    let model = Named {
        removed: Vec::new(),
        copies: 0,
        lease: 2,
        wait: 2,
    };
    let mut effects = [0; 3];
    for round in 0..40 {
        let mut chance = Chance(round);
        let begin = "DELETE FROM farmhand.lease; DELETE FROM farmhand.epoch WHERE epoch > 1;
            UPDATE farmhand.epoch SET server = farmhand.server()";
        sql.batch_execute(begin).await.unwrap();
        let mut s = model.start();
        let mut known = Known::default();
        for step in 0..40 {
            let place = format!("round {round}, step {step}: {s:?}");
            let stmt = match chance.below(12) {
                0 if s.closed.is_none() => {
                    sql.batch_execute("UPDATE farmhand.epoch SET server = '1 elsewhere'")
                        .await
                        .unwrap();
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
                    sql.batch_execute(&open).await.unwrap();
                    continue;
                }
                0..6 => Stmt::Acquire(any_key(&mut chance, &known, s.db.row)),
                6..10 => Stmt::Renew(any_fence(&mut chance, &known)),
                _ => Stmt::Release(any_fence(&mut chance, &known)),
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
                        (Asked::Granted(real), Reply::Granted(fence)) => {
                            assert!(known.fences.values().all(|before| *before < real), "{place}");
                            assert_eq!(real >> 40, i64::from(s.epoch), "{place}");
                            known.fences.insert(fence, real);
                            effects[usize::from(before.is_some())] += 1;
                        }
                        (Asked::Held { key, ttl }, Reply::HeldBy(held)) => {
                            assert_eq!(
                                (*known.keys.entry(key).or_insert(held), ttl),
                                (held, TTL),
                                "{place}"
                            );
                        }
                        (Asked::Closed, Reply::Closed) => {}
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
            }
            let row = sql
                .query_opt("SELECT fence, beat FROM farmhand.lease", &[])
                .await
                .unwrap();
            let row: Option<(i64, i64)> = row.map(|row| (row.get(0), row.get(1)));
            let wanted = s.db.row.map(|row| (known.fence(row.fence), i64::from(row.beat)));
            assert_eq!(row, wanted, "{stmt:?} {place}");
        }
    }
    println!("taken, taken over, released: {effects:?}");
    assert!(effects.iter().all(|n| *n > 0), "{effects:?}");
}
