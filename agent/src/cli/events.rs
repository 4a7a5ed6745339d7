//! `farmhand events`: what happened.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use farmhand_common::store::Db;
use farmhand_common::store::events::{EventFilter, Recorded, events_after, recent_events};
use serde_json::Value;

use super::{DatabaseArgs, Exit, Outcome, out};

const PAUSE: Duration = Duration::from_millis(500);
/// How far back each look goes, and how many numbers are remembered to know what was shown.
const BACK: i64 = 200;
const KEPT: usize = 1000;

#[derive(Args, Debug)]
pub struct EventsArgs {
    /// Events of this job only
    #[arg(long)]
    job: Option<String>,
    /// Events of this run only
    #[arg(long)]
    run: Option<i64>,
    /// Events of this node only
    #[arg(long, value_name = "ADDRESS")]
    node: Option<String>,
    /// Events of this kind only
    #[arg(long)]
    kind: Option<String>,
    /// How many of the newest
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(0..=10_000))]
    limit: i64,
    /// Go on as they happen, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// With `--json`, a list; when following, one object per line.
pub async fn run(args: &EventsArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let filter = EventFilter {
        job_id: args.job.clone(),
        run_id: args.run,
        address: args.node.clone(),
        kind: args.kind.clone(),
        since: None,
    };
    // One more than nothing, so that following knows where to go on.
    let mut events = recent_events(&db, &filter, None, args.limit.max(1)).await?;
    events.reverse();
    let mut seen: BTreeSet<i64> = events.iter().map(|event| event.event_id).collect();
    if args.limit == 0 {
        events.clear();
    }
    match (as_json, args.follow) {
        (true, false) => out::json(&events),
        _ => events.iter().for_each(|event| show(event, as_json)),
    }
    if args.follow {
        go_on(&db, &filter, &mut seen, as_json).await
    } else {
        Ok(Exit::Ok)
    }
}

/// Numbers are given before commits: an event may become visible after one with a higher number, so each look
/// goes a little back.
async fn go_on(db: &Db, filter: &EventFilter, seen: &mut BTreeSet<i64>, as_json: bool) -> Outcome {
    let mut away = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        }
        let last = seen.last().copied().unwrap_or(0);
        match events_after(db, filter, last - BACK, 1000).await {
            Ok(events) => {
                away = false;
                for event in &events {
                    if seen.insert(event.event_id) {
                        show(event, as_json);
                    }
                }
                while seen.len() > 2 * KEPT {
                    seen.pop_first();
                }
            }
            Err(error) if error.is_away() => {
                if !std::mem::replace(&mut away, true) {
                    out::note(&format!("{error}; trying on"));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn show(recorded: &Recorded, as_json: bool) {
    if as_json {
        match serde_json::to_string(recorded) {
            Ok(text) => out::line(&text),
            Err(error) => out::note(&format!("error: event {}: {error}", recorded.event_id)),
        }
        return;
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
    out::line(&out::printable(&text));
}
