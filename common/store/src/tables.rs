//! Rows of users' tables: looked for, and run once each. What becomes of the runs is written by `row_writer`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::db::{Db, stmt};
use super::error::StoreError;
use super::roles::{KINDS, ROWS};
use farmhand_core::import::Column;

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
    /// The job's name.
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

/// Whether `rows`, which touches users' tables, is logged in to the database of `farm`, as one that may do just that: code of a table's
/// owner runs with its rights.
///
/// # Errors
/// `NotReady` says what is wrong with it; else the database is away.
pub async fn check_login(farm: &Db, rows: &Db) -> Result<(), StoreError> {
    #[derive(Deserialize)]
    struct Found {
        login: String,
    }
    #[derive(Deserialize)]
    struct Rights {
        known: bool,
        role: String,
        member: bool,
        beyond: Option<String>,
    }
    #[derive(Deserialize, PartialEq)]
    struct Server {
        server: String,
    }
    let found: Result<Option<Found>, _> = rows.row(stmt!("rows_login"), &[]).await;
    let found = found.map_err(|error| match error {
        StoreError::Denied(_) | StoreError::PasswordMissing => unfit(
            &error.to_string(),
            "check the URL and its password (FARMHAND_ROWS_DATABASE_PASSWORD_FILE)",
        ),
        other => other,
    })?;
    let login = found.map(|f| f.login).unwrap_or_default();
    let others: Vec<&str> = KINDS.into_iter().filter(|kind| *kind != ROWS).collect();
    let rights: Option<Rights> = farm
        .row(
            stmt!("rows_login_rights"),
            &[(&login, Type::TEXT), (&others, Type::TEXT_ARRAY)],
        )
        .await?;
    let elsewhere = || {
        unfit(
            "it leads to another database than FARMHAND_DATABASE_URL",
            "name the same server and database in both",
        )
    };
    let Some(rights) = rights.filter(|r| r.known) else {
        return Err(elsewhere());
    };
    if let Some(beyond) = rights.beyond {
        let why = format!(
            "the login {login} has the rights of {beyond}, and whoever owns the table of a table job would have them"
        );
        let fix = format!(
            "name a login that is a member of {} and nothing else: CREATE ROLE … LOGIN PASSWORD '…' IN ROLE {}",
            rights.role, rights.role
        );
        return Err(unfit(&why, &fix));
    }
    if !rights.member {
        return Err(unfit(
            &format!("the login {login} is not a member of {}", rights.role),
            &format!(
                "as an administrator: GRANT {} TO {login}; where that role is missing, first run `farmhand migrate`",
                rights.role
            ),
        ));
    }
    // Last: that of another database may not be asked for. Twice, since a failover may come between the two.
    for _ in 0..2 {
        let there = rows.row::<Server>(stmt!("rows_server"), &[]).await;
        let here = farm.row::<Server>(stmt!("rows_server"), &[]).await?;
        match there {
            Ok(there) if there == here => return Ok(()),
            Err(away) if away.is_away() => return Err(away),
            _ => {}
        }
    }
    Err(elsewhere())
}

fn unfit(why: &str, fix: &str) -> StoreError {
    StoreError::NotReady {
        why: format!("--rows-database-url (FARMHAND_ROWS_DATABASE_URL): {why}"),
        fix: fix.to_owned(),
    }
}

/// Forgets ends that could not be written into their rows for `days`; returns how many.
pub async fn drop_older_than(db: &Db, days: i32) -> Result<usize, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        #[expect(dead_code, reason = "only counted")]
        run_id: i64,
    }
    let rows: Vec<Row> = db.rows(stmt!("drop_row_results"), &[(&days, Type::INT4)]).await?;
    Ok(rows.len())
}
