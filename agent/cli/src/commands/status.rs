//! `farmhand status`: the farm at a glance.

use std::collections::BTreeMap;

use clap::Args;
use farmhand_core::verdict::headline;
use farmhand_store::query::{self, FarmStatus};
use farmhand_store::reading::{self, Finding};
use serde_json::json;

use super::{DatabaseArgs, Exit, Outcome, out};

#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

pub async fn run(args: &StatusArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let status = query::farm_status(&db).await?;
    let now = reading::farm(&db).await?;
    if as_json {
        let mut all = serde_json::to_value(&status).unwrap_or_default();
        all["level"] = json!(now.level);
        all["findings"] = json!(now.findings);
        out::json(&all);
        return Ok(Exit::Ok);
    }
    out::pairs(&[
        ("farm", headline(&now.findings)),
        ("nodes", words(&status.nodes)),
        ("jobs", words(&status.jobs)),
        ("running", format!("{} of {} slots", status.running, status.slots)),
        ("due", due(&status)),
        ("waiting", status.waiting.to_string()),
        ("loops", loops(&status)),
        ("next", out::maybe_time(status.next_run)),
        ("database", out::time(status.db_now)),
    ]);
    for found in &now.findings {
        out::line(&out::printable(&finding(found)));
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

/// A finding in a line, with what somebody may say is known.
pub(super) fn finding(found: &Finding) -> String {
    if let Some(known) = &found.acknowledged {
        let (text, known) = (&found.text, known.told(&out::time(known.until)));
        return format!("- {text} {}, {known}", named(found));
    }
    format!("! {} {}", found.text, named(found)).trim_end().to_owned()
}

fn named(found: &Finding) -> String {
    let causes: Vec<_> = found.causes.iter().map(ToString::to_string).collect();
    if causes.is_empty() {
        return String::new();
    }
    format!("[{}]", causes.join(" "))
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
        (loops, rounds) if rounds < loops => format!(
            "{loops}, {} without a round: an agent makes it within a minute",
            loops - rounds
        ),
        (loops, rounds) => format!("{loops}, with {rounds} rounds that run or wait"),
    }
}

fn words(counts: &BTreeMap<String, i64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<_> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    words.join(", ")
}
