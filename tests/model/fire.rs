//! Firing a schedule, apart from leases: two agents and an apply race for one job's `next_run`.
//!
//! Time is the number of due instants that have passed. An agent reads (next_run, rev), plans what it
//! saw, and sends one statement that advances `next_run` and inserts a run per instant, at any later
//! time, perhaps twice because the reply was lost.

use stateright::{Checker, HasDiscoveries, Model, Property};

const AGENTS: usize = 2;
const INSTANTS: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// `next_run = the one seen` in fire.
    NextRunSeen,
    /// `rev = the one seen` in fire.
    RevSeen,
    /// Advance and insert commit together.
    OneTransaction,
    /// A run for every instant in [seen, following), not only for the first.
    EveryInstant,
    /// Apply never sets `next_run` to or below the last decided instant.
    ApplyGoesForward,
    /// Apply records the instants that are overdue under the old definition.
    ApplyRecordsOverdue,
    /// One run per (job, due instant): the last line of defence.
    UniqueRun,
}

/// The schedule is a set of instants: at first each, after an apply the even ones only.
fn due(even: bool, at: u8) -> bool {
    !even || at.is_multiple_of(2)
}

fn following(even: bool, after: u8) -> u8 {
    (after + 1..).find(|t| due(even, *t)).unwrap_or(u8::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    seen: u8,
    rev: u8,
    even: bool,
    following: u8,
    /// Advanced but not inserted, when the two are not one transaction.
    advanced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Fires {
    now: u8,
    next_run: u8,
    rev: u8,
    even: bool,
    /// How often each instant is recorded.
    runs: [u8; INSTANTS as usize + 1],
    wrong_rev: bool,
    went_back: bool,
    plans: [Option<Plan>; AGENTS],
    lost: u8,
    crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Time,
    Plan(usize),
    Fire(usize),
    /// The statement commits, its reply is lost, the agent will send it again.
    FireUnheard(usize),
    Crash(usize),
    Apply,
    /// An apply that changes what is run, not when.
    ApplyCommand,
}

#[derive(Clone)]
struct Firing {
    removed: Vec<Guard>,
}

impl Firing {
    fn has(&self, guard: Guard) -> bool {
        !self.removed.contains(&guard)
    }

    fn fire(&self, s: &mut Fires, i: usize) {
        let Some(mut plan) = s.plans[i] else { return };
        let fits = (s.next_run == plan.seen || !self.has(Guard::NextRunSeen))
            && (s.rev == plan.rev || !self.has(Guard::RevSeen));
        if !plan.advanced {
            if !fits {
                s.plans[i] = None;
                return;
            }
            s.wrong_rev |= s.rev != plan.rev;
            s.went_back |= plan.following < s.next_run;
            s.next_run = plan.following;
            plan.advanced = true;
            s.plans[i] = Some(plan);
            if !self.has(Guard::OneTransaction) {
                return;
            }
        }
        for at in plan.seen..plan.following.min(s.now + 1) {
            let first = at == plan.seen;
            if due(plan.even, at) && (first || self.has(Guard::EveryInstant)) {
                self.record(s, at);
            }
        }
        s.plans[i] = None;
    }

    fn record(&self, s: &mut Fires, at: u8) {
        let runs = &mut s.runs[usize::from(at)];
        if *runs == 0 || !self.has(Guard::UniqueRun) {
            *runs = (*runs + 1).min(2);
        }
    }
}

impl Model for Firing {
    type State = Fires;
    type Action = Step;

    fn init_states(&self) -> Vec<Fires> {
        let runs = [0; INSTANTS as usize + 1];
        vec![Fires {
            now: 0,
            next_run: 1,
            rev: 1,
            even: false,
            runs,
            wrong_rev: false,
            went_back: false,
            plans: [None; AGENTS],
            lost: 2,
            crashes: 1,
        }]
    }

    fn actions(&self, s: &Fires, out: &mut Vec<Step>) {
        if s.now < INSTANTS {
            out.push(Step::Time);
        }
        if !s.even {
            out.push(Step::Apply);
        }
        if s.rev < 3 {
            out.push(Step::ApplyCommand);
        }
        for i in 0..AGENTS {
            if s.plans[i].is_some() {
                out.push(Step::Fire(i));
                out.extend((s.lost > 0).then_some(Step::FireUnheard(i)));
                out.extend((s.crashes > 0).then_some(Step::Crash(i)));
            } else if s.next_run <= s.now {
                out.push(Step::Plan(i));
            }
        }
    }

    fn next_state(&self, last: &Fires, step: Step) -> Option<Fires> {
        let mut s = *last;
        match step {
            Step::Time => s.now += 1,
            Step::Plan(i) => {
                // One statement covers everything that is overdue.
                let following = following(s.even, s.now);
                s.plans[i] = Some(Plan {
                    seen: s.next_run,
                    rev: s.rev,
                    even: s.even,
                    following,
                    advanced: false,
                });
            }
            Step::Fire(i) => self.fire(&mut s, i),
            Step::FireUnheard(i) => {
                let plan = s.plans[i];
                self.fire(&mut s, i);
                s.plans[i] = plan;
                s.lost -= 1;
            }
            Step::Crash(i) => {
                s.plans[i] = None;
                s.crashes -= 1;
            }
            Step::Apply => {
                if self.has(Guard::ApplyRecordsOverdue) {
                    for at in s.next_run..=s.now {
                        self.record(&mut s, at);
                    }
                }
                let decided = if self.has(Guard::ApplyRecordsOverdue) {
                    s.now.max(s.next_run - 1)
                } else {
                    s.now
                };
                let from = if self.has(Guard::ApplyGoesForward) {
                    decided
                } else {
                    s.now.saturating_sub(2)
                };
                s.rev += 1;
                s.even = true;
                s.went_back |= following(true, from) < s.next_run;
                s.next_run = following(true, from);
            }
            Step::ApplyCommand => s.rev += 1,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("an instant has one record", |_, s: &Fires| {
                s.runs.iter().all(|n| *n < 2)
            }),
            Property::always("a decided instant is recorded", |_, s: &Fires| {
                let pending = |at: u8| s.plans.iter().flatten().any(|p| p.advanced && p.seen <= at);
                // The odd ones before an apply are not told from those after it here.
                (1..s.next_run.min(s.now + 1))
                    .filter(|at| due(s.even, *at))
                    .all(|at| s.runs[usize::from(at)] > 0 || pending(at))
            }),
            Property::always("next_run never goes back", |_, s: &Fires| !s.went_back),
            Property::always("nothing fires under an old definition", |_, s: &Fires| {
                !s.wrong_rev
            }),
        ]
    }
}

fn explore(removed: &[Guard]) -> Option<(&'static str, usize)> {
    let model = Firing {
        removed: removed.to_vec(),
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let found = checker.discoveries().into_iter().next();
    let found = found.map(|(property, path)| (property, path.into_actions().len()));
    println!(
        "firing without {removed:?}: {found:?}, {} states, depth {}",
        checker.unique_state_count(),
        checker.max_depth()
    );
    found
}

#[test]
fn every_instant_is_decided_once_whoever_fires() {
    assert_eq!(explore(&[]), None);
}

#[test]
fn the_unique_key_is_not_needed_while_fire_is_atomic() {
    assert_eq!(explore(&[Guard::UniqueRun]), None);
}

#[test]
fn fire_must_name_the_next_run_that_it_saw() {
    assert!(explore(&[Guard::NextRunSeen]).is_some());
    assert!(explore(&[Guard::NextRunSeen, Guard::UniqueRun]).is_some());
}

#[test]
fn fire_must_name_the_revision_that_it_saw() {
    assert!(explore(&[Guard::RevSeen]).is_some());
}

#[test]
fn advancing_and_inserting_are_one_transaction() {
    assert!(explore(&[Guard::OneTransaction]).is_some());
}

#[test]
fn every_overdue_instant_is_recorded() {
    assert!(explore(&[Guard::EveryInstant]).is_some());
}

#[test]
fn apply_never_goes_back() {
    assert!(explore(&[Guard::ApplyGoesForward]).is_some());
}

#[test]
fn apply_records_what_is_overdue() {
    assert!(explore(&[Guard::ApplyRecordsOverdue]).is_some());
}
