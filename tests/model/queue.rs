//! A queue: two runs of one job, a firing that makes a third wait for them, and what lets it go.
//!
//! Each step is one statement with a snapshot of its own (READ COMMITTED); rows that are locked are waited for, or passed over. Any
//! transaction may be lost between two of its statements: its locks are gone then, and nothing of it was committed.
//!
//! The interleavings that worry:
//! - An end looks for what waits, a firing looks for what is live, and neither sees the other.
//! - Both runs end at once, and each end still sees the other's run.
//! - The job is locked when an end would let go what waits; or the connection is lost right after the end.

use stateright::{Checker, HasDiscoveries, Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// A firing locks the runs that it makes another wait for.
    BlockersLocked,
    /// An end looks for what waits in a statement after the one that waited for the row.
    SnapshotAfterDelete,
    /// What waits is let go under the job's lock, and looked at once it is had.
    JobLocked,
    /// An end that finds the job locked leaves a note.
    Note,
    /// The note is committed with the end.
    NoteWithTheEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Run {
    None,
    Live,
    Waits,
    Gone,
}

const ENDERS: usize = 2;
const FIRING: usize = 2;
const SETTLER: usize = 3;
/// The run that the firing makes; the others are the enders'.
const NEW: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Tx {
    /// The next statement; 0: none was executed.
    at: u8,
    waits: bool,
    lets_go: bool,
    noted: bool,
    made: Option<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    runs: [Run; 3],
    notes: u8,
    txs: [Tx; 4],
    job: Option<usize>,
    /// Shared by the firing.
    shared: [bool; ENDERS],
    /// Notes that an end leaves in a transaction of its own.
    late_notes: u8,
    lost: u8,
    beside: bool,
}

impl World {
    fn deleted(&self, run: usize) -> bool {
        run < ENDERS && self.txs[run].at > 1
    }

    /// As somebody else sees it: what is not committed is live.
    fn live(&self, but: Option<usize>) -> bool {
        (0..ENDERS).any(|r| self.runs[r] == Run::Live && Some(r) != but)
    }

    fn let_go(&mut self) {
        if self.runs[NEW] == Run::Waits {
            self.beside |= self.live(None);
            self.runs[NEW] = Run::Live;
        }
    }

    fn quiet(&self) -> bool {
        self.txs.iter().all(|t| t.at == 0)
    }
}

struct Queue(Vec<Guard>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Next(usize),
    Lost(usize),
    LateNote,
}

impl Queue {
    fn has(&self, guard: Guard) -> bool {
        !self.0.contains(&guard)
    }

    fn end(&self, w: &mut World, me: usize) -> Option<()> {
        let t = w.txs[me];
        let next = |w: &mut World, at| w.txs[me].at = at;
        match t.at {
            0 if w.runs[me] == Run::Live => {
                w.txs[me].waits = w.runs[NEW] == Run::Waits;
                next(w, 1);
            }
            // The DELETE.
            1 if !w.shared[me] => next(w, 2),
            2 => {
                if self.has(Guard::SnapshotAfterDelete) {
                    w.txs[me].waits = w.runs[NEW] == Run::Waits;
                }
                next(w, if w.txs[me].waits { 3 } else { 5 });
            }
            3 if !self.has(Guard::JobLocked) => next(w, 4),
            3 if w.job.is_none() => {
                w.job = Some(me);
                next(w, 4);
            }
            3 => {
                w.txs[me].noted = self.has(Guard::Note);
                next(w, 5);
            }
            4 => {
                w.txs[me].lets_go = w.runs[NEW] == Run::Waits && !w.live(Some(me));
                next(w, 5);
            }
            5 => {
                w.runs[me] = Run::Gone;
                if t.lets_go {
                    w.let_go();
                }
                if self.has(Guard::NoteWithTheEnd) {
                    w.notes += u8::from(t.noted);
                } else {
                    w.late_notes += u8::from(t.noted);
                }
                self.over(w, me);
            }
            _ => return None,
        }
        Some(())
    }

    fn fire(&self, w: &mut World) -> Option<()> {
        match w.txs[FIRING].at {
            0 if w.runs[NEW] == Run::None && w.job.is_none() => {
                w.job = Some(FIRING);
                w.txs[FIRING].at = 1;
            }
            // What ends just now is waited for.
            1 if !self.has(Guard::BlockersLocked) || !(0..ENDERS).any(|r| w.deleted(r)) => {
                if self.has(Guard::BlockersLocked) {
                    w.shared = [0, 1].map(|r| w.runs[r] == Run::Live);
                }
                w.txs[FIRING].at = 2;
            }
            2 => {
                w.txs[FIRING].made = Some(if w.live(None) { Run::Waits } else { Run::Live });
                w.txs[FIRING].at = 3;
            }
            3 => {
                w.runs[NEW] = w.txs[FIRING].made?;
                self.over(w, FIRING);
            }
            _ => return None,
        }
        Some(())
    }

    fn settle(&self, w: &mut World) -> Option<()> {
        match w.txs[SETTLER].at {
            0 if w.notes > 0 && w.job.is_none() => {
                w.job = Some(SETTLER);
                w.txs[SETTLER].at = 1;
            }
            // The notes are deleted; then it looks.
            1 => w.txs[SETTLER].at = 2 + w.notes,
            at @ 2..=9 => {
                w.txs[SETTLER].lets_go = w.runs[NEW] == Run::Waits && !w.live(None);
                w.txs[SETTLER].at = at + 10;
            }
            at @ 12.. => {
                w.notes -= at - 12;
                if w.txs[SETTLER].lets_go {
                    w.let_go();
                }
                self.over(w, SETTLER);
            }
            _ => return None,
        }
        Some(())
    }

    fn over(&self, w: &mut World, me: usize) {
        w.txs[me] = Tx::default();
        if w.job == Some(me) {
            w.job = None;
        }
        if me == FIRING {
            w.shared = [false; ENDERS];
        }
    }
}

impl Model for Queue {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            runs: [Run::Live, Run::Live, Run::None],
            notes: 0,
            txs: [Tx::default(); 4],
            job: None,
            shared: [false; ENDERS],
            late_notes: 0,
            lost: 2,
            beside: false,
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Step>) {
        actions.extend((0..4).flat_map(|who| [Step::Next(who), Step::Lost(who)]));
        actions.push(Step::LateNote);
    }

    fn next_state(&self, w: &World, step: Step) -> Option<World> {
        let mut w = *w;
        match step {
            Step::Next(FIRING) => self.fire(&mut w)?,
            Step::Next(SETTLER) => self.settle(&mut w)?,
            Step::Next(who) => self.end(&mut w, who)?,
            Step::Lost(who) if w.lost > 0 && w.txs[who].at > 0 => {
                w.lost -= 1;
                self.over(&mut w, who);
            }
            Step::LateNote if w.late_notes > 0 && w.lost > 0 => {
                w.lost -= 1;
                w.late_notes -= 1;
            }
            Step::Lost(_) | Step::LateNote => return None,
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what waits is let go when nothing lives", |_, w: &World| {
                !w.beside
            }),
            Property::always("what waits for nothing has a note", |_, w: &World| {
                !w.quiet() || w.runs[NEW] != Run::Waits || w.live(None) || w.notes + w.late_notes > 0
            }),
        ]
    }
}

fn explore(removed: &[Guard]) -> Option<&'static str> {
    let checker = Queue(removed.to_vec())
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let found = checker.discoveries().into_keys().next();
    println!(
        "a queue without {removed:?}: {found:?}, {} states",
        checker.unique_state_count()
    );
    found
}

#[test]
fn no_promotion_is_lost_and_nothing_is_let_go_beside_another() {
    assert_eq!(explore(&[]), None);
}

#[test]
fn each_part_of_it_is_needed() {
    for guard in [
        Guard::BlockersLocked,
        Guard::SnapshotAfterDelete,
        Guard::JobLocked,
        Guard::Note,
        Guard::NoteWithTheEnd,
    ] {
        assert_eq!(
            explore(&[guard]),
            Some("what waits for nothing has a note"),
            "{guard:?}"
        );
    }
}
