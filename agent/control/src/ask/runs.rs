//! Runs: lists, one of them, its tasks when it is a flow.

use farmhand_core::run::RunState;
use farmhand_store::reading::{self, FlowView, MOST, Page, RunDetail, RunFilter, RunItem, RunRow};
use farmhand_store::streams::{self, ItemRow, Wanted};
use farmhand_store::{Db, RunKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Question;
use super::parts::{filled, paging, pair, within, words};
use crate::Refusal;
use crate::runs::no_run;

/// Runs, the newest first
#[derive(Default, Deserialize, ToSchema)]
pub struct Runs {
    pub job: Option<String>,
    /// States with commas between them.
    #[serde(default, deserialize_with = "words")]
    pub state: Vec<RunState>,
    /// The address that holds it, or held it last.
    pub node: Option<String>,
    pub kind: Option<RunKind>,
    /// Ended at this instant or later; with `since` or `until` the list is of ended runs, the latest end first.
    pub since: Option<Timestamp>,
    /// Ended before this instant.
    pub until: Option<Timestamp>,
    /// The runs for the row with this key, of the table job that `job` names.
    pub key: Option<String>,
    /// A label that the `where` of its job asks for, as the job is defined now: `key=value`.
    pub label: Option<String>,
    /// A parameter's value, as text: `name=value`. A run that was not given it has the default of its definition.
    pub param: Option<String>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Runs {
    const PATH: &'static str = "/api/v1/runs";
    type Answer = Page<RunItem>;

    async fn answer(&self, db: &Db) -> Result<Page<RunItem>, Refusal> {
        let filter = RunFilter {
            job: filled(self.job.as_ref()),
            states: self.state.clone(),
            node: filled(self.node.as_ref()),
            kind: self.kind,
            since: self.since,
            until: self.until,
            key: filled(self.key.as_ref()),
            label: pair("label", self.label.as_deref())?,
            param: pair("param", self.param.as_deref())?,
        };
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::runs(db, &filter, &paging).await?)
    }
}

/// A run with its attempts, progress and output
#[derive(Deserialize, ToSchema)]
pub struct Run {
    /// Its number
    pub run: i64,
}

impl Question for Run {
    const PATH: &'static str = "/api/v1/runs/{run}";
    type Answer = RunDetail;

    async fn answer(&self, db: &Db) -> Result<RunDetail, Refusal> {
        (reading::run(db, self.run).await?).ok_or_else(|| no_run(self.run))
    }
}

/// A run alone: how far it has come, for who waits for its end
#[derive(Deserialize, ToSchema)]
pub struct Row {
    /// Its number
    pub run: i64,
}

impl Question for Row {
    const PATH: &'static str = "/api/v1/runs/{run}/row";
    type Answer = RunRow;

    async fn answer(&self, db: &Db) -> Result<RunRow, Refusal> {
        (reading::run_row(db, self.run).await?).ok_or_else(|| no_run(self.run))
    }
}

/// Lines of a stream that were given up, by their numbers
#[derive(Deserialize, ToSchema)]
pub struct Items {
    /// The run's number
    pub run: i64,
    /// Only these lines: numbers with commas between them.
    #[serde(default, deserialize_with = "words")]
    pub item: Vec<i64>,
    /// Only those that failed: not those that a replay has done, nor those that wait for it.
    #[serde(default)]
    pub failed: bool,
    /// `next` of the page before.
    pub cursor: Option<i64>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

/// A line of a stream.
#[derive(Serialize, ToSchema)]
pub struct Item {
    /// Its line and its output as text.
    #[serde(flatten)]
    pub row: ItemRow,
    /// Its output in hex, where that is no text.
    pub hex: Option<String>,
}

impl From<ItemRow> for Item {
    fn from(mut row: ItemRow) -> Self {
        let bytes = |digits: &str| hex::decode(digits).unwrap_or_default();
        row.line = String::from_utf8_lossy(&bytes(&row.line)).into_owned();
        let output = row.output.take().map(|digits| (bytes(&digits), digits));
        let mut hex = None;
        row.output = output.map(|(bytes, digits)| {
            String::from_utf8(bytes).unwrap_or_else(|error| {
                hex = Some(digits);
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            })
        });
        Self { row, hex }
    }
}

impl Question for Items {
    const PATH: &'static str = "/api/v1/runs/{run}/items";
    type Answer = Page<Item>;

    async fn answer(&self, db: &Db) -> Result<Page<Item>, Refusal> {
        let limit = within("limit", self.limit, 1, MOST)?.unwrap_or(50);
        let wanted = Wanted {
            run_id: self.run,
            after: self.cursor.unwrap_or(0),
            only: Some(self.item.as_slice()).filter(|only| !only.is_empty()),
            failed: self.failed,
            limit,
        };
        let items = streams::items(db, &wanted).await?;
        if items.is_empty() && reading::run_row(db, self.run).await?.is_none() {
            return Err(no_run(self.run));
        }
        let full = i64::try_from(items.len()) == Ok(limit);
        let next = items.last().filter(|_| full).map(|last| last.item.to_string());
        let items = items.into_iter().map(Item::from).collect();
        Ok(Page { items, next })
    }
}

/// The tasks of a run that is a flow, with times, dependencies and the critical path
#[derive(Deserialize, ToSchema)]
pub struct Flow {
    /// Its number
    pub run: i64,
}

impl Question for Flow {
    const PATH: &'static str = "/api/v1/runs/{run}/flow";
    type Answer = FlowView;

    async fn answer(&self, db: &Db) -> Result<FlowView, Refusal> {
        (reading::flow(db, self.run).await?)
            .ok_or_else(|| Refusal::not_found(format!("there is no run {}, or it is no flow", self.run)))
    }
}
