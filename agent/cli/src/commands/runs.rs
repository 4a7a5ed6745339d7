//! Tables of runs, and one run in full.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use farmhand_core::document::{from_millis, size_about};
use farmhand_core::run::RunState;
use farmhand_core::stream::Checkpoint;
use farmhand_store::Db;
use farmhand_store::progress::Reported;
use farmhand_store::reading::{self, AttemptRow, Paging, RunFilter, RunItem, RunRow, upto};
use farmhand_store::tasks::TaskRow;

use super::job_files::pair;
use super::{Exit, Failure, Outcome, completion, out};
use farmhand_control::ask::{Question, Run};
use farmhand_control::{jobs, nodes};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ListArgs {
    /// Runs of this job only
    #[arg(long, add = completion::job_names())]
    pub job: Option<String>,
    /// Only these states; may be repeated
    #[arg(long, value_parser = PossibleValuesParser::new(RunState::ALL.iter().map(|word| word.as_str()))
        .try_map(|word| word.parse::<RunState>()))]
    pub state: Vec<RunState>,
    /// Runs held by, or ended on, this node only
    #[arg(long, value_name = "ADDRESS", add = completion::node_names())]
    pub node: Option<String>,
    /// Runs of jobs whose `where` asks for this label only
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub label: Option<(String, String)>,
    /// Runs with this value of a parameter only, given or by default
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub param: Option<(String, String)>,
    /// Runs for the row with this key only; of the table job that --job names
    #[arg(long, requires = "job")]
    pub key: Option<String>,
    /// Ended at this time or later: RFC 3339, a date or time (local, or in UTC with --utc), or how long ago (8h); shows ended runs alone
    #[arg(long, value_name = "T")]
    pub since: Option<String>,
    /// Ended before this time; shows ended runs alone
    #[arg(long, value_name = "T")]
    pub until: Option<String>,
    /// The page after: what the one before said
    #[arg(long)]
    pub cursor: Option<String>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    pub limit: i64,
}

/// The run that somebody means: a number, or a job's name for its newest run, or for that of a row.
/// Errors: 3 when there is no such job, or it has no run.
pub(super) async fn number(db: &Db, text: &str, key: Option<&str>) -> Result<i64, Failure> {
    match (text.parse(), key) {
        (Ok(run), None) => return Ok(run),
        (Ok(_), Some(_)) => {
            return Err(Failure::usage("a run's number and --key exclude each other")
                .next("name the table job instead of the number"));
        }
        (Err(_), _) => {}
    }
    let of = RunFilter {
        job: Some(text.to_owned()),
        key: key.map(str::to_owned),
        ..RunFilter::default()
    };
    match reading::runs(db, &of, &Paging::first(1)).await?.items.first() {
        Some(run) => Ok(run.run_id),
        None => {
            let job = jobs::one(db, text).await?;
            Err(match key {
                Some(key) => Failure::not_found(format!("{} has no run for the key {key}", job.job_id)).next(
                    format!("`farmhand run ls --job {text}` shows the keys of its runs"),
                ),
                None => Failure::not_found(format!("{} has no run yet", job.job_id))
                    .next(format!("`farmhand explain job {text}` says why")),
            })
        }
    }
}

pub(super) async fn list(db: &Db, args: &ListArgs, as_json: bool) -> Outcome {
    if let Some(job) = &args.job {
        jobs::known(db, job).await?;
    }
    let now = reading::now(db).await?;
    let filter = &RunFilter {
        job: args.job.clone(),
        states: args.state.clone(),
        node: args.node.clone(),
        kind: None,
        since: out::past("--since", args.since.as_deref(), now)?,
        until: out::past("--until", args.until.as_deref(), now)?,
        key: args.key.clone(),
        label: args.label.clone(),
        param: args.param.clone(),
    };
    let read = |paging| async move { reading::runs(db, filter, &paging).await };
    let page = upto(args.limit, PAGES, args.cursor.clone(), read).await?;
    if as_json {
        out::json(&page);
        return Ok(Exit::Ok);
    }
    if let (Some(node), [], None) = (&args.node, page.items.as_slice(), &page.next) {
        // Runs stay when their node is removed: only who has looked through all of them can tell.
        nodes::one(db, node).await?;
    }
    out::table(
        "RUN|JOB|STATE|DUE|NODE|TRY|TOOK|EXIT|REASON",
        page.items.iter().map(cells),
    );
    if let Some(next) = page.next {
        let full = i64::try_from(page.items.len()).is_ok_and(|have| have >= args.limit);
        out::note(&match full {
            true => format!("there may be more: a higher --limit, or --cursor {next}"),
            false => format!(
                "not all runs were looked through; further back: --cursor {next}, or name a time with --since and --until"
            ),
        });
    }
    Ok(Exit::Ok)
}

/// Pages that one list reads at most. Each looks at up to 10,000 runs for those that the filter wants.
const PAGES: usize = 20;

fn cells(row: &RunItem) -> Vec<String> {
    let mut state = row.state.as_str().to_owned();
    if row.count > 1 {
        state.push_str(&format!(" ×{}", row.count));
    }
    vec![
        row.run_id.to_string(),
        named(row),
        state,
        out::time(row.due_at),
        out::maybe(row.running_at.as_ref()),
        row.attempt.to_string(),
        took(row.ran_ms),
        ending(row.exit_code, row.signal),
        row.reason.clone().unwrap_or_default(),
    ]
}

fn shard(row: &RunRow) -> String {
    match row.instances {
        1 => "-".to_owned(),
        n => format!("{} of {n}", row.instance),
    }
}

/// A shard with its number, as its command knows it.
fn named(row: &RunItem) -> String {
    match row.instances {
        1 => row.job_id.clone(),
        n => format!("{} [{} of {n}]", row.job_id, row.instance),
    }
}

pub(super) async fn show(db: &Db, run_id: i64, as_json: bool) -> Outcome {
    let detail = Run { run: run_id }.answer(db).await?;
    if as_json {
        out::json(&detail);
        return Ok(Exit::Ok);
    }
    let (row, reported) = (&detail.run, &detail.progress);
    let shards = reading::firing(db, row.firing).await?;
    let mut pairs = vec![
        ("run", row.run_id.to_string()),
        ("job", format!("{} (revision {})", row.job_id, row.rev)),
        ("kind", row.kind.to_string()),
        ("state", row.state.as_str().to_owned()),
        ("reason", out::maybe(row.reason.as_ref())),
        ("due", due(row)),
        ("ready", out::time(row.ready_at)),
        ("started", out::maybe_time(row.started_at)),
        ("finished", out::maybe_time(row.finished_at)),
        ("took", took(row.ran_ms)),
        ("exit", ending(row.exit_code, row.signal)),
        ("shard", shard(row)),
        ("params", row.params.to_string()),
        ("key", out::maybe(row.key.as_ref())),
        ("submitted by", out::maybe(row.submitted_by.as_ref())),
        ("cancelled by", out::maybe(detail.cancel_by.as_ref())),
        ("retries", row.retries.to_string()),
        ("takeovers", row.takeovers.to_string()),
        ("CPU time", took(row.cpu_ms)),
        ("peak memory", bytes(row.max_rss_bytes)),
        ("output", output(row)),
        ("progress", out::maybe(reported.as_ref().map(reported_when))),
        (
            "checkpoint",
            out::maybe(reported.as_ref().and_then(|r| r.checkpoint.as_ref())),
        ),
    ];
    if let Some(exceeded) = &detail.exceeded {
        pairs.push(("takes", exceeded.to_string()));
    }
    if let Some(stream) = &detail.stream {
        pairs.retain(|(name, _)| *name != "checkpoint");
        pairs.extend(stream_pairs(stream));
    }
    out::pairs(&pairs);
    out::line("");
    if detail.attempts.is_empty() {
        out::line(match row.state.is_final() {
            true => "no attempt: it ended before a node took it",
            false => "no attempt yet",
        });
    } else {
        out::table_with_optional(
            "TRY|NODE|SESSION|FENCE|CLAIMED|STARTED|ENDED|OUTCOME|EXIT|REASON",
            detail.attempts.iter().map(attempt),
            &["CLAIMED", "SESSION"],
        );
    }
    if !shards.is_empty() {
        out::line("");
        let cells = |row: &RunRow| {
            vec![
                row.run_id.to_string(),
                row.instance.to_string(),
                row.state.as_str().to_owned(),
                out::maybe(row.running_at.as_ref().or(row.node.as_ref())),
                row.attempt.to_string(),
                ending(row.exit_code, row.signal),
            ]
        };
        out::table(
            "TOGETHER WITH|SHARD|STATE|NODE|TRY|EXIT",
            shards.iter().map(cells),
        );
    }
    if !detail.tasks.is_empty() {
        out::line("");
        out::table(
            "TASK|OUTCOME|TRY|NODE|STARTED|TOOK|EXIT|REASON",
            detail.tasks.iter().map(task),
        );
    }
    Ok(Exit::Ok)
}

/// How far a list has been handled.
fn stream_pairs(stream: &Checkpoint) -> Vec<(&'static str, String)> {
    let now: Vec<String> = stream.now.iter().map(u64::to_string).collect();
    let (done, failed) = (stream.succeeded, stream.failed);
    let mut pairs = vec![
        (
            "lines",
            format!(
                "{done} done, {failed} failed; the lowest unfinished is {}",
                stream.line
            ),
        ),
        ("rate", format!("{:.1} lines/s", stream.rate)),
        (
            "now",
            out::maybe((!now.is_empty()).then(|| format!("line {}", now.join(", ")))),
        ),
    ];
    pairs.extend(stream.waits.clone().map(|what| ("waits", what)));
    pairs
}

fn reported_when(reported: &Reported) -> String {
    let age = out::span(from_millis(reported.age_ms));
    format!("{age} ago, attempt {}", reported.attempt)
}

fn task(row: &TaskRow) -> Vec<String> {
    let end = &row.end;
    let reason = match end.blame.as_slice() {
        [] => end.reason.clone().unwrap_or_default(),
        chain => format!("because of {}", chain.join(", because of ")),
    };
    vec![
        end.task.clone(),
        end.outcome.clone(),
        match row.attempt {
            0 => "earlier run".to_owned(),
            n => n.to_string(),
        },
        out::maybe(row.address.as_ref()),
        out::maybe_time(end.started_at),
        took(
            end.started_at
                .map(|at| end.ended_at.as_millisecond() - at.as_millisecond()),
        ),
        ending(end.exit_code, end.signal),
        reason,
    ]
}

fn attempt(row: &AttemptRow) -> Vec<String> {
    vec![
        row.attempt.to_string(),
        row.address.clone(),
        row.session.to_string(),
        row.fence.to_string(),
        out::time(row.claimed_at),
        out::maybe_time(row.started_at),
        out::maybe_time(row.ended_at),
        row.outcome.to_string(),
        ending(row.exit_code, row.signal),
        row.reason.clone().unwrap_or_default(),
    ]
}

fn due(row: &RunRow) -> String {
    if row.count > 1 {
        let (first, last) = (out::time(row.first_due), out::time(row.last_due));
        return format!("{} instants from {first} to {last}", row.count);
    }
    out::time(row.due_at)
}

fn output(row: &RunRow) -> String {
    match (row.output_bytes, row.output_dropped.unwrap_or(0)) {
        (None, _) => "-".to_owned(),
        (Some(all), 0) => bytes(Some(all)),
        (Some(all), dropped) => format!(
            "{}, of which {} were not kept",
            bytes(Some(all)),
            bytes(Some(dropped))
        ),
    }
}

fn bytes(n: Option<i64>) -> String {
    out::maybe(n.and_then(|n| u64::try_from(n).ok()).map(size_about))
}

pub(super) fn ending(exit_code: Option<i32>, signal: Option<i32>) -> String {
    match (exit_code, signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => code.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn took(ms: Option<i64>) -> String {
    out::maybe(ms.map(|ms| out::span(from_millis(ms))))
}
