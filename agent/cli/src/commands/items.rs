//! `farmhand run items` and `farmhand run replay`: lines of a stream that were given up.

use clap::Args;
use farmhand_control::runs::{disabled, observes};
use farmhand_store::Db;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::reading;
use farmhand_store::streams::{self, ItemRow, Replayed, Wanted};
use serde_json::json;

use super::follow::no_run;
use super::{Exit, Failure, Outcome, completion, out};

/// Of a line, in a table.
const SHOWN: usize = 60;

#[derive(Args, Debug)]
pub(crate) struct ItemsArgs {
    #[arg(add = completion::run_numbers())]
    run: i64,
    /// Only those that failed: not those that a replay has done, nor those that wait for it
    #[arg(long)]
    failed: bool,
    /// Only this line, by its number; may be repeated
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    item: Vec<i64>,
    /// What the last try of each printed, instead of the table
    #[arg(long)]
    output: bool,
    /// The page after this line
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: i64,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[arg(add = completion::run_numbers())]
    run: i64,
    /// Only this line, by its number; may be repeated
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    item: Vec<i64>,
}

pub(super) async fn list(db: &Db, args: &ItemsArgs, as_json: bool) -> Outcome {
    let wanted = Wanted {
        run_id: args.run,
        after: args.after,
        only: Some(args.item.as_slice()).filter(|only| !only.is_empty()),
        failed: args.failed,
        limit: args.limit,
    };
    let rows = streams::items(db, &wanted).await?;
    if rows.is_empty() && reading::run_row(db, args.run).await?.is_none() {
        return Err(no_run(args.run).into());
    }
    if as_json {
        let rows: Vec<_> = rows.iter().map(as_value).collect();
        out::json(&rows);
        return Ok(Exit::Ok);
    }
    if args.output {
        rows.iter().for_each(output);
        return Ok(Exit::Ok);
    }
    out::table(
        "ITEM|OUTCOME|FAILURES|TRY|NODE|ENDED|EXIT|REASON|REPLAY|LINE",
        rows.iter().map(cells),
    );
    if let (Some(last), true) = (rows.last(), i64::try_from(rows.len()) == Ok(args.limit)) {
        out::note(&format!("there may be more: --after {}", last.item));
    }
    Ok(Exit::Ok)
}

/// Bytes that are no text are shown as well as they can be.
fn text(digits: &str) -> String {
    String::from_utf8_lossy(&hex::decode(digits).unwrap_or_default()).into_owned()
}

fn as_value(row: &ItemRow) -> serde_json::Value {
    let mut value = json!(row);
    value["line"] = text(&row.line).into();
    value["output"] = row.output.as_deref().map(text).into();
    value
}

fn output(row: &ItemRow) {
    out::line(&format!("line {}: {}", row.item, text(&row.line)));
    let bytes = row.output.as_deref().map(hex::decode);
    let bytes = bytes.and_then(Result::ok).unwrap_or_default();
    out::raw(&bytes);
    if bytes.last().is_some_and(|last| *last != b'\n') {
        out::raw(b"\n");
    }
}

fn cells(row: &ItemRow) -> Vec<String> {
    let line = text(&row.line);
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    let replay = row.replayed_by.map(|run| {
        let how = row.replay.as_deref().unwrap_or("waiting");
        format!("run {run}: {how}")
    });
    vec![
        row.item.to_string(),
        row.outcome.clone(),
        row.failures.to_string(),
        row.attempt.to_string(),
        out::maybe(row.address.as_ref()),
        out::maybe_time(row.ended_at),
        super::runs::ending(row.exit_code, row.signal),
        row.reason.clone().unwrap_or_default(),
        out::maybe(replay),
        shown,
    ]
}

/// As many runs as it takes: the lines of one go through its standard input.
pub(super) async fn replay(db: &Db, args: &ReplayArgs, as_json: bool) -> Outcome {
    let run = args.run;
    let only = Some(args.item.as_slice()).filter(|only| !only.is_empty());
    let deed = Deed {
        run_id: Some(run),
        ..Deed::of(&super::who(), "replay", format!("farmhand run replay {run}"))
    };
    let acting = Acting::begin(db, deed);
    let mut made = Vec::new();
    loop {
        match streams::replay_items(&acting, run, &super::who(), only).await? {
            Replayed::Run { run_id, items } => made.push((run_id, items)),
            Replayed::Nothing if !made.is_empty() => break,
            Replayed::Nothing => {
                return Err(
                    Failure::refused(format!("no such line of run {run} is left to be replayed"))
                        .why("a line is replayed once, and one that no command could be given never is")
                        .next(format!(
                            "`farmhand run items {run}` says which run has replayed what"
                        )),
                );
            }
            Replayed::NotFound => return Err(no_run(run).into()),
            Replayed::Disabled => return Err(disabled(&format!("the job of run {run}")).into()),
            Replayed::Observes => return Err(observes(&format!("the job of run {run}")).into()),
            Replayed::NoStream => {
                return Err(Failure::refused(format!(
                    "the job of run {run} is not a stream, or has been deleted"
                ))
                .next("apply its definition again"));
            }
        }
    }
    if as_json {
        let runs: Vec<_> = made
            .iter()
            .map(|(run_id, items)| json!({"run_id": run_id, "items": items}))
            .collect();
        out::json(&runs);
    } else {
        made.iter()
            .for_each(|(run_id, items)| out::line(&format!("run {run_id} replays {items} lines")));
    }
    Ok(Exit::Ok)
}
