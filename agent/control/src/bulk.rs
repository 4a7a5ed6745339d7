//! Many runs at once, chosen by what they have in common.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use farmhand_store::Db;
use farmhand_store::jobs::{Once, made_with, retried_runs};
use farmhand_store::reading::{self, MOST, Paging, RunFilter, RunItem, SCANNED};
use jiff::Timestamp;

use crate::choice::{BulkAction, Chosen, Picked};
use crate::{By, Refusal, jobs as job, runs};

/// Runs that one choice looks through, as `farmhand run ls` does.
const LOOKED_THROUGH: i64 = 20 * SCANNED;

/// What a choice comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub runs: Vec<Picked>,
    /// To be run again: how many more match that a later retry repeats. Chosen again, they would be done twice.
    pub retried: usize,
    /// To be run again: how many more match of firings before the newest of their job.
    pub older: usize,
    /// To be cancelled: there are older ones that match, too.
    pub more: bool,
}

impl Selection {
    /// What is left out, in words.
    pub fn left_out(&self) -> Option<String> {
        let retried = match self.retried {
            0 => None,
            1 => Some("1 run was run again already and is left out".to_owned()),
            n => Some(format!("{n} runs were run again already and are left out")),
        };
        let older = match self.older {
            0 => None,
            1 => Some("1 run of an earlier firing is left out, and taken with `all`".to_owned()),
            n => Some(format!(
                "{n} runs of earlier firings are left out, and taken with `all`"
            )),
        };
        let both: Vec<String> = retried.into_iter().chain(older).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// Takes out the runs of jobs that they may not act on.
    pub(crate) fn take_beyond(&mut self, by: By<'_>) -> Vec<Picked> {
        let all = std::mem::take(&mut self.runs).into_iter();
        let (runs, beyond) = all.partition(|run| by.reaches(&run.job_id).is_ok());
        self.runs = runs;
        beyond
    }
}

impl Chosen {
    /// The runs, the newest first; none when nothing matches. What `once` made before is answered again, so it is not left out.
    /// Errors: 2 for a choice of nothing, or of states that do not fit; 3 for a job or run that never was; 4 for more than `most` that
    /// are named or run again, or when there is more to look through than one choice may.
    pub async fn find(
        &self,
        db: &Db,
        bulk: BulkAction,
        most: usize,
        once: Option<Once<'_>>,
    ) -> Result<Selection, Refusal> {
        if self.runs.len() > most {
            return Err(too_many(most));
        }
        let mut named = Vec::new();
        for run_id in &each_once(&self.runs) {
            let row = reading::run_row(db, *run_id)
                .await?
                .ok_or_else(|| runs::no_run(*run_id))?;
            named.push(Picked {
                run_id: row.run_id,
                job_id: row.job_id,
                state: row.state,
                due_at: row.due_at,
            });
        }
        if named.is_empty() {
            return self.matching(db, bulk, most, once).await;
        }
        Ok(Selection {
            runs: named,
            ..Selection::default()
        })
    }

    async fn matching(
        &self,
        db: &Db,
        bulk: BulkAction,
        most: usize,
        once: Option<Once<'_>>,
    ) -> Result<Selection, Refusal> {
        let texts = [&self.job, &self.node].iter().all(|t| t.is_none());
        let pairs = [&self.label, &self.param].iter().all(|t| t.is_none());
        let times = [self.since, self.until].iter().all(Option::is_none);
        if texts && pairs && times && self.states.is_empty() {
            return Err(Refusal::usage("no run is chosen")
                .next("name runs by number, or by job, state, node, label, param, since or until"));
        }
        if let Some(name) = &self.job {
            job::known(db, name).await?;
        }
        self.states.iter().try_for_each(|state| bulk.check(*state))?;
        // The list knows ends alone; runs that have not ended are chosen by their instant below.
        let ended = bulk == BulkAction::Retry;
        let filter = RunFilter {
            job: self.job.clone(),
            states: if self.states.is_empty() {
                bulk.states()
            } else {
                &self.states
            }
            .to_vec(),
            node: self.node.clone(),
            since: self.since.filter(|_| ended),
            until: self.until.filter(|_| ended),
            label: self.label.clone(),
            param: self.param.clone(),
            ..RunFilter::default()
        };
        let fits = |run: &RunItem| {
            let due = self.since.is_none_or(|t| run.due_at >= t) && self.until.is_none_or(|t| run.due_at < t);
            (ended || due) && self.upto.is_none_or(|last| run.run_id <= last)
        };
        let (mut found, mut newest) = (Selection::default(), Newest::default());
        let only_newest = ended && !self.all;
        let mut paging = Paging::first(MOST);
        let mut looked = 0;
        // What has not ended is looked through to its end: it is bounded, and all of it may have to go.
        while !ended || looked < LOOKED_THROUGH {
            let page = reading::runs(db, &filter, &paging).await?;
            let rows = i64::try_from(page.items.len()).unwrap_or(MOST);
            // A page that is not full looked through all that one may.
            looked += if rows < MOST { SCANNED } else { MOST };
            let mut items: Vec<RunItem> = page.items.into_iter().filter(fits).collect();
            if let Some(once) = once.filter(|_| ended && !items.is_empty()) {
                // What the first request made is its answer, and is not chosen by a repetition.
                let numbers: Vec<i64> = items.iter().map(|run| run.run_id).collect();
                let made = made_with(db, &numbers, once).await?;
                items.retain(|run| !made.contains(&run.run_id));
            }
            let numbers: Vec<i64> = items.iter().map(|run| run.run_id).collect();
            let retried = if ended && !numbers.is_empty() {
                retried_runs(db, &numbers, once).await?
            } else {
                Vec::new()
            };
            found.retried += retried.len();
            for run in items {
                let again = !retried.contains(&run.run_id);
                if only_newest {
                    newest.take(run, again);
                } else if again {
                    found.runs.push(picked(run));
                }
            }
            if found.runs.len() > most {
                if ended {
                    return Err(too_many(most));
                }
                // Those are gone when the rest is chosen.
                found.runs.truncate(most);
                found.more = true;
                return Ok(found);
            }
            if let Some(next) = page.next {
                paging.cursor = Some(next);
                continue;
            }
            if only_newest {
                (found.runs, found.older) = newest.runs();
            }
            return match found.runs.len() > most {
                true => Err(too_many(most)),
                false => Ok(found),
            };
        }
        let n = found.runs.len();
        let what =
            format!("of the newest {looked} runs {n} match, and there are older ones; nothing was done");
        Err(Refusal::refused(what)
            .why("so many runs are looked through at once")
            .next("name a time with since and until, or the runs by number"))
    }
}

fn picked(run: RunItem) -> Picked {
    Picked {
        run_id: run.run_id,
        job_id: run.job_id,
        state: run.state,
        due_at: run.due_at,
    }
}

/// A job's name, a row's key, a round's shard.
type Group = (String, Option<String>, i32);
/// Its instant, its number, its runs.
type Firing = (Timestamp, i64, Vec<Picked>);

/// Of each job the newest firing: all its shards and nodes. Of a table job, that of each row; of a continuous one, that of each shard.
#[derive(Default)]
struct Newest {
    of: BTreeMap<Group, Firing>,
    older: usize,
}

impl Newest {
    /// A firing whose runs were run `again` already is the newest all the same: an older one is not taken in its place.
    fn take(&mut self, run: RunItem, again: bool) {
        let round = run.firing.is_none() && run.instances > 1;
        let group = (
            run.job_id.clone(),
            run.key.clone(),
            if round { run.instance } else { 0 },
        );
        let (due_at, firing) = (run.due_at, run.firing.unwrap_or(run.run_id));
        let newest = self.of.entry(group).or_insert((due_at, firing, Vec::new()));
        match (due_at, firing).cmp(&(newest.0, newest.1)) {
            Ordering::Less => self.older += usize::from(again),
            Ordering::Equal if again => newest.2.push(picked(run)),
            Ordering::Equal => {}
            Ordering::Greater => {
                self.older += newest.2.len();
                let runs = if again { vec![picked(run)] } else { Vec::new() };
                *newest = (due_at, firing, runs);
            }
        }
    }

    /// The runs, the newest first, and how many more there are.
    fn runs(self) -> (Vec<Picked>, usize) {
        let mut runs: Vec<Picked> = self.of.into_values().flat_map(|(.., runs)| runs).collect();
        runs.sort_by_key(|run| Reverse(run.run_id));
        (runs, self.older)
    }
}

fn too_many(most: usize) -> Refusal {
    Refusal::refused(format!("these are more than {most} runs; nothing was done"))
        .next("choose fewer, by job, node, label, param, since or until")
}

/// These numbers, each once: a run that is named twice must not run again twice.
pub fn each_once(runs: &[i64]) -> Vec<i64> {
    let mut seen = BTreeSet::new();
    runs.iter().copied().filter(|run| seen.insert(*run)).collect()
}

/// `200 runs of backup`, `3 runs of 2 jobs`.
pub fn counted(runs: &[Picked]) -> String {
    let mut names: Vec<&str> = runs.iter().map(|run| run.job_id.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let n = runs.len();
    let runs = if n == 1 {
        "1 run".to_owned()
    } else {
        format!("{n} runs")
    };
    match names.as_slice() {
        [one] => format!("{runs} of {one}"),
        more => format!("{runs} of {} jobs", more.len()),
    }
}
