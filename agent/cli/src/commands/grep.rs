//! `farmhand run logs --grep`: lines of stored output that have a text.

use clap::Args;
use farmhand_control::jobs;
use farmhand_core::document::size_about;
use farmhand_store::Db;
use farmhand_store::reading::{self, LogMatches, MOST_MATCHES, SearchCut, Sought};

use super::follow::no_run;
use super::{Exit, Failure, Outcome, out, runs};

#[derive(Args, Debug)]
pub(crate) struct GrepArgs {
    /// Print only lines that have this text, of all attempts, as RUN:ATTEMPT:LINE:TEXT; exit code 1 if there are none
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["all", "follow"])]
    pub grep: Option<String>,
    /// With --grep: upper and lower case are the same
    #[arg(short, long, requires = "grep")]
    ignore_case: bool,
    /// With --grep: search the last N runs of the job that RUN names, at most 1,000 [default: the newest one]
    #[arg(long, value_name = "N", requires = "grep", conflicts_with_all = ["key", "attempt"],
        value_parser = clap::value_parser!(i64).range(1..=reading::MOST_RUNS))]
    runs: Option<i64>,
}

impl GrepArgs {
    /// Searches a run, or the last ones of a job.
    pub(super) async fn run(
        &self,
        db: &Db,
        text: &str,
        (name, key): (&str, Option<&str>),
        attempt: Option<i32>,
        as_json: bool,
    ) -> Outcome {
        let mut sought =
            Sought::new(text, self.ignore_case).map_err(|error| Failure::usage(error.to_string()))?;
        (sought.attempt, sought.matches) = (attempt, MOST_MATCHES);
        let found = match self.runs {
            Some(count) => {
                if name.parse::<i64>().is_ok() {
                    return Err(Failure::usage(
                        "--runs searches the last runs of a job, and a run's number is given",
                    )
                    .next("name the job instead of the number, or leave --runs out"));
                }
                let found = reading::job_matches(db, name, None, count, &sought).await?;
                if found.runs == 0 {
                    jobs::one(db, name).await?;
                }
                found
            }
            None => {
                let run = runs::number(db, name, key).await?;
                let found = reading::run_matches(db, run, &sought).await?;
                found.ok_or_else(|| no_run(run))?
            }
        };
        if as_json {
            out::json(&found);
        } else {
            print(&found);
        }
        Ok(if found.items.is_empty() {
            Exit::Error
        } else {
            Exit::Ok
        })
    }
}

fn print(found: &LogMatches) {
    for item in &found.items {
        let (run, attempt, line) = (item.run_id, item.attempt, item.line);
        out::line(&format!("{run}:{attempt}:{line}:{}", item.text));
    }
    if found.not_kept > 0 {
        let bytes = size_about(found.not_kept.unsigned_abs());
        out::note(&format!(
            "farmhand: {bytes} of this output were not searched, because they were not kept: the job's `output.keep` says how much is"
        ));
    }
    let searched = format!(
        "{} in {}",
        size_about(found.bytes.unsigned_abs()),
        out::count(found.runs, "run")
    );
    let cut = match found.cut {
        None => return,
        Some(SearchCut::Matches) => "there are as many matches as one search lists",
        Some(SearchCut::Bytes) => "it has read as much as one search reads",
        Some(SearchCut::Time) => "its time was over",
    };
    out::note(&format!(
        "farmhand: the search ended early, after {searched}: {cut}; search fewer runs, or for a longer text"
    ));
}
