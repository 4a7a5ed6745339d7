//! Attempts: from a claim's answer to the warden, and from its report to what is written down.

use std::time::Duration;

use farmhand_core::{due, lease::BootInstant};
use farmhand_store::StoreError;
use farmhand_store::protocol::{self, Claimed, Fire, Fired, JobRow, Overdue, PartialClaim};
use farmhand_store::signatures;
use jiff::Timestamp;

use super::{Input, Mode, Phase, Session};
use crate::inbox::{NotStarted, Settled};
use crate::outage::Unanswered;
use crate::reporter::Report;
use crate::verdict;
use farmhand_os::clock::boot_now;
use farmhand_os::random::random;
use farmhand_telemetry::events::{Event, TakeoverCause};
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Ending, KillReason, Stage};

/// As long as `claim` leaves shards to the other nodes, and a little.
const SHARDS_LEFT_TO_OTHERS: Duration = Duration::from_millis(3_100);

/// What was skipped, for people and for counters. What a job observes its history tells, and details follow a reason there.
pub(crate) fn skips(fired: &[Fired]) -> impl Iterator<Item = Event> {
    let all = (fired.iter()).flat_map(|job| job.skipped.iter().map(move |skip| (job, skip)));
    all.filter(|(_, skip)| skip.reason != due::SkipReason::Observed.as_str())
        .map(|(job, skip)| Event::Skipped {
            job_id: job.job_id.clone(),
            reason: skip.reason.split(':').next().unwrap_or_default().to_owned(),
            count: skip.count.unsigned_abs(),
        })
}

impl Session {
    pub(super) fn fire_if_due(&mut self, now: BootInstant) {
        while self.may_fire(now) {
            let fires = self.scheduler.take_due(self.db_clock.at(now));
            if fires.is_empty() {
                return;
            }
            // What a claim or a firing under way will take is not known yet, nor what a claim that waits for more places will.
            let free = self.fires_in_flight == 0 && self.scheduler.has_places() && self.may_claim(now);
            let room = if free && !self.leaves_runs_to_others() {
                self.room()
            } else {
                0
            };
            self.fires_in_flight += 1;
            let ctx = self.ctx.clone();
            self.spawn(async move {
                let result = protocol::fire_for(&ctx.db, &fires, room).await;
                Input::Fired { fires, result }
            });
        }
    }

    pub(super) fn on_fired(&mut self, fires: &[Fire], result: Result<Vec<Fired>, StoreError>) {
        self.fires_in_flight -= 1;
        self.note_db("fire", Unanswered::Slow, &result);
        let Ok(fired) = result else {
            // It may not have been fired.
            self.look_for_overdue();
            return;
        };
        skips(&fired).for_each(|event| self.emit(event));
        if fired.len() < fires.len() {
            self.emit(Event::ClaimLost { kind: "scheduled" });
            // Usually a later rank finds the work done. Alone, the clock was not there yet after all.
            if self.scheduler.live().len() == 1 {
                self.look_for_overdue();
            }
        }
        if fired.iter().any(|f| !f.run_ids.is_empty()) {
            self.scheduler.hint();
        }
    }

    pub(super) fn on_jobs(
        &mut self,
        after: i64,
        newest: Option<i64>,
        result: Result<Vec<JobRow>, StoreError>,
    ) {
        self.loading_jobs = false;
        self.note_db("jobs_since", Unanswered::Slow, &result);
        if std::mem::take(&mut self.jobs_outdated) {
            self.load_jobs(None);
            return;
        }
        // After an error the next poll shows what is left.
        let Ok(rows) = result else { return };
        // Not every change is one of a job: of pools alone, say.
        if let Some(newest) = newest {
            self.scheduler.caught_up(newest);
        }
        if after == 0 {
            let all = rows.iter().map(|row| row.job_id.as_str()).collect();
            self.scheduler.keep(&all);
            self.tables.keep(&all);
            self.trigger_dispatcher.keep(&all);
        }
        for row in rows {
            self.tables.learn(&row, boot_now());
            self.trigger_dispatcher.learn(&row);
            self.definition_seen(&row);
            if let Err(error) = self.scheduler.learn(&row) {
                self.emit(Event::BadDefinition {
                    job_id: row.job_id.clone(),
                    error,
                });
            }
        }
    }

    pub(super) fn on_overdue(&mut self, result: Result<Vec<Overdue>, StoreError>) {
        self.note_db("overdue", Unanswered::Slow, &result);
        let (rows, now) = (result.unwrap_or_default(), boot_now());
        if !self.loading_jobs && self.scheduler.starts_over(&rows, now) {
            self.load_jobs(None);
        }
        self.scheduler.overdue(&rows, self.db_clock.at(now));
    }

    pub(super) fn claim_if_wanted(&mut self, now: BootInstant) {
        let claims = self.may_claim(now);
        let free = if claims { self.room() } else { 0 };
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        self.ctx.events.metrics.slots_free.set(i64::from(free));
        if !claims {
            return;
        }
        let Some(n) = self.scheduler.take_claim(now, free, self.slots) else {
            return;
        };
        let (ctx, me, gates) = (self.ctx.clone(), self.me.clone(), self.gates);
        self.spawn(async move {
            let sent = boot_now();
            let mut result = protocol::claim_any(&ctx.db, &me, i64::from(n), gates).await;
            if ctx.config.trusted_keys.is_some() {
                let won = match &mut result {
                    Ok(won) => won,
                    Err(partial) => &mut partial.won,
                };
                // A failure leaves them to the renewals: a signature that could not be read is not a missing one.
                match signatures::with_signatures(&ctx.db, std::mem::take(won)).await {
                    Ok(signed) => *won = signed,
                    Err(error) => {
                        let won = Vec::new();
                        result = Err(PartialClaim { won, error });
                    }
                }
            }
            Input::Claimed {
                sent,
                took: boot_now().saturating_since(sent),
                result,
            }
        });
    }

    pub(super) fn on_claimed(
        &mut self,
        sent: BootInstant,
        took: Duration,
        result: Result<Vec<Claimed>, PartialClaim>,
    ) {
        let (claimed, answered) = match result {
            Ok(won) => (won, Ok(())),
            Err(partial) => (partial.won, Err(partial.error)),
        };
        self.note_db("claim", Unanswered::Slow, &answered);
        self.emit(Event::ClaimTook { took });
        self.scheduler.claimed(answered.is_ok().then_some(claimed.len()));
        match &answered {
            Ok(()) if claimed.is_empty() => self.emit(Event::ClaimLost { kind: "any" }),
            Ok(()) => {}
            Err(e) => {
                // What it may have won beside that, a renewal will show.
                self.alone.unsure(boot_now());
                self.scheduler.hint_at(boot_now() + Duration::from_millis(500));
                self.emit(Event::ClaimFailed { error: e.to_string() });
            }
        }
        self.ctx.memory.claimed(&claimed);
        if !self.lease.may_claim(boot_now()) || self.mode != Mode::Working {
            for run in &claimed {
                self.claimed_in_vain(run);
            }
            return;
        }
        let received = boot_now();
        if claimed
            .iter()
            .any(|run| run.instances > 1 && run.firing.is_some())
        {
            // Shards that the nodes they were left to did not take.
            self.scheduler.hint_at(received + SHARDS_LEFT_TO_OTHERS);
        }
        for run in claimed {
            self.start(run, sent, received);
        }
        self.show_slots();
    }

    pub(super) fn on_spawned(&mut self, id: AttemptId, result: Result<i32, NotStarted>) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return;
        };
        match result {
            Ok(pid) => {
                if attempt.phase == Phase::Starting {
                    attempt.phase = Phase::Running;
                }
                let about = attempt.assignment.about();
                let _ = self.ctx.reports.send(Report::Started {
                    me: self.me.clone(),
                    attempt: id.fenced(about.fence),
                    at: Timestamp::now(),
                });
                self.emit(Event::Started { attempt: about, pid });
                self.start_succeeded();
                self.end_again(id);
            }
            Err(NotStarted::Invalid(_)) if attempt.phase == Phase::Ended => {}
            Err(NotStarted::Invalid(why)) => {
                // The same everywhere, so that this is its end; no warden starts it.
                attempt.phase = Phase::Ended;
                self.free_slots
                    .extend(attempt.slot.take().filter(|slot| *slot <= self.slots));
                let verdict = verdict::refusal(&attempt.assignment, why, random());
                let report = Report::ended(&self.me, &attempt.assignment, None, verdict);
                let _ = self.ctx.reports.send(report);
                self.show_slots();
            }
            Err(NotStarted::Machine(why)) => self.start_refused(id, why),
            Err(NotStarted::Refused(why)) => {
                // Not known here any more, so the next renewals take it back, with a tombstone first.
                tracing::warn!("run {} attempt {} was not started: {why}", id.run_id, id.attempt);
                self.alone.unsure(boot_now());
                self.forget(id);
            }
        }
    }

    pub(super) fn on_exited(&mut self, report: AttemptReport) {
        let id = report.id;
        self.on_children_killed(id, &report.child_kills);
        let (Some(attempt), Some(result)) = (self.attempts.get_mut(&id), report.result) else {
            // Settled before the warden heard so.
            self.warden.ack(id);
            return;
        };
        if attempt.phase == Phase::Ended {
            return;
        }
        attempt.phase = Phase::Ended;
        self.ended_by_lease += usize::from(result.killed == Some(KillReason::Lease));
        let was_fenced = attempt.fenced;
        let mut refused = false;
        // A slot above the present number was taken before a reload.
        self.free_slots
            .extend(attempt.slot.take().filter(|slot| *slot <= self.slots));
        if let Ending::StartFailed(failure) = &result.ending
            && failure.stage == Stage::Policy
        {
            self.ctx.events.emit(Event::UserRefused {
                attempt: attempt.assignment.about(),
                user: failure.subject.clone(),
                why: failure.message.clone(),
            });
        }
        if let Ending::StartFailed(failure) = &result.ending
            && failure.stage == Stage::Signature
        {
            self.ctx.events.emit(Event::DefinitionRefused {
                attempt: attempt.assignment.about(),
                why: failure.message.clone(),
            });
            refused = true;
        }
        let verdict = verdict::verdict(&attempt.assignment, &result, attempt.cancelled, random());
        let report = Report::ended(&self.me, &attempt.assignment, Some(result), verdict);
        let _ = self.ctx.reports.send(report);
        if was_fenced {
            self.tell_deadlines();
        }
        if refused {
            self.note_refusal();
        }
        self.scheduler.hint_if_backlog();
        self.show_slots();
    }

    /// The reporter has written these down, or been refused.
    pub(super) fn on_settled(&mut self, settled: &[(AttemptId, Settled)]) {
        let now = boot_now();
        for (id, how) in settled {
            // Also of a session before this one, whose warden is gone: its files are not.
            self.warden.ack(*id);
            let Some(attempt) = self.attempts.remove(id) else {
                continue;
            };
            if attempt.assignment.spec.table.is_some() {
                // There is room for another row, and this one may have been set back to NULL.
                self.tables.poll_at(&attempt.assignment.job_id, now);
                self.ctx.row_bell.ring();
            }
            match how {
                Settled::Again(delay) => self.scheduler.hint_at(now + *delay + Duration::from_millis(5)),
                Settled::Done => {
                    self.trigger_dispatcher.ended(&attempt.assignment.job_id);
                    if self.gates {
                        // Others may have waited for what it held.
                        self.scheduler.hint();
                    } else {
                        // Queued runs of the same job may have been let go.
                        self.scheduler.hint_if_backlog();
                    }
                }
                Settled::Fenced => {}
            }
        }
        self.show_slots();
    }

    pub(super) fn forget(&mut self, id: AttemptId) {
        if let Some(attempt) = self.attempts.remove(&id) {
            let _ = self.ctx.reports.send(Report::Forget(vec![id]));
            self.free_slots
                .extend(attempt.slot.filter(|slot| *slot <= self.slots));
            self.show_slots();
        }
    }

    pub(super) fn cancel(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return;
        };
        if !attempt.cancelled && attempt.phase.may_live() {
            attempt.cancelled = true;
            let grace = attempt.assignment.spec.grace;
            self.end(id, grace, KillReason::Cancel);
        }
    }

    pub(super) fn show_slots(&self) {
        let metrics = &self.ctx.events.metrics;
        let used = self.attempts.values().filter(|a| a.phase != Phase::Ended).count();
        metrics
            .runs_in_progress
            .set(i64::try_from(used).unwrap_or(i64::MAX));
        let unkillable = (self.attempts.iter())
            .filter(|(id, a)| a.phase != Phase::Ended && (a.unkillable || self.stuck.contains(id)))
            .count();
        metrics
            .runs_unkillable
            .set(i64::try_from(unkillable).unwrap_or(i64::MAX));
    }
}

pub(super) fn takeover_cause(run: &Claimed) -> Option<TakeoverCause> {
    match run.reason.as_deref() {
        Some("expired" | "lost" | "held") => Some(TakeoverCause::Expired),
        Some("drained" | "released") => Some(TakeoverCause::Drain),
        Some("forced") => Some(TakeoverCause::Forced),
        _ => None,
    }
}
