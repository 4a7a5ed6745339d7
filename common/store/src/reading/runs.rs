//! Lists of runs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::page::{Page, Paging, cursor};
use crate::RunKind;
use crate::conn::Param;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::run::RunState;

/// Rows that one page of a filter looks at, at most.
pub const SCANNED: i64 = 10_000;

/// Which runs; None and empty mean any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub job: Option<String>,
    pub states: Vec<RunState>,
    /// The address that holds it, or held it last.
    pub node: Option<String>,
    pub kind: Option<RunKind>,
    /// Ended at this instant or later. With `since` or `until` the list holds ended runs only, the latest end first.
    pub since: Option<Timestamp>,
    /// Ended before this instant.
    pub until: Option<Timestamp>,
    /// Of a table job's row; with `job` only.
    pub key: Option<String>,
    /// Of jobs whose `where` asks for this label with this value, as they are defined now.
    pub label: Option<(String, String)>,
    /// That had this value, as text, of this parameter: one that was given, or the default of its definition.
    pub param: Option<(String, String)>,
}

impl RunFilter {
    /// What the statements take of the label and the parameter.
    fn label_and_param(&self) -> (Option<Value>, Option<&str>, Option<&str>) {
        let param = self.param.as_ref();
        (
            self.label.as_ref().map(wanted_label),
            param.map(|(name, _)| name.as_str()),
            param.map(|(_, value)| value.as_str()),
        )
    }
}

/// What `where` has to contain.
pub(super) fn wanted_label((key, value): &(String, String)) -> Value {
    serde_json::json!({ key.as_str(): value })
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunItem {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// What made it.
    pub kind: RunKind,
    /// Which one of its firing, from 0.
    pub instance: i32,
    /// How many there are in its firing.
    pub instances: i32,
    /// How far it has come, or how it ended.
    pub state: RunState,
    /// Why it waits, was skipped or ended so.
    pub reason: Option<String>,
    /// The address that holds it, or held it last.
    pub running_at: Option<String>,
    /// Its last attempt; 0 before the first.
    pub attempt: i32,
    /// The fence of its last claim.
    pub fence: Option<i64>,
    /// How often it was retried.
    pub retries: i32,
    /// How often it was freed to be taken over.
    pub takeovers: i32,
    /// The instant that it is for.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub due_at: Timestamp,
    /// When its last attempt was claimed.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub claimed_at: Option<Timestamp>,
    /// When its command was started; none when it never was.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended; none while it has not.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub finished_at: Option<Timestamp>,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// Neighbours that were folded into one record.
    pub count: i64,
    /// Of a table job's row.
    pub key: Option<String>,
    /// The first run of those that were made together with this one.
    pub firing: Option<i64>,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// How long its command ran, in milliseconds, by its node's clock; where no node measured it, until the end was recorded.
    pub ran_ms: Option<i64>,
}

#[derive(Deserialize)]
struct Row {
    items: Vec<RunItem>,
    /// How many rows were looked at, and the last of them.
    scanned: i64,
    floor: Option<i64>,
    floor_at: Option<Timestamp>,
}

/// A page of runs, the newest first: by number, or by end when the filter names a time.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn runs(db: &Db, filter: &RunFilter, paging: &Paging) -> Result<Page<RunItem>, StoreError> {
    if filter.key.is_some() && filter.job.is_none() {
        return Err(StoreError::Refused(
            "`key` is of a row of a table job: give the job, too".to_owned(),
        ));
    }
    if filter.since.is_some() || filter.until.is_some() {
        return ended(db, filter, paging).await;
    }
    let bad = |state: &RunState| state.is_final() && *state != RunState::Succeeded;
    let by_state = filter.job.is_none() && !filter.states.is_empty() && filter.states.iter().all(bad);
    let live = !filter.states.is_empty() && !filter.states.iter().any(|s| s.is_final());
    let others =
        filter.node.is_some() || filter.kind.is_some() || filter.label.is_some() || filter.param.is_some();
    let statement = if by_state {
        stmt!("reading_runs_by_state")
    } else {
        stmt!("reading_runs")
    };
    let limit = paging.rows();
    let looks_through = others || (!by_state && !filter.states.is_empty());
    let scan = if looks_through { SCANNED } else { limit + 1 };
    let before: Option<i64> = paging.after("runs")?;
    // A state that is named twice has its runs once.
    let mut states: Vec<&str> = filter.states.iter().map(|s| s.as_str()).collect();
    states.sort_unstable();
    states.dedup();
    let kind = filter.kind.map(RunKind::as_str);
    let wanted = limit + 1;
    let (label, name, value) = filter.label_and_param();
    let mut params: Vec<Param<'_>> = vec![
        (&filter.job, Type::TEXT),
        (&states, Type::TEXT_ARRAY),
        (&filter.node, Type::TEXT),
        (&kind, Type::TEXT),
        (&before, Type::INT8),
        (&wanted, Type::INT8),
        (&scan, Type::INT8),
        (&live, Type::BOOL),
        (&label, Type::JSONB),
        (&name, Type::TEXT),
        (&value, Type::TEXT),
    ];
    if !by_state {
        params.push((&filter.key, Type::TEXT));
    }
    let found: Option<Row> = db.row(statement, &params).await?;
    let Some(found) = found else {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    };
    let mut page = Page::cut(found.items, limit, |run| cursor("runs", &run.run_id));
    // Nothing more in this stretch, and there are older runs.
    if page.next.is_none() && looks_through && found.scanned >= scan {
        page.next = found.floor.map(|floor| cursor("runs", &floor));
    }
    Ok(page)
}

async fn ended(db: &Db, filter: &RunFilter, paging: &Paging) -> Result<Page<RunItem>, StoreError> {
    let limit = paging.rows();
    let place: Option<(Timestamp, i64)> = paging.after("ended-runs")?;
    let states: Vec<&str> = filter.states.iter().map(|s| s.as_str()).collect();
    let kind = filter.kind.map(RunKind::as_str);
    let (at, id) = place.unzip();
    let (label, name, value) = filter.label_and_param();
    let found: Option<Row> = db
        .row(
            stmt!("reading_runs_ended"),
            &[
                (&filter.job, Type::TEXT),
                (&states, Type::TEXT_ARRAY),
                (&filter.node, Type::TEXT),
                (&kind, Type::TEXT),
                (&filter.since, Type::TIMESTAMPTZ),
                (&filter.until, Type::TIMESTAMPTZ),
                (&at, Type::TIMESTAMPTZ),
                (&id, Type::INT8),
                (&(limit + 1), Type::INT8),
                (&SCANNED, Type::INT8),
                (&filter.key, Type::TEXT),
                (&label, Type::JSONB),
                (&name, Type::TEXT),
                (&value, Type::TEXT),
            ],
        )
        .await?;
    let Some(found) = found else {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    };
    let mut page = Page::cut(found.items, limit, |run| {
        cursor("ended-runs", &(run.finished_at, run.run_id))
    });
    if page.next.is_none() && found.scanned >= SCANNED {
        page.next = (found.floor_at.zip(found.floor)).map(|place| cursor("ended-runs", &place));
    }
    Ok(page)
}
