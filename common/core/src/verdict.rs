//! Whether the farm is well: the one decision that command line, page and API show.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::explain::{Held, Needed};
use crate::health::Level;

/// A run that could be claimed, and that no node has claimed for so long, is late.
pub const LATE: SignedDuration = SignedDuration::from_secs(60);
/// So long a run may wait for a pool, a lock or a rate before people are told.
const QUEUED: SignedDuration = SignedDuration::from_secs(300);
/// A takeover needs no attention while it is under way.
pub const TAKEOVER: SignedDuration = SignedDuration::from_secs(10);

/// What is known about the farm.
#[derive(Clone, Debug, Default)]
pub struct FarmFacts {
    pub claims_open: bool,
    pub any_job: bool,
    pub any_node: bool,
    /// Nodes that may claim.
    pub ready: i64,
    /// Nodes whose machines refuse to start runs.
    pub blocked: i64,
    /// Jobs whose instants no agent fires.
    pub late: Several<String>,
    pub stuck: Several<Stuck>,
    pub due: Option<Waiting>,
    pub gated: Option<Waiting>,
    pub expired: Several<String>,
    pub lost: Several<String>,
    pub failing: Several<(String, i32)>,
}

/// Some of a kind: the first, how many, and whether there may be more than were counted.
#[derive(Clone, Debug)]
pub struct Several<T> {
    pub first: Option<T>,
    pub count: usize,
    pub or_more: bool,
}

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self {
            first: None,
            count: 0,
            or_more: false,
        }
    }
}

impl<T> Several<T> {
    /// Of a list that holds at most `most`.
    pub fn of(items: impl IntoIterator<Item = T>, most: usize) -> Self {
        let mut items = items.into_iter();
        let first = items.next();
        let count = usize::from(first.is_some()) + items.count();
        Self {
            first,
            count,
            or_more: count >= most,
        }
    }

    /// The first, and the number in words.
    fn named(&self, one: &str, more: &str) -> Option<(&T, String)> {
        let first = self.first.as_ref()?;
        let count = match self.count {
            1 => format!("1 {one}"),
            n if self.or_more => format!("{n} or more {more}"),
            n => format!("{n} {more}"),
        };
        Some((first, count))
    }
}

/// A run held under a lease that is not as it should be.
#[derive(Clone, Debug)]
pub struct Stuck {
    pub run: i64,
    pub job: String,
    pub node: String,
    pub how: String,
}

/// A run that has waited.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub run: i64,
    pub job: String,
    pub waited: SignedDuration,
    pub cause: Cause,
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Slot,
    /// The only node that may run it, which is not ready.
    Node(String),
    /// No ready node has these labels.
    Labels(BTreeMap<String, String>),
    /// No node is ready.
    NoNode,
    /// A pool, a lock or a rate.
    Gate(Gated),
}

/// What a run waits for at a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// "pool", "lock" or "rate".
    pub gate: String,
    /// Of the pool or the lock, where it is known.
    pub name: Option<String>,
    /// Of the pool.
    pub size: Option<i64>,
    /// A run that holds it, its job and its node.
    pub holder: Option<(i64, String, String)>,
}

/// What keeps a run that waits at a gate from being claimed; `None`: it is only to be claimed.
pub fn gate(needed: &Needed) -> Option<Gated> {
    let gated = |gate: &str, name: Option<&String>, size, holder: Option<&Held>| {
        Some(Gated {
            gate: gate.to_owned(),
            name: name.cloned(),
            size,
            holder: holder.map(|h| (h.run_id, h.job_id.clone(), h.node.clone())),
        })
    };
    let full =
        |size: Option<i64>, holders: usize| i64::try_from(holders).is_ok_and(|n| n >= size.unwrap_or(0));
    if let Some(pool) = &needed.pool {
        let holders = || needed.holders.iter().filter(|h| h.pool.as_ref() == Some(pool));
        if full(needed.pool_size, holders().count()) {
            return gated("pool", Some(pool), needed.pool_size, holders().next());
        }
    }
    for lock in &needed.locks {
        if let Some(holder) = needed.holders.iter().find(|h| h.locks.contains(lock)) {
            return gated("lock", Some(lock), None, Some(holder));
        }
    }
    if let Some(lease) = needed.leases.first() {
        return gated("lock", Some(&lease.name), None, None);
    }
    if needed.before.is_some() {
        return gated("lock", needed.locks.first(), None, None);
    }
    if needed.rate_free_at.is_some_and(|at| at > needed.now) {
        return gated("rate", None, None, None);
    }
    let pool = needed.node_pool.as_ref()?;
    let holder = (needed.holders.iter()).find(|h| h.node_pool.as_ref() == Some(pool));
    if holder.is_none() && needed.node_pool_size.unwrap_or(0) > 0 {
        return None;
    }
    gated("pool", Some(pool), needed.node_pool_size, holder)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot => f.write_str("a free slot"),
            Self::Node(node) => write!(f, "node {node}, which is not ready"),
            Self::Labels(labels) => {
                let labels: Vec<_> = (labels.iter())
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                write!(f, "a node with {}: none is ready", labels.join(", "))
            }
            Self::NoNode => f.write_str("a node: none is ready"),
            Self::Gate(gated) => gated.fmt(f),
        }
    }
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.gate)?,
            None => write!(f, "its {}", self.gate)?,
        }
        match &self.holder {
            Some((run, job, node)) => write!(f, ": run {run} of {job} on {node} holds it"),
            None if self.size == Some(0) => f.write_str(", which has size 0"),
            None => Ok(()),
        }
    }
}

/// What a finding is about, so that it can be a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    Run(i64),
    Job(String),
    Node(String),
    /// Jobs in a state, as lists of jobs name it.
    Jobs(String),
    /// Nodes in a state; all of them when it is empty.
    Nodes(String),
    /// The database.
    Epoch,
}

/// One thing that is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub level: Level,
    /// One sentence.
    pub text: String,
    pub about: About,
}

/// All problems, the worst first; each once.
pub fn judge(facts: &FarmFacts) -> Vec<Finding> {
    let mut found = trouble(facts);
    found.extend(attention(facts));
    found
}

/// The level of the worst.
pub fn level(findings: &[Finding]) -> Level {
    findings
        .iter()
        .map(|found| found.level)
        .max()
        .unwrap_or(Level::Well)
}

/// Something that is due does not run, or it is not known whether it does.
fn trouble(facts: &FarmFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |text: String, about| {
        found.push(Finding {
            level: Level::Trouble,
            text,
            about,
        });
    };
    let nothing_runs = facts.ready == 0 && (facts.any_job || facts.any_node);
    if !facts.claims_open {
        let text = "claims are closed: the database was restarted or replaced; `farmhand epoch` says more";
        add(text.to_owned(), About::Epoch);
    }
    if nothing_runs {
        let text = "no node is ready: nothing can run";
        add(text.to_owned(), About::Nodes(String::new()));
    }
    if let Some((first, count)) = facts.late.named("job is late", "jobs are late") {
        add(
            format!("{count}, first {first}: no agent fires them"),
            one_or(&facts.late, About::Job(first.clone()), || {
                About::Jobs("overdue".to_owned())
            }),
        );
    }
    if let Some((first, count)) = facts.stuck.named("run is stuck", "runs are stuck") {
        let Stuck { run, job, node, how } = first;
        let text = match facts.stuck.count {
            1 => format!("run {run} of {job} is stuck on {node}: {how}"),
            _ => format!("{count}, the oldest run {run} of {job} on {node}: {how}"),
        };
        add(text, About::Run(*run));
    }
    // What keeps every run from starting was said above.
    let due = (facts.due.as_ref()).filter(|run| run.waited > LATE && facts.claims_open && !nothing_runs);
    if let Some(run) = due {
        add(run.text(), About::Run(run.run));
    }
    found
}

/// The farm works, and some of it does not.
fn attention(facts: &FarmFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |text: String, about| {
        found.push(Finding {
            level: Level::Attention,
            text,
            about,
        });
    };
    let nodes = |state: &str| About::Nodes(state.to_owned());
    if facts.blocked > 0 {
        let noun = if facts.blocked == 1 { "node" } else { "nodes" };
        let text = format!(
            "{} {noun} cannot start runs: `farmhand node ls` says why",
            facts.blocked
        );
        add(text, nodes("blocked"));
    }
    for (list, state) in [(&facts.lost, "lost"), (&facts.expired, "expired")] {
        let (one, more) = (format!("node is {state}"), format!("nodes are {state}"));
        if let Some((first, count)) = list.named(&one, &more) {
            let about = one_or(list, About::Node(first.clone()), || nodes(state));
            add(format!("{count}: {first}"), about);
        }
    }
    if let Some(run) = facts.gated.as_ref().filter(|run| run.waited > QUEUED) {
        add(run.text(), About::Run(run.run));
    }
    if let Some(((first, failures), count)) = facts.failing.named("job is failing", "jobs are failing") {
        let times = match failures {
            1 => "1 failure".to_owned(),
            n => format!("{n} failures in a row"),
        };
        let about = one_or(&facts.failing, About::Job(first.clone()), || {
            About::Jobs("failing".to_owned())
        });
        add(format!("{count}: {first}, {times}"), about);
    }
    found
}

fn one_or<T>(list: &Several<T>, one: About, more: impl FnOnce() -> About) -> About {
    if list.count == 1 { one } else { more() }
}

impl Waiting {
    fn text(&self) -> String {
        let waited = match self.waited.as_secs() {
            seconds @ ..120 => format!("{seconds} s"),
            seconds => format!("{} min", seconds / 60),
        };
        format!(
            "run {} of {} has waited {waited} for {}",
            self.run, self.job, self.cause
        )
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
