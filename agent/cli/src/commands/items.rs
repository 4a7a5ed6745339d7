//! `farmhand run items` and `farmhand run replay`: lines of a stream that were given up.

use clap::Args;
use farmhand_control::actions::Replay;
use farmhand_control::ask::{Item, Items, Question};
use farmhand_store::Db;

use super::{Exit, Outcome, completion, out};

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
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=200))]
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

impl ReplayArgs {
    pub(super) fn action(&self) -> Replay {
        Replay {
            run: self.run,
            items: self.item.clone(),
        }
    }
}

pub(super) async fn list(db: &Db, args: &ItemsArgs, as_json: bool) -> Outcome {
    let asked = Items {
        run: args.run,
        item: args.item.clone(),
        failed: args.failed,
        cursor: Some(args.after),
        limit: Some(args.limit),
    };
    let page = asked.answer(db).await?;
    let rows = &page.items;
    if as_json {
        out::json(&page);
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
    if let Some(next) = page.next {
        out::note(&format!("there may be more: --after {next}"));
    }
    Ok(Exit::Ok)
}

fn output(item: &Item) {
    out::line(&format!("line {}: {}", item.row.item, item.row.line));
    let raw = item.hex.as_ref().and_then(|digits| hex::decode(digits).ok());
    let bytes = raw.unwrap_or_else(|| item.row.output.clone().unwrap_or_default().into_bytes());
    out::raw(&bytes);
    if bytes.last().is_some_and(|last| *last != b'\n') {
        out::raw(b"\n");
    }
}

fn cells(item: &Item) -> Vec<String> {
    let (row, line) = (&item.row, &item.row.line);
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
