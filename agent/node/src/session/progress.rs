//! What running attempts report, and what the warden did to their children.

use farmhand_store::progress::Progress;

use super::Session;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, AttemptReport, ChildKill};

impl Session {
    pub(super) fn on_progress(&mut self, id: AttemptId, checkpoint: Option<String>) {
        let living = self.attempts.get(&id).filter(|a| a.phase.may_live());
        let Some(attempt) = living else { return };
        self.ctx.checkpoints.note(Progress {
            run_id: id.run_id,
            attempt: id.attempt,
            fence: attempt.assignment.fence,
            address: self.me.address.clone(),
            session: attempt.assignment.session,
            checkpoint,
        });
    }

    /// The agent before this one may not have stored it.
    pub(super) fn on_adopted_progress(&mut self, report: &AttemptReport) {
        if report.checkpoint.is_some() {
            self.on_progress(report.id, report.checkpoint.clone());
        }
    }

    pub(super) fn on_children_killed(&mut self, id: AttemptId, kills: &[ChildKill]) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return;
        };
        let about = attempt.assignment.about();
        let fresh: Vec<&ChildKill> = (kills.iter())
            .filter(|kill| kill.number > attempt.kills_heard)
            .collect();
        let Some(newest) = fresh.iter().map(|kill| kill.number).max() else {
            return;
        };
        attempt.kills_heard = newest;
        for kill in fresh {
            self.emit(Event::ChildKilled {
                attempt: about.clone(),
                name: kill.name.clone(),
                pid: kill.pid,
                what: kill.to_string(),
            });
        }
        self.warden.heard(id, newest);
    }
}
