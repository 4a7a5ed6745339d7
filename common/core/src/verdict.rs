//! Whether the farm is well: the one decision that command line, page and API show.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::durations::Exceeded;
use crate::health::Level;
use crate::waits::WaitsFor;

/// A run that could be claimed, and that no node has claimed for so long, is late.
pub const LATE: SignedDuration = SignedDuration::from_secs(60);
/// So long a run may wait for a pool, a lock or a rate before people are told.
const QUEUED: SignedDuration = SignedDuration::from_secs(300);
/// A node that was lost so often within an hour, and is there, is flapping.
pub const FLAPS: i64 = 3;
/// A takeover needs no attention while it is under way.
pub const TAKEOVER: SignedDuration = SignedDuration::from_secs(10);

/// What is known about the farm.
#[derive(Clone, Debug, Default)]
pub struct FarmFacts {
    pub claims_open: bool,
    /// Whether there is a job at all.
    pub any_job: bool,
    /// Whether there is a node at all.
    pub any_node: bool,
    pub ready: i64,
    /// Nodes whose machines refuse to start runs.
    pub blocked: Several<String>,
    /// Jobs whose instants no agent fires.
    pub late: Several<String>,
    /// Attempts whose lease nobody renews or takes over.
    pub stuck: Several<Stuck>,
    /// The oldest run that could be claimed.
    pub due: Several<Waiting>,
    /// The oldest run that waits for a pool, a lock or a rate.
    pub gated: Several<Waiting>,
    pub expired: Several<String>,
    /// Nodes that are lost.
    pub lost: Several<String>,
    /// Nodes that are there, and how often each was lost within the last hour.
    pub flapping: Several<(String, i64)>,
    /// Runs that take longer than usual.
    pub slow: Several<Slow>,
    /// Jobs, and how often each has failed in a row.
    pub failing: Several<(String, i32)>,
}

/// Findings of one kind.
#[derive(Clone, Debug)]
pub struct Several<T> {
    items: Vec<T>,
    most: usize,
}

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            most: usize::MAX,
        }
    }
}

impl<T> Several<T> {
    /// Of a list that holds at most `most`: when it is full there may be more.
    pub fn of(items: impl IntoIterator<Item = T>, most: usize) -> Self {
        Self {
            items: items.into_iter().collect(),
            most,
        }
    }

    /// The first, and the number in words.
    fn named(&self, one: &str, more: &str) -> Option<(&T, String)> {
        let first = self.items.first()?;
        let count = match self.items.len() {
            1 => format!("1 {one}"),
            n if n >= self.most => format!("{n} or more {more}"),
            n => format!("{n} {more}"),
        };
        Some((first, count))
    }

    fn one_or(&self, one: About, more: About) -> About {
        if self.items.len() == 1 { one } else { more }
    }

    fn finding(&self, level: Level, text: String, about: About, cause: impl Fn(&T) -> String) -> Finding {
        Finding {
            level,
            text,
            about,
            causes: self.items.iter().map(cause).collect(),
        }
    }
}

/// A run held under a lease that is not as it should be.
#[derive(Clone, Debug)]
pub struct Stuck {
    pub run: i64,
    pub job: String,
    pub node: String,
    /// In which way it is stuck.
    pub how: String,
}

/// A run that takes longer than usual.
#[derive(Clone, Debug)]
pub struct Slow {
    pub run: i64,
    pub job: String,
    pub node: String,
    pub lasted: SignedDuration,
    /// What that is longer than.
    pub exceeded: Exceeded,
}

/// A run that has waited.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub run: i64,
    pub job: String,
    pub waited: SignedDuration,
    pub waits_for: WaitsFor,
}

/// What a finding is about, by one key, so that it can be a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A run, by its number.
    Run(i64),
    /// A job, by its name.
    Job(String),
    /// A node, by its address.
    Node(String),
    /// Jobs in a state, as the list of jobs takes it.
    Jobs(String),
    /// Nodes in a state; all of them when it is empty.
    Nodes(String),
    /// The database.
    Epoch,
}

/// One thing that is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FarmFinding))]
pub struct Finding {
    pub level: Level,
    pub text: String,
    pub about: About,
    /// What it names, each by itself, as in `failing:backup`; none where the whole farm stands still.
    pub causes: Vec<String>,
}

/// All problems, the worst first; each once.
pub fn judge(facts: &FarmFacts) -> Vec<Finding> {
    let mut found = trouble(facts);
    found.extend(attention(facts));
    found
}

/// The level of the worst finding.
pub fn level(findings: &[Finding]) -> Level {
    (findings.iter().map(|found| found.level).max()).unwrap_or(Level::Well)
}

/// Something that is due does not run, or it is not known whether it does.
fn trouble(facts: &FarmFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let nothing_runs = facts.ready == 0 && (facts.any_job || facts.any_node);
    let whole = |text: &str, about| Finding {
        level: Level::Trouble,
        text: text.to_owned(),
        about,
        causes: Vec::new(),
    };
    if !facts.claims_open {
        let text = "claims are closed: the database was restarted or replaced; `farmhand epoch` says more";
        found.push(whole(text, About::Epoch));
    }
    if nothing_runs {
        let text = "no node is ready: nothing can run";
        found.push(whole(text, About::Nodes(String::new())));
    }
    let late = &facts.late;
    if let Some((first, count)) = late.named("job is late", "jobs are late") {
        let text = format!("{count}, first {first}: no agent fires them");
        let about = late.one_or(About::Job(first.clone()), About::Jobs("overdue".to_owned()));
        found.push(late.finding(Level::Trouble, text, about, |job| format!("late:{job}")));
    }
    let stuck = &facts.stuck;
    if let Some((first, count)) = stuck.named("run is stuck", "runs are stuck") {
        let Stuck { run, job, node, how } = first;
        let text = match stuck.items.len() {
            1 => format!("run {run} of {job} is stuck on {node}: {how}"),
            _ => format!("{count}, the oldest run {run} of {job} on {node}: {how}"),
        };
        let cause = |stuck: &Stuck| format!("stuck:{}", stuck.run);
        found.push(stuck.finding(Level::Trouble, text, About::Run(*run), cause));
    }
    // What keeps every run from starting was said above.
    if facts.claims_open && !nothing_runs {
        found.extend(waiting(&facts.due, Level::Trouble, LATE));
    }
    found
}

/// The farm works, and some of it does not.
fn attention(facts: &FarmFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let nodes = |state: &str| About::Nodes(state.to_owned());
    let blocked = &facts.blocked;
    if let Some((_, count)) = blocked.named("node", "nodes") {
        let text = format!("{count} cannot start runs: `farmhand node ls` says why");
        let cause = |node: &String| format!("blocked:{node}");
        found.push(blocked.finding(Level::Attention, text, nodes("blocked"), cause));
    }
    for (list, kind) in [(&facts.lost, "lost"), (&facts.expired, "expired")] {
        let (one, more) = (format!("node is {kind}"), format!("nodes are {kind}"));
        if let Some((first, count)) = list.named(&one, &more) {
            let about = list.one_or(About::Node(first.clone()), nodes(kind));
            let (text, cause) = (format!("{count}: {first}"), |node: &String| {
                format!("{kind}:{node}")
            });
            found.push(list.finding(Level::Attention, text, about, cause));
        }
    }
    let flapping = &facts.flapping;
    if let Some(((first, times), count)) = flapping.named("node is flapping", "nodes are flapping") {
        let text = format!("{count}: {first}, lost {times} times within an hour and back each time");
        let cause = |(node, _): &(String, i64)| format!("flapping:{node}");
        found.push(flapping.finding(Level::Attention, text, About::Node(first.clone()), cause));
    }
    found.extend(waiting(&facts.gated, Level::Attention, QUEUED));
    let slow = &facts.slow;
    if let Some((first, count)) = slow.named("run takes", "runs take") {
        let Slow { run, job, node, .. } = first;
        let (lasted, why) = (for_so_long(first.lasted), first.exceeded);
        let text = match slow.items.len() {
            1 => format!("run {run} of {job} has run for {lasted} on {node}, {why}"),
            _ => format!("{count} longer than usual, first run {run} of {job}: {lasted} on {node}"),
        };
        let cause = |slow: &Slow| format!("slow:{}", slow.run);
        found.push(slow.finding(Level::Attention, text, About::Run(*run), cause));
    }
    let failing = &facts.failing;
    if let Some(((first, failures), count)) = failing.named("job is failing", "jobs are failing") {
        let times = match failures {
            1 => "1 failure".to_owned(),
            n => format!("{n} failures in a row"),
        };
        let about = failing.one_or(About::Job(first.clone()), About::Jobs("failing".to_owned()));
        let text = format!("{count}: {first}, {times}");
        let cause = |(job, _): &(String, i32)| format!("failing:{job}");
        found.push(failing.finding(Level::Attention, text, about, cause));
    }
    found
}

/// The oldest run, when it has waited for longer than `limit`.
fn waiting(runs: &Several<Waiting>, level: Level, limit: SignedDuration) -> Option<Finding> {
    let run = runs.items.first().filter(|run| run.waited > limit)?;
    let cause = |run: &Waiting| format!("waiting:{}", run.job);
    Some(runs.finding(level, run.text(), About::Run(run.run), cause))
}

impl Waiting {
    fn text(&self) -> String {
        let waited = for_so_long(self.waited);
        format!(
            "run {} of {} has waited {waited} for {}",
            self.run, self.job, self.waits_for
        )
    }
}

fn for_so_long(time: SignedDuration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
