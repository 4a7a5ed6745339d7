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
    let (explanation, exists) = match &args.what {
        What::Job { name, at } => about_job(&db, name, at.as_deref()).await?,
        What::Run { run } => (about_run(&db, *run).await?, true),
        What::Of(words) => match &words[..] {
            [word] => match word.parse() {
                Ok(run) => (about_run(&db, run).await?, true),
                Err(_) => about_job(&db, word, None).await?,
            },
            _ => {
                return Err(Failure::usage("explain takes one job or one run")
                    .next("`farmhand explain job NAME --at T` asks about an instant"));
            }
        },
    };
    let refusals = signatures::refusals(&db, &explanation.job_id).await?;
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
    Ok(if exists { Exit::Ok } else { Exit::NotFound })
}

/// The explanation, and whether there is such a job.
async fn about_job(db: &Db, name: &str, at: Option<&str>) -> Result<(Explanation, bool), Failure> {
    let at = match at {
        Some(text) => {
            let zone = (jobs::job(db, name).await?)
                .and_then(|row| TimeZone::get(row.spec["timezone"].as_str()?).ok())
                .unwrap_or(TimeZone::UTC);
            Some(moment("--at", text, &zone)?)
        }
        None => None,
    };
    let explanation = reading::explain(db, name, at).await?;
    let exists = at.is_some() || explanation.held_by != Some(Gate::Exists);
    Ok((explanation, exists))
}

async fn about_run(db: &Db, run: i64) -> Result<Explanation, Failure> {
    let row = query::run(db, run).await?.ok_or_else(|| no_run(run))?;
    Ok(reading::explain_run(db, &row).await?)
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
