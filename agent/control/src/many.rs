//! What is done to many runs is told by one event.

use std::collections::BTreeSet;

use farmhand_store::jobs::{self, Once};
use farmhand_store::{Db, StoreError};
use serde_json::json;

use crate::{BulkAction, Chosen, Refusal, runs};

/// Cancels or retries several runs under one event. The event is written before the first run is touched.
pub struct Many<'a> {
    bulk: BulkAction,
    of: usize,
    who: &'a str,
}

impl<'a> Many<'a> {
    /// One run by itself has the event of its own.
    ///
    /// # Errors
    /// When the database does not take the event: nothing is done.
    pub async fn begin(
        db: &Db,
        bulk: BulkAction,
        chosen: &Chosen,
        runs: &[i64],
        who: &'a str,
    ) -> Result<Self, Refusal> {
        let many = Self {
            bulk,
            of: runs.len(),
            who,
        };
        if many.is_told() {
            let kind = match bulk {
                BulkAction::Cancel => "cancel_many",
                BulkAction::Retry => "retry_many",
            };
            let options = chosen.options();
            let filter = options.trim().strip_suffix(" --yes");
            let detail = json!({"by": who, "runs": runs.len(), "chosen": filter, "numbers": numbers(runs)});
            jobs::tell_many(db, kind, chosen.job.as_deref(), &detail).await?;
        }
        Ok(many)
    }

    fn is_told(&self) -> bool {
        self.of > 1
    }

    /// Does it to one of them; answers with the run that was cancelled or made, and a sentence.
    ///
    /// # Errors
    /// As [`runs::retry`]; 4 for a run to be cancelled that has ended.
    pub async fn act(
        &self,
        db: &Db,
        run: i64,
        from_failed: bool,
        once: Option<Once<'_>>,
    ) -> Result<(i64, String), Refusal> {
        let who = self.who;
        if self.bulk == BulkAction::Cancel {
            let outcome = if self.is_told() {
                jobs::cancel_one_of_many(db, run, who).await?
            } else {
                jobs::cancel(db, run, who).await?
            };
            return Ok((run, runs::cancelled(run, outcome)?));
        }
        let new = if self.is_told() {
            runs::again(
                run,
                jobs::retry_one_of_many(db, run, who, from_failed, once).await?,
            )?
        } else {
            runs::retry(db, run, from_failed, who, once).await?
        };
        Ok((new, format!("run {run} is run again as run {new}")))
    }

    /// The database failed after so many of them.
    pub fn stopped(&self, done: usize, error: StoreError) -> Refusal {
        let of = self.of;
        let done = match self.bulk {
            BulkAction::Cancel => {
                format!("{done} of {of} runs had been cancelled; the same again cancels the rest")
            }
            BulkAction::Retry => format!(
                "{done} of {of} runs had been run again: look at the newest runs before you choose the rest"
            ),
        };
        Refusal::Partly { done, error }
    }
}

/// Longest text of the numbers in an event; the runs themselves say by whom they were cancelled or made.
const NUMBERS: usize = 2_000;

/// `3-7, 9`, and how many more when it would be too long.
fn numbers(runs: &[i64]) -> String {
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for run in runs.iter().copied().collect::<BTreeSet<i64>>() {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == run => *last = run,
            _ => stretches.push((run, run)),
        }
    }
    let (mut text, mut left) = (String::new(), runs.len());
    for (first, last) in stretches {
        if text.len() > NUMBERS {
            return format!("{text} and {left} more");
        }
        let comma = if text.is_empty() { "" } else { ", " };
        text += &match first == last {
            true => format!("{comma}{first}"),
            false => format!("{comma}{first}-{last}"),
        };
        left = left.saturating_sub(usize::try_from(last - first + 1).unwrap_or(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_runs_are_told_as_stretches_and_bounded() {
        assert_eq!(numbers(&[9, 3, 4, 5, 7]), "3-5, 7, 9");
        assert_eq!(numbers(&(1..=1_000).rev().collect::<Vec<_>>()), "1-1000");
        let scattered: Vec<i64> = (0..1_000).map(|n| 1_000_000_000 + 2 * n).collect();
        let told = numbers(&scattered);
        assert!(told.len() < NUMBERS + 50, "{}", told.len());
        let named = told.matches(", ").count() + 1;
        assert!(told.ends_with(&format!(" and {} more", 1_000 - named)), "{told}");
    }
}
