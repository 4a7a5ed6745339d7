//! `farmhand notify`: who is told, whether it works, and a test of it.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use farmhand_control::actions::TestTarget;
use farmhand_control::ask::{Notifications, Question, Targets};
use farmhand_control::definitions::without_path;
use farmhand_core::document::parse_duration;
use farmhand_core::notify::TargetSpec;
use farmhand_store::Db;
use farmhand_store::notify::{NotificationRow, TargetRow};
use serde::Serialize;

use super::{DatabaseArgs, Exit, Failure, Kind, Outcome, act, out};

/// Between two looks at what became of a test.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Args, Debug)]
pub(crate) struct NotifyArgs {
    #[command(subcommand)]
    command: NotifyCommand,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum NotifyCommand {
    /// All targets, who names them, and what became of their messages
    #[command(alias = "list")]
    Ls,
    /// Have an agent send a test message now, and say whether it arrived
    Test {
        target: String,
        /// How long to wait for the first try
        #[arg(long, default_value = "30s", value_parser = parse_duration)]
        timeout: Duration,
    },
}

pub(super) async fn run(args: &NotifyArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    match &args.command {
        NotifyCommand::Ls => list(&db, as_json).await,
        NotifyCommand::Test { target, timeout } => test(&db, target, *timeout, as_json).await,
    }
}

async fn list(db: &Db, as_json: bool) -> Outcome {
    let all = Targets {}.answer(db).await?;
    let rows = all.items.iter().map(|target| {
        vec![
            target.name.clone(),
            (target.spec.as_ref()).map_or_else(|| "not defined".to_owned(), place),
            (target.spec.as_ref()).map_or_else(String::new, |spec| {
                let on: Vec<&str> = spec.on.iter().map(|topic| topic.as_str()).collect();
                on.join(" ")
            }),
            target.jobs.len().to_string(),
            target.waiting.to_string(),
            target.failed.to_string(),
            out::maybe_time(target.last_delivery),
            trouble(target),
        ]
    });
    let headers = "TARGET|WHERE|ON|JOBS|WAITING|FAILED|DELIVERED|TROUBLE";
    out::list(as_json, &all, headers, rows)
}

fn place(spec: &TargetSpec) -> String {
    let mut places: Vec<String> = spec.webhook.iter().map(|url| without_path(url)).collect();
    if let Some(name) = &spec.webhook_file {
        places.push(format!("file {name}"));
    }
    places.extend(spec.email.iter().cloned());
    places.join(" ")
}

fn trouble(target: &TargetRow) -> String {
    out::maybe((target.trouble.as_ref()).map(|trouble| format!("{}: {}", trouble.channel, trouble.error)))
}

#[derive(Serialize)]
struct Tested {
    target: String,
    deliveries: Vec<NotificationRow>,
}

async fn test(db: &Db, name: &str, timeout: Duration, as_json: bool) -> Outcome {
    let target = name.to_owned();
    let ids = act::act(db, TestTarget { target }, None).await?.notifications;
    let asked = Notifications { ids };
    let until = Instant::now() + timeout;
    let deliveries = loop {
        let rows = asked.answer(db).await?.items;
        let tried = |row: &NotificationRow| row.state != "waiting" || row.error.is_some();
        if rows.iter().all(tried) || Instant::now() >= until {
            break rows;
        }
        tokio::time::sleep(LOOK).await;
    };
    let arrived = deliveries.iter().all(|row| row.state == "delivered");
    let untried = deliveries
        .iter()
        .any(|row| row.state == "waiting" && row.error.is_none());
    if as_json {
        out::json(&Tested {
            target: name.to_owned(),
            deliveries,
        });
    } else {
        deliveries.iter().for_each(show);
    }
    if arrived {
        return Ok(Exit::Ok);
    }
    if untried {
        return Err(Failure::new(Kind::Slow, "no agent has tried it yet")
            .next("`farmhand node ls` shows the agents; the message waits for them")
            .ending(Exit::WaitExpired));
    }
    Err(Failure::broken("it did not arrive")
        .next("fix what is named above; it is tried again by itself for a day"))
}

fn show(row: &NotificationRow) {
    let by = row.sent_by.as_deref().unwrap_or("nobody");
    let text = match (&row.error, row.state.as_str()) {
        (_, "delivered") => format!("{} {}: delivered by {by}", row.target, row.channel),
        (Some(error), _) => format!("{} {}: {by} could not: {error}", row.target, row.channel),
        (None, state) => format!("{} {}: {state}", row.target, row.channel),
    };
    out::line(&text);
}
