//! The gates, one function each.

use jiff::{SignedDuration, Timestamp};

use super::{Explanation, Facts, Finding, Gate, Known, Live, Node, Outcome};
use crate::core::definition::{DstPolicy, JobSpec, Overlap};
use crate::core::due::{self, DuePolicy};
use crate::core::run::RunState;
use crate::core::schedule::Schedule;

/// How late an agent may fire before it counts as nobody's doing it.
const FIRED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// Walks the gates.
pub fn explain(facts: &Facts) -> Explanation {
    let mut walk = Walk { gates: Vec::new() };
    let answer = match &facts.known {
        None => {
            walk.closed(
                Gate::Exists,
                format!("there is no job {}", facts.job),
                None,
                "apply a job file that defines it; `farmhand job ls` shows the jobs",
            );
            None
        }
        Some(known) => walk.job(facts, known),
    };
    let held = walk.gates.iter().find(|finding| !finding.open);
    Explanation {
        job_id: facts.job.clone(),
        at: facts.at,
        held_by: held.map(|finding| finding.gate),
        answer: match (held, answer) {
            (Some(finding), _) => finding.what.clone(),
            (None, Some(answer)) => answer,
            (None, None) => "nothing holds it back".to_owned(),
        },
        gates: walk.gates,
    }
}

struct Walk {
    gates: Vec<Finding>,
}

impl Walk {
    fn open(&mut self, gate: Gate, what: impl Into<String>) {
        let what = what.into();
        self.gates.push(Finding {
            gate,
            open: true,
            what,
            since: None,
            frees: None,
        });
    }

    fn closed(
        &mut self,
        gate: Gate,
        what: impl Into<String>,
        since: Option<Timestamp>,
        frees: impl Into<String>,
    ) {
        self.gates.push(Finding {
            gate,
            open: false,
            what: what.into(),
            since,
            frees: Some(frees.into()),
        });
    }

    /// All gates of a job that exists; what is said when none is closed.
    fn job(&mut self, facts: &Facts, known: &Known) -> Option<String> {
        if let Some(at) = facts
            .at
            .filter(|at| *at < known.since && known.outcomes.is_empty())
        {
            self.closed(
                Gate::Exists,
                format!(
                    "{} did not exist at {at}: its first revision was applied later",
                    facts.job
                ),
                None,
                "`farmhand job backfill` makes runs for instants of the past",
            );
            return None;
        }
        self.open(Gate::Exists, format!("it exists since {}", known.since));
        // What is recorded counts more than what the definition says today.
        if let Some(answer) = facts.at.and_then(|_| self.recorded(&known.outcomes)) {
            return Some(answer);
        }
        if self.gates.iter().any(|finding| !finding.open) {
            return None;
        }
        self.enabled(known);
        self.paused(&facts.job, known);
        let live = match facts.at {
            Some(at) => known.live.iter().find(|live| live.due_at == at),
            None => waiting(&known.live),
        };
        let answer = match (facts.at, live) {
            (_, Some(live)) => {
                self.open(
                    Gate::Fired,
                    format!("run {} is due since {}", live.run_id, live.due_at),
                );
                None
            }
            (Some(at), None) => self.instant(facts, known, at),
            (None, None) => self.nothing_due(facts, known),
        };
        self.gate_of(live, known);
        if let Some(live) = live.filter(|live| live.gate.is_none() && live.ready_at > facts.now) {
            self.closed(
                Gate::Ready,
                format!("run {} waits until {}", live.run_id, live.ready_at),
                Some(live.created_at),
                match &live.reason {
                    Some(reason) => format!("it is tried again then ({reason})"),
                    None => "its time comes".to_owned(),
                },
            );
        }
        self.places(facts, &known.spec, live);
        if facts.timeline_open {
            self.open(Gate::Database, "the database answers, and claims are open");
        } else {
            self.closed(
                Gate::Database,
                "no agent has opened the database's timeline for claims yet, as after a failover",
                None,
                "an agent opens it after watching it for the length of a lease",
            );
        }
        answer
    }

    /// Whether the instant's outcome is known; then nothing else matters.
    fn recorded(&mut self, outcomes: &[Outcome]) -> Option<String> {
        let ran = outcomes
            .iter()
            .find(|o| o.state != RunState::Skipped && o.state != RunState::Due);
        if let Some(run) = ran {
            let by = run
                .running_at
                .as_ref()
                .map_or_else(String::new, |node| format!(" on {node}"));
            let why = run
                .reason
                .as_ref()
                .map_or_else(String::new, |reason| format!(": {reason}"));
            let text = format!("it ran: run {} {}{by}{why}", run.run_id, run.state);
            self.open(Gate::Fired, text.clone());
            return Some(text);
        }
        let skipped = outcomes.iter().find(|o| o.state == RunState::Skipped)?;
        let reason = skipped.reason.as_deref().unwrap_or("no reason");
        let (gate, what, frees) = match reason {
            "calendar" => (
                Gate::Calendar,
                "a calendar excluded the day",
                "take the day out of the calendar, and backfill",
            ),
            "paused" => (
                Gate::Paused,
                "the job was paused",
                "`farmhand job resume`, and backfill",
            ),
            "ended" => (
                Gate::Window,
                "it was outside `start` and `end`",
                "move them, and backfill",
            ),
            "dst" => (
                Gate::Dst,
                "a clock change removed the time",
                "dst = \"once\" runs it after the change",
            ),
            "missed" => (
                Gate::Fired,
                "no agent fired it in time, and `missed` did not ask for it later",
                "missed = \"latest\" or \"all\" runs what was missed; backfill does it now",
            ),
            "overlap" => (
                Gate::Overlap,
                "an earlier run had not ended",
                "overlap = \"queue\" or \"allow\"; or a shorter run",
            ),
            "queue_full" => (
                Gate::Overlap,
                "a thousand runs were waiting already",
                "a shorter run, or a schedule that fires less",
            ),
            "replaced" => (
                Gate::Overlap,
                "a later instant replaced it",
                "overlap = \"queue\" runs every one",
            ),
            "no_node" => (
                Gate::Nodes,
                "no node was ready to run it",
                "start an agent with the labels it wants",
            ),
            "trigger" => (Gate::Trigger, "its triggers did not meet", "`trigger_on`"),
            _ => (Gate::Fired, "it was skipped", "`farmhand run show` tells more"),
        };
        let since = Some(skipped.first_due);
        self.closed(gate, format!("skipped ({reason}): {what}"), since, frees);
        None
    }

    fn enabled(&mut self, known: &Known) {
        if known.spec.enabled {
            self.open(Gate::Enabled, "it is enabled");
        } else {
            let since = Some(known.applied_at);
            self.closed(
                Gate::Enabled,
                "its definition says enabled = false",
                since,
                "apply it with enabled = true",
            );
        }
    }

    fn paused(&mut self, job: &str, known: &Known) {
        let Some(paused) = &known.paused else {
            self.open(Gate::Paused, "it is not paused");
            return;
        };
        let by = paused
            .by
            .as_ref()
            .map_or_else(String::new, |by| format!(" by {by}"));
        let why = paused
            .reason
            .as_ref()
            .map_or_else(String::new, |why| format!(": {why}"));
        let frees = format!("`farmhand job resume {job}`");
        self.closed(Gate::Paused, format!("it is paused{by}{why}"), paused.at, frees);
    }

    /// The gates of the definition for one instant that has no run.
    fn instant(&mut self, facts: &Facts, known: &Known, at: Timestamp) -> Option<String> {
        let Some((schedule, policy)) = self.compiled(facts, &known.spec) else {
            return None;
        };
        if is_instant(&schedule, at) {
            self.open(
                Gate::Schedule,
                format!("the schedule has it: {}", schedule.describe()),
            );
        } else {
            self.no_instant(facts, &known.spec, &schedule, at);
            return None;
        }
        self.window(&policy, at);
        match policy.calendar.excluded_until(at) {
            Some(end) => self.closed(
                Gate::Calendar,
                format!("calendar {} excludes the day", known.spec.calendars.join(", ")),
                None,
                format!("the exclusion ends at {end}"),
            ),
            None => self.open(Gate::Calendar, "no calendar excludes the day"),
        }
        if at > facts.now {
            return Some(format!("it is due at {at}, which is still to come"));
        }
        if self.gates.iter().any(|finding| !finding.open) {
            return None;
        }
        self.unfired(facts, known, at)
    }

    /// An instant of the past without any record.
    fn unfired(&mut self, facts: &Facts, known: &Known, at: Timestamp) -> Option<String> {
        if known.next_run.is_some_and(|next| next <= at) {
            if facts.now.duration_since(at) < FIRED_WITHIN {
                return Some("it has just become due".to_owned());
            }
            self.closed(
                Gate::Fired,
                format!(
                    "no agent has fired it, {} s after its time",
                    facts.now.duration_since(at).as_secs()
                ),
                Some(at),
                "a ready agent fires what is overdue; `farmhand node ls` shows the agents",
            );
        } else if at < known.applied_at {
            self.closed(
                Gate::Fired,
                "nothing is recorded: an earlier revision of the job was in force, or the history was dropped",
                None,
                "`farmhand job show` lists the revisions",
            );
        } else {
            self.closed(
                Gate::Fired,
                "it was decided, and its record is gone: the history is kept for a limited time",
                None,
                "keep the history for longer",
            );
        }
        None
    }

    fn window(&mut self, policy: &DuePolicy, at: Timestamp) {
        match (policy.start, policy.end) {
            (Some(start), _) if at < start => {
                self.closed(
                    Gate::Window,
                    "it is before `start`",
                    None,
                    format!("the job starts at {start}"),
                );
            }
            (_, Some(end)) if at >= end => {
                self.closed(
                    Gate::Window,
                    "it is not before `end`",
                    Some(end),
                    "move `end`, or take it out",
                );
            }
            _ => self.open(Gate::Window, "it is within `start` and `end`"),
        }
    }

    fn no_instant(&mut self, facts: &Facts, spec: &JobSpec, schedule: &Schedule, at: Timestamp) {
        let other = [DstPolicy::Both, DstPolicy::Once].into_iter().find(|dst| {
            let spec = JobSpec {
                dst: *dst,
                ..spec.clone()
            };
            due::compile(&facts.job, &spec).is_ok_and(|(schedule, _)| is_instant(&schedule, at))
        });
        if let Some(dst) = other {
            let word = if dst == DstPolicy::Both { "both" } else { "once" };
            self.open(Gate::Schedule, "the schedule has its time of day");
            self.closed(
                Gate::Dst,
                "a clock change repeats or removes the time, and `dst` leaves this occurrence out",
                None,
                format!("dst = \"{word}\" has it"),
            );
            return;
        }
        let before =
            last_before(schedule, at).map_or_else(String::new, |t| format!("; the last one before is {t}"));
        let after = schedule
            .next_after(at)
            .map_or_else(String::new, |t| format!("; the next one is {t}"));
        self.closed(
            Gate::Schedule,
            format!("the schedule has no instant at {at}{before}{after}"),
            None,
            format!("it fires {}", schedule.describe()),
        );
    }

    fn compiled(&mut self, facts: &Facts, spec: &JobSpec) -> Option<(Schedule, DuePolicy)> {
        if spec.schedule.is_empty() {
            self.closed(
                Gate::Schedule,
                "it has no schedule: it runs only when it is submitted or triggered",
                None,
                format!("`farmhand job run {}`, or give it a schedule", facts.job),
            );
            return None;
        }
        match due::compile(&facts.job, spec) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                let frees = "apply the job again with this version";
                self.closed(
                    Gate::Schedule,
                    format!("its definition cannot be used: {error}"),
                    None,
                    frees,
                );
                None
            }
        }
    }

    /// No run waits: the schedule says what comes next.
    fn nothing_due(&mut self, facts: &Facts, known: &Known) -> Option<String> {
        let running: Vec<String> = known.live.iter().filter_map(|l| l.running_at.clone()).collect();
        if !running.is_empty() {
            return Some(format!("it is running, on {}", running.join(", ")));
        }
        let (schedule, policy) = self.compiled(facts, &known.spec)?;
        if schedule.fires_at_boot() && !schedule.has_instants() {
            self.closed(Gate::Schedule, "it fires when a node boots, once", None, "a boot");
            return None;
        }
        let next = known
            .next_run
            .or_else(|| due::next_run(&schedule, &policy, facts.now));
        let Some(next) = next else {
            self.window(&policy, facts.now);
            if self.gates.iter().all(|finding| finding.open) {
                let frees = "give it a schedule with instants to come";
                self.closed(Gate::Schedule, "its schedule has no instant left", None, frees);
            }
            return None;
        };
        if next <= facts.now {
            return self.unfired(facts, known, next);
        }
        self.closed(
            Gate::Schedule,
            format!("nothing of it is due: its next instant is {next}"),
            known.decided_until,
            format!("the time comes; `farmhand job run {}` runs it now", facts.job),
        );
        None
    }

    /// What the run itself waits for.
    fn gate_of(&mut self, live: Option<&Live>, known: &Known) {
        let Some(live) = live else { return };
        let Some(gate) = live.gate.as_deref() else {
            self.open(Gate::Overlap, "it waits for no other run");
            return;
        };
        let spec = &known.spec;
        let (gate, what, frees) = match gate {
            "overlap" => {
                let before: Vec<String> = (known.live.iter())
                    .filter(|other| {
                        other.run_id != live.run_id && (other.gate.is_none() || other.due_at < live.due_at)
                    })
                    .map(|other| match &other.running_at {
                        Some(node) => format!("run {} on {node}", other.run_id),
                        None => format!("run {}", other.run_id),
                    })
                    .collect();
                let rule = match spec.overlap {
                    Overlap::Replace => "the end of what it replaces",
                    _ => "their end; `farmhand run cancel` ends one",
                };
                (
                    Gate::Overlap,
                    format!("run {} waits for {}", live.run_id, before.join(", ")),
                    rule.to_owned(),
                )
            }
            "pool" => (
                Gate::Pool,
                format!("run {} waits for a place in {}", live.run_id, pools(spec)),
                "a run in the pool ends, or `farmhand pool set` makes it larger".to_owned(),
            ),
            "lock" => (
                Gate::Lock,
                format!(
                    "run {} waits for the locks {}",
                    live.run_id,
                    spec.locks.join(", ")
                ),
                "the run that holds them ends".to_owned(),
            ),
            "rate" => (
                Gate::Rate,
                format!(
                    "run {} would go over the rate {}",
                    live.run_id,
                    spec.rate.as_deref().unwrap_or("")
                ),
                "time passes".to_owned(),
            ),
            other => (
                Gate::Trigger,
                format!("run {} waits: {other}", live.run_id),
                "`farmhand run show`".to_owned(),
            ),
        };
        self.closed(gate, what, Some(live.created_at), frees);
    }

    fn places(&mut self, facts: &Facts, spec: &JobSpec, live: Option<&Live>) {
        let fits = |node: &&Node| {
            spec.placement
                .iter()
                .all(|(label, value)| node.labels.get(label) == Some(value))
                && live
                    .and_then(|l| l.node.as_ref())
                    .is_none_or(|only| *only == node.address)
        };
        let ready = |node: &&Node| node.state == "ready";
        let fitting: Vec<&Node> = facts.nodes.iter().filter(fits).collect();
        if fitting.is_empty() && !facts.nodes.is_empty() {
            let labels: Vec<String> = spec
                .placement
                .iter()
                .map(|(k, v)| format!("{k} = {v:?}"))
                .collect();
            let only = live.and_then(|l| l.node.clone());
            let what = match only {
                Some(node) => format!("it belongs to node {node}, which the farm does not know"),
                None => format!("no node has the labels {}", labels.join(", ")),
            };
            self.closed(
                Gate::Placement,
                what,
                None,
                "start an agent with these labels, or change `where`",
            );
            return;
        }
        self.open(Gate::Placement, format!("{} nodes may run it", fitting.len()));
        let able: Vec<&Node> = fitting.iter().copied().filter(|n| ready(&n)).collect();
        if able.is_empty() {
            let states: Vec<String> = fitting
                .iter()
                .map(|n| format!("{} is {}", n.address, n.state))
                .collect();
            let what = if states.is_empty() {
                "the farm has no node".to_owned()
            } else {
                format!("none of them is ready: {}", states.join(", "))
            };
            self.closed(
                Gate::Nodes,
                what,
                None,
                "start an agent, or `farmhand node resume`",
            );
            return;
        }
        self.open(Gate::Nodes, format!("{} of them are ready", able.len()));
        if live.is_none_or(|l| l.running_at.is_some()) {
            return;
        }
        if able.iter().any(|node| node.running < node.slots) {
            self.open(Gate::Slots, "one of them has a free slot");
        } else {
            let total: i64 = able.iter().map(|node| node.slots).sum();
            self.closed(
                Gate::Slots,
                format!("all {total} slots of these nodes are taken"),
                None,
                "a run ends, more slots or more agents, or a higher `priority`",
            );
        }
    }
}

fn pools(spec: &JobSpec) -> String {
    let names: Vec<&str> = [&spec.pool, &spec.node_pool]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    format!("pool {}", names.join(", "))
}

/// The run that has waited longest.
fn waiting(live: &[Live]) -> Option<&Live> {
    live.iter()
        .filter(|run| run.running_at.is_none())
        .min_by_key(|run| (run.due_at, run.run_id))
}

fn is_instant(schedule: &Schedule, at: Timestamp) -> bool {
    let after = at + SignedDuration::from_nanos(1);
    schedule.between(at, after).next().is_some()
}

/// The last instant before `at`, looked for in ever longer stretches of up to four years.
fn last_before(schedule: &Schedule, at: Timestamp) -> Option<Timestamp> {
    const STRETCHES: [i64; 5] = [60, 3_600, 86_400, 40 * 86_400, 4 * 366 * 86_400];
    STRETCHES.into_iter().find_map(|seconds| {
        let from = at.checked_sub(SignedDuration::from_secs(seconds)).ok()?;
        schedule.between(from, at).last()
    })
}
