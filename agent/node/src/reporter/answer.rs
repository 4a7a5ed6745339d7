//! What the session hears of ends that are written down.

use std::path::PathBuf;

use super::report::Ended;
use crate::discard::discard;
use crate::inbox::{Input, SessionHandle, Settled};
use crate::runlog::RunLog;
use farmhand_telemetry::events::Events;
use farmhand_warden_client::wire::AttemptId;

/// Ends that are written down, and what became of each.
pub(super) struct Answer {
    pub ended: Vec<Ended>,
    pub settled: Vec<Settled>,
    pub run_log: RunLog,
    pub session_handle: SessionHandle,
    pub state_dir: PathBuf,
    pub events: Events,
}

impl Answer {
    /// Tells the session, which lets the warden remove the attempts' files.
    pub(super) async fn give(self) {
        let ids: Vec<AttemptId> = self.ended.iter().map(|e| e.assignment.id()).collect();
        self.run_log.end(ids).await;
        let of = |(e, settled): (&Ended, Settled)| (e.assignment.id(), settled);
        let answers = self.ended.iter().zip(self.settled).map(of).collect();
        let taken = self.session_handle.send(Input::Settled(answers)).await;
        for e in &self.ended {
            // A living warden removes the directory when the end is acknowledged.
            if e.result.is_none() || !taken {
                discard(&self.state_dir, e.assignment.id(), &self.events).await;
            }
        }
    }
}
