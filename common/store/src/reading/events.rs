//! Events by filter, the newest first.

use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use super::page::{Page, Paging, cursor};
use crate::Severity;
use crate::conn::Param;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use crate::events::Recorded;

/// Rows that one page of a filter looks at, at most.
const SCANNED: i64 = 10_000;

/// Which events; None and empty mean any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsFilter {
    pub job: Option<String>,
    pub run: Option<i64>,
    /// The address of the node that recorded it, or that it is about.
    pub node: Option<String>,
    pub kinds: Vec<String>,
    /// This one or worse.
    pub severity: Option<Severity>,
    /// Stored at this instant or later.
    pub since: Option<Timestamp>,
    /// Stored before this instant.
    pub until: Option<Timestamp>,
}

impl EventsFilter {
    fn severities(&self) -> Vec<&'static str> {
        (Severity::ALL.iter())
            .filter(|s| self.severity.is_none_or(|least| **s >= least))
            .map(|s| s.as_str())
            .collect()
    }

    /// What both statements ask for first, and then `rest`.
    fn with<'a>(&'a self, severities: &'a Vec<&'static str>, rest: &[Param<'a>]) -> Vec<Param<'a>> {
        let mut all: Vec<Param<'a>> = vec![
            (&self.job, Type::TEXT),
            (&self.run, Type::INT8),
            (&self.node, Type::TEXT),
            (&self.kinds, Type::TEXT_ARRAY),
            (severities, Type::TEXT_ARRAY),
            (&self.since, Type::TIMESTAMPTZ),
            (&self.until, Type::TIMESTAMPTZ),
        ];
        all.extend_from_slice(rest);
        all
    }
}

#[derive(Deserialize)]
struct Row {
    items: Vec<Recorded>,
    scanned: i64,
    floor: Option<i64>,
}

/// A page of events, the newest first.
/// Errors: The database's; `Refused` for a cursor of something else.
pub async fn events(db: &Db, filter: &EventsFilter, paging: &Paging) -> Result<Page<Recorded>, StoreError> {
    let limit = paging.rows();
    let before: Option<i64> = paging.after("events")?;
    let severities = filter.severities();
    let looks_through = filter.job.is_some()
        || filter.node.is_some()
        || !filter.kinds.is_empty()
        || filter.severity.is_some();
    let scan = if looks_through { SCANNED } else { limit + 1 };
    let found: Option<Row> = db
        .row(
            stmt!("reading_events"),
            &filter.with(
                &severities,
                &[
                    (&before, Type::INT8),
                    (&(limit + 1), Type::INT8),
                    (&scan, Type::INT8),
                ],
            ),
        )
        .await?;
    let Some(found) = found else {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    };
    let mut page = Page::cut(found.items, limit, |event| cursor("events", &event.event_id));
    if page.next.is_none() && looks_through && found.scanned >= scan {
        page.next = found.floor.map(|floor| cursor("events", &floor));
    }
    Ok(page)
}

/// Up to `limit` events after `after` but those `known`, the oldest first: for following along.
pub async fn events_after(
    db: &Db,
    filter: &EventsFilter,
    after: i64,
    known: &[i64],
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    let severities = filter.severities();
    let own = [
        (&after as _, Type::INT8),
        (&limit as _, Type::INT8),
        (&known as _, Type::INT8_ARRAY),
    ];
    db.rows(stmt!("events_after"), &filter.with(&severities, &own))
        .await
}
