//! `farmhand explain`: why a job does not run.

use clap::{Args, Subcommand};
use farmhand_core::explain::{Explanation, Gate};
use farmhand_store::{jobs, reading, signatures};
use jiff::tz::TimeZone;

use super::{DatabaseArgs, Exit, Outcome, completion, out};
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
}

pub async fn run(args: &ExplainArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let What::Job { name, at } = &args.what;
    let at = match at {
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
