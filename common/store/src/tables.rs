//! Rows of users' tables: looked for, and run once each. What becomes of the runs is written by `row_writer`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::db::{Db, stmt};
use super::error::StoreError;
use farmhand_core::definition::Column;

/// The answer to `dispatch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatched {
    /// Runs made, one for each row that was marked.
    pub made: i32,
    /// Runs that might have been made.
    pub room: i32,
    /// There was not room for all rows, perhaps: look again.
    pub more: bool,
    /// Something was locked for too long: look again soon.
    pub busy: bool,
    /// Something is to be written into rows of this job.
    pub unwritten: bool,
    /// Rows wait whose key is NULL: they are never run.
    pub keyless: bool,
    /// What the table refused; nothing was done then.
    pub problem: Option<String>,
}

/// Makes runs for rows of a table job that wait, at most 500, and marks these rows: both or neither.
///
/// Nothing is done for a job that is paused, disabled, deleted or no table job. Two that look at once make no
/// run twice, and together no more than `max_running` allows.
pub async fn dispatch(db: &Db, job_id: &str) -> Result<Dispatched, StoreError> {
    db.one(stmt!("dispatch_rows"), &[(&job_id, Type::TEXT)]).await
}

/// What keeps a table job from working.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableProblem {
    /// What is wrong, as a sentence.
    pub problem: String,
    /// What to do; often a statement to be pasted.
    pub fix: String,
    /// Otherwise it works, slowly.
    pub fatal: bool,
}

/// Compares a definition with the table, as the role that is connected sees it.
pub async fn check(
    db: &Db,
    table: &(impl Serialize + std::fmt::Debug + Sync),
) -> Result<Vec<TableProblem>, StoreError> {
    db.rows(stmt!("check_table"), &[(&Json(table), Type::JSONB)])
        .await
}

/// The columns of a table, in their order; none when there is no such table.
pub async fn describe(db: &Db, schema: &str, name: &str) -> Result<Vec<Column>, StoreError> {
    db.rows(
        stmt!("describe_table"),
        &[(&schema, Type::TEXT), (&name, Type::TEXT)],
    )
    .await
}

/// A table job as `farmhand doctor` sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSurvey {
    pub job_id: String,
    /// As the definition has it.
    pub table: Value,
    /// What is wrong with the table; none when it can be worked on.
    pub problem: Option<TableProblem>,
    /// Ends that wait to be written into their rows, up to 1,000.
    pub unwritten: i64,
    /// What the table said to one of them.
    pub error: Option<String>,
    /// A node whose agent writes users' rows with its own login.
    pub own_login: Option<String>,
}

/// Every table job that is not deleted or has ends that are not in their rows, with its first problem.
pub async fn survey(db: &Db) -> Result<Vec<TableSurvey>, StoreError> {
    db.rows(stmt!("survey_tables"), &[]).await
}

/// Forgets ends that could not be written into their rows for `days`; returns how many.
pub async fn drop_older_than(db: &Db, days: i32) -> Result<usize, StoreError> {
    let rows: Vec<Value> = db.rows(stmt!("drop_row_results"), &[(&days, Type::INT4)]).await?;
    Ok(rows.len())
}
