//! What the warden of an earlier agent run is taken over.

use std::time::Duration;

use farmhand_core::lease::BootInstant;
use jiff::Timestamp;

use super::{Attempt, Phase, Session};
use crate::reporter::Report;
use farmhand_warden_client::request::Assignment;
use farmhand_warden_client::wire::{AttemptReport, KillReason, State};

impl Session {
    /// Takes over what a warden of an earlier agent runs.
    pub(super) fn adopt(&mut self, reports: Vec<AttemptReport>, since: BootInstant) {
        for report in reports {
            let Ok(assignment) = serde_json::from_value::<Assignment>(report.extra.clone()) else {
                // From a version whose notes cannot be read: it ran, so it is lost once it has ended.
                self.left_behind.insert(report.id);
                if report.state == State::Ended {
                    self.warden.ack(report.id);
                    continue;
                }
                self.warden.kill(report.id, Duration::ZERO, KillReason::Fenced);
                continue;
            };
            let kept = assignment.slot;
            let kept = kept.filter(|slot| *slot > self.slots || self.free_slots.remove(slot));
            let slot = kept.unwrap_or_else(|| self.take_slot());
            let _ = self.ctx.reports.send(Report::follow(&assignment, false));
            self.attempts.insert(
                report.id,
                Attempt {
                    slot: Some(slot),
                    since,
                    unkillable: report.unkillable,
                    ..Attempt::new(assignment, Phase::Running)
                },
            );
            self.on_adopted_progress(&report);
            if report.state == State::Ended {
                self.on_exited(report);
            } else {
                self.on_adopted_start(&report);
            }
        }
        self.show_slots();
    }

    /// The agent before this one may have ended before it had written the start down.
    fn on_adopted_start(&self, report: &AttemptReport) {
        if let Ok(at) = Timestamp::from_millisecond(report.started_wall_ms) {
            let _ = self.ctx.reports.send(Report::Started {
                me: self.me.clone(),
                attempt: report.id.fenced(report.fence),
                at,
            });
        }
    }
}
