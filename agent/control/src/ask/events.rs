//! What happened: takeovers, fences, skips, and who did what.

use farmhand_store::event::EventKind;
use farmhand_store::events::Recorded;
use farmhand_store::reading::{self, EventsFilter, Page};
use farmhand_store::{Db, Severity};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Question;
use super::parts::{filled, paging, words};
use crate::Refusal;

/// Events, the newest first
#[derive(Default, Deserialize, ToSchema)]
pub struct Events {
    pub job: Option<String>,
    pub run: Option<i64>,
    /// The address of the node that recorded it.
    pub node: Option<String>,
    /// Kinds with commas between them.
    #[serde(default, deserialize_with = "words")]
    pub kind: Vec<EventKind>,
    /// This one or worse.
    pub severity: Option<Severity>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Events {
    const PATH: &'static str = "/api/v1/events";
    type Answer = Page<Recorded>;

    async fn answer(&self, db: &Db) -> Result<Page<Recorded>, Refusal> {
        let filter = EventsFilter {
            job: filled(self.job.as_ref()),
            run: self.run,
            node: filled(self.node.as_ref()),
            kinds: self.kind.iter().map(ToString::to_string).collect(),
            severity: self.severity,
            since: self.since,
            until: self.until,
        };
        let paging = paging(self.cursor.as_ref(), self.limit)?;
        Ok(reading::events(db, &filter, &paging).await?)
    }
}
