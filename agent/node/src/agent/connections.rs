//! An agent's connections: by what they are for, so that nothing slow is in the way of what must be quick.

use std::time::Duration;

use farmhand_core::lease::LeaseTiming;
use farmhand_store::{Db, DbConfig, Note};
use tokio::sync::mpsc;

use crate::config::AgentConfig;
use crate::session::AT_ONCE;
use farmhand_telemetry::events::Events;

/// Connections for everything but renewals, at the most; one at rest.
const POOL: usize = 4;

pub(super) struct Connections {
    pub db: Db,
    pub lease_db: Db,
    pub notes: mpsc::Receiver<Note>,
    /// Telling people is never in the way of anything else.
    pub notify_db: Db,
    /// Users' tables and their triggers may be slow: they must not take the protocol's connections.
    pub tables_db: Db,
    /// Reads what is to be written into users' rows.
    pub row_notes_db: Db,
    /// Writes it. Not observed: what a user's trigger raises is no failure of the database.
    pub rows_db: Db,
}

impl Connections {
    /// `rows` is the login for users' tables; without one it is the agent's own.
    pub(super) fn new(
        config: &AgentConfig,
        database: DbConfig,
        rows: Option<DbConfig>,
        timing: LeaseTiming,
        events: &Events,
    ) -> Self {
        let db_config = database
            .with_application_name(&format!("farmhand {}", config.address))
            .with_max_pool(POOL)
            .with_listen(config.notify);
        if db_config.is_exposed() {
            tracing::warn!(
                database = db_config.target(),
                "the database is reached without TLS: whoever is in between can read and change what this agent does"
            );
        }
        let one = |of: &DbConfig| Db::new(&of.clone().with_max_pool(1));
        // Another name: a node is bound to the login of the connections that have the node's.
        let rows = rows.map(|rows| rows.with_application_name(&format!("farmhand rows {}", config.address)));
        let (row_notes_db, rows_db) = match &rows {
            Some(rows) => (one(&db_config), one(rows)),
            None => {
                let both = one(&db_config);
                (both.clone(), both)
            }
        };
        let tables = rows.as_ref().unwrap_or(&db_config).clone();
        // A renewal that takes longer than this is tried again on a new connection while the lease still lives.
        let bound = timing.renew_every().min(Duration::from_secs(5));
        let (lease_db, notes) = Db::dedicated(&db_config.clone().with_timeouts(bound, bound));
        let observer = || events.statement_observer();
        Self {
            db: Db::new(&db_config).observed_by(observer()),
            lease_db: lease_db.observed_by(observer()),
            notes,
            notify_db: one(&db_config).observed_by(observer()),
            tables_db: Db::new(&tables.with_max_pool(AT_ONCE)).observed_by(observer()),
            row_notes_db,
            rows_db,
        }
    }
}
