//! When attempts began, as people are shown it while they run.

use std::collections::HashMap;

use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{self, Started};

use super::Reporter;

impl Reporter {
    /// For people only: a failure costs a time in a table.
    pub(super) async fn show_starts(&mut self) {
        let mut by_session: HashMap<LeaseIdentity, Vec<Started>> = HashMap::new();
        for (id, (me, fence, started_at)) in self.starts.drain() {
            let started = Started {
                run_id: id.run_id,
                attempt: id.attempt,
                fence,
                started_at,
            };
            by_session.entry(me).or_default().push(started);
        }
        for (me, starts) in by_session {
            match protocol::started(&self.db, &me, &starts).await {
                Ok(begun) if begun.iter().any(|b| b.of_row) => self.row_bell.ring(),
                Ok(_) => {}
                Err(e) => tracing::debug!("starts not shown: {e}"),
            }
        }
    }
}
