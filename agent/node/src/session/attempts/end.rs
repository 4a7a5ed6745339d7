//! How attempts end: by themselves, because somebody wants it, or with their warden.

use std::time::Duration;

use farmhand_os::random::random;
use farmhand_store::protocol::LostWhy;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Ending, KillReason, Stage};
use farmhand_warden_client::{Gone, PidFd};

use super::held::{Attempt, Attempts, Phase};
use crate::inbox::{Input, WardenInput};
use crate::reporter::Report;
use crate::session::io::Io;
use crate::session::lease::Deadlines;
use crate::verdict::{self, Verdict};
use farmhand_warden_client::request::Assignment;

/// What the others have to know of an attempt that ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exit {
    /// The warden ended it because the lease was over.
    pub(crate) by_lease: bool,
    /// It was not ours to run any more.
    pub(crate) fenced: bool,
    /// Its definition was refused here.
    pub(crate) refused: bool,
}

impl Attempts {
    /// None for what has ended before.
    pub(crate) fn exited(&mut self, io: &Io, report: AttemptReport) -> Option<Exit> {
        let id = report.id;
        self.children_killed(io, id, &report.child_kills);
        let (Some(attempt), Some(result)) = (self.by_id.get_mut(&id), report.result) else {
            // Settled before the warden heard so.
            self.warden.ack(id);
            return None;
        };
        if attempt.phase == Phase::Ended {
            return None;
        }
        let mut exit = Exit {
            by_lease: result.killed == Some(KillReason::Lease),
            fenced: attempt.fenced,
            refused: false,
        };
        if let Ending::StartFailed(failure) = &result.ending {
            let (about, why) = (attempt.assignment.about(), failure.message.clone());
            match failure.stage {
                Stage::Policy => io.emit(Event::UserRefused {
                    attempt: about,
                    user: failure.subject.clone(),
                    why,
                }),
                Stage::Signature => {
                    io.emit(Event::DefinitionRefused { attempt: about, why });
                    exit.refused = true;
                }
                _ => {}
            }
        }
        let verdict = verdict::verdict(&attempt.assignment, &result, attempt.cancelled, random());
        attempt.ends(io, &mut self.slots, Some(result), verdict);
        self.show_slots(io);
        Some(exit)
    }

    /// The reporter has written this end down, or been refused. Also of a session before this one, whose warden is gone: its files are not.
    pub(crate) fn settled(&mut self, id: AttemptId) -> Option<Assignment> {
        self.warden.ack(id);
        self.by_id.remove(&id).map(|attempt| attempt.assignment)
    }

    pub(super) fn forget(&mut self, io: &Io, id: AttemptId) {
        if let Some(attempt) = self.by_id.remove(&id) {
            io.report(Report::Forget(vec![id]));
            self.slots.free(attempt.slot);
            self.show_slots(io);
        }
    }

    pub(crate) fn cancel(&mut self, run_id: i64, attempt: i32) {
        let id = AttemptId { run_id, attempt };
        let Some(attempt) = self.by_id.get_mut(&id) else {
            return;
        };
        if !attempt.cancelled && attempt.phase.may_live() {
            attempt.cancelled = true;
            self.end(&[id], KillReason::Cancel);
        }
    }

    /// Has attempts ended, as gently as their jobs ask. One whose warden is yet to come is not started for that. Returns the longest
    /// grace.
    pub(crate) fn end(&mut self, ids: &[AttemptId], reason: KillReason) -> Duration {
        let mut longest = Duration::ZERO;
        for id in ids {
            let grace = self.by_id.get(id).map(|a| a.assignment.spec.grace);
            if let Some(grace) = grace
                && !self.take_back(*id)
            {
                self.warden.kill(*id, grace, reason);
            }
            longest = longest.max(grace.unwrap_or_default());
        }
        longest
    }

    pub(crate) fn kill_all(&mut self) {
        for id in self.all() {
            self.take_back(id);
        }
        self.warden.kill_all();
    }

    /// Its run goes back, unless a warden may have been asked to start it.
    fn take_back(&mut self, id: AttemptId) -> bool {
        let Some(attempt) = self.by_id.get_mut(&id) else {
            return false;
        };
        let withdrawn = self.warden.withdraw(id);
        if withdrawn {
            attempt.phase = Phase::Refused;
            self.to_forbid.insert(id);
        }
        withdrawn
    }

    /// Repeats a fence, a cancel or an end that came while the start request was queued and no warden could be told.
    pub(super) fn end_again(&self, id: AttemptId, ends: bool) {
        let Some(attempt) = self.by_id.get(&id) else {
            return;
        };
        let grace = attempt.assignment.spec.grace;
        let (reason, grace) = match (attempt.fenced, attempt.cancelled, ends) {
            (true, ..) => (KillReason::Fenced, Duration::ZERO),
            (_, true, _) => (KillReason::Cancel, grace),
            (_, _, true) => (KillReason::Shutdown, grace),
            _ => return,
        };
        self.warden.kill(id, grace, reason);
    }

    /// The warden may not have heard that this one is to end. The next poll says it once more.
    pub(crate) fn cancel_again(&mut self, id: AttemptId) {
        if let Some(attempt) = self.by_id.get_mut(&id) {
            attempt.cancelled = false;
        }
    }

    /// Ends an attempt that is not ours to run any more.
    pub(super) fn fence_off(&mut self, io: &Io, id: AttemptId, why: &'static str) {
        if self.take_back(id) {
            tracing::warn!("run {} attempt {} was not started: {why}", id.run_id, id.attempt);
            return;
        }
        let Some(attempt) = self.by_id.get_mut(&id) else {
            return;
        };
        let told = std::mem::replace(&mut attempt.fenced, true);
        self.warden.kill(id, Duration::ZERO, KillReason::Fenced);
        // The order is repeated with each renewal until it has ended.
        if !told {
            tell_fence(io, id, why);
        }
    }

    /// Says of everything that may live here why it is ended.
    pub(crate) fn tell_fences(&self, io: &Io, why: &'static str) {
        for id in self.living() {
            tell_fence(io, id, why);
        }
    }

    /// The warden is proven dead. How many attempts were lost with it.
    pub(crate) fn warden_dead(&mut self, io: &Io, gone: &std::io::Result<Gone>, why: LostWhy) -> usize {
        note_gone(gone);
        // What the kernel cannot end, or could not be looked for, stays held: an alert, and no second attempt.
        match gone {
            Ok(Gone::Empty { .. }) => {
                let ids = self.begun();
                self.lose(io, &ids, why)
            }
            Ok(Gone::Unkillable { pids }) => {
                self.lose_when_dead(io, pids.clone(), why);
                0
            }
            Err(_) => {
                self.hold_all(io);
                0
            }
        }
    }

    /// Starts the successor of a dead warden, if anything waits for one.
    pub(crate) fn start_successor(&mut self, io: &Io, deadlines: Deadlines) {
        self.warden.dead(deadlines);
        self.show_slots(io);
    }

    /// They are lost once these processes have ended. The kernel could not end them, and their system calls may still do something.
    fn lose_when_dead(&mut self, io: &Io, pids: Vec<i32>, why: LostWhy) {
        let ids = self.hold_all(io);
        io.spawn(async move {
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
    fn hold_all(&mut self, io: &Io) -> Vec<AttemptId> {
        let ids = self.begun();
        for id in &ids {
            io.emit(Event::Unkillable {
                run_id: id.run_id,
                attempt: id.attempt,
            });
        }
        self.stuck.extend(&ids);
        ids
    }

    /// What the warden had been asked to start, but for what a dead one left and what waits for its successor.
    fn begun(&self) -> Vec<AttemptId> {
        let waiting = self.warden.waiting();
        let begun = self.by_id.iter().filter(|(id, attempt)| {
            attempt.phase.may_live() && !waiting.contains(id) && !self.stuck.contains(id)
        });
        begun.map(|(id, _)| *id).collect()
    }

    /// Attempts of which no process lives, whatever they were doing: as `on_lost` says. How many.
    pub(crate) fn lose(&mut self, io: &Io, ids: &[AttemptId], why: LostWhy) -> usize {
        let mut lost = 0;
        for id in ids {
            self.stuck.remove(id);
            let living = self.by_id.get_mut(id).filter(|a| a.phase.may_live());
            let Some(attempt) = living else { continue };
            attempt.ends(io, &mut self.slots, None, Verdict::Lost { why });
            lost += 1;
        }
        self.show_slots(io);
        lost
    }

    /// Ends the warden and waits for the proof, whatever it takes: the kernel's timer bounds it. Whether it left nothing
    /// alive; None where there was none.
    pub(crate) async fn end_warden(&mut self) -> Option<bool> {
        let gone = self.warden.end().await?;
        note_gone(&gone);
        Some(matches!(gone, Ok(Gone::Empty { .. })))
    }

    /// What ended without a report, and now never gets one: its runs were freed with the session.
    pub(crate) fn killed(&self) -> Vec<AttemptId> {
        let killed = |(_, a): &(&AttemptId, &Attempt)| a.phase != Phase::Ended;
        self.by_id.iter().filter(killed).map(|(id, _)| *id).collect()
    }
}

fn tell_fence(io: &Io, id: AttemptId, why: &'static str) {
    io.emit(Event::FenceKill {
        run_id: id.run_id,
        attempt: id.attempt,
        why,
    });
}

fn note_gone(gone: &std::io::Result<Gone>) {
    match gone {
        Ok(Gone::Empty { swept: 0 }) => {}
        Ok(Gone::Empty { swept }) => {
            tracing::warn!("the warden and its reaper were both gone; {swept} processes were left and ended");
        }
        Ok(Gone::Unkillable { pids }) => {
            tracing::error!("the warden is gone; the kernel cannot end its processes {pids:?}");
        }
        Err(e) => tracing::error!("looking for what the warden left: {e}"),
    }
}
