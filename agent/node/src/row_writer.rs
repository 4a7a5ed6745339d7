//! The task that has notes about runs written into the rows of users' tables, on a connection of its own, opened when there is
//! something to write. Nothing ever waits for it.

use std::sync::Arc;
use std::time::Duration;

use farmhand_store::Db;
use farmhand_store::row_writer::RowWriter;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Notes that are ready while another agent is at their job are looked at again after this.
const AT_LEAST: Duration = Duration::from_millis(250);
/// While the database is away.
const AWAY: Duration = Duration::from_secs(5);

/// Rung by whoever knows that there is something to write.
#[derive(Clone, Default)]
pub(crate) struct RowBell(Arc<Notify>);

impl RowBell {
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }
}

/// Runs until it is aborted: what is not written by then is written by others. `rows` writes, `db` reads what is to be written.
pub(crate) fn start(bell: RowBell, db: Db, rows: Db) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut writer = RowWriter::default();
        let mut wait = None;
        loop {
            tokio::select! {
                () = bell.0.notified() => {}
                () = sleep(wait) => {}
            }
            wait = writer.run_once(&db, &rows).await.unwrap_or_else(|e| {
                tracing::debug!("rows are not written: {e}");
                Some(AWAY)
            });
        }
    })
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait.max(AT_LEAST)).await,
        None => std::future::pending().await,
    }
}
