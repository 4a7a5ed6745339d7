//! `farmhand job check --table`: a table job for a table that is there.

use farmhand_core::definition::parse_table_name;
use farmhand_import::Proposal;
use farmhand_store::tables::{self, TableProblem};
use serde_json::json;

use super::{DatabaseArgs, Exit, Failure, Outcome, out};

/// Exit code 0 if the job would work, 4 if the table lacks something.
pub(super) async fn run(database: &DatabaseArgs, name: &str, as_json: bool) -> Outcome {
    let (schema, name) = parse_table_name(name)
        .map_err(|wrong| Failure::usage(format!("--table: {}", wrong.what)).next(wrong.fix))?;
    let db = database.connect().await?;
    let columns = tables::describe(&db, &schema, &name).await?;
    let proposal = Proposal::new(schema, name, &columns);
    let lacks = |(problem, fix): &(String, String)| TableProblem {
        problem: problem.clone(),
        fix: fix.clone(),
        fatal: true,
    };
    let mut problems: Vec<TableProblem> = proposal.missing.iter().map(lacks).collect();
    if columns.is_empty() || problems.is_empty() {
        problems = tables::check(&db, &proposal.table).await?;
    }
    if let Some(none) = problems.first().filter(|_| columns.is_empty()) {
        return Err(Failure::not_found(none.problem.clone()).next(none.fix.clone()));
    }
    if as_json {
        out::json(&json!({"toml": proposal.toml(), "problems": problems}));
    } else {
        out::raw(proposal.toml().as_bytes());
        for found in &problems {
            let kind = if found.fatal { "missing" } else { "warning" };
            out::note(&format!("{kind}: {}", found.problem));
            out::note(&format!("  {}", found.fix));
        }
    }
    Ok(match problems.iter().any(|found| found.fatal) {
        true => Exit::Refused,
        false => Exit::Ok,
    })
}
