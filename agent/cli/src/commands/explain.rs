//! `farmhand explain`: why a job does not run.

use clap::{Args, Subcommand};
use farmhand_core::explain::{Explanation, Gate};
use farmhand_store::{Db, jobs, query, reading, signatures};
use jiff::tz::TimeZone;

use super::follow::no_run;
use super::{DatabaseArgs, Exit, Failure, Outcome, completion, out};
use farmhand_control::moment;

#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Walks the gates that a run passes and says which holds the job back, since when, and what would free it
    Job {
        #[arg(add = completion::job_names())]
        name: String,
        /// The due instant in question: RFC 3339, or a date and time on the clock of the job's zone [default: now]
        #[arg(long, value_name = "T")]
        at: Option<String>,
    },
    /// The same for one run: the instant that it was due at
    Run {
        #[arg(add = completion::run_numbers())]
        run: i64,
    },
    /// A job's name alone, or a run's number
    #[command(external_subcommand)]
    Of(Vec<String>),
}

pub async fn run(args: &ExplainArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let (name, at) = match &args.what {
        What::Job { name, at } => (name.clone(), at.clone()),
        What::Run { run } => about(&db, *run).await?,
        What::Of(words) => match &words[..] {
            [word] => match word.parse() {
                Ok(run) => about(&db, run).await?,
                Err(_) => (word.clone(), None),
            },
            _ => {
                return Err(Failure::usage("explain takes one job or one run")
                    .next("`farmhand explain job NAME --at T` asks about an instant"));
            }
        },
    };
    let name = name.as_str();
    let at = match &at {
        Some(text) => {
            let zone = (jobs::job(&db, name).await?)
                .and_then(|row| TimeZone::get(row.spec["timezone"].as_str()?).ok())
                .unwrap_or(TimeZone::UTC);
            Some(moment("--at", text, &zone)?)
        }
        None => None,
    };
    let explanation = reading::explain(&db, name, at).await?;
    let refusals = signatures::refusals(&db, name).await?;
    if as_json {
        let mut explained = serde_json::to_value(&explanation).unwrap_or_default();
        explained["refusals"] = serde_json::to_value(&refusals).unwrap_or_default();
        out::json(&explained);
    } else {
        show(&explanation);
        for r in &refusals {
            let text = format!("node {} would not run revision {}: {}", r.address, r.rev, r.why);
            out::line(&out::printable(&format!("{text} (at {})", out::time(r.at))));
        }
    }
    Ok(match explanation.held_by {
        Some(Gate::Exists) if at.is_none() => Exit::NotFound,
        _ => Exit::Ok,
    })
}

/// The job of a run, and the instant that it was due at unless it is still to run.
async fn about(db: &Db, run: i64) -> Result<(String, Option<String>), Failure> {
    let row = query::run(db, run).await?.ok_or_else(|| no_run(run))?;
    let over = row.state.is_final().then(|| row.due_at.to_string());
    Ok((row.job_id, over))
}

fn show(explanation: &Explanation) {
    out::line(&out::printable(&format!(
        "{}: {}",
        explanation.job_id, explanation.answer
    )));
    let held = explanation.gates.iter().find(|finding| !finding.open);
    if let Some(since) = held.and_then(|finding| finding.since) {
        out::line(&format!("  since: {}", out::time(since)));
    }
    if let Some(frees) = held.and_then(|finding| finding.frees.as_ref()) {
        out::line(&out::printable(&format!("  what would free it: {frees}")));
    }
    out::line("");
    let rows = explanation.gates.iter().map(|finding| {
        let name = serde_json::to_value(finding.gate).unwrap_or_default();
        vec![
            name.as_str().unwrap_or_default().to_owned(),
            if finding.open { "open" } else { "CLOSED" }.to_owned(),
            finding.what.clone(),
        ]
    });
    out::table(&["GATE", "STATE", "WHY"], rows.collect());
}
