//! One look at the database for all pages of an agent: what changed, told to whoever listens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use farmhand_store::Db;
use farmhand_store::reading::{Marks, marks};
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::{Instant, sleep, timeout};

use super::Problem;

/// Streams of one agent, of all kinds.
const LISTENERS: usize = 64;
/// Between two looks, and between two that somebody asked for.
const EVERY: Duration = Duration::from_secs(1);
const SOONEST: Duration = Duration::from_millis(200);
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
}

/// One stream's place among those that an agent serves, given back when it is dropped.
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Changes {
    pub fn new(db: Db) -> Self {
        Self(Arc::new(Inner {
            db,
            sender: broadcast::channel(BEHIND).0,
            places: Arc::new(Semaphore::new(LISTENERS)),
            wake: Notify::new(),
            looking: Mutex::new(false),
        }))
    }

    /// A place for one more stream.
    ///
    /// # Errors
    /// 503 when all are taken.
    pub fn place(&self) -> Result<Place, Problem> {
        match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(permit) => Ok(Place { _permit: permit }),
            Err(_) => Err(Problem::new(
                axum::http::StatusCode::SERVICE_UNAVAILABLE,
                "this agent serves as many streams as it may",
            )
            .detail(format!("{LISTENERS} pages and logs are followed here already"))
            .hint("close some, or open the page at another agent")
            .retry_after(30)),
        }
    }

    /// Listens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Change>> {
        let mut looking = self.0.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.0.sender.subscribe();
        if !std::mem::replace(&mut *looking, true) {
            tokio::spawn(look(Arc::clone(&self.0)));
        }
        receiver
    }

    /// Something was changed through this agent: look sooner.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }
}

async fn look(inner: Arc<Inner>) {
    let mut before: Option<Marks> = None;
    let mut away = false;
    loop {
        let began = Instant::now();
        let since = before.as_ref().and_then(|marks| marks.ended_at);
        match marks(&inner.db, since).await {
            Ok(now) => {
                let mut change = before.as_ref().map(|old| between(old, &now)).unwrap_or_default();
                if std::mem::take(&mut away) {
                    // Whatever happened meanwhile.
                    change.changed = vec!["jobs", "runs", "nodes", "events"];
                    change.runs.clear();
                }
                if !change.changed.is_empty() {
                    let _ = inner.sender.send(Arc::new(change));
                }
                before = Some(now);
            }
            Err(error) => {
                tracing::debug!("looking for changes: {error}");
                if !std::mem::replace(&mut away, true) {
                    let gone = Change {
                        away: true,
                        ..Change::default()
                    };
                    let _ = inner.sender.send(Arc::new(gone));
                }
            }
        }
        let _ = timeout(EVERY, inner.wake.notified()).await;
        sleep(SOONEST.saturating_sub(began.elapsed())).await;
        let mut looking = inner.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.sender.receiver_count() == 0 {
            *looking = false;
            return;
        }
    }
}

/// What two looks differ in.
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
