//! `farmhand explain`: why a job does not run.

use clap::{Args, Subcommand};
use farmhand_core::explain::Explanation;
use farmhand_store::jobs;
use jiff::tz::TimeZone;

use super::{DatabaseArgs, Exit, Outcome, completion, out, runs};
use farmhand_control::ask::{Explain, ExplainRun, Explained, Question};
use farmhand_control::{jobs as found, moment};

#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// A job's name, or a run's number
    #[arg(required = true, add = completion::job_names())]
    name: Option<String>,
    #[command(flatten)]
    instant: Instant,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Args, Debug, Default)]
struct Instant {
    /// The due instant in question: RFC 3339, or a date and time on the clock of the job's zone [default: now]
    #[arg(long, value_name = "T")]
    at: Option<String>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Walks the gates that a run passes and says which holds the job back, since when, and what would free it
    Job {
        #[arg(add = completion::job_names())]
        name: String,
        #[command(flatten)]
        instant: Instant,
    },
    /// The same for one run: where it runs, which gate holds it, or how it ended
    Run {
        /// Its number; or a job's name, for its newest run
        #[arg(add = completion::run_numbers())]
        run: String,
    },
}

pub(super) async fn run(args: &ExplainArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let (name, at) = match (&args.what, &args.name) {
        (Some(What::Job { name, instant }), _) => (name.as_str(), instant.at.as_deref()),
        (Some(What::Run { run }), _) => {
            let run = runs::number(&db, run, None).await?;
            return told(&ExplainRun { run }.answer(&db).await?, as_json);
        }
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            if let (Ok(run), None) = (name.parse(), &args.instant.at) {
                return told(&ExplainRun { run }.answer(&db).await?, as_json);
            }
            (name, args.instant.at.as_deref())
        }
    };
    found::known(&db, name).await?;
    let at = match at {
        Some(text) => {
            let zone = (jobs::job(&db, name).await?)
                .and_then(|row| TimeZone::get(row.spec["timezone"].as_str()?).ok())
                .unwrap_or(TimeZone::UTC);
            Some(moment("--at", text, &zone)?)
        }
        None => None,
    };
    let job = name.to_owned();
    told(&Explain { job, at }.answer(&db).await?, as_json)
}

fn told(explained: &Explained, as_json: bool) -> Outcome {
    if as_json {
        out::json(explained);
        return Ok(Exit::Ok);
    }
    show(&explained.explanation);
    for r in &explained.refusals {
        let text = format!("node {} would not run revision {}: {}", r.address, r.rev, r.why);
        out::line(&format!("{text} (at {})", out::time(r.at)));
    }
    Ok(Exit::Ok)
}

fn show(explanation: &Explanation) {
    out::line(&format!(
        "{}: {}",
        explanation.job_id,
        out::in_zone(&explanation.answer)
    ));
    let held = explanation.gates.iter().find(|finding| !finding.open);
    if let Some(since) = held.and_then(|finding| finding.since) {
        out::line(&format!("  since: {}", out::time(since)));
    }
    if let Some(frees) = held.and_then(|finding| finding.frees.as_ref()) {
        out::line(&format!("  what would free it: {}", out::in_zone(frees)));
    }
    out::line("");
    let rows = explanation.gates.iter().map(|finding| {
        let name = serde_json::to_value(finding.gate).unwrap_or_default();
        vec![
            name.as_str().unwrap_or_default().to_owned(),
            if finding.open { "open" } else { "CLOSED" }.to_owned(),
            out::in_zone(&finding.what),
        ]
    });
    out::table("GATE|STATE|WHY", rows);
}
