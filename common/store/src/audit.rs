//! Who did what, when, from where: rows that are only ever added.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;
use super::reading::EventsFilter;

/// One action, or one refusal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Grows with each entry.
    pub audit_id: i64,
    /// By the database's clock.
    pub at: Timestamp,
    /// The login of the database that wrote it.
    pub login: String,
    /// From which address that login was connected; none for a local socket.
    pub client: Option<String>,
    /// Who: a token's name and the address that it was shown from, or the user of a command.
    pub actor: String,
    /// What was done, as a word; `refused` for what was not.
    pub action: String,
    /// The node that it is about, if it is about one.
    pub address: Option<String>,
    /// The job that it is about, if it is about one.
    pub job_id: Option<String>,
    /// The run that it is about, if it is about one.
    pub run_id: Option<i64>,
    /// Why it was not done.
    pub refused: Option<String>,
    /// The command that does the same, or what was asked for.
    pub what: String,
    /// What else is known of it; its keys depend on the action.
    pub detail: Value,
}

/// The newest `limit` entries, newest first; `before` continues a page. Entries have no severity.
pub async fn audit(
    db: &Db,
    f: &EventsFilter,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Entry>, StoreError> {
    let before = before.unwrap_or(i64::MAX);
    db.rows(
        stmt!("audit"),
        &[
            (&f.job, Type::TEXT),
            (&f.run, Type::INT8),
            (&f.node, Type::TEXT),
            (&f.kinds, Type::TEXT_ARRAY),
            (&f.since, Type::TIMESTAMPTZ),
            (&before, Type::INT8),
            (&limit, Type::INT8),
            (&f.until, Type::TIMESTAMPTZ),
        ],
    )
    .await
}

/// Deletes what is older than `days`, 91 at the least.
pub(crate) async fn forget(db: &Db, days: i32) -> Result<(), StoreError> {
    db.raw(stmt!("forget_audit"), &[(&days, Type::INT4)])
        .await
        .map(drop)
}
