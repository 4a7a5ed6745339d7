//! What concerns several rooms: who is told, and in which order.

use std::sync::PoisonError;
use std::time::Duration;

use farmhand_core::lease::{BootInstant, Database};
use farmhand_os::random::random;
use farmhand_store::protocol::{Attempt, Claimed, LostWhy, PartialClaim, Poll, Renewed};
use farmhand_store::{Note, StoreError};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Event as WardenEvent, KillReason};

use super::attempts::Follows;
use super::lease::Due;
use super::leaving::Step;
use super::turn::{Next, Session};
use crate::inbox::{Settled, WardenInput};
use crate::signals::Signal;
use crate::systemd;

/// After a retry's delay: by so much the database's clock may be behind.
const A_LITTLE: Duration = Duration::from_millis(5);

impl Session {
    pub(super) fn renew_if_due(&mut self, now: BootInstant) {
        let (io, warden) = (&self.io, &self.attempts.warden);
        let confirmed = warden.has_confirmed(self.lease.needed());
        match self.lease.take_due(now, confirmed) {
            Due::Later => {}
            Due::Withheld { first } => {
                if first {
                    io.emit(Event::RenewalWithheld {
                        session: io.me.session,
                    });
                }
                if !warden.is_asked() {
                    self.attempts.tell_deadlines(self.lease.deadlines());
                }
            }
            Due::Now => {
                if let Some(slewed) = self.lease.slewed_anew(io) {
                    self.poll.set_slewed(slewed);
                }
                let offset = self.database.clock.offset_ms(now);
                let why = self.claims_nothing();
                self.lease.renew(&self.io, offset, why);
            }
        }
    }

    /// Why this agent claims nothing though it renews its lease: others then keep nothing for it.
    fn claims_nothing(&mut self) -> Option<String> {
        // A full node sends none.
        let claims = self.scheduling.scheduler.claims.fails() && self.attempts.room(&self.io) > 0;
        let polls = self.poll.polls.fails();
        let ctx = &self.io.ctx;
        let refused = ctx.start_pause().why().map(str::to_owned);
        (refused.or_else(|| ctx.memory.unwritten())).or_else(|| {
            let lacks = if claims { "claim" } else { "poll" };
            (claims || polls)
                .then(|| format!("no {lacks} has been answered since the renewal before the last"))
        })
    }

    pub(super) fn renewed(
        &mut self,
        sent: BootInstant,
        result: Result<Renewed, StoreError>,
        now: BootInstant,
    ) -> Next {
        let (io, lease, attempts) = (&self.io, &mut self.lease, &mut self.attempts);
        match result {
            Ok(Renewed::Alive {
                held,
                cordoned,
                draining,
                drain_until,
                db_now,
                renewals,
                database,
            }) => {
                lease.renewed(sent);
                lease.tell_renewal(io, now);
                self.database.clock.observe(sent, now, db_now);
                io.emit(Event::ClockOffset {
                    seconds: self.database.clock.offset_from_wall(now),
                });
                let drain = draining.then_some(drain_until);
                self.leaving.ordered(io, cordoned, drain, db_now, now);
                for wanted in held.iter().filter(|h| h.cancel) {
                    attempts.cancel(wanted.run_id, wanted.attempt);
                }
                let held = held.iter().map(|h| Attempt {
                    run_id: h.run_id,
                    attempt: h.attempt,
                    fence: h.fence,
                });
                let held: Vec<Attempt> = held.collect();
                // What is not held dies before anything may live longer: this agent may be stopped in between.
                let alone = lease.copies.answered(now, database.key(), renewals);
                attempts.forget_left_behind(io, &held);
                let (claims_sent, answered) = self.scheduling.scheduler.serials();
                let orphans = lease.orphans(&held, |of| attempts.knows(of), claims_sent, answered);
                let own = attempts.forbid_orphans(orphans, lease.copies.may_have_claimed(now));
                if attempts.end_what_moved_on(io, sent, &held) {
                    self.scheduling.scheduler.hint();
                }
                if !(own && alone) {
                    return Next::Shared { database, renewals };
                }
                self.compared(&database, renewals);
                Next::Go
            }
            Ok(Renewed::Lost) => Next::Lost,
            Err(e) => {
                lease.renewal_failed(now, random());
                io.emit(Event::RenewalFailed { error: e.to_string() });
                Next::Go
            }
        }
    }

    /// What runs here was compared with what this database shows.
    pub(super) fn compared(&mut self, database: &Database, renewals: i64) {
        self.attempts.tell_deadlines(self.lease.deadlines());
        if self.database.learned(&self.io, database, renewals) {
            self.poll.compared(database.key());
        }
    }

    pub(super) fn polled(
        &mut self,
        sent: BootInstant,
        received: BootInstant,
        result: Result<Poll, StoreError>,
    ) {
        let io = &self.io;
        let Ok(poll) = result else {
            self.poll.poll_failed(received);
            return;
        };
        self.database.clock.observe(sent, received, poll.db_now);
        let from = self.poll.polled(&io.me.address, received, &poll);
        if let Some(from) = from {
            let to = poll.database.epoch;
            io.emit(Event::EpochChanged { from, to });
        }
        self.database.seen(io, &poll.database);
        let exposes = io.ctx.config.listen.map(|_| io.ctx.config.snapshot_every());
        io.ctx.wake.polled(&poll, exposes);
        (self.scheduling).polled(io, &poll, from.is_some(), &self.database.clock, received);
        for wanted in poll.cancels {
            self.attempts.cancel(wanted.run_id, wanted.attempt);
        }
        let drain = poll.draining.then_some(poll.drain_until);
        (self.leaving).ordered(io, poll.cordoned, drain, poll.db_now, received);
        self.poll.act_on_ripe(io, received);
        if self.leaving.row_is_wrong(poll.leaving) {
            self.describe();
        }
    }

    pub(super) fn claimed(
        &mut self,
        sent: BootInstant,
        took: Duration,
        result: Result<Vec<Claimed>, PartialClaim>,
        now: BootInstant,
    ) {
        let (won, error) = match result {
            Ok(won) => (won, None),
            Err(partial) => (partial.won, Some(partial.error)),
        };
        self.io.emit(Event::ClaimTook { took });
        let starts = self.lease.may_claim(now) && self.leaving.works();
        (self.scheduling).claimed(&self.io, &won, error.as_ref(), starts, now);
        if error.is_some() {
            // What it may have won beside that, a renewal will show.
            self.lease.copies.unsure(now);
        }
        self.io.ctx.memory.claimed(&won);
        for run in won {
            let (io, attempts) = (&self.io, &mut self.attempts);
            let follows = if starts {
                attempts.start(io, run, (sent, now), &self.database.clock, self.lease.deadlines())
            } else {
                attempts.claimed_in_vain(io, &run)
            };
            self.follow(follows, now);
        }
        self.attempts.show_slots(&self.io);
    }

    pub(super) fn follow(&mut self, follows: Follows, now: BootInstant) {
        match follows {
            Follows::Nothing => {}
            Follows::Renewal => self.lease.renew_now(),
            Follows::Unsure => self.lease.copies.unsure(now),
            Follows::Refusal => self.scheduling.signatures.refused(),
        }
    }

    pub(super) fn exited(&mut self, report: AttemptReport) {
        let Some(exit) = self.attempts.exited(&self.io, report) else {
            return;
        };
        if exit.by_lease {
            self.lease.ended += 1;
        }
        if exit.fenced {
            self.attempts.tell_deadlines(self.lease.deadlines());
        }
        if exit.refused {
            self.scheduling.signatures.refused();
        }
        self.scheduling.scheduler.hint_if_backlog();
    }

    /// The reporter has written these down, or been refused.
    pub(super) fn settled(&mut self, settled: &[(AttemptId, Settled)], now: BootInstant) {
        let scheduling = &mut self.scheduling;
        for (id, how) in settled {
            let Some(assignment) = self.attempts.settled(*id) else {
                continue;
            };
            if assignment.spec.table.is_some() {
                scheduling.tables.poll_at(&assignment.job_id, now);
                self.io.ctx.row_bell.ring();
            }
            match how {
                Settled::Again(delay) => scheduling.comes_again(&assignment.job_id, now + *delay + A_LITTLE),
                Settled::Done => scheduling.ended(&assignment.job_id),
                Settled::Fenced => {}
            }
        }
        self.attempts.show_slots(&self.io);
    }

    /// What the warden says by itself.
    pub(super) fn warden(&mut self, input: WardenInput, now: BootInstant) -> Next {
        let (io, lease, attempts) = (&self.io, &mut self.lease, &mut self.attempts);
        match input {
            WardenInput::Event(WardenEvent::Superseded { .. }) => {
                io.emit(Event::Superseded);
                return Next::Superseded;
            }
            WardenInput::Event(WardenEvent::Exited(report)) => self.exited(*report),
            WardenInput::Event(WardenEvent::Unkillable { id, .. }) => attempts.unkillable(io, id),
            WardenInput::Event(WardenEvent::Progress { id, checkpoint, .. }) => {
                attempts.progressed(io, id, checkpoint);
            }
            WardenInput::Event(WardenEvent::ChildKilled { id, kill }) => {
                attempts.children_killed(io, id, &[kill]);
            }
            WardenInput::Deadline(end) => {
                attempts.warden.answered(end);
                lease.confirmed();
            }
            WardenInput::Untold(id) => {
                attempts.cancel_again(id);
                self.leaving.tell_again(id);
            }
            WardenInput::Disconnected => attempts.warden.disconnected(),
            WardenInput::Dead(gone) => {
                let lapsed = lease.lapsed(now);
                let why = if lapsed { LostWhy::Lease } else { LostWhy::Warden };
                let lost = attempts.warden_dead(io, &gone, why);
                // Of a warden that died by itself, the end of each attempt says so.
                if lapsed {
                    lease.ended += lost;
                    lease.tell_lapse(io);
                }
                attempts.start_successor(io, lease.deadlines());
            }
            WardenInput::Emptied(ids, why) => {
                attempts.lose(io, &ids, why);
            }
            WardenInput::Started(result) => {
                let follows = attempts.warden_started(io, result, lease.deadlines(), now);
                self.follow(follows, now);
            }
        }
        Next::Go
    }

    /// A notification: poll sooner, in an order that spares the database the herd.
    pub(super) fn noted(&mut self, note: &Note, now: BootInstant) {
        let (io, scheduling) = (&self.io, &mut self.scheduling);
        let is_me = |node: &String| *node == io.me.address;
        match note {
            Note::Due { node: Some(node), .. } if is_me(node) => scheduling.scheduler.hint_at(now),
            Note::Due { node: Some(_), .. } => {}
            Note::Due {
                run_id, job, runs, ..
            } => scheduling.due(io, job.as_deref().unwrap_or_default(), *run_id, *runs, now),
            Note::Rows { job } => scheduling.rows_wait(io, job, now),
            Note::Jobs { seq } => scheduling.changed(io, *seq),
            Note::Cancel { node, .. } if is_me(node) => self.poll.poll_now(),
            Note::Node { address } if is_me(address) => self.lease.renew_now(),
            Note::Cancel { .. } | Note::Node { .. } => {}
            Note::Reconnected { direct } => {
                self.poll.told(*direct);
                self.poll.poll_now();
            }
        }
    }

    pub(super) fn signal(&mut self, signal: Signal, now: BootInstant) -> Next {
        match signal {
            Signal::Interrupt if self.leaving.works() => {
                self.leaving.drain(&self.io, "SIGINT", None);
                self.describe();
            }
            Signal::Interrupt | Signal::Quit => {
                (self.leaving).kill(&self.io, "killing what runs", now, Duration::ZERO);
                self.attempts.kill_all();
            }
            // Under systemd the next agent finds the jobs. A node that was drained by order has none, and may get no next agent: its
            // session is closed.
            Signal::Terminate
                if self.io.ctx.hand_over
                    && (self.attempts.leaves_something() || !self.leaving.is_drained_by_order()) =>
            {
                return Next::HandOver;
            }
            Signal::Terminate => self.drain_by_stop_timeout(now),
            Signal::Reload => self.reload(),
            Signal::Poll => {
                self.scheduling.scheduler.hint();
                self.scheduling.tables.poll_now(now);
                self.poll.poll_now();
            }
        }
        Next::Go
    }

    /// Also what a SIGINT began to drain, which has no end of its own.
    pub(super) fn drain_by_stop_timeout(&mut self, now: BootInstant) {
        let until = now + self.io.ctx.tunable().stop_timeout;
        if !self.leaving.ends_by(until) {
            systemd::going_down();
            self.leaving.drain(&self.io, "SIGTERM", Some(until));
            self.describe();
        }
    }

    /// Takes over what may change while running, and tells the database.
    fn reload(&mut self) {
        let ctx = &self.io.ctx;
        let new = match (ctx.reload)() {
            Ok(new) => new,
            Err(error) => {
                self.io.emit(Event::ReloadFailed { error });
                return;
            }
        };
        let tunable = new.tunable();
        self.attempts.resize(&self.io, tunable.slots);
        *ctx.tunable.write().unwrap_or_else(PoisonError::into_inner) = tunable;
        self.io.emit(Event::Reloaded {
            restart_needed: ctx.config.restart_needed(&new),
        });
        self.describe();
        self.scheduling.scheduler.hint();
    }

    /// Writes into the node's row what it says about itself now.
    fn describe(&mut self) {
        self.lease.copies.sends();
        self.leaving.describe(&self.io);
    }

    /// At the deadline of an ordered drain ends what still runs, as gently as each job asks; it is not counted as a retry.
    pub(super) fn drain_if_due(&mut self, now: BootInstant) {
        let nothing_runs = self.attempts.count() == 0;
        if !self.leaving.drain_is_due(&self.io, now, nothing_runs) {
            return;
        }
        let mut ending = self.attempts.living();
        ending.retain(|id| self.leaving.tells(*id));
        self.attempts.end(&ending, KillReason::Shutdown);
        if !ending.is_empty() {
            self.io.emit(Event::DrainDeadline {
                attempts: ending.len(),
            });
        }
    }

    /// Whether the session has come to its end.
    pub(super) fn leave_if_done(&mut self, now: BootInstant) -> Next {
        // What a claim under way wins is to be known before the session is closed.
        let idle = self.attempts.count() == 0 && self.scheduling.scheduler.is_idle();
        match self.leaving.step(now, idle) {
            Step::Wait => Next::Go,
            Step::Close => Next::Close,
            Step::EndWhatRuns => {
                // As at the deadline of a drain: each attempt has its job's grace.
                let longest = self.attempts.end(&self.attempts.all(), KillReason::Shutdown);
                self.leaving.kill(&self.io, "ending what runs", now, longest);
                Next::Go
            }
        }
    }
}
