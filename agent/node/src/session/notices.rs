//! What the wardens say by themselves: ends, deaths, starts of their own.

use farmhand_store::protocol::LostWhy;

use super::{Session, SessionEnd};
use crate::inbox::WardenInput;
use farmhand_os::clock::boot_now;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::Gone;
use farmhand_warden_client::wire::Event as WardenEvent;

impl Session {
    pub(super) async fn on_warden(&mut self, input: WardenInput) -> Option<SessionEnd> {
        match input {
            WardenInput::Event(_, WardenEvent::Superseded { .. }) => {
                self.emit(Event::Superseded);
                return Some(SessionEnd::Superseded);
            }
            WardenInput::Event(kind, WardenEvent::Exited(report)) => self.on_exited(kind, *report),
            WardenInput::Event(_, WardenEvent::Unkillable { id, .. }) => {
                self.emit(Event::Unkillable {
                    run_id: id.run_id,
                    attempt: id.attempt,
                });
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    attempt.unkillable = true;
                }
                self.show_slots();
            }
            WardenInput::Event(_, WardenEvent::Progress { id, checkpoint, .. }) => {
                self.on_progress(id, checkpoint);
            }
            WardenInput::Event(kind, WardenEvent::ChildKilled { id, kill }) => {
                self.on_children_killed(kind, id, &[kill]);
            }
            WardenInput::Told(kind, confirmed) => {
                self.wardens.answered(kind, confirmed);
                self.lease.confirmed();
            }
            WardenInput::Untold(id) => self.tell_end_again(id),
            WardenInput::Disconnected(kind) => self.wardens.disconnected(kind),
            WardenInput::Dead(kind, gone) => {
                self.note_gone(kind, &gone);
                let lapsed = self.lease.lapsed(boot_now());
                let why = if lapsed { LostWhy::Lease } else { LostWhy::Warden };
                // What the kernel cannot end, or could not be looked for, stays held: an alert, and no second attempt.
                let lost = match &gone {
                    Ok(Gone::Empty { .. }) => self.lose_all_of(kind, why),
                    Ok(Gone::Unkillable { pids }) => {
                        self.lose_when_dead(kind, pids.clone(), why);
                        0
                    }
                    Err(_) => {
                        self.hold_all_of(kind);
                        0
                    }
                };
                // Of a warden that died by itself, the end of each attempt says so.
                if lapsed {
                    self.ended_by_lease += lost;
                    self.tell_lapse();
                }
                let deadlines = self.lease.deadlines(kind.hold());
                self.wardens.dead(kind, deadlines);
                self.show_slots();
            }
            WardenInput::Emptied(ids, why) => {
                self.lose_these(&ids, why);
                self.show_slots();
            }
            WardenInput::Started(kind, Ok((client, notices))) => {
                let deadlines = self.lease.deadlines(kind.hold());
                self.wardens.insert(kind, client, notices, deadlines);
            }
            WardenInput::Started(kind, Err(e)) => {
                tracing::error!("the {} warden did not start: {e}", kind.name());
                for id in self.wardens.start_failed(kind) {
                    self.start_refused(id, format!("the {} warden did not start: {e}", kind.name()));
                }
            }
        }
        None
    }

    /// One event for all that the lease's end ended, by whomever it was ended.
    pub(super) fn tell_lapse(&mut self) {
        let attempts = std::mem::take(&mut self.ended_by_lease);
        self.emit(Event::LeaseLapsed {
            session: self.me.session,
            attempts,
        });
    }
}
