//! `farmhand status`: the farm at a glance.

use std::collections::BTreeMap;

use clap::Args;
use farmhand_store::reading::{self, FarmNow, FarmTotals, Finding};

use super::{DatabaseArgs, Exit, Outcome, out};

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

pub(super) async fn run(args: &StatusArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let status = reading::status(&db).await?;
    if as_json {
        out::json(&status);
        return Ok(Exit::Ok);
    }
    let (now, totals) = (&status.now, &status.totals);
    out::pairs(&[
        ("farm", now.level.to_string()),
        ("nodes", words(&now.nodes)),
        ("jobs", words(&totals.jobs)),
        (
            "running",
            format!("{} of {} slots", counted(now.running), now.slots),
        ),
        ("due", due(now)),
        ("waiting", counted(now.waiting)),
        ("loops", loops(totals)),
        (
            "next",
            out::maybe_time(now.next.first().map(|next| next.next_run)),
        ),
        ("database", out::time(now.db_now)),
    ]);
    for found in &now.findings {
        out::line(&finding(found));
    }
    if !now.failing.is_empty() {
        out::line("");
        let rows = now.failing.iter().map(|job| {
            vec![
                job.job_id.clone(),
                job.consecutive_failures.to_string(),
                out::maybe(job.last_state.as_ref()),
                out::maybe_time(job.last_finished),
                out::maybe_time(job.last_success),
            ]
        });
        out::table("FAILING JOB|FAILURES|LAST STATE|LAST END|LAST SUCCESS", rows);
    }
    Ok(Exit::Ok)
}

/// A finding in a line, with all that it names.
pub(super) fn finding(found: &Finding) -> String {
    if found.causes.is_empty() {
        return format!("! {}", found.text);
    }
    format!("! {} [{}]", found.text, found.causes.join(" "))
}

/// Counts of the verdict stop at 1,000.
pub(super) fn counted(n: i64) -> String {
    match n {
        1000.. => "1000 or more".to_owned(),
        n => n.to_string(),
    }
}

pub(super) fn due(now: &FarmNow) -> String {
    let due = counted(now.due);
    match &now.oldest_due {
        Some(oldest) => {
            let age = now.db_now.duration_since(oldest.ready_at).unsigned_abs();
            format!("{due}, the oldest for {}", out::span(age))
        }
        None => due,
    }
}

/// Instances of continuous jobs; each has a round, a paused job's last ones included.
fn loops(totals: &FarmTotals) -> String {
    match (totals.loops, totals.rounds) {
        (0, 0) => "none".to_owned(),
        (loops, rounds) if rounds < loops => format!(
            "{loops}, {} without a round: an agent makes it within a minute",
            loops - rounds
        ),
        (loops, rounds) => format!("{loops}, with {rounds} rounds that run or wait"),
    }
}

fn words(counts: &BTreeMap<impl std::fmt::Display, i64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<_> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use farmhand_store::reading::{About, Level};

    use super::*;

    #[test]
    fn a_finding_is_shown_with_all_that_it_names() {
        let found = |causes| Finding {
            level: Level::Attention,
            text: "2 jobs are failing: backup, 3 failures in a row".to_owned(),
            about: About::Jobs("failing".to_owned()),
            causes,
        };
        let causes = ["failing:backup", "failing:mail"].map(str::to_owned);
        let line = "! 2 jobs are failing: backup, 3 failures in a row";
        assert_eq!(
            finding(&found(causes.into())),
            format!("{line} [failing:backup failing:mail]")
        );
        assert_eq!(finding(&found(Vec::new())), line);
    }
}
