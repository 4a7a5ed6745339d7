//! `farmhand events`: what happened.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use farmhand_control::{jobs, nodes};
use farmhand_core::document::closest;
use farmhand_store::audit::{Entry, audit};
use farmhand_store::event::EventKind;
use farmhand_store::events::Recorded;
use farmhand_store::reading::{self, EventsFilter, Paging, events_after, upto};
use farmhand_store::{Db, StoreError};
use serde_json::Value;

use super::{DatabaseArgs, Exit, Failure, Outcome, completion, out};

/// Between polls: after something happened, and when nothing did.
const SOON: Duration = Duration::from_millis(300);
const LATER: Duration = Duration::from_secs(1);
/// How far back each poll goes, which is several sets of several agents, and how many numbers are remembered to know what was shown.
const BACK: i64 = 2000;
const KEPT: usize = 2000;
/// Events of one poll.
const BATCH: i64 = 1000;

#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// Events of this job only
    #[arg(long, add = completion::job_names())]
    job: Option<String>,
    /// Events of this run only
    #[arg(long, add = completion::run_numbers())]
    run: Option<i64>,
    /// Events of this node only
    #[arg(long, value_name = "ADDRESS", add = completion::node_names())]
    node: Option<String>,
    /// Events of this kind only, as docs/reference/events.md lists them; of the audit, this action
    #[arg(long)]
    kind: Option<String>,
    /// Since this time: RFC 3339, a date or time (local, or in UTC with --utc), or how long ago (8h)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Before this time
    #[arg(long, value_name = "T", conflicts_with = "follow")]
    until: Option<String>,
    /// The page after: what the one before said with --json
    #[arg(long, conflicts_with_all = ["follow", "audit"])]
    cursor: Option<String>,
    /// How many of the newest
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=10_000))]
    limit: i64,
    /// Go on as they happen, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// What people did and what was refused, with who and from where; kept for longer, never changed
    #[arg(long, conflicts_with = "follow")]
    audit: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// With `--json`, as the API answers; when following, one object per line.
pub(super) async fn run(args: &EventsArgs, as_json: bool) -> Outcome {
    if let Some(kind) = args.kind.as_ref().filter(|_| !args.audit) {
        known(kind)?;
    }
    let db = &args.database.connect().await?;
    if let Some(job) = &args.job {
        jobs::known(db, job).await?;
    }
    let now = reading::now(db).await?;
    let filter = &EventsFilter {
        job: args.job.clone(),
        run: args.run,
        node: args.node.clone(),
        kinds: args.kind.iter().cloned().collect(),
        severity: None,
        since: out::past("--since", args.since.as_deref(), now)?,
        until: out::past("--until", args.until.as_deref(), now)?,
    };
    if args.audit {
        return show_audit(db, filter, args.limit, as_json).await;
    }
    // Before the list is read, so that what happens meanwhile is seen by the first poll.
    let (mut newest_id, mut seen) = (0, BTreeSet::new());
    if args.follow {
        newest_id = newest(db).await?;
        let old = events_after(db, filter, newest_id - BACK, &[], BACK).await?;
        seen.extend(
            old.iter()
                .map(|event| event.event_id)
                .filter(|id| *id <= newest_id),
        );
    }
    let read = |paging| async move { reading::events(db, filter, &paging).await };
    let page = upto(args.limit, usize::MAX, args.cursor.clone(), read).await?;
    if let (Some(node), []) = (&args.node, page.items.as_slice()) {
        // Events stay when their node is removed.
        nodes::one(db, node).await?;
    }
    if as_json && !args.follow {
        out::json(&page);
        return Ok(Exit::Ok);
    }
    page.items.iter().rev().for_each(|event| show(event, as_json));
    if !args.follow {
        return Ok(Exit::Ok);
    }
    seen.extend(page.items.iter().map(|event| event.event_id));
    go_on(db, filter, newest_id, seen, as_json).await
}

/// Errors: When nothing writes such events.
fn known(kind: &str) -> Result<(), Failure> {
    if EventKind::ALL.iter().any(|known| known.as_str() == kind) {
        return Ok(());
    }
    let words = EventKind::ALL.iter().map(|known| known.as_str());
    Err(Failure::usage(format!("there is no kind of events {kind:?}"))
        .why(format!(
            "the kinds are {}",
            words.clone().collect::<Vec<_>>().join(", ")
        ))
        .next(closest(kind, words).map_or_else(
            || "docs/reference/events.md says what each is".to_owned(),
            |near| format!("did you mean {near}?"),
        )))
}

async fn show_audit(db: &Db, filter: &EventsFilter, limit: i64, as_json: bool) -> Outcome {
    let mut entries = audit(db, filter, None, limit).await?;
    entries.reverse();
    let row = |e: &Entry| {
        let from = e.client.clone().unwrap_or_else(|| "local".to_owned());
        let what = match &e.refused {
            Some(why) => format!("{} ({why})", e.what),
            None => e.what.clone(),
        };
        vec![
            out::time(e.at),
            e.action.clone(),
            e.actor.clone(),
            format!("{} {from}", e.login),
            what,
        ]
    };
    out::list(
        as_json,
        &entries,
        "AT|ACTION|WHO|LOGIN|WHAT",
        entries.iter().map(row),
    )
}

/// The number of the newest event of all, whatever is asked for: polls start there, and read no older ones.
async fn newest(db: &Db) -> Result<i64, StoreError> {
    let newest = reading::events(db, &EventsFilter::default(), &Paging::first(1)).await?;
    Ok(newest.items.first().map_or(0, |event| event.event_id))
}

/// Numbers are given before commits: an event may become visible after one with a higher number, so each poll
/// goes a little back. What was there when the following began is not shown again.
async fn go_on(
    db: &Db,
    filter: &EventsFilter,
    start: i64,
    mut seen: BTreeSet<i64>,
    as_json: bool,
) -> Outcome {
    let (mut reached, mut away, mut pause) = (start, false, SOON);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        }
        match poll(db, filter, reached, &seen).await {
            Ok((events, upto)) => {
                away = false;
                pause = LATER;
                reached = upto;
                for event in &events {
                    seen.insert(event.event_id);
                    show(event, as_json);
                    pause = SOON;
                }
                while seen.len() > 2 * KEPT {
                    seen.pop_first();
                }
            }
            Err(error) if error.is_away() => {
                pause = LATER;
                if !std::mem::replace(&mut away, true) {
                    out::note(&format!("{error}; trying on"));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What was recorded since and is not `seen`, and up to which number that is all there was.
async fn poll(
    db: &Db,
    filter: &EventsFilter,
    reached: i64,
    seen: &BTreeSet<i64>,
) -> Result<(Vec<Recorded>, i64), StoreError> {
    let newest = newest(db).await?;
    let known: Vec<i64> = seen.range(reached - BACK..).copied().collect();
    let events = events_after(db, filter, reached - BACK, &known, BATCH).await?;
    let full = i64::try_from(events.len()) == Ok(BATCH);
    let upto = match events.last() {
        Some(last) if full => last.event_id,
        _ => newest.max(reached),
    };
    Ok((events, upto))
}

fn show(recorded: &Recorded, as_json: bool) {
    if as_json {
        return out::json_line(recorded);
    }
    let event = &recorded.event;
    let mut text = format!("{} {:7} {}", out::time(recorded.at), event.severity, event.kind);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!(" {name}={value}"));
        }
    };
    add("job", event.job_id.clone());
    add("run", event.run_id.map(|n| n.to_string()));
    add("attempt", event.attempt.map(|n| n.to_string()));
    add("node", event.address.clone());
    add("session", event.session.map(|n| n.to_string()));
    if let Value::Object(detail) = &event.detail {
        for (name, value) in detail {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            add(name, Some(value));
        }
    }
    out::line(&text);
}
