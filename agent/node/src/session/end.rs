//! The end of a session: closed, handed over, or lost, when everything here ends before anything else is done. All that a session waits
//! for stands here.

use std::path::Path;
use std::time::Duration;

use farmhand_os::clock::{self, boot_now};
use farmhand_store::protocol::{self, Closed};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::WardenClient;
use farmhand_warden_client::wire::{AttemptId, Event as WardenEvent, KillReason, Serving};

use super::attempts::SUPERSEDED_EVERY;
use super::turn::{Next, Session, SessionEnd};
use crate::discard::discard;
use crate::inbox::{Input, WardenInput};
use crate::reporter::Report;
use crate::systemd;

/// A warden that lives answers within milliseconds, and the connection of one that is dead is closed; a stopped one does neither.
const HEARD_OUT_WITHIN: Duration = Duration::from_millis(300);

impl Session {
    /// The end of the session, if it comes to that.
    pub(super) async fn awaited(&mut self, next: Next) -> Option<SessionEnd> {
        match next {
            Next::Go => None,
            Next::Lost => {
                self.io.emit(Event::SessionLost {
                    session: self.io.me.session,
                });
                Some(self.abandon("the session was expired").await)
            }
            Next::Superseded => Some(SessionEnd::Superseded),
            Next::Shared { .. } if self.obeys_us().await => {
                self.io.emit(Event::SessionShared {
                    session: self.io.me.session,
                });
                // Which one is the copy, nobody can tell: each ends what it runs and leaves the session to lapse.
                Some(self.abandon("a copy of this machine has the session, too").await)
            }
            Next::Shared { database, renewals } => {
                self.compared(&database, renewals);
                None
            }
            Next::HandOver if !systemd::machine_goes_down().await => Some(SessionEnd::HandedOver),
            Next::HandOver => {
                self.drain_by_stop_timeout(boot_now());
                None
            }
            Next::Close => {
                systemd::while_waiting("closing the session", self.close()).await;
                Some(SessionEnd::Closed)
            }
        }
    }

    /// False when the warden obeys a newer agent of this machine.
    async fn obeys_us(&self) -> bool {
        let Some(client) = self.attempts.warden.connection() else {
            return true;
        };
        let obeyed = tokio::time::timeout(HEARD_OUT_WITHIN, client.list()).await;
        obeyed.is_ok_and(|answer| answer.is_ok())
    }

    /// Ends everything, and says so; stops where a newer agent has started a warden of its own.
    async fn abandon(&mut self, why: &'static str) -> SessionEnd {
        let (ctx, serving) = (self.io.ctx.clone(), self.serving());
        let settled = self.hear_out().await;
        self.attempts.tell_fences(&self.io, why);
        let gone = {
            let mut ending = std::pin::pin!(self.attempts.end_warden());
            loop {
                tokio::select! {
                    gone = &mut ending => break gone,
                    () = tokio::time::sleep(SUPERSEDED_EVERY) => {}
                }
                systemd::alive(boot_now(), || {
                    "the session is lost; ending what it ran".to_owned()
                });
                // Ours is gone, and the proof waits for one that is not ours.
                if superseded(&ctx.config.state_dir, serving).await {
                    ctx.events.emit(Event::Superseded);
                    return SessionEnd::Superseded;
                }
            }
        };
        self.discard_rest(gone == Some(true), settled).await;
        SessionEnd::Lost
    }

    /// Removes the files of attempts that ended: the answer to their end was `settled` when nobody listened any more, or none
    /// comes, because they were killed and their runs were freed with the session. `gone`: the warden left nothing alive.
    async fn discard_rest(&mut self, gone: bool, mut settled: Vec<AttemptId>) {
        // Answers that come later find nobody, and the reporter removes the files itself.
        self.inputs.close();
        while let Ok(input) = self.inputs.try_recv() {
            settled.extend(settled_by(input));
        }
        if gone {
            let killed = self.attempts.killed();
            settled.extend(&killed);
            self.io.report(Report::Forget(killed));
        }
        let ctx = &self.io.ctx;
        for id in settled {
            discard(&ctx.config.state_dir, id, &ctx.events).await;
        }
    }

    /// Has the warden kill what it runs, at once, and hears what had ended by itself before: its end goes to the database,
    /// which refuses it where the run has moved on, and says so. A dead warden's connection is read to its end. Returns the
    /// attempts whose end was written down meanwhile.
    async fn hear_out(&mut self) -> Vec<AttemptId> {
        let Some(client) = self.attempts.warden.connection() else {
            return Vec::new();
        };
        let asked = async {
            client.kill_all(Duration::ZERO, KillReason::Fenced).await?;
            client.list().await
        };
        let give_up = boot_now() + HEARD_OUT_WITHIN;
        let listing = tokio::select! {
            listing = asked => listing.ok(),
            () = clock::sleep_until(give_up) => None,
        };
        let mut open = listing.is_none();
        let mut ended = listing.map(|l| l.attempts).unwrap_or_default();
        let mut settled = Vec::new();
        while open {
            let input = tokio::select! {
                input = self.inputs.recv() => input,
                () = clock::sleep_until(give_up) => None,
            };
            match input {
                Some(Input::Warden(WardenInput::Event(WardenEvent::Exited(report)))) => ended.push(*report),
                Some(Input::Warden(WardenInput::Disconnected)) => open = false,
                Some(input) => settled.extend(settled_by(input)),
                None => break,
            }
        }
        for report in ended {
            if report
                .result
                .as_ref()
                .is_some_and(|result| result.killed.is_none())
            {
                self.exited(report);
            }
        }
        settled
    }

    /// Nothing runs: ends the warden, then the session.
    async fn close(&mut self) {
        let (io, attempts) = (&self.io, &mut self.attempts);
        let session = io.me.session;
        let ended = attempts.end_warden().await != Some(false);
        // No warden tells of what a dead one left.
        let left = attempts.alive_of_left_behind(io).await;
        if !ended || attempts.is_stuck() || !left.is_ok_and(|alive| alive.is_empty()) {
            tracing::error!("session {session} is left to lapse: something of it may live");
            return;
        }
        if attempts.has_unwritten() {
            // Closing would free their runs, and what has succeeded would run again.
            tracing::warn!("session {session} is left to lapse: ends are not written down yet");
            return;
        }
        // Another agent may run the rest: a newer one of this machine, or one of its copy.
        let unstarted = attempts.unstarted();
        match protocol::close_if(&io.ctx.db, &io.me, &unstarted, |freed| {
            attempts.knows_freed(freed)
        })
        .await
        {
            Ok(Closed::Done { freed }) => io.emit(Event::SessionClosed {
                session,
                freed: freed.len(),
            }),
            Ok(Closed::Already) => {}
            Ok(Closed::Shared)
                if !self.scheduling.scheduler.is_idle() || self.lease.copies.may_have_claimed(boot_now()) =>
            {
                tracing::warn!(
                    "session {session} is left to lapse: it holds a run whose claim had no answer here"
                );
            }
            Ok(Closed::Shared) => io.emit(Event::SessionShared { session }),
            Err(e) => io.emit(Event::database_down("close", &e)),
        }
    }
}

fn settled_by(input: Input) -> Vec<AttemptId> {
    match input {
        Input::Settled(settled) => settled.into_iter().map(|(id, _)| id).collect(),
        _ => Vec::new(),
    }
}

/// Whether a warden of this state directory serves another lease than the `last` one of this agent: then a
/// newer agent has started it. Asked without taking it over.
async fn superseded(state_dir: &Path, last: Serving) -> bool {
    // One that does not answer is dealt with, and waited for, by whoever wants to begin.
    let found = WardenClient::identify(state_dir).await;
    matches!(found, Ok(Some(found)) if found.serving != last)
}
