//! The session is lost: everything here ends before anything else is done.

use std::path::Path;
use std::time::Duration;

use farmhand_store::protocol::LostWhy;

use super::{Attempt as Running, Input, Mode, Phase, Session, SessionEnd};
use crate::discard::discard;
use crate::inbox::WardenInput;
use crate::reporter::Report;
use crate::systemd;
use crate::verdict::Verdict;
use crate::warden_link::SUPERSEDED_EVERY;
use farmhand_os::clock::{self, boot_now};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, Event as WardenEvent, KillReason, Serving};
use farmhand_warden_client::{Gone, Paths, PidFd, WardenClient};

/// A warden that lives answers within milliseconds, and the connection of one that is dead is closed; a stopped one does neither.
const HEARD_OUT_WITHIN: Duration = Duration::from_millis(300);

impl Session {
    /// Another agent expired the session: everything here must be dead before anything else is done.
    pub(super) async fn lost(&mut self) -> SessionEnd {
        self.emit(Event::SessionLost {
            session: self.me.session,
        });
        if self.abandon("the session was expired").await {
            SessionEnd::Lost
        } else {
            SessionEnd::Superseded
        }
    }

    /// Somebody else uses this very session: a copy of this machine. Which one is the copy, nobody can tell: each ends what it
    /// runs and leaves the session to lapse. None for an agent whose warden obeys a newer one of this machine.
    pub(super) async fn shared(&mut self) -> Option<SessionEnd> {
        if let Some(client) = self.warden.connection() {
            let obeyed = tokio::time::timeout(HEARD_OUT_WITHIN, client.list()).await;
            if !obeyed.is_ok_and(|answer| answer.is_ok()) {
                return None;
            }
        }
        self.emit(Event::SessionShared {
            session: self.me.session,
        });
        Some(
            if self.abandon("a copy of this machine has the session, too").await {
                SessionEnd::Lost
            } else {
                SessionEnd::Superseded
            },
        )
    }

    /// Ends everything, and says so. False when a newer agent has started a warden of its own.
    async fn abandon(&mut self, why: &'static str) -> bool {
        let (ctx, serving) = (self.ctx.clone(), self.serving());
        let settled = self.hear_out().await;
        for (id, attempt) in &self.attempts {
            if attempt.phase.may_live() {
                self.emit(Event::FenceKill {
                    run_id: id.run_id,
                    attempt: id.attempt,
                    why,
                });
            }
        }
        let gone = {
            let mut ending = std::pin::pin!(self.end_warden(Duration::ZERO));
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
                    return false;
                }
            }
        };
        self.discard_rest(gone == Some(true), settled).await;
        true
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
            let killed = |(_, a): &(&AttemptId, &Running)| a.phase != Phase::Ended;
            let killed: Vec<AttemptId> = self.attempts.iter().filter(killed).map(|(id, _)| *id).collect();
            settled.extend(&killed);
            let _ = self.ctx.reports.send(Report::Forget(killed));
        }
        for id in settled {
            let paths = Paths::new(&self.ctx.config.state_dir);
            discard(paths, id, &self.ctx.events).await;
        }
    }

    /// Has the warden kill what it runs, at once, and hears what had ended by itself before: its end goes to the database,
    /// which refuses it where the run has moved on, and says so. A dead warden's connection is read to its end. Returns the
    /// attempts whose end was written down meanwhile.
    async fn hear_out(&mut self) -> Vec<AttemptId> {
        let Some(client) = self.warden.connection() else {
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
                self.on_exited(report);
            }
        }
        settled
    }

    /// Ends the warden and waits for the proof, whatever it takes: the kernel's timer bounds it. Whether it left nothing
    /// alive; None where there was none.
    pub(super) async fn end_warden(&mut self, grace: Duration) -> Option<bool> {
        self.mode = Mode::Killing { give_up: boot_now() };
        let gone = self.warden.end(grace).await?;
        self.note_gone(&gone);
        Some(matches!(gone, Ok(Gone::Empty { .. })))
    }

    /// Attempts whose warden is proven dead, whatever they were doing: as `on_lost` says. Not those that
    /// wait for its successor: they have not been started.
    pub(super) fn lose_all(&mut self, why: LostWhy) -> usize {
        let ids = self.begun();
        self.lose_these(&ids, why)
    }

    /// As [`Self::lose_all`], but once these processes have ended. The kernel could not end them, and their system calls may
    /// still do something.
    pub(super) fn lose_when_dead(&mut self, pids: Vec<i32>, why: LostWhy) {
        let ids = self.hold_all();
        self.spawn(async move {
            // All of them before the first is waited for: a number may be another process's by then.
            let mut left = Vec::new();
            for pid in pids {
                loop {
                    match PidFd::open(pid) {
                        Ok(process) => break left.extend(process),
                        Err(e) => tracing::warn!("waiting for the end of the process {pid}: {e}"),
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            for process in left {
                process.dead().await;
            }
            Input::Warden(WardenInput::Emptied(ids, why))
        });
    }

    /// They stay held, and people are told: something of them may live.
    pub(super) fn hold_all(&mut self) -> Vec<AttemptId> {
        let ids = self.begun();
        for id in &ids {
            self.emit(Event::Unkillable {
                run_id: id.run_id,
                attempt: id.attempt,
            });
        }
        self.stuck.extend(&ids);
        ids
    }

    /// What the warden had been asked to start, but for what a dead one left.
    fn begun(&self) -> Vec<AttemptId> {
        let waiting = self.warden.waiting();
        let begun = self.attempts.iter().filter(|(id, attempt)| {
            attempt.phase.may_live() && !waiting.contains(id) && !self.stuck.contains(id)
        });
        begun.map(|(id, _)| *id).collect()
    }

    pub(super) fn lose_these(&mut self, ids: &[AttemptId], why: LostWhy) -> usize {
        let mut lost = 0;
        for id in ids {
            self.stuck.remove(id);
            let Some(attempt) = self.attempts.get_mut(id).filter(|a| a.phase.may_live()) else {
                continue;
            };
            attempt.phase = Phase::Ended;
            self.free_slots
                .extend(attempt.slot.take().filter(|slot| *slot <= self.slots));
            lost += 1;
            let report = Report::ended(&self.me, &attempt.assignment, None, Verdict::Lost { why });
            // The reporter lives as long as the agent.
            let _ = self.ctx.reports.send(report);
        }
        lost
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
