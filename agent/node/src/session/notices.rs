//! What the warden says by themselves: ends, deaths, starts of their own.

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
            WardenInput::Event(WardenEvent::Superseded { .. }) => {
                self.emit(Event::Superseded);
                return Some(SessionEnd::Superseded);
            }
            WardenInput::Event(WardenEvent::Exited(report)) => self.on_exited(*report),
            WardenInput::Event(WardenEvent::Unkillable { id, .. }) => {
                self.emit(Event::Unkillable {
                    run_id: id.run_id,
                    attempt: id.attempt,
                });
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    attempt.unkillable = true;
                }
                self.show_slots();
            }
            WardenInput::Event(WardenEvent::Progress { id, checkpoint, .. }) => {
                self.on_progress(id, checkpoint);
            }
            WardenInput::Event(WardenEvent::ChildKilled { id, kill }) => {
                self.on_children_killed(id, &[kill]);
            }
            WardenInput::Told(confirmed) => {
                self.warden.answered(confirmed);
                self.lease.confirmed();
            }
            WardenInput::Untold(id) => self.tell_end_again(id),
            WardenInput::Disconnected => self.warden.disconnected(),
            WardenInput::Dead(gone) => {
                self.note_gone(&gone);
                let lapsed = self.lease.lapsed(boot_now());
                let why = if lapsed { LostWhy::Lease } else { LostWhy::Warden };
                // What the kernel cannot end, or could not be looked for, stays held: an alert, and no second attempt.
                let lost = match &gone {
                    Ok(Gone::Empty { .. }) => self.lose_all(why),
                    Ok(Gone::Unkillable { pids }) => {
                        self.lose_when_dead(pids.clone(), why);
                        0
                    }
                    Err(_) => {
                        self.hold_all();
                        0
                    }
                };
                // Of a warden that died by itself, the end of each attempt says so.
                if lapsed {
                    self.ended_by_lease += lost;
                    self.tell_lapse();
                }
                let deadlines = self.lease.deadlines();
                self.warden.dead(deadlines);
                self.show_slots();
            }
            WardenInput::Emptied(ids, why) => {
                self.lose_these(&ids, why);
                self.show_slots();
            }
            WardenInput::Started(Ok((client, notices))) => {
                let deadlines = self.lease.deadlines();
                self.warden.insert(client, notices, deadlines);
            }
            WardenInput::Started(Err(e)) => {
                tracing::error!("the warden did not start: {e}");
                for id in self.warden.start_failed() {
                    self.start_refused(id, format!("the warden did not start: {e}"));
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
