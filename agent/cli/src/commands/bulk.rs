//! Many runs at once, chosen by what they have in common.

use clap::Args;
use farmhand_control::bulk::counted;
use farmhand_control::runs::together;
use farmhand_control::{BulkAction, Picked};
use farmhand_core::run::RunState;
use farmhand_store::{Db, reading};

use super::job_files::pair;
use super::{Failure, completion, out, terminal};

/// Runs that one command runs again at most; it cancels all that wait or run.
const MOST: usize = 10_000;
/// Runs that are named before the question.
const NAMED: usize = 10;

/// In place of numbers.
#[derive(Args, Debug, Default)]
pub(super) struct Chosen {
    /// All runs of this job
    #[arg(long, add = completion::job_names())]
    job: Option<String>,
    /// All runs in this state; may be repeated
    #[arg(long, value_name = "STATE", value_parser = |word: &str| word.parse::<RunState>())]
    state: Vec<RunState>,
    /// All runs held by, or ended on, this node
    #[arg(long, value_name = "ADDRESS", add = completion::node_names())]
    node: Option<String>,
    /// All runs of jobs whose `where` asks for this label
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Option<(String, String)>,
    /// All runs with this value of a parameter, given or by default
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    param: Option<(String, String)>,
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

impl Chosen {
    /// The choice, and the numbers of its runs once they are confirmed, with `firing` those of all runs that were made with
    /// them; none when nothing matches.
    /// Errors: 3 for a job that never was, 4 when it is not confirmed.
    pub(super) async fn confirmed(
        &self,
        db: &Db,
        bulk: BulkAction,
        firing: bool,
        all: bool,
    ) -> Result<(farmhand_control::Chosen, Vec<i64>), Failure> {
        let now = reading::now(db).await?;
        let chosen = farmhand_control::Chosen {
            job: self.job.clone(),
            states: self.state.clone(),
            node: self.node.clone(),
            label: self.label.clone(),
            param: self.param.clone(),
            since: out::past("--since", self.since.as_deref(), now)?,
            until: out::past("--until", self.until.as_deref(), now)?,
            all,
            ..farmhand_control::Chosen::default()
        };
        let most = match bulk {
            BulkAction::Cancel => usize::MAX,
            BulkAction::Retry => MOST,
        };
        let mut found = chosen.find(db, bulk, most, None).await?;
        if firing && !found.runs.is_empty() {
            // Who confirms sees all that ends.
            let numbers: Vec<i64> = found.runs.iter().map(|run| run.run_id).collect();
            let whole = farmhand_control::Chosen {
                runs: together(db, &numbers).await?,
                ..farmhand_control::Chosen::default()
            };
            found = whole.find(db, bulk, usize::MAX, None).await?;
        }
        if let Some(left_out) = found.left_out() {
            out::note(&left_out);
        }
        if found.runs.is_empty() {
            out::note("no run matches; nothing was done");
        } else if !self.yes {
            confirm(&found.runs, bulk)?;
        }
        let numbers = found.runs.iter().map(|run| run.run_id).collect();
        Ok((chosen, numbers))
    }
}

fn confirm(runs: &[Picked], bulk: BulkAction) -> Result<(), Failure> {
    let what = counted(runs);
    let (would, asked, not) = match bulk {
        BulkAction::Cancel => (format!("cancel {what}"), format!("Cancel {what}"), "cancelled"),
        BulkAction::Retry => (format!("run {what} again"), format!("Run {what} again"), "run"),
    };
    let mut shown: Vec<String> = (runs.iter().take(NAMED))
        .map(|run| {
            let due = out::time(run.due_at);
            format!("run {} of {}, {}, due {due}", run.run_id, run.job_id, run.state)
        })
        .collect();
    if runs.len() > NAMED {
        shown.push(format!("and {} more", runs.len() - NAMED));
    }
    let nothing = format!("nothing was {not}");
    let unasked = Failure::refused(format!("this would {would}; {nothing}")).why(shown.join("\n"));
    if terminal::can_ask() {
        shown.iter().for_each(|run| out::note(run));
    }
    terminal::agree(&format!("{asked}?"), &nothing, unasked.next("add --yes"))
}
