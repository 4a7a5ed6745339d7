//! `farmhand status`: the farm at a glance.

use std::collections::BTreeMap;

use clap::Args;
use farmhand_store::query::{self, FarmStatus};

use super::{DatabaseArgs, Exit, Outcome, out};

#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

pub async fn run(args: &StatusArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let status = query::farm_status(&db).await?;
    if as_json {
        out::json(&status);
        return Ok(Exit::Ok);
    }
    out::pairs(&[
        ("nodes", words(&status.nodes)),
        ("jobs", words(&status.jobs)),
        ("running", format!("{} of {} slots", status.running, status.slots)),
        ("due", due(&status)),
        ("waiting", status.waiting.to_string()),
        ("loops", loops(&status)),
        ("next", out::maybe_time(status.next_run)),
        ("database", out::time(status.db_now)),
    ]);
    for warning in warnings(&status) {
        out::line(&format!("! {warning}"));
    }
    if !status.failing.is_empty() {
        out::line("");
        let rows = status.failing.iter().map(|job| {
            vec![
                job.job_id.clone(),
                job.consecutive_failures.to_string(),
                out::maybe(job.last_state.as_ref()),
                out::maybe_time(job.last_finished),
                out::maybe_time(job.last_success),
            ]
        });
        out::table(
            &[
                "FAILING JOB",
                "FAILURES",
                "LAST STATE",
                "LAST END",
                "LAST SUCCESS",
            ],
            rows.collect(),
        );
    }
    Ok(Exit::Ok)
}

fn due(status: &FarmStatus) -> String {
    match status.oldest_ready {
        Some(oldest) => {
            let age = status.db_now.duration_since(oldest).unsigned_abs();
            format!("{}, the oldest for {}", status.due, out::span(age))
        }
        None => status.due.to_string(),
    }
}

/// Instances of continuous jobs; each has a round, a paused job's last ones included.
fn loops(status: &FarmStatus) -> String {
    match (status.loops, status.rounds) {
        (0, 0) => "none".to_owned(),
        (loops, rounds) => format!("{loops}, with {rounds} rounds that run or wait"),
    }
}

/// What somebody should look at.
fn warnings(status: &FarmStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    if status.nodes.get("ready").copied().unwrap_or(0) == 0 {
        warnings.push("no node is ready: start an agent, or `farmhand node resume` one".to_owned());
    }
    if status.overdue_jobs > 0 {
        warnings.push(format!(
            "{} jobs are overdue: nobody fires them",
            status.overdue_jobs
        ));
    }
    if status.rounds < status.loops {
        warnings.push(format!(
            "{} loops of continuous jobs have no round: an agent makes what lacks within a minute",
            status.loops - status.rounds
        ));
    }
    if !status.claims_open {
        warnings.push(format!(
            "claims are closed: the database is not as the agents left it in epoch {}; one of them opens them when it has \
             watched it for the longest lease",
            status.epoch
        ));
    }
    warnings
}

fn words(counts: &BTreeMap<String, i64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<_> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    words.join(", ")
}
