//! Many runs at once, chosen by what they have in common.

use clap::Args;
use farmhand_control::{jobs, past_moment};
use farmhand_core::run::RunState;
use farmhand_store::reading::{self, Paging, RunFilter, RunItem};
use farmhand_store::{Db, query};

use super::{Exit, Failure, completion, out, terminal};

/// Runs that one command acts on at most.
const MOST: usize = 10_000;
/// Runs that are named before the question.
const NAMED: usize = 10;
/// Rows of a page.
const PAGE: i64 = 1_000;

/// In place of numbers.
#[derive(Args, Debug, Default)]
pub struct Chosen {
    /// All runs of this job
    #[arg(long, add = completion::job_names())]
    job: Option<String>,
    /// All runs in this state; may be repeated
    #[arg(long, value_name = "STATE", value_parser = |word: &str| word.parse::<RunState>())]
    state: Vec<RunState>,
    /// All runs held by, or ended on, this node
    #[arg(long, value_name = "ADDRESS", add = completion::node_names())]
    node: Option<String>,
    /// All runs since this time, by their end or, if they have not ended, by their due instant: RFC 3339, a date or time
    /// (local, or in UTC with --utc), or how long ago (8h)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// All runs before this time
    #[arg(long, value_name = "T")]
    until: Option<String>,
    /// Act on them without asking
    #[arg(long)]
    yes: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Cancel,
    Retry,
}

impl Deed {
    /// Of the runs that are chosen without a state.
    fn states(self) -> &'static [RunState] {
        match self {
            Self::Cancel => &[RunState::Due, RunState::Running],
            Self::Retry => &[RunState::Failed, RunState::TimedOut, RunState::Lost],
        }
    }

    fn check(self, state: RunState) -> Result<(), Failure> {
        match (self, state.is_final()) {
            (Self::Cancel, true) => Err(Failure::usage(format!("a run that is {state} has ended"))
                .next("runs that are due or running can be cancelled")),
            (Self::Retry, false) => Err(Failure::usage(format!("a run that is {state} has not ended"))
                .next("only runs that have ended can be run again")),
            _ => Ok(()),
        }
    }
}

impl Chosen {
    /// The numbers of the runs, once they are confirmed; none when nothing matches.
    ///
    /// # Errors
    /// 3 for a job that never was, 4 when it is not confirmed.
    pub async fn confirmed(&self, db: &Db, deed: Deed) -> Result<Vec<i64>, Failure> {
        let runs = self.runs(db, deed).await?;
        if runs.is_empty() {
            out::note("no run matches; nothing was done");
        } else if !self.yes {
            confirm(&runs, deed)?;
        }
        Ok(runs.iter().map(|run| run.run_id).collect())
    }

    async fn runs(&self, db: &Db, deed: Deed) -> Result<Vec<RunItem>, Failure> {
        let texts = [&self.job, &self.node, &self.since, &self.until];
        if texts.iter().all(|text| text.is_none()) && self.state.is_empty() {
            return Err(Failure::usage("no run is chosen")
                .next("name runs by number, or by --job, --state, --node, --since, --until"));
        }
        if let Some(job) = &self.job {
            jobs::known(db, job).await?;
        }
        self.state.iter().try_for_each(|state| deed.check(*state))?;
        let now = query::now(db).await?;
        let time = |flag, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| past_moment(flag, text, now, out::zone()))
                .transpose()
        };
        let (since, until) = (time("--since", &self.since)?, time("--until", &self.until)?);
        // The list knows ends alone; runs that have not ended are chosen by their instant below.
        let ended = deed == Deed::Retry;
        let filter = RunFilter {
            job: self.job.clone(),
            states: if self.state.is_empty() {
                deed.states()
            } else {
                &self.state
            }
            .to_vec(),
            node: self.node.clone(),
            since: since.filter(|_| ended),
            until: until.filter(|_| ended),
            ..RunFilter::default()
        };
        let mut found: Vec<RunItem> = Vec::new();
        let mut paging = Paging::first(PAGE);
        loop {
            let page = reading::runs(db, &filter, &paging).await?;
            found.extend((page.items.into_iter()).filter(|run| {
                ended || (since.is_none_or(|t| run.due_at >= t) && until.is_none_or(|t| run.due_at < t))
            }));
            if found.len() > MOST {
                return Err(Failure::new(
                    Exit::Refused,
                    format!("these are more than {MOST} runs; nothing was done"),
                )
                .next("choose fewer: --job, --node, --since, --until"));
            }
            match page.next {
                Some(next) => paging.cursor = Some(next),
                None => return Ok(found),
            }
        }
    }
}

fn confirm(runs: &[RunItem], deed: Deed) -> Result<(), Failure> {
    let mut names: Vec<&str> = runs.iter().map(|run| run.job_id.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = match names.as_slice() {
        [one] => (*one).to_owned(),
        more => out::count(more.len(), "job"),
    };
    let what = format!("{} of {of}", out::count(runs.len(), "run"));
    let (would, asked, not) = match deed {
        Deed::Cancel => (format!("cancel {what}"), format!("Cancel {what}"), "cancelled"),
        Deed::Retry => (format!("run {what} again"), format!("Run {what} again"), "run"),
    };
    let mut shown: Vec<String> = (runs.iter().take(NAMED))
        .map(|run| format!("run {} of {}, {}", run.run_id, run.job_id, run.state))
        .collect();
    if runs.len() > NAMED {
        shown.push(format!("and {} more", runs.len() - NAMED));
    }
    if !terminal::can_ask() {
        return Err(
            Failure::new(Exit::Refused, format!("this would {would}; nothing was {not}"))
                .why(shown.join("\n"))
                .why("there is no terminal to confirm it on")
                .next("add --yes"),
        );
    }
    out::note(&shown.join("\n"));
    let answer = terminal::ask(&format!("{asked}? [y/N] "))?;
    if answer.eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, format!("nothing was {not}")))
}
