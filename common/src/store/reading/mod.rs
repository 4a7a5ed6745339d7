//! What the API and its pages read: on connections of their own, and never for long.

use std::time::Duration;

use super::{Db, DbConfig};

/// The server ends a statement that reads for longer.
pub const LIMIT: Duration = Duration::from_secs(2);
/// Connections at most.
const CONNECTIONS: usize = 3;

/// The reading pool: opened when first used, its transactions read only, so that looking never slows claiming.
#[derive(Clone)]
pub struct Reading(Db);

impl Reading {
    /// Reads from the database of `config`; connects when first asked.
    pub fn new(config: &DbConfig) -> Self {
        let config = config
            .clone()
            .with_application_name("farmhand-web")
            .with_max_pool(CONNECTIONS)
            .with_listen(false)
            // The client's bound is only for a server that does not keep its own.
            .with_timeouts(LIMIT + Duration::from_secs(1), Duration::from_secs(2))
            .with_read_only(LIMIT);
        Self(Db::new(&config))
    }

    /// For the functions of the store that read.
    pub fn db(&self) -> &Db {
        &self.0
    }

    /// The same, telling `observer` of every statement.
    #[must_use]
    pub fn observed_by(self, observer: super::Observer) -> Self {
        Self(self.0.observed_by(observer))
    }
}
