//! Which runs are meant: those that are ticked, or all that the filter of the list shows.

use farmhand_control::{BulkAction, Chosen};
use farmhand_core::run::RunState;
use farmhand_store::Db;
use farmhand_store::reading::{self, Paging, RunFilter};

use crate::Problem;
use crate::ui::fields::run_number;
use crate::ui::runs;

/// What a form sends beside the filter of the list.
pub const OWN: [&str; 6] = ["run", "upto", "all", "from_failed", "key", "sure"];

/// What a field holds, unless it is empty.
pub fn field<'a>(fields: &'a [(String, String)], wanted: &str) -> Option<&'a str> {
    let found = fields.iter().find(|(name, _)| name == wanted);
    found
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Read from the list's fields. What was made after the page that asks is not meant.
pub async fn chosen(db: &Db, bulk: BulkAction, fields: &[(String, String)]) -> Result<Chosen, Problem> {
    let shown = runs::Ask::of(fields)?.filter(reading::now(db).await?)?;
    let ticked = fields.iter().filter(|(name, _)| name == "run");
    let upto = match field(fields, "upto") {
        Some(text) => Some(run_number(text)?),
        None => newest(db).await?,
    };
    Ok(Chosen {
        runs: ticked.map(|(_, run)| run_number(run)).collect::<Result<_, _>>()?,
        job: shown.job,
        states: fitting(bulk, shown.states)?,
        node: shown.node,
        label: shown.label,
        param: shown.param,
        since: shown.since,
        until: shown.until,
        upto,
        all: field(fields, "all").is_some(),
    })
}

async fn newest(db: &Db) -> Result<Option<i64>, Problem> {
    let page = reading::runs(db, &RunFilter::default(), &Paging::first(1)).await?;
    Ok(page.items.first().map(|run| run.run_id))
}

/// Of the states that the list shows, those that this can be done with. None of a list of all states: that is no choice.
fn fitting(bulk: BulkAction, shown: Vec<RunState>) -> Result<Vec<RunState>, Problem> {
    let (any, mut fit) = (shown.is_empty(), shown);
    fit.retain(|state| state.is_final() == (bulk == BulkAction::Retry));
    if fit.is_empty() && !any {
        return Err(Problem::bad_request(match bulk {
            BulkAction::Cancel => "all of these runs have ended",
            BulkAction::Retry => "none of these runs has ended",
        }));
    }
    Ok(fit)
}

/// The list's fields again, with times that stand still.
pub fn fields(chosen: &Chosen, given: &[(String, String)]) -> Vec<(String, String)> {
    let mut fields = given.to_vec();
    fields.retain(|(name, _)| {
        [
            "job",
            "state",
            "node",
            "label",
            "param",
            "run",
            "all",
            "from_failed",
        ]
        .contains(&name.as_str())
    });
    let mut add =
        |name: &str, value: Option<String>| fields.extend(value.map(|value| (name.to_owned(), value)));
    add("since", chosen.since.map(|at| at.to_string()));
    add("until", chosen.until.map(|at| at.to_string()));
    add("upto", chosen.upto.map(|run| run.to_string()));
    fields
}
