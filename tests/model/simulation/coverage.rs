//! Which transitions were taken, and how often.

use std::collections::BTreeMap;
use std::fmt;

use farmhand_core::run::{Outcome, RunState};

use crate::run_states::{RunEvent, next};
use crate::state::{Reply, Stmt};

/// Every event that a run can meet, each outcome by itself.
const EVENTS: [RunEvent; 11] = [
    RunEvent::Claimed,
    RunEvent::Released,
    RunEvent::Retried,
    RunEvent::TakenOver,
    RunEvent::GivenUp,
    RunEvent::Ended(Outcome::Succeeded),
    RunEvent::Ended(Outcome::Failed),
    RunEvent::Ended(Outcome::TimedOut),
    RunEvent::Ended(Outcome::Cancelled),
    RunEvent::Cancelled,
    RunEvent::Skipped,
];

/// What the model can do beside its statements.
const ACTIONS: [&str; 18] = [
    "tick",
    "deliver",
    "rollback",
    "connection lost",
    "start refused",
    "late start",
    "exit 0",
    "exit 1",
    "warden killed",
    "guard kills",
    "agent crashes",
    "agent starts",
    "adopt",
    "hang",
    "database restarts",
    "replicate",
    "failover",
    "wall clock steps",
];

/// Each statement with each answer that means something of its own.
const STATEMENTS: [&str; 22] = [
    "open: opened",
    "open: taken",
    "renew: renewed",
    "renew: no row",
    "poll: polled",
    "close: updated",
    "close: no row",
    "claim: claimed",
    "claim: no row",
    "finish: updated",
    "finish: no row",
    "finish: already own",
    "retry: updated",
    "retry: no row",
    "release: updated",
    "release: no row",
    "expire: updated",
    "expire: no row",
    "sweep: updated",
    "open epoch: updated",
    "fired: due",
    "fired: missed",
];

#[derive(Default)]
pub struct Coverage {
    runs: BTreeMap<String, u64>,
    rest: BTreeMap<String, u64>,
}

impl Coverage {
    /// A transition of the core's own state machine.
    pub fn run(&mut self, state: RunState, event: RunEvent) {
        *self.runs.entry(transition(state, event)).or_default() += 1;
    }

    pub fn statement(&mut self, stmt: &Stmt, reply: &Reply) {
        self.count(&format!("{}: {}", statement(stmt), answer(reply)));
    }

    pub fn count(&mut self, what: &str) {
        *self.rest.entry(what.to_owned()).or_default() += 1;
    }

    /// What should have been taken and never was. The transitions are those that the core allows.
    pub fn missing(&self) -> Vec<String> {
        let pairs = RunState::ALL.iter().copied().flat_map(|s| EVENTS.map(|e| (s, e)));
        let runs = pairs
            .filter(|(state, event)| next(*state, *event).is_ok())
            .map(|(state, event)| transition(state, event))
            .filter(|name| !self.runs.contains_key(name));
        let rest = ACTIONS.iter().chain(&STATEMENTS).map(|name| (*name).to_owned());
        runs.chain(rest.filter(|name| !self.rest.contains_key(name)))
            .collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.runs.iter().chain(&self.rest) {
            writeln!(f, "{count:>10}  {name}")?;
        }
        Ok(())
    }
}

fn transition(state: RunState, event: RunEvent) -> String {
    format!("run {state} -> {event:?}")
}

fn statement(stmt: &Stmt) -> &'static str {
    match stmt {
        Stmt::Open { .. } => "open",
        Stmt::Renew { .. } => "renew",
        Stmt::Poll { .. } => "poll",
        Stmt::Close { .. } => "close",
        Stmt::Claim { .. } => "claim",
        Stmt::Finish { .. } => "finish",
        Stmt::Retry { .. } => "retry",
        Stmt::Release { .. } => "release",
        Stmt::Expire { .. } => "expire",
        Stmt::Sweep => "sweep",
        Stmt::OpenEpoch { .. } => "open epoch",
    }
}

fn answer(reply: &Reply) -> &'static str {
    match reply {
        Reply::Opened { .. } => "opened",
        Reply::Taken => "taken",
        Reply::Renewed { .. } => "renewed",
        Reply::Polled { .. } => "polled",
        Reply::Claimed { .. } => "claimed",
        Reply::Updated => "updated",
        Reply::NoRow => "no row",
        Reply::AlreadyOwn => "already own",
    }
}
