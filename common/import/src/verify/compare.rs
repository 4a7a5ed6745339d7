//! What cron and systemd's timers did, held against what the farm would have done.
//!
//! Minute by minute: cron starts a command in the first seconds of its minute, a timer its unit a minute later at the latest. Both
//! have a record from the first line of a machine's log, or the moment from which a job observes, up to the last line.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::definition::{JobSpec, NODE_LABEL, RunOn};
use farmhand_core::due::{self, Recorded, SkipReason};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::log::{Log, Started, What};
use crate::crontab::forms::{forms, printed, text};

/// A job that observes.
#[derive(Clone, Debug)]
pub struct Observing {
    job_id: String,
    user: Option<String>,
    command: String,
    /// The units that it was imported from: its tags that name services.
    units: BTreeSet<String>,
    each_node: bool,
    /// Where it would run; nothing is said when empty.
    nodes: BTreeSet<String>,
    at_boot: bool,
    /// How far its instants may be from the other's, either way: each of them moves a job by an amount of its own.
    apart: SignedDuration,
    since: Timestamp,
    recorded: Vec<Recorded>,
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Window {
    /// Nothing before it.
    pub from: Timestamp,
    /// Nothing after it.
    pub to: Timestamp,
    /// This node alone.
    pub only: Option<String>,
    /// The database's clock.
    pub now: Timestamp,
}

farmhand_core::words! {
    /// What came out for a job.
    #[derive(Default)]
    Verdict {
        /// Each instant of the one is one of the other.
        Same = "the same",
        /// One of them has an instant that the other does not have.
        Differs = "differs",
        /// The farm has instants, and the log never has the command.
        Unseen = "not in the log",
        /// No log of a node where it would run has the time of its instants.
        NoLog = "no log",
        /// Neither has an instant.
        #[default]
        NotDue = "not due",
        /// It runs at the boots of its nodes, which are not compared.
        AtBoot = "at boot",
    }
}

/// An instant that only one of them has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Single {
    /// The minute.
    pub at: Timestamp,
    /// Where; none for a job that runs once, somewhere.
    pub node: Option<String>,
    /// Why the farm would not have run it, as far as it is recorded.
    pub why: Option<String>,
}

/// A job's comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Compared {
    pub job_id: String,
    pub both: u64,
    /// Cron alone ran it.
    pub only_cron: Vec<Single>,
    /// The farm alone would have run it.
    pub only_farm: Vec<Single>,
    /// Instants of the farm that were not compared: no log has their time.
    pub outside: u64,
    /// Nodes all of whose instants are such.
    pub without_log: BTreeSet<String>,
    /// As whom cron ran it, of a job that names no user.
    pub ran_as: BTreeSet<String>,
    pub verdict: Verdict,
}

/// A command of cron that no job has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// As whom cron ran it.
    pub user: String,
    /// As the log has it.
    pub command: String,
    pub nodes: BTreeSet<String>,
    pub count: u64,
    pub last: Timestamp,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// In the order of the jobs.
    pub jobs: Vec<Compared>,
    pub unknown: Vec<Unknown>,
}

impl Observing {
    /// A job with this definition that observes since then.
    pub fn new(job_id: &str, spec: &JobSpec, since: Timestamp, recorded: Vec<Recorded>) -> Self {
        let labels = spec.placement.pairs();
        let at_boot = due::compile(job_id, spec)
            .is_ok_and(|(schedule, _)| schedule.fires_at_boot() && !schedule.has_instants());
        let units: BTreeSet<String> = (spec.tags.iter())
            .filter(|tag| tag.ends_with(".service"))
            .cloned()
            .collect();
        Self {
            job_id: job_id.to_owned(),
            user: spec.user.clone(),
            command: spec.command.as_ref().map(text).unwrap_or_default(),
            each_node: spec.run_on == RunOn::EachNode,
            nodes: labels
                .filter(|(label, _)| *label == NODE_LABEL)
                .map(|(_, value)| value.to_owned())
                .collect(),
            at_boot,
            apart: apart(spec, !units.is_empty()),
            units,
            since,
            recorded,
        }
    }

    /// Whether it would run there.
    pub fn is_for(&self, node: &str) -> bool {
        !self.each_node || self.nodes.is_empty() || self.nodes.contains(node)
    }

    /// Where an instant of it is: on each node, or on the farm.
    fn place(&self, node: &str) -> Option<String> {
        self.each_node.then(|| node.to_owned())
    }

    fn why(&self, node: Option<&String>, at: Timestamp) -> Option<String> {
        let here = |r: &&Recorded| r.node.is_none() || r.node.as_ref() == node;
        let has = |r: &&Recorded| minute(r.first) <= at && at <= r.last;
        let other = |r: &&Recorded| r.reason != SkipReason::Observed.as_str();
        let found = self.recorded.iter().find(|r| other(r) && here(r) && has(r));
        found.map(|r| r.reason.clone())
    }
}

impl Comparison {
    /// Whether nothing stands against leaving it all to the farm.
    pub fn is_safe(&self) -> bool {
        let good = |job: &Compared| matches!(job.verdict, Verdict::Same | Verdict::NotDue | Verdict::AtBoot);
        self.unknown.is_empty() && self.jobs.iter().all(good) && self.jobs.iter().any(|job| job.both > 0)
    }
}

/// Holds the log against the jobs. `nodes` says which node a host of the log is; another one is called as the log calls it.
pub fn compare(
    log: &Log,
    nodes: &BTreeMap<String, String>,
    jobs: &[Observing],
    window: &Window,
) -> Comparison {
    let node_of = |host: &String| nodes.get(host).unwrap_or(host).clone();
    let inside = |at: Timestamp| minute(window.from) <= at && at <= window.to;
    let around = |job: &Observing, at: Timestamp| inside(at - job.apart) && inside(at + job.apart);
    let mut logs: BTreeMap<Option<String>, (Timestamp, Timestamp)> = BTreeMap::new();
    for (host, (first, last)) in &log.hosts {
        for place in [Some(node_of(host)), None] {
            let seen = logs.entry(place).or_insert((*first, *last));
            *seen = (seen.0.min(*first), seen.1.max(*last));
        }
    }
    let (mut by_command, mut by_unit) = (
        BTreeMap::<String, Vec<usize>>::new(),
        BTreeMap::<&str, Vec<usize>>::new(),
    );
    let mut farm: BTreeMap<(usize, Option<String>), BTreeMap<Timestamp, u64>> = BTreeMap::new();
    let mut compared = Vec::new();
    let mut agreed: BTreeSet<(usize, Option<String>)> = BTreeSet::new();
    for (nth, job) in jobs.iter().enumerate() {
        by_command.entry(printed(&job.command)).or_default().push(nth);
        job.units
            .iter()
            .for_each(|unit| by_unit.entry(unit).or_default().push(nth));
        let elsewhere = |r: &Recorded| window.only.is_some() && r.node.is_some() && r.node != window.only;
        let observed = |r: &&Recorded| r.reason == SkipReason::Observed.as_str() && !elsewhere(r);
        for record in job.recorded.iter().filter(observed) {
            let due = minute(record.first);
            if inside(due) {
                let there = farm.entry((nth, record.node.clone())).or_default();
                *there.entry(due).or_default() += 1;
            }
        }
        compared.push(Compared {
            job_id: job.job_id.clone(),
            ..Compared::default()
        });
    }
    let mut started: Vec<&Started> = log.started.iter().collect();
    started.sort_by_key(|start| start.at);
    let mut unknown: BTreeMap<(&str, &str), Unknown> = BTreeMap::new();
    for start in started {
        let (at, node) = (minute(start.at), node_of(&start.host));
        if !inside(at) {
            continue;
        }
        let candidates: Vec<usize> = match &start.what {
            What::Command { command, .. } => {
                let forms = forms(command).into_iter();
                forms
                    .filter_map(|form| by_command.get(&form))
                    .flatten()
                    .copied()
                    .collect()
            }
            What::Unit(unit) => by_unit.get(unit.as_str()).cloned().unwrap_or_default(),
        };
        // Those that name the user come first. Who a unit runs as is not in the log.
        let user = start.what.user();
        let named: BTreeSet<(bool, usize)> = (candidates.into_iter())
            .map(|nth| (jobs[nth].user.is_none() && user.is_some(), nth))
            .filter(|(_, nth)| {
                user.is_none() || jobs[*nth].user.is_none() || jobs[*nth].user.as_deref() == user
            })
            .filter(|(_, nth)| jobs[*nth].is_for(&node))
            .collect();
        if named.is_empty() {
            // systemd starts much that no timer does.
            let What::Command { user, command } = &start.what else {
                continue;
            };
            let known = unknown.entry((command, user)).or_insert_with(|| Unknown {
                user: user.clone(),
                command: command.clone(),
                nodes: BTreeSet::new(),
                count: 0,
                last: start.at,
            });
            known.nodes.insert(node);
            known.count += 1;
            known.last = start.at;
            continue;
        }
        let taken = (named.iter()).find(|(_, nth)| {
            let job = &jobs[*nth];
            let there = farm.get_mut(&(*nth, job.place(&node)));
            there.is_some_and(|there| take(there, at - job.apart, at + job.apart))
        });
        if let Some((unnamed, nth)) = taken {
            compared[*nth].both += 1;
            agreed.insert((*nth, jobs[*nth].place(&node)));
            compared[*nth]
                .ran_as
                .extend(user.filter(|_| *unnamed).map(str::to_owned));
            continue;
        }
        // What is due just now may not have been decided yet.
        let decided = |job: &Observing| at + job.apart + SignedDuration::from_mins(1) < window.now;
        let counts = |(_, nth): &&(bool, usize)| {
            let job = &jobs[*nth];
            job.since <= at - job.apart && around(job, at) && decided(job) && !job.at_boot
        };
        if let Some((unnamed, nth)) = named.iter().find(counts) {
            compared[*nth]
                .ran_as
                .extend(user.filter(|_| *unnamed).map(str::to_owned));
            let place = jobs[*nth].place(&node);
            compared[*nth].only_cron.push(Single {
                at,
                why: jobs[*nth].why(place.as_ref(), at),
                node: Some(node),
            });
        }
    }
    for ((nth, place), left) in farm {
        let (job, compared) = (&jobs[nth], &mut compared[nth]);
        // A log that begins or ends within a minute may lack a part of it.
        let log = logs.get(&place);
        let has = |(first, last): &(Timestamp, Timestamp), at: Timestamp| {
            minute(*first) < at - job.apart && at + job.apart < minute(*last)
        };
        let covered = |at: Timestamp| around(job, at) && log.is_some_and(|log| has(log, at));
        let (there, outside): (Vec<Timestamp>, Vec<Timestamp>) =
            left.into_keys().partition(|at| covered(*at));
        compared.outside += outside.len() as u64;
        if there.is_empty() && !outside.is_empty() && !agreed.contains(&(nth, place.clone())) {
            compared.without_log.extend(place.clone());
        }
        let single = |at: Timestamp| Single {
            at,
            node: place.clone(),
            why: None,
        };
        compared.only_farm.extend(there.into_iter().map(single));
    }
    for (job, compared) in jobs.iter().zip(&mut compared) {
        compared.verdict = match () {
            () if job.at_boot => Verdict::AtBoot,
            () if !compared.only_cron.is_empty() || !compared.ran_as.is_empty() => Verdict::Differs,
            () if !compared.only_farm.is_empty() && compared.both == 0 => Verdict::Unseen,
            () if !compared.only_farm.is_empty() => Verdict::Differs,
            () if !compared.without_log.is_empty() => Verdict::NoLog,
            () if compared.both > 0 => Verdict::Same,
            () if compared.outside > 0 => Verdict::NoLog,
            () => Verdict::NotDue,
        };
    }
    Comparison {
        jobs: compared,
        unknown: unknown.into_values().collect(),
    }
}

/// A spread, up to a whole minute. A timer also has its AccuracySec=, a minute as a rule, and may count from a start that systemd
/// alone knows.
fn apart(spec: &JobSpec, of_timer: bool) -> SignedDuration {
    let every = |expression: &String| {
        expression
            .strip_prefix("@every ")?
            .strip_suffix('s')?
            .parse()
            .ok()
    };
    let every: u64 = spec.schedule.iter().filter_map(every).max().unwrap_or(0);
    let spread = spec.spread.as_secs();
    let minutes = match of_timer {
        true => spread.max(every).div_ceil(60) + 1,
        false => spread.div_ceil(60),
    };
    i64::try_from(minutes).map_or(SignedDuration::ZERO, SignedDuration::from_mins)
}

/// Takes the first instant in [from, to] that is left.
fn take(there: &mut BTreeMap<Timestamp, u64>, from: Timestamp, to: Timestamp) -> bool {
    let Some((at, left)) = there.range_mut(from..=to).next() else {
        return false;
    };
    *left -= 1;
    if *left == 0 {
        let at = *at;
        there.remove(&at);
    }
    true
}

fn minute(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(60)).unwrap_or(at)
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
