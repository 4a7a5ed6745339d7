//! One job's table becomes a [`JobSpec`].

use std::ops::Range;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use toml::de::DeValue;

use super::calendar::Calendars;
use super::notify::Targets;
use super::pools::Pools;
use super::spec::*;
use super::{arguments, check, continuous, flow, needs, retry, secrets, stream, table, triggers, watched};
use crate::document::{
    Found, Reader, Wrong, boolean, duration, filled, integer, one_of, positive_duration, size, text,
};

/// What jobs may refer to, of all files read together.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub calendars: Calendars,
    pub pools: Pools,
    pub targets: Targets,
}

/// Whether a table is a job or what jobs inherit.
pub(super) enum JobLayer {
    /// With the span of its name.
    Job {
        name: Range<usize>,
    },
    Defaults,
}

/// Keys that say what one job is; nobody inherits them.
pub(super) const OWN_KEYS: &[&str] = &[
    "command",
    "flow",
    "task",
    "table",
    "stream",
    "preload",
    "schedule",
    "params",
    "stdin",
    "idle_exit",
    "idle_delay",
    "triggered_by",
    "renamed_from",
];

/// Words that other schedulers use.
const HINTS: &[(&str, &str)] = &[
    ("cmd", "did you mean `command`?"),
    ("exec", "did you mean `command`?"),
    ("run", "did you mean `command`?"),
    ("script", "did you mean `command`?"),
    (
        "args",
        "put the arguments into `command`: [\"program\", \"argument\"]",
    ),
    ("cron", "did you mean `schedule`?"),
    ("every", "write schedule = \"@every 5m\""),
    ("interval", "write schedule = \"@every 5m\""),
    ("at", "did you mean `schedule`?"),
    ("tz", "did you mean `timezone`?"),
    ("zone", "did you mean `timezone`?"),
    ("retries", "write retry = { max = 3 }"),
    ("max_retries", "write retry = { max = 3 }"),
    ("environment", "did you mean `env`?"),
    ("dir", "did you mean `cwd`?"),
    ("workdir", "did you mean `cwd`?"),
    ("working_directory", "did you mean `cwd`?"),
    ("concurrency", "did you mean `overlap`?"),
    ("disabled", "write enabled = false"),
    ("memory", "write limits = { memory = \"512MiB\" }"),
    ("labels", "did you mean `where`?"),
    ("calendar", "did you mean `calendars`?"),
    (
        "exclude",
        "write [calendar.NAME] with the days, and calendars = [\"NAME\"] here",
    ),
];

/// Reads a job. What is wrong goes to the reader's sink, and the result is then not to be used.
pub(super) fn read_job(mut job: Reader<'_>, layer: &JobLayer, shared: &Shared) -> JobSpec {
    let mut spec = JobSpec::default();
    if let JobLayer::Defaults = layer {
        for key in OWN_KEYS {
            if let Some(span) = job.key_span(key) {
                let what = format!("`{key}` cannot be inherited");
                job.sink().report(span, what, "write it in each job");
            }
        }
    }
    read_when(&mut job, &mut spec);
    read_calendars(&mut job, &mut spec, &shared.calendars);
    read_what(&mut job, &mut spec);
    read_how(&mut job, &mut spec);
    read_where(&mut job, &mut spec);
    read_needs(&mut job, &mut spec);
    read_people(&mut job, &mut spec);
    shared.pools.check(&mut job, &spec);
    shared.targets.read_job(&mut job, &mut spec);
    read_params(&mut job, &mut spec);
    flow::read_flow(&mut job, &mut spec, &shared.pools);
    table::read_table(&mut job, &mut spec);
    stream::read_stream(&mut job, &mut spec);
    if let JobLayer::Job { name } = layer {
        check::whole(&mut job, &spec, name);
        secrets::check(&mut job, &spec);
        continuous::check(&mut job, &spec);
        arguments::check(&mut job, &spec);
        triggers::check_job(&mut job, &spec);
    }
    job.finish(HINTS);
    spec
}

fn read_when(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let zone = job.read("timezone", check::timezone);
    if let Some(zone) = zone {
        spec.timezone = zone.value;
    }
    job.set(
        "dst",
        &mut spec.dst,
        one_of(&[
            ("once", DstPolicy::Once),
            ("skip", DstPolicy::Skip),
            ("both", DstPolicy::Both),
        ]),
    );
    if let Some(list) = job.list("schedule", true, check::expression) {
        spec.schedule = values(list);
    }
    job.set(
        "missed",
        &mut spec.missed,
        one_of(&[
            ("latest", Missed::Latest),
            ("all", Missed::All),
            ("skip", Missed::Skip),
        ]),
    );
    job.maybe("missed_within", &mut spec.missed_within, positive_duration);
    job.set("missed_max", &mut spec.missed_max, |v| {
        integer(1..=10_000)(v).map(|n| u32::try_from(n).unwrap_or(10_000))
    });
    job.set("spread", &mut spec.spread, duration);
    let zone = TimeZone::get(&spec.timezone).unwrap_or(TimeZone::UTC);
    job.maybe("start", &mut spec.start, |v| instant(v, &zone));
    job.maybe("end", &mut spec.end, |v| instant(v, &zone));
    if let Some(list) = job.list("triggered_by", true, filled) {
        spec.triggered_by = values(list);
    }
    job.set(
        "trigger_on",
        &mut spec.trigger_on,
        one_of(&[
            ("success", TriggerOn::Success),
            ("failure", TriggerOn::Failure),
            ("finish", TriggerOn::Finish),
        ]),
    );
    job.set("enabled", &mut spec.enabled, boolean);
}

fn read_calendars(job: &mut Reader<'_>, spec: &mut JobSpec, calendars: &Calendars) {
    let Some(names) = job.list("calendars", true, filled) else {
        return;
    };
    match calendars.resolve(&names) {
        Ok(days) => spec.exclude = days,
        Err((span, wrong)) => job.sink().wrong(span, "calendars", wrong),
    }
    spec.calendars = values(names);
}

fn read_what(job: &mut Reader<'_>, spec: &mut JobSpec) {
    match job.raw("command").map(|f| f.value) {
        Some(DeValue::Array(_)) => {
            spec.command = job
                .list("command", false, text)
                .map(|list| Command::Argv(values(list)));
        }
        Some(_) => job.maybe("command", &mut spec.command, |v| {
            filled(v).map(Command::Shell).map_err(|wrong| Wrong {
                fix: "write [\"program\", \"argument\"], or a string for /bin/sh -c".to_owned(),
                ..wrong
            })
        }),
        None => {}
    }
    job.maybe("stdin", &mut spec.stdin, check::stdin);
    job.maybe("cwd", &mut spec.cwd, check::absolute_path);
    job.maybe("user", &mut spec.user, check::user_name);
    job.maybe("umask", &mut spec.umask, check::umask);
    job.maybe("nice", &mut spec.nice, |v| {
        integer(-20..=19)(v).map(|n| i32::try_from(n).unwrap_or(0))
    });
    if let Some(env) = job.table("env") {
        check::environment(env, &mut spec.env);
    }
    if let Some(names) = job.table("secrets") {
        secrets::read(names, &mut spec.secrets);
    }
    if let Some(mut limits) = job.table("limits") {
        limits.maybe("memory", &mut spec.limits.memory, check::memory);
        limits.maybe("processes", &mut spec.limits.processes, |v| {
            integer(1..=4_194_304)(v).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
        });
        limits.finish(&[]);
    }
    job.set(
        "isolation",
        &mut spec.isolation,
        one_of(&[("cgroup", Isolation::Cgroup), ("pid", Isolation::Pid)]),
    );
    if let Some(mut output) = job.table("output") {
        output.set("keep", &mut spec.output.keep, size);
        output.set("local", &mut spec.output.local, size);
        output.finish(&[]);
    }
}

fn read_how(job: &mut Reader<'_>, spec: &mut JobSpec) {
    job.maybe("timeout", &mut spec.timeout, positive_duration);
    job.set("grace", &mut spec.grace, duration);
    job.set(
        "overlap",
        &mut spec.overlap,
        one_of(&[
            ("skip", Overlap::Skip),
            ("queue", Overlap::Queue),
            ("replace", Overlap::Replace),
            ("allow", Overlap::Allow),
        ]),
    );
    continuous::read(job, spec);
    retry::read_retry(job, &mut spec.retry);
    job.set(
        "on_lost",
        &mut spec.on_lost,
        one_of(&[("rerun", OnLost::Rerun), ("fail", OnLost::Fail)]),
    );
    job.set("hold", &mut spec.hold, duration);
    watched::read(job, spec);
}

fn read_where(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let run_on = one_of(&[("one", RunOn::One), ("each-node", RunOn::EachNode)]);
    job.set("run_on", &mut spec.run_on, run_on);
    if let Some(labels) = job.table("where") {
        spec.placement = labels.strings().into_iter().map(|(k, v)| (k, v.value)).collect();
    }
    job.set("priority", &mut spec.priority, |v| {
        integer(-1_000_000..=1_000_000)(v).map(|n| i32::try_from(n).unwrap_or(0))
    });
    job.set("instances", &mut spec.instances, |v| {
        integer(1..=10_000)(v).map(|n| u32::try_from(n).unwrap_or(1))
    });
}

fn read_needs(job: &mut Reader<'_>, spec: &mut JobSpec) {
    job.maybe("pool", &mut spec.pool, needs::resource_name);
    job.maybe("node_pool", &mut spec.node_pool, needs::resource_name);
    job.maybe("rate", &mut spec.rate, needs::rate);
    for lock in job.list("locks", true, needs::resource_name).unwrap_or_default() {
        if spec.locks.contains(&lock.value) {
            let what = format!("`locks`: \"{}\" is named twice", lock.value);
            job.sink()
                .report(lock.span, what, "once is enough: a lock is held or it is not");
            continue;
        }
        spec.locks.push(lock.value);
    }
    // The order says nothing, so a new order is no new definition.
    spec.locks.sort_unstable();
}

/// What people want to know of it.
fn read_people(job: &mut Reader<'_>, spec: &mut JobSpec) {
    // Of no revision: whoever applies the file looks for it.
    job.read("renamed_from", needs::resource_name);
    job.maybe("description", &mut spec.description, filled);
    job.maybe("owner", &mut spec.owner, filled);
    job.maybe("runbook", &mut spec.runbook, web_address);
    if let Some(tags) = job.list("tags", true, filled) {
        spec.tags = values(tags);
    }
}

/// An address that a browser opens.
fn web_address(value: &DeValue<'_>) -> Result<String, Wrong> {
    let wrong = || {
        Wrong::new(
            "not a web address",
            "for example \"https://wiki.example.org/runbooks/import\"",
        )
    };
    let text = value.as_str().ok_or_else(wrong)?;
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

fn read_params(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let Some(params) = job.table("params") else {
        return;
    };
    let sink = params.sink();
    for (name, value) in params.entries() {
        let Some(table) = value.value.as_table() else {
            sink.report(
                value.span,
                format!("parameter `{}`: expected a table", name.value),
                "for example since = { type = \"duration\", default = \"5m\" }",
            );
            continue;
        };
        let param = check::param(Reader::new(vec![table], sink), &name);
        spec.params.insert(name.value.to_owned(), param);
    }
}

/// A date, a local time (both in the job's zone) or an instant, as RFC 3339 in UTC.
fn instant(value: &DeValue<'_>, zone: &TimeZone) -> Result<String, Wrong> {
    let written = value
        .as_str()
        .map(str::to_owned)
        .or_else(|| value.as_datetime().map(ToString::to_string))
        .unwrap_or_default();
    let local = |t: DateTime| zone.to_timestamp(t).ok();
    let found = written
        .parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| written.parse::<DateTime>().ok().and_then(local))
        .or_else(|| {
            written
                .parse::<Date>()
                .ok()
                .map(|d| d.at(0, 0, 0, 0))
                .and_then(local)
        });
    found.map(|t| t.to_string()).ok_or_else(|| {
        Wrong::new(
            "it is no point in time",
            "for example \"2026-12-01\", \"2026-12-01T08:00:00\" (both in the job's zone) or \"2026-12-01T08:00:00Z\"",
        )
    })
}

fn values<T>(list: Vec<Found<T>>) -> Vec<T> {
    list.into_iter().map(|found| found.value).collect()
}
