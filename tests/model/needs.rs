//! Reservations: two nodes, two locks, three runs in the order of claiming. The first is for node 1 alone and needs both locks, the others
//! need one each and may run anywhere. A node may stop claiming while it renews its lease, and says so with its next renewal; or its
//! machine starts nothing; or it dies.

use stateright::{Checker, HasDiscoveries, Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// A claim has the locks' rows until it is committed.
    RowLock,
    /// What waits for another node is kept for it while it asks.
    Kept,
    /// It is kept for no node that says it claims nothing.
    Asks,
    /// Nor for one whose machine starts nothing.
    Starts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Works,
    RenewsOnly,
    StartsNothing,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Run {
    Waits,
    On(usize),
    Gone,
}

/// The locks that each run needs, as bits.
const NEEDS: [u8; 3] = [3, 1, 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    runs: [Run; 3],
    mode: [Mode; 2],
    /// As the node's row has it.
    row: [Mode; 2],
    /// What a claim has decided to take, and is not committed.
    takes: [Option<[bool; 3]>; 2],
    changes: u8,
    /// A run went before one that is in front, and that a working node asked for.
    passed: bool,
}

impl World {
    fn fits(run: usize, node: usize) -> bool {
        run > 0 || node == 1
    }

    fn held(&self) -> u8 {
        let held = |(run, state): (usize, &Run)| if let Run::On(_) = state { NEEDS[run] } else { 0 };
        self.runs
            .iter()
            .enumerate()
            .map(held)
            .fold(0, |all, one| all | one)
    }

    /// A place was given twice.
    fn twice(&self) -> bool {
        let on = |run: usize| matches!(self.runs[run], Run::On(_));
        on(0) && (on(1) || on(2))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Claim(usize),
    Commit(usize),
    End(usize),
    Renew(usize),
    Expire(usize),
    Becomes(usize, Mode),
}

struct Needs(Vec<Guard>);

impl Needs {
    fn has(&self, guard: Guard) -> bool {
        !self.0.contains(&guard)
    }

    fn takes_work(&self, node: Mode) -> bool {
        match node {
            Mode::Works => true,
            Mode::RenewsOnly => !self.has(Guard::Asks),
            Mode::StartsNothing => !self.has(Guard::Starts),
            Mode::Dead => false,
        }
    }

    /// What a claim of this node takes. Locks whose rows another claim has are passed over.
    fn decide(&self, w: &World, node: usize) -> [bool; 3] {
        let mut taken = w.held();
        if let (true, Some(others)) = (self.has(Guard::RowLock), w.takes[1 - node]) {
            // A claim locks what the candidates need, and those were all that waited.
            taken |= if others == [false; 3] { 0 } else { 3 };
        }
        let mut takes = [false; 3];
        for run in (0..3).filter(|run| w.runs[*run] == Run::Waits) {
            let other = !World::fits(run, node);
            if taken & NEEDS[run] != 0 || other {
                // What waits keeps all that it needs from those behind it.
                let keeps = self.takes_work(w.row[1]) || World::fits(run, node);
                taken |= if self.has(Guard::Kept) && keeps {
                    NEEDS[run]
                } else {
                    0
                };
            } else {
                takes[run] = true;
                taken |= NEEDS[run];
            }
        }
        takes
    }
}

impl Model for Needs {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            runs: [Run::Waits; 3],
            mode: [Mode::Works; 2],
            row: [Mode::Works; 2],
            takes: [None; 2],
            changes: 2,
            passed: false,
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Step>) {
        actions.extend((0..3).map(Step::End));
        for n in 0..2 {
            actions.extend([Step::Claim(n), Step::Commit(n), Step::Renew(n), Step::Expire(n)]);
            let modes = [Mode::Works, Mode::RenewsOnly, Mode::StartsNothing, Mode::Dead];
            actions.extend(modes.map(|mode| Step::Becomes(n, mode)));
        }
    }

    fn next_state(&self, w: &World, step: Step) -> Option<World> {
        let mut w = *w;
        match step {
            Step::Claim(n) if w.mode[n] == Mode::Works && w.takes[n].is_none() => {
                let takes = self.decide(&w, n);
                let first = w.runs[0] == Run::Waits && w.row[1] == Mode::Works && w.mode[1] == Mode::Works;
                w.passed |= first && w.held() == 0 && (takes[1] || takes[2]);
                w.takes[n] = Some(takes);
            }
            Step::Commit(n) => {
                for (run, takes) in w.takes[n].take()?.into_iter().enumerate() {
                    // A run's own row is locked by the claim that takes it.
                    if takes && w.runs[run] == Run::Waits {
                        w.runs[run] = Run::On(n);
                    }
                }
            }
            Step::End(run) if matches!(w.runs[run], Run::On(_)) => w.runs[run] = Run::Gone,
            Step::Renew(n) if w.mode[n] != Mode::Dead && w.row[n] != w.mode[n] => w.row[n] = w.mode[n],
            Step::Expire(n) if w.mode[n] == Mode::Dead && w.row[n] != Mode::Dead => w.row[n] = Mode::Dead,
            Step::Becomes(n, mode) if w.changes > 0 && w.mode[n] != mode && w.mode[n] != Mode::Dead => {
                (w.mode[n], w.takes[n]) = (mode, None);
                w.changes -= 1;
            }
            _ => return None,
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no place is given twice", |_, w: &World| !w.twice()),
            Property::always(
                "nothing goes before what a working node asks for",
                |_, w: &World| !w.passed,
            ),
            Property::always(
                "what a working node may run is claimed",
                |needs: &Self, w: &World| {
                    let quiet = w.row == w.mode && w.takes == [None; 2] && w.held() == 0;
                    let works = |n: &usize| w.mode[*n] == Mode::Works;
                    let waits = |n: usize| (0..3).any(|run| w.runs[run] == Run::Waits && World::fits(run, n));
                    !quiet
                        || !(0..2).filter(works).any(waits)
                        || (0..2).filter(works).any(|n| needs.decide(w, n) != [false; 3])
                },
            ),
        ]
    }
}

fn explore(removed: &[Guard]) -> Option<&'static str> {
    let checker = Needs(removed.to_vec())
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let found = checker.discoveries().into_keys().next();
    println!(
        "needs without {removed:?}: {found:?}, {} states",
        checker.unique_state_count()
    );
    found
}

#[test]
fn a_node_that_does_not_claim_keeps_nothing_and_no_place_is_given_twice() {
    assert_eq!(explore(&[]), None);
    for (guard, found) in [
        (Guard::RowLock, "no place is given twice"),
        (Guard::Kept, "nothing goes before what a working node asks for"),
        (Guard::Asks, "what a working node may run is claimed"),
        (Guard::Starts, "what a working node may run is claimed"),
    ] {
        assert_eq!(explore(&[guard]), Some(found), "{guard:?}");
    }
}
