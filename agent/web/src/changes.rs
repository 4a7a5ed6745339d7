//! One look at the database for all pages of an agent: what changed, told to whoever listens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use farmhand_control::{Kind, Refusal};
use farmhand_store::reading::{Marks, marks};
use farmhand_store::{Db, StoreError};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::{Instant, sleep, timeout};

use super::Problem;

/// Streams of one agent, of all kinds.
const LISTENERS: usize = 64;
/// Between two looks: a change is told within this and the time of a look.
const OFTEN: Duration = Duration::from_millis(150);
/// Between two looks while looking costs much, or fails.
const SELDOM: Duration = Duration::from_secs(1);
/// A pause is so many times as long as the shorter of the two looks before it: looking takes at most a tenth of the time until it is rare.
const SHARE: u32 = 10;
/// Between two looks that somebody asked for.
const SOONEST: Duration = Duration::from_millis(100);
/// Messages that a slow listener may be behind; then it is told to load anew.
const BEHIND: usize = 64;
/// Runs named by one message; of more than these all may have changed.
const NAMED: usize = 200;

/// What a page may want to load anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Of jobs, runs, nodes, events: those that changed.
    pub changed: Vec<&'static str>,
    /// The runs that did, when they are few enough to be named; empty with `runs` in `changed`: any of them.
    pub runs: Vec<i64>,
    /// Whether the database cannot be reached, so that what a page shows may be old.
    pub away: bool,
}

/// The listeners and the one task that looks for them. It ends when nobody listens.
#[derive(Clone)]
pub struct Changes(Arc<Inner>);

struct Inner {
    db: Db,
    sender: broadcast::Sender<Arc<Change>>,
    places: Arc<Semaphore>,
    wake: Notify,
    /// Whether the task runs; held while it decides to end, and while a listener comes.
    looking: Mutex<bool>,
    /// Whether it has looked once: what changes from then on is told.
    looked: watch::Sender<bool>,
}

/// One stream's place among those that an agent serves, given back when it is dropped.
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Changes {
    /// A feed without listeners yet.
    pub fn new(db: Db) -> Self {
        Self(Arc::new(Inner {
            db,
            sender: broadcast::channel(BEHIND).0,
            places: Arc::new(Semaphore::new(LISTENERS)),
            wake: Notify::new(),
            looking: Mutex::new(false),
            looked: watch::Sender::new(false),
        }))
    }

    /// A place for one more stream.
    /// Errors: 503 when all are taken.
    pub fn place(&self) -> Result<Place, Problem> {
        match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(permit) => Ok(Place { _permit: permit }),
            Err(_) => {
                let full = Refusal::new(Kind::Slow, "this agent serves as many streams as it may")
                    .why(format!("{LISTENERS} pages and logs are followed here already"))
                    .next("close some, or open the page at another agent");
                Err(Problem::from(full).retry_after(30))
            }
        }
    }

    /// What changes is told from when the second says so.
    pub fn listen(&self) -> (broadcast::Receiver<Arc<Change>>, watch::Receiver<bool>) {
        let mut looking = self.0.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.0.sender.subscribe();
        if !std::mem::replace(&mut *looking, true) {
            tokio::spawn(look(Arc::clone(&self.0)));
        }
        (receiver, self.0.looked.subscribe())
    }

    /// Something was changed through this agent: look sooner.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }
}

async fn look(inner: Arc<Inner>) {
    let mut seen = Seen::default();
    let mut before = Duration::ZERO;
    loop {
        let began = Instant::now();
        let answer = marks(&inner.db, seen.since()).await;
        let took = began.elapsed();
        // One that was only held up costs nothing: two in a row do.
        let pause = pause(answer.is_ok(), took.min(std::mem::replace(&mut before, took)));
        if let Some(change) = seen.told(answer) {
            let _ = inner.sender.send(Arc::new(change));
        }
        inner.looked.send_replace(true);
        let _ = timeout(pause, inner.wake.notified()).await;
        sleep(SOONEST.saturating_sub(began.elapsed())).await;
        let mut looking = inner.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.sender.receiver_count() == 0 {
            *looking = false;
            inner.looked.send_replace(false);
            return;
        }
    }
}

/// How long to wait after looks that took so long.
fn pause(answered: bool, took: Duration) -> Duration {
    if answered {
        took.saturating_mul(SHARE).clamp(OFTEN, SELDOM)
    } else {
        SELDOM
    }
}

#[derive(Default)]
struct Seen {
    before: Option<Marks>,
    away: bool,
}

impl Seen {
    /// Ends are looked for from here on.
    fn since(&self) -> Option<Timestamp> {
        self.before.as_ref().and_then(|marks| marks.ended_at)
    }

    /// What a look's answer tells the listeners, if anything.
    fn told(&mut self, answer: Result<Marks, StoreError>) -> Option<Change> {
        let now = match answer {
            Ok(now) => now,
            Err(error) => {
                tracing::debug!("looking for changes: {error}");
                return (!std::mem::replace(&mut self.away, true)).then(|| Change {
                    away: true,
                    ..Change::default()
                });
            }
        };
        let mut change = self
            .before
            .as_ref()
            .map(|old| between(old, &now))
            .unwrap_or_default();
        if std::mem::take(&mut self.away) {
            // Whatever happened meanwhile.
            change.changed = vec!["jobs", "runs", "nodes", "events"];
            change.runs.clear();
        }
        self.before = Some(now);
        Some(change).filter(|change| !change.changed.is_empty())
    }
}

fn between(old: &Marks, new: &Marks) -> Change {
    let held = |marks: &Marks| -> BTreeMap<i64, (i32, bool, bool)> {
        (marks.live.iter())
            .map(|run| (run.run_id, (run.attempt, run.started, run.cancelling)))
            .collect()
    };
    let (was, is) = (held(old), held(new));
    let known: BTreeSet<i64> = old.ended.iter().copied().collect();
    let mut runs: BTreeSet<i64> = new
        .ended
        .iter()
        .copied()
        .filter(|run| !known.contains(run))
        .collect();
    runs.extend(
        is.iter()
            .filter(|(run, state)| was.get(run) != Some(state))
            .map(|(run, _)| *run),
    );
    runs.extend(was.keys().filter(|run| !is.contains_key(run)));
    // New ones that wait: there are as many numbers as were given away.
    runs.extend((old.runs + 1..=new.runs).take(NAMED + 1));
    let mut changed = Vec::new();
    if old.jobs != new.jobs {
        changed.push("jobs");
    }
    if !runs.is_empty() || old.ended_at != new.ended_at {
        changed.push("runs");
    }
    if old.nodes != new.nodes {
        changed.push("nodes");
    }
    if old.events != new.events {
        changed.push("events");
    }
    let named = runs.len() <= NAMED;
    Change {
        changed,
        runs: if named {
            runs.into_iter().collect()
        } else {
            Vec::new()
        },
        away: false,
    }
}

#[cfg(test)]
mod tests {
    use farmhand_store::reading::RunMark;

    use super::*;

    fn live(run_id: i64, attempt: i32) -> RunMark {
        RunMark {
            run_id,
            attempt,
            started: true,
            cancelling: false,
        }
    }

    /// How long a look took, and how long the next one is waited for.
    #[test]
    fn looks_follow_each_other_as_fast_as_they_are_cheap() {
        for (took, waited) in [
            (0.0, 150.0),
            (0.5, 150.0),
            (15.0, 150.0),
            (20.0, 200.0),
            (50.0, 500.0),
            (100.0, 1000.0),
            (2000.0, 1000.0),
        ] {
            let (took, waited) = (
                Duration::from_secs_f64(took / 1e3),
                Duration::from_secs_f64(waited / 1e3),
            );
            assert_eq!(pause(true, took), waited, "{took:?}");
            assert_eq!(pause(false, took), SELDOM, "{took:?}");
        }
    }

    /// Each look, and whether it tells something: as often as what is seen differs from the look before, however many there are.
    #[test]
    fn only_looks_that_see_something_new_are_told() {
        let at = |events| {
            Ok(Marks {
                events,
                ..Marks::default()
            })
        };
        let gone = || {
            Err(StoreError::Decode {
                op: "reading_marks",
                message: "away".to_owned(),
            })
        };
        let all = vec!["jobs", "runs", "nodes", "events"];
        let mut seen = Seen::default();
        let looks = vec![
            (at(1), None::<Vec<&str>>),
            (at(1), None),
            (at(2), Some(vec!["events"])),
            (at(2), None),
            (at(2), None),
            (gone(), Some(vec![])),
            (gone(), None),
            // Whatever happened meanwhile, also when nothing seems to have.
            (at(2), Some(all)),
            (at(2), None),
            (at(3), Some(vec!["events"])),
        ];
        for (nth, (answer, told)) in looks.into_iter().enumerate() {
            let away = answer.is_err();
            let change = seen.told(answer);
            let said = change
                .as_ref()
                .map(|change| (change.changed.clone(), change.away));
            assert_eq!(said, told.map(|words| (words, away)), "look {nth}");
        }
    }

    #[test]
    fn nothing_changed_says_nothing() {
        let marks = Marks {
            live: vec![live(1, 1)],
            ended: vec![5],
            ..Marks::default()
        };
        assert_eq!(between(&marks, &marks), Change::default());
    }

    #[test]
    fn runs_that_began_ended_moved_or_were_made_are_named() {
        let old = Marks {
            runs: 9,
            live: vec![live(1, 1), live(2, 1)],
            ..Marks::default()
        };
        let new = Marks {
            runs: 10,
            live: vec![live(2, 2), live(3, 1)],
            ended: vec![1],
            ..Marks::default()
        };
        let change = between(&old, &new);
        assert_eq!((change.changed, change.runs), (vec!["runs"], vec![1, 2, 3, 10]));
    }

    #[test]
    fn very_many_runs_are_not_named_one_by_one() {
        let new = Marks {
            runs: 100_000,
            ..Marks::default()
        };
        let change = between(&Marks::default(), &new);
        assert_eq!((change.changed, change.runs), (vec!["runs"], Vec::new()));
    }
}
