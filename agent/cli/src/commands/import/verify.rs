//! `farmhand import verify`: what cron and systemd's timers did against what the farm would have done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use farmhand_control::jobs;
use farmhand_core::definition::JobSpec;
use farmhand_import::verify::{
    Compared, Comparison, Log, Observing, Single, Unknown, Verdict, Window, compare,
};
use farmhand_store::Db;
use farmhand_store::jobs::{Listed, revisions};
use farmhand_store::reading::{self, every};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{Exit, Failure, Outcome, Progress, out, zone};
use crate::commands::DatabaseArgs;

/// Revisions of a job that are looked through for the one with which it began to observe.
const REVISIONS: i64 = 1_000;
/// Instants and commands that are shown of each kind; `--json` has all.
const SHOWN: usize = 5;

#[derive(Args, Debug)]
pub(super) struct VerifyArgs {
    /// Logs with the lines of cron and systemd: syslog files, or what `journalctl -t CRON -t CROND -t crond -t systemd -o json` prints; - is standard input
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    log: Vec<PathBuf>,
    /// The node whose logs they are, whatever they call it; no other node is compared
    #[arg(long, value_name = "NODE")]
    host: Option<String>,
    /// Compare from then on: a time, or so long ago, such as 7d [default: since the jobs observe]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Compare up to then [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The zone of times in the logs that have no offset [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Commands that contain this text stay with cron
    #[arg(long, value_name = "TEXT")]
    ignore: Vec<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

pub(super) async fn run(args: &VerifyArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let now = reading::now(&db).await?;
    let zone = TimeZone::get(&zone(args.tz.as_deref())?).unwrap_or(TimeZone::UTC);
    let mut log = read(&args.log, zone, now)?;
    log.started
        .retain(|start| !args.ignore.iter().any(|text| start.what.text().contains(text)));
    let to = out::past("--until", args.until.as_deref(), now)?.unwrap_or(now);
    let from = out::past("--since", args.since.as_deref(), now)?;
    let (observing, since) = observing(&db, from, to, args.host.as_deref()).await?;
    let from = from.map_or(since, |from| from.max(since));
    let nodes = nodes(&db, &log, args.host.as_deref()).await?;
    let window = Window {
        from,
        to,
        only: args.host.clone(),
        now,
    };
    let comparison = compare(&log, &nodes, &observing, &window);
    let safe = comparison.is_safe();
    if as_json {
        let hosts: BTreeMap<&String, _> = (log.hosts.iter())
            .map(|(host, (first, last))| {
                (
                    host,
                    json!({"node": nodes.get(host), "first": first, "last": last}),
                )
            })
            .collect();
        out::json(
            &json!({"from": from, "to": to, "hosts": hosts, "jobs": comparison.jobs,
            "unknown": comparison.unknown, "safe": safe}),
        );
    } else {
        show(&comparison, &spans(&log, &nodes, &window));
    }
    Ok(if safe { Exit::Ok } else { Exit::Differs })
}

fn read(paths: &[PathBuf], zone: TimeZone, now: Timestamp) -> Result<Log, Failure> {
    let mut log = Log::new(zone, now);
    let mut progress = Progress::default();
    for (nth, path) in paths.iter().enumerate() {
        progress.say(|_| format!("reading {}, {nth} of {} files", path.display(), paths.len()));
        log.next_file();
        lines(path, &mut log)
            .map_err(|error| Failure::usage(format!("{} cannot be read", path.display())).why(error))?;
    }
    if log.started.is_empty() {
        return Err(Failure::refused("the logs have no line of a command that cron started, or of a unit that systemd started")
            .why("such a line is `Nov 26 10:00:01 web-1 CRON[123]: (root) CMD (/usr/bin/backup)`")
            .next("name /var/log/syslog or /var/log/cron, or pipe `journalctl -t CRON -t CROND -t crond -t systemd -o json` in with --log -; unpack what is compressed"));
    }
    Ok(log)
}

fn lines(path: &Path, log: &mut Log) -> std::io::Result<()> {
    let from: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(path)?),
    };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        log.line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
    Ok(())
}

/// The jobs that observe, and since when the first of them does.
async fn observing(
    db: &Db,
    from: Option<Timestamp>,
    to: Timestamp,
    host: Option<&str>,
) -> Result<(Vec<Observing>, Timestamp), Failure> {
    let all: Vec<Listed> = jobs::all(db).await?;
    let all: Vec<Listed> = all.into_iter().filter(|job| job.enabled && job.observe).collect();
    let mut found: Vec<(Observing, Timestamp)> = Vec::new();
    let mut progress = Progress::default();
    for (nth, job) in all.iter().enumerate() {
        progress.say(|_| format!("reading what was recorded of {nth} of {} jobs", all.len()));
        let spec: JobSpec = jobs::spec(job)?;
        let observes = |spec: &serde_json::Value| spec["enabled"] == job.spec["enabled"];
        let since = (revisions(db, &job.job_id, REVISIONS).await?.into_iter())
            .take_while(|revision| observes(&revision.spec))
            .last()
            .map_or(job.applied_at, |revision| revision.applied_at);
        let from = from.map_or(since, |from| from.max(since));
        let recorded = reading::observed(db, &job.job_id, from, to).await?;
        let observing = Observing::new(&job.job_id, &spec, since, recorded);
        if host.is_none_or(|host| observing.is_for(host)) {
            found.push((observing, since));
        }
    }
    let since = found.iter().map(|(_, since)| *since).min();
    let Some(since) = since else {
        let of = host.map_or(String::new(), |host| format!(" on {host}"));
        return Err(Failure::not_found(format!("no job observes{of}"))
            .next("write observe = true into the job file's [defaults] and apply it"));
    };
    Ok((found.into_iter().map(|(job, _)| job).collect(), since))
}

/// Which node a host of the log is.
async fn nodes(db: &Db, log: &Log, only: Option<&str>) -> Result<BTreeMap<String, String>, Failure> {
    if let Some(only) = only {
        let hosts = log.hosts.keys().map(|host| (host.clone(), only.to_owned()));
        return Ok(hosts.collect());
    }
    let nodes = every(|paging| async move { reading::nodes(db, None, &paging).await });
    let nodes: Vec<String> = (nodes.await?.items.into_iter())
        .map(|node| node.address)
        .collect();
    let mut found = BTreeMap::new();
    for host in log.hosts.keys() {
        let short = |name: &str| name.split('.').next().map(str::to_owned);
        let alike: Vec<&String> = (nodes.iter())
            .filter(|node| short(node) == short(host) && (!node.contains('.') || !host.contains('.')))
            .collect();
        match (nodes.contains(host), &alike[..]) {
            (true, _) => drop(found.insert(host.clone(), host.clone())),
            (false, [node]) => drop(found.insert(host.clone(), (*node).clone())),
            _ => out::note(&format!(
                "{host}: no node of the farm has this name; --host NODE says whose log it is"
            )),
        }
    }
    Ok(found)
}

/// What was compared of each node: what its log and the window share; None where that is nothing.
type Spans = BTreeMap<String, Option<(Timestamp, Timestamp)>>;

fn spans(log: &Log, nodes: &BTreeMap<String, String>, window: &Window) -> Spans {
    let mut spans = Spans::new();
    for (host, (first, last)) in &log.hosts {
        let node = nodes.get(host).unwrap_or(host).clone();
        let (first, last) = (window.from.max(*first), window.to.min(*last));
        let span = spans.entry(node).or_default();
        if first <= last {
            *span = Some(span.map_or((first, last), |(from, to)| (first.min(from), last.max(to))));
        }
    }
    spans
}

/// The one span of all nodes, as a part of a sentence; a table of them where they differ.
fn span(spans: &Spans) -> String {
    let mut all = spans.values();
    if let Some(Some((from, to))) = all.next()
        && all.all(|other| *other == Some((*from, *to)))
    {
        return format!("between {} and {}", out::time(*from), out::time(*to));
    }
    let shown = |at: Option<Timestamp>| at.map_or_else(|| "nothing".to_owned(), out::time);
    let row = |(node, span): (&String, &Option<(Timestamp, Timestamp)>)| {
        vec![
            node.clone(),
            shown(span.map(|(from, _)| from)),
            shown(span.map(|(_, to)| to)),
        ]
    };
    out::table("LOG OF|COMPARED FROM|TO", spans.iter().map(row));
    "in the time of these logs".to_owned()
}

fn show(comparison: &Comparison, spans: &Spans) {
    let rows = (comparison.jobs.iter()).map(|job| {
        vec![
            job.job_id.clone(),
            job.both.to_string(),
            job.only_cron.len().to_string(),
            job.only_farm.len().to_string(),
            job.verdict.to_string(),
        ]
    });
    out::table("JOB|BOTH|ONLY CRON|ONLY FARM|VERDICT", rows);
    for job in &comparison.jobs {
        singles(job, "cron", &job.only_cron);
        singles(job, "farm", &job.only_farm);
        if !job.without_log.is_empty() {
            let nodes: Vec<&str> = job.without_log.iter().map(String::as_str).collect();
            out::line(&format!(
                "{}: no log of {} has the time of its instants",
                job.job_id,
                nodes.join(", ")
            ));
        } else if job.verdict == Verdict::NoLog {
            out::line(&format!("{}: no log has the time of its instants", job.job_id));
        }
        for user in &job.ran_as {
            out::line(&format!(
                "{}: cron ran it as {user}, and the job names no user: write user = \"{user}\" into it",
                job.job_id
            ));
        }
    }
    let Comparison { unknown, .. } = comparison;
    if !unknown.is_empty() {
        out::line(
            "Commands in the log that no observed job has; --ignore TEXT leaves out what stays with cron:",
        );
    }
    for command in unknown.iter().take(4 * SHOWN) {
        out::line(&told(command));
    }
    more(unknown.len(), 4 * SHOWN);
    out::line(&summary(comparison, &span(spans)));
}

fn singles(job: &Compared, who: &str, singles: &[Single]) {
    for single in singles.iter().take(SHOWN) {
        let on = single
            .node
            .as_ref()
            .map_or(String::new(), |node| format!(" on {node}"));
        let why = single
            .why
            .as_ref()
            .map_or(String::new(), |why| format!("; the farm recorded {why}"));
        out::line(&format!(
            "{}: only {who} at {}{on}{why}",
            job.job_id,
            out::time(single.at)
        ));
    }
    more(singles.len(), SHOWN);
}

fn more(all: usize, shown: usize) {
    if all > shown {
        out::line(&format!("  and {} more; --json has all", all - shown));
    }
}

fn told(command: &Unknown) -> String {
    let nodes: Vec<&str> = command.nodes.iter().map(String::as_str).collect();
    format!(
        "  ({}) {}: {} on {}, the last at {}",
        command.user,
        command.command,
        out::count(command.count, "time"),
        nodes.join(", "),
        out::time(command.last)
    )
}

/// One sentence.
fn summary(comparison: &Comparison, between: &str) -> String {
    let of = |verdict: Verdict| {
        (comparison.jobs.iter())
            .filter(|job| job.verdict == verdict)
            .count()
    };
    let idle: Vec<String> = [
        (of(Verdict::NotDue), "not due"),
        (of(Verdict::AtBoot), "run at boots, which are not compared"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("; {}: {what}", out::count(n, "job")))
    .collect();
    let idle = idle.concat();
    if comparison.is_safe() {
        let both: u64 = comparison.jobs.iter().map(|job| job.both).sum();
        return format!(
            "Safe to switch: cron and the farm agree on {} of {} {between}{idle}.",
            out::count(both, "instant"),
            out::count(of(Verdict::Same), "job")
        );
    }
    let mut why: Vec<String> = [
        (of(Verdict::Differs) + of(Verdict::Unseen), "differ"),
        (of(Verdict::NoLog), "without a log of their time"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{}: {what}", out::count(n, "job")))
    .collect();
    if !comparison.unknown.is_empty() {
        why.push(format!(
            "{}: not in any job",
            out::count(comparison.unknown.len(), "command")
        ));
    }
    if why.is_empty() {
        why.push("nothing was due that could be compared".to_owned());
    }
    format!("Not safe to switch: {} {between}{idle}.", why.join("; "))
}
