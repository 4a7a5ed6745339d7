//! The session is lost: everything here ends before anything else is done.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use farmhand_store::protocol::LostWhy;
use futures_util::future::join_all;

use super::{Attempt as Running, Input, Mode, Phase, Session, SessionEnd};
use crate::discard::discard;
use crate::inbox::WardenInput;
use crate::reporter::Report;
use crate::systemd;
use crate::verdict::Verdict;
use crate::wardens::SUPERSEDED_EVERY;
use farmhand_os::clock::{self, boot_now};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, Event as WardenEvent, KillReason, Kind, Serving};
use farmhand_warden_client::{Gone, Paths, PidFd, WardenClient, WardenError};

/// A warden that lives answers within milliseconds, and the connection of one that is dead is closed; a stopped one does neither.
const HEARD_OUT_WITHIN: Duration = Duration::from_millis(300);

/// What ending the wardens proved.
pub(super) struct EndedWardens {
    /// Those that left nothing alive.
    pub empty: Vec<Kind>,
    /// Whether all of them did: only then may the session be closed.
    pub all: bool,
}

impl Session {
    /// Another agent expired the session: everything here must be dead before anything else is done.
    pub(super) async fn lost(&mut self) -> SessionEnd {
        self.emit(Event::SessionLost {
            session: self.me.session,
        });
        let Some(gone) = self.abandon("the session was expired").await else {
            return SessionEnd::Superseded;
        };
        // Nobody may take what has a hold until that is over, unless told that it is dead.
        for kind in gone.empty.iter().filter(|k| **k != Kind::Main) {
            self.lose_all_of(*kind, LostWhy::Lease);
        }
        SessionEnd::Lost
    }

    /// Somebody else uses this very session: a copy of this machine. Which one is the copy, nobody can tell: each ends what it
    /// runs and leaves the session to lapse. None for an agent whose wardens obey a newer one of this machine.
    pub(super) async fn shared(&mut self) -> Option<SessionEnd> {
        let connections = self.wardens.connections();
        let asked = connections.iter().map(|(_, client)| client.list());
        let obeyed = tokio::time::timeout(HEARD_OUT_WITHIN, join_all(asked)).await;
        if !obeyed.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            return None;
        }
        self.emit(Event::SessionShared {
            session: self.me.session,
        });
        let gone = self.abandon("a copy of this machine has the session, too").await;
        Some(gone.map_or(SessionEnd::Superseded, |_| SessionEnd::Lost))
    }

    /// Ends everything, and says so. None when a newer agent has started wardens of its own.
    async fn abandon(&mut self, why: &'static str) -> Option<EndedWardens> {
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
            let mut ending = std::pin::pin!(self.end_wardens(Duration::ZERO));
            loop {
                tokio::select! {
                    gone = &mut ending => break gone,
                    () = tokio::time::sleep(SUPERSEDED_EVERY) => {}
                }
                systemd::alive(boot_now(), || {
                    "the session is lost; ending what it ran".to_owned()
                });
                // Ours are gone, and the proof waits for one that is not ours.
                if superseded(&ctx.config.state_dir, serving).await {
                    ctx.events.emit(Event::Superseded);
                    return None;
                }
            }
        };
        self.discard_rest(&gone.empty, settled).await;
        Some(gone)
    }

    /// Removes the files of attempts that ended: the answer to their end was `settled` when nobody listened any more, or none
    /// comes, because they were killed and their runs were freed with the session.
    async fn discard_rest(&mut self, gone: &[Kind], mut settled: Vec<(AttemptId, Kind)>) {
        // Answers that come later find nobody, and the reporter removes the files itself.
        self.inputs.close();
        while let Ok(input) = self.inputs.try_recv() {
            settled.extend(settled_by(input));
        }
        if gone.contains(&Kind::Main) {
            let killed = |(_, a): &(&AttemptId, &Running)| a.warden == Kind::Main && a.phase != Phase::Ended;
            let killed: Vec<AttemptId> = self.attempts.iter().filter(killed).map(|(id, _)| *id).collect();
            settled.extend(killed.iter().map(|id| (*id, Kind::Main)));
            let _ = self.ctx.reports.send(Report::Forget(killed));
        }
        for (id, kind) in settled {
            let paths = Paths::new(&self.ctx.config.state_dir, kind);
            discard(paths, id, &self.ctx.events).await;
        }
    }

    /// Has every warden kill what it runs, at once, and hears what had ended by itself before: its end goes to the database,
    /// which refuses it where the run has moved on, and says so. A dead warden's connection is read to its end. Returns the
    /// attempts whose end was written down meanwhile.
    async fn hear_out(&mut self) -> Vec<(AttemptId, Kind)> {
        let connections = self.wardens.connections();
        let mut open: HashSet<Kind> = connections.iter().map(|(kind, _)| *kind).collect();
        let asked = connections.iter().map(|(kind, client)| async move {
            client.kill_all(Duration::ZERO, KillReason::Fenced).await?;
            Ok::<_, WardenError>((*kind, client.list().await?))
        });
        let give_up = boot_now() + HEARD_OUT_WITHIN;
        let listings = tokio::select! {
            listings = join_all(asked) => listings,
            () = clock::sleep_until(give_up) => Vec::new(),
        };
        let (mut ended, mut settled) = (Vec::new(), Vec::new());
        for (kind, listing) in listings.into_iter().flatten() {
            open.remove(&kind);
            ended.extend(listing.attempts.into_iter().map(|report| (kind, report)));
        }
        while !open.is_empty() {
            let input = tokio::select! {
                input = self.inputs.recv() => input,
                () = clock::sleep_until(give_up) => None,
            };
            match input {
                Some(Input::Warden(WardenInput::Event(kind, WardenEvent::Exited(report)))) => {
                    ended.push((kind, *report));
                }
                Some(Input::Warden(WardenInput::Disconnected(kind))) => {
                    open.remove(&kind);
                }
                Some(input) => settled.extend(settled_by(input)),
                None => break,
            }
        }
        for (kind, report) in ended {
            if report
                .result
                .as_ref()
                .is_some_and(|result| result.killed.is_none())
            {
                self.on_exited(kind, report);
            }
        }
        settled
    }

    /// Ends every warden and waits for the proof, whatever it takes: the kernel's timer bounds it.
    pub(super) async fn end_wardens(&mut self, grace: Duration) -> EndedWardens {
        self.mode = Mode::Killing { give_up: boot_now() };
        let mut ended = EndedWardens {
            empty: Vec::new(),
            all: true,
        };
        for (kind, gone) in self.wardens.end_all(grace).await {
            match gone {
                Ok(Gone::Empty { .. }) => ended.empty.push(kind),
                _ => ended.all = false,
            }
            self.note_gone(kind, &gone);
        }
        ended
    }

    /// Attempts whose warden is proven dead, whatever they were doing: as `on_lost` says. Not those that
    /// wait for its successor: they have not been started.
    pub(super) fn lose_all_of(&mut self, kind: Kind, why: LostWhy) -> usize {
        let ids = self.begun_by(kind);
        self.lose_these(&ids, why)
    }

    /// As [`Self::lose_all_of`], but once these processes have ended. The kernel could not end them, and their system calls may
    /// still do something.
    pub(super) fn lose_when_dead(&mut self, kind: Kind, pids: Vec<i32>, why: LostWhy) {
        let ids = self.hold_all_of(kind);
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
    pub(super) fn hold_all_of(&mut self, kind: Kind) -> Vec<AttemptId> {
        let ids = self.begun_by(kind);
        for id in &ids {
            self.emit(Event::Unkillable {
                run_id: id.run_id,
                attempt: id.attempt,
            });
        }
        self.stuck.extend(&ids);
        ids
    }

    /// What the wardens of this kind had been asked to start, but for what a dead one left.
    fn begun_by(&self, kind: Kind) -> Vec<AttemptId> {
        let waiting = self.wardens.waiting(kind);
        let begun = self.attempts.iter().filter(|(id, attempt)| {
            attempt.warden == kind
                && attempt.phase.may_live()
                && !waiting.contains(id)
                && !self.stuck.contains(id)
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
            let report = Report::ended(
                &self.me,
                &attempt.assignment,
                attempt.warden,
                None,
                Verdict::Lost { why },
            );
            // The reporter lives as long as the agent.
            let _ = self.ctx.reports.send(report);
        }
        lost
    }
}

fn settled_by(input: Input) -> Vec<(AttemptId, Kind)> {
    match input {
        Input::Settled(settled) => settled.into_iter().map(|(id, kind, _)| (id, kind)).collect(),
        _ => Vec::new(),
    }
}

/// Whether a warden of this state directory serves another lease than the `last` one of this agent: then a
/// newer agent has started it. Asked without taking it over.
async fn superseded(state_dir: &Path, last: Serving) -> bool {
    for kind in Paths::kinds(state_dir).unwrap_or_default() {
        // One that does not answer is dealt with, and waited for, by whoever wants to begin.
        if let Ok(Some(found)) = WardenClient::identify(state_dir, kind).await
            && found.serving != last
        {
            return true;
        }
    }
    false
}
