//! Lists of jobs, each with its last outcomes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::page::{Page, Paging, cursor};
use super::runs::wanted_label;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::definition::{JobSpec, Placement, trigger_text};
use farmhand_core::due;
use farmhand_core::health::{JobFacts, JobHealth, JobState};
use farmhand_core::run::RunState;
use farmhand_core::words;

words! {
    /// What a job runs, and when.
    JobKind {
        /// By its schedule.
        Scheduled = "scheduled",
        /// Again as soon as it has ended.
        Continuous = "continuous",
        /// When another job ends.
        Triggered = "triggered",
        /// Rows of a table of the user's own.
        Table = "table",
        /// Lines of a growing list.
        Stream = "stream",
        /// Tasks with dependencies.
        Flow = "flow",
        /// When somebody submits it.
        Submitted = "submitted",
    }
}

words! {
    /// What a list of jobs can be narrowed to.
    JobCondition {
        /// Neither paused nor disabled, and it does not observe.
        Enabled = "enabled",
        /// Somebody paused it.
        Paused = "paused",
        /// Its definition says `enabled = false`.
        Disabled = "disabled",
        /// Its definition says `observe = true`.
        Observing = "observing",
        /// Its last run failed.
        Failing = "failing",
        /// A run of it is under way.
        Running = "running",
        /// Its instant passed more than ten seconds ago.
        Overdue = "overdue",
    }
}

words! {
    /// What a list of jobs is sorted by; jobs that are alike in it, by their names.
    #[derive(Default)]
    JobOrder {
        /// By the names alone.
        #[default]
        Name = "name",
        /// The most failures in a row first.
        Failures = "failures",
        /// The soonest first.
        Next = "next",
        /// The latest first.
        LastEnd = "last_end",
    }
}

/// Which jobs; None means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsFilter {
    pub name: Option<String>,
    pub state: Option<JobCondition>,
    pub kind: Option<JobKind>,
    /// Jobs whose `where` asks for this label with this value.
    pub label: Option<(String, String)>,
    pub order: JobOrder,
}

/// An ended run as a mark in a strip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutcomeMark {
    /// The run's number.
    pub run_id: i64,
    /// How it ended.
    pub state: RunState,
    /// The instant that it is for.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub due_at: Timestamp,
    /// When its command was started; none when it never was.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub finished_at: Timestamp,
    /// Neighbours that were folded into one record.
    pub count: i64,
}

/// A run that is due or running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveMark {
    /// The run's number.
    pub run_id: i64,
    /// Due or running.
    pub state: RunState,
    /// The node that holds it; none while it is due.
    pub node: Option<String>,
    /// From when on it may be claimed.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub ready_at: Timestamp,
    /// When its command was started; none when it never was.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub started_at: Option<Timestamp>,
}

// What has a default here is read from its definition.
/// A job in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobItem {
    /// The job's name.
    pub job_id: String,
    /// The newest revision.
    pub rev: i64,
    /// Whether it is enabled, observing, paused or disabled.
    pub state: JobState,
    /// How it does, in one word.
    #[serde(default)]
    #[schema(required = true)]
    pub health: JobHealth,
    /// What starts it.
    pub kind: JobKind,
    /// Expressions as they were written.
    #[serde(default)]
    #[schema(required = true)]
    pub schedule: Vec<String>,
    /// The same in words, with the zone; of a job without one, what starts it.
    #[serde(default)]
    #[schema(required = true)]
    pub schedule_text: String,
    /// The zone of its schedule.
    #[serde(default)]
    #[schema(required = true)]
    pub timezone: String,
    /// The jobs after whose ends it runs.
    #[serde(default)]
    #[schema(required = true)]
    pub triggered_by: Vec<String>,
    /// After whose ends it runs, in words.
    pub trigger_text: Option<String>,
    /// Runs of one firing.
    pub instances: i32,
    /// Whether a firing has a run for each node that fits.
    pub each_node: bool,
    /// Labels a node must have, each with this value or one of these.
    #[serde(rename = "where", default)]
    #[schema(value_type = BTreeMap<String, Value>, required = true)]
    pub placement: Placement,
    /// The next due instant; none without a schedule.
    pub next_run: Option<Timestamp>,
    /// Its instant passed more than ten seconds ago.
    pub overdue: bool,
    /// Who paused it; none when it is not paused.
    pub paused_by: Option<String>,
    /// When it was paused.
    pub paused_at: Option<Timestamp>,
    /// Why it was paused, as far as they said.
    pub pause_reason: Option<String>,
    /// When a run of it was last started.
    pub last_run_started: Option<Timestamp>,
    /// When a run of it last ended.
    pub last_finished: Option<Timestamp>,
    /// How that run ended.
    pub last_state: Option<RunState>,
    /// When a run of it last succeeded.
    pub last_success: Option<Timestamp>,
    /// How often in a row it failed.
    pub consecutive_failures: i32,
    /// The last 30, the newest first.
    pub outcomes: Vec<OutcomeMark>,
    /// What runs, the one that was claimed last first; after it what is due, the oldest first. At most 20.
    pub live: Vec<LiveMark>,
    /// When its definition was applied.
    pub applied_at: Timestamp,
    /// Who applied it.
    pub applied_by: String,
    /// Where its definition came from: a file's name, or whatever applied it.
    pub source: String,
    /// What its definition says for people.
    pub description: Option<String>,
    /// Who is responsible for it, as its definition says.
    pub owner: Option<String>,
    /// What its definition tags it with.
    #[serde(default)]
    #[schema(required = true)]
    pub tags: Vec<String>,
    /// Where its definition says what to do when it fails.
    pub runbook: Option<String>,
}

impl JobItem {
    /// The node that claimed a run of it last and still holds it, as in the view `job_status`.
    pub fn running_at(&self) -> Option<&str> {
        self.live.first()?.node.as_deref()
    }
}

#[derive(Deserialize)]
pub(super) struct Row {
    waiting: bool,
    spec: Value,
    /// Its place in the order that was asked for.
    rank: i64,
    #[serde(flatten)]
    item: JobItem,
}

/// A page of jobs in the order of the filter. The order is of all jobs, so the page after begins where this one ends; a job
/// whose place in it changes meanwhile may be left out or come twice.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn jobs(db: &Db, filter: &JobsFilter, paging: &Paging) -> Result<Page<JobItem>, StoreError> {
    let list = format!("jobs by {}", filter.order);
    let after: Option<(i64, String)> = paging.after(&list)?;
    let limit = paging.rows();
    let rows = read(db, None, filter, after.as_ref(), limit + 1).await?;
    let page = Page::cut(rows, limit, |row: &Row| {
        cursor(&list, &(row.rank, &row.item.job_id))
    });
    Ok(Page {
        items: page.items.into_iter().map(item).collect(),
        next: page.next,
    })
}

pub(super) async fn read(
    db: &Db,
    only: Option<&str>,
    filter: &JobsFilter,
    after: Option<&(i64, String)>,
    limit: i64,
) -> Result<Vec<Row>, StoreError> {
    let (rank, name) = after.map(|(rank, name)| (*rank, name.as_str())).unzip();
    let order = filter.order.as_str();
    let kind = filter.kind.map(JobKind::as_str);
    let state = filter.state.map(JobCondition::as_str);
    let label = filter.label.as_ref().map(wanted_label);
    db.rows(
        stmt!("reading_jobs"),
        &[
            (&only, Type::TEXT),
            (&filter.name, Type::TEXT),
            (&state, Type::TEXT),
            (&kind, Type::TEXT),
            (&label, Type::JSONB),
            (&name, Type::TEXT),
            (&limit, Type::INT8),
            (&order, Type::TEXT),
            (&rank, Type::INT8),
        ],
    )
    .await
}

pub(super) fn item(row: Row) -> JobItem {
    let item = row.item;
    let health = JobHealth::of(&JobFacts {
        state: item.state,
        overdue: item.overdue,
        failures: item.consecutive_failures,
        waiting: row.waiting,
        running: (item.live.iter()).any(|l| l.state == RunState::Running),
    });
    // What only a newer version understands is shown without words.
    let after = trigger_text(&row.spec);
    let spec: JobSpec = serde_json::from_value(row.spec).unwrap_or_default();
    JobItem {
        health,
        schedule_text: in_words(&item.job_id, &spec, item.kind, after.clone()),
        trigger_text: after,
        schedule: spec.schedule,
        timezone: spec.timezone,
        triggered_by: spec.triggered_by,
        placement: spec.placement,
        description: spec.description,
        owner: spec.owner,
        tags: spec.tags,
        runbook: spec.runbook,
        ..item
    }
}

/// When it runs, for people.
fn in_words(job_id: &str, spec: &JobSpec, kind: JobKind, after: Option<String>) -> String {
    let mut texts = Vec::new();
    if !spec.schedule.is_empty() {
        texts.push(match due::compile(job_id, spec) {
            Ok((schedule, _)) => schedule.describe(),
            Err(_) => spec.schedule.join("; "),
        });
    }
    texts.extend(after);
    match kind {
        JobKind::Table => texts.push("for rows of its table".to_owned()),
        JobKind::Submitted if texts.is_empty() => texts.push("when somebody submits it".to_owned()),
        _ => {}
    }
    texts.join("; ")
}
