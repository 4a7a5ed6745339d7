//! `farmhand run logs`: an attempt's output on the streams it was written to.

use std::cell::Cell;
use std::io::IsTerminal;

use clap::Args;
use farmhand_core::document::size_about;
use farmhand_store::logs::{LogChunk, read_log};
use farmhand_store::reading::{self, RunRow};
use farmhand_store::{Db, LogStream, StoreError};
use serde_json::{Value, json};

use super::follow::{no_run, until_final};
use super::grep::GrepArgs;
use super::progress::Progress;
use super::{Exit, Failure, Outcome, completion, out, runs};
use farmhand_core::text::sanitize::Visible;

/// Pieces read at once; each is at most some tens of kB.
const BATCH: i64 = 200;

#[derive(Args, Debug)]
pub(crate) struct LogArgs {
    /// Its number; or a job's name, for its newest run
    #[arg(add = completion::run_numbers())]
    run: String,
    /// The newest run for the row with this key; RUN is the table job's name
    #[arg(long)]
    key: Option<String>,
    /// Only this attempt [default: the last one; with -f all]
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Every attempt, oldest first
    #[arg(long, conflicts_with = "attempt")]
    all: bool,
    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    grep: GrepArgs,
}

pub(super) async fn run(db: &Db, args: &LogArgs, as_json: bool) -> Outcome {
    if let Some(text) = &args.grep.grep {
        let key = args.key.as_deref();
        return args
            .grep
            .run(db, text, (&args.run, key), args.attempt, as_json)
            .await;
    }
    let run = runs::number(db, &args.run, args.key.as_deref()).await?;
    let Some(row) = reading::run_row(db, run).await? else {
        return Err(no_run(run).into());
    };
    let mut printer = match args.attempt {
        Some(n) if !(1..=row.attempt).contains(&n) => return Err(no_attempt(&row, n)),
        Some(n) => Printer::one(run, n, as_json),
        None if args.all || args.follow => Printer::all(run, as_json),
        None => Printer::one(run, row.attempt, as_json),
    };
    if args.follow {
        let seen = Cell::new((run, row.state));
        let row = until_final(db, run, Some(&mut printer), &mut Progress::default(), &seen).await?;
        printer.say_what_is_missing(&row);
    } else {
        printer.list = as_json.then(Vec::new);
        printer.print(db, &row).await?;
        printer.finish();
        if let Some(list) = &printer.list {
            out::json(list);
        }
        printer.say_what_is_missing(&row);
    }
    Ok(Exit::Ok)
}

fn no_attempt(row: &RunRow, n: i32) -> Failure {
    Failure::not_found(format!("run {} has no attempt {n}", row.run_id))
        .why(format!("it has had {} so far", row.attempt))
        .next(format!("`farmhand run show {}` lists them", row.run_id))
}

/// Prints a run's output from where it stopped the last time.
#[derive(Debug)]
pub(crate) struct Printer {
    run_id: i64,
    /// The attempt being printed, and the number of its last chunk printed.
    attempt: i32,
    seq: i64,
    /// Where the next chunk begins when nothing is left out.
    next: i64,
    /// Go on with the attempts that follow.
    several: bool,
    as_json: bool,
    /// A JSON list is printed whole; who follows gets an object per line.
    list: Option<Vec<Value>>,
    /// Of stdout and stderr, where a person looks at them; programs get every byte.
    shown: [Option<Visible>; 2],
}

impl Printer {
    /// Everything a run prints, from its first attempt on.
    pub(super) fn all(run_id: i64, as_json: bool) -> Self {
        Self {
            run_id,
            attempt: 1,
            seq: -1,
            next: 0,
            several: true,
            as_json,
            list: None,
            shown: [
                std::io::stdout().is_terminal().then(Visible::default),
                std::io::stderr().is_terminal().then(Visible::default),
            ],
        }
    }

    fn one(run_id: i64, attempt: i32, as_json: bool) -> Self {
        Self {
            attempt,
            several: false,
            ..Self::all(run_id, as_json)
        }
    }

    /// Prints what is there and has not been printed; says whether there was anything.
    pub(super) async fn print(&mut self, db: &Db, row: &RunRow) -> Result<bool, StoreError> {
        let mut any = false;
        loop {
            let chunks = read_log(db, self.run_id, self.attempt, self.seq, BATCH).await?;
            for chunk in &chunks {
                self.chunk(chunk);
            }
            if !chunks.is_empty() {
                any = true;
                continue;
            }
            if self.attempt < row.attempt || row.state.is_final() {
                self.finish();
            }
            if self.several && self.attempt < row.attempt {
                (self.attempt, self.seq, self.next) = (self.attempt + 1, -1, 0);
                if !self.as_json {
                    out::note(&format!("--- attempt {}", self.attempt));
                }
            } else {
                return Ok(any);
            }
        }
    }

    fn chunk(&mut self, chunk: &LogChunk) {
        let left_out = chunk.seq - self.next;
        self.seq = chunk.seq;
        self.next = chunk.seq + i64::try_from(chunk.bytes.len()).unwrap_or(0);
        if self.as_json {
            let object = json!({
                "attempt": chunk.attempt,
                "seq": chunk.seq,
                "stream": chunk.stream,
                "at": chunk.at,
                "text": String::from_utf8_lossy(&chunk.bytes),
            });
            match &mut self.list {
                Some(list) => list.push(object),
                None => out::json_line(&object),
            }
            return;
        }
        if left_out > 0 {
            out::note(&format!("… {} not kept …", size_about(left_out.unsigned_abs())));
        }
        let [stdout, stderr] = &mut self.shown;
        let shown = |visible: &mut Option<Visible>| visible.as_mut().map(|v| v.push(&chunk.bytes));
        match chunk.stream {
            LogStream::Stdout => out::raw(shown(stdout).as_deref().unwrap_or(&chunk.bytes)),
            LogStream::Stderr => out::raw_err(shown(stderr).as_deref().unwrap_or(&chunk.bytes)),
            LogStream::Agent => {
                let text = String::from_utf8_lossy(&chunk.bytes);
                out::note(&format!("farmhand: {}", text.trim_end()));
            }
        }
    }

    /// Prints what might have been the beginning of more.
    fn finish(&mut self) {
        let [stdout, stderr] = &mut self.shown;
        let rest = |visible: &mut Option<Visible>| visible.as_mut().map(Visible::finish).unwrap_or_default();
        out::raw(&rest(stdout));
        out::raw_err(&rest(stderr));
    }

    fn say_what_is_missing(&self, row: &RunRow) {
        let dropped = row.output_dropped.unwrap_or(0);
        if dropped > 0 && !self.as_json {
            let dropped = size_about(dropped.unsigned_abs());
            out::note(&format!(
                "farmhand: {dropped} of the last attempt's output were not kept: the job's `output.keep` says how much is"
            ));
        }
    }
}
