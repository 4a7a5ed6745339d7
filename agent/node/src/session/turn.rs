//! The loop of a session: everything that happens arrives as an [`Input`], one synchronous handler decides, and what takes time is
//! started as a task that answers with another input. So no two decisions ever interleave.
//!
//! Six rooms own the state: lease, poll, database, scheduling, attempts and leaving. They never hold each other: who is told next, and
//! in which order, stands here and in `across`.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::document::from_millis;
use farmhand_core::lease::{BootInstant, Database};
use farmhand_os::alarm::Sleeper;
use farmhand_os::clock::{self, boot_now};
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Serving};
use tokio::sync::mpsc;

use super::attempts::{Attempts, WardenLink};
use super::database::KnownDatabase;
use super::io::Io;
use super::lease::{LEASE_GRACE, Lease};
use super::leaving::Leaving;
use super::poll::FailureDetector;
use super::scheduling::Scheduling;
use crate::inbox::Input;
use crate::systemd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// Expired by another agent: open a new one.
    Lost,
    /// A newer agent has the warden: touch nothing, leave.
    Superseded,
    /// Closed; nothing runs here.
    Closed,
    /// The jobs go on under the warden for the next agent to adopt.
    HandedOver,
}

/// What a decision leaves to be waited for.
pub(super) enum Next {
    Go,
    /// Another agent expired the session.
    Lost,
    /// A newer agent has the warden.
    Superseded,
    /// Somebody else uses this very session, it seems: a copy of this machine.
    Shared {
        database: Box<Database>,
        renewals: i64,
    },
    /// The jobs are the next agent's, unless the machine goes down.
    HandOver,
    Close,
}

pub(crate) struct Session {
    pub(super) io: Io,
    pub(super) lease: Lease,
    pub(super) poll: FailureDetector,
    pub(super) database: KnownDatabase,
    pub(super) scheduling: Scheduling,
    pub(super) attempts: Attempts,
    pub(super) leaving: Leaving,
    pub(super) inputs: mpsc::Receiver<Input>,
}

impl Session {
    /// `opened_sent` was read before the statement that opened or adopted the session was sent. `left_behind`: what a warden had begun
    /// that was dead at the adoption; None for a session that was not adopted.
    pub(crate) fn new(
        io: Io,
        opened_sent: BootInstant,
        warden: WardenLink,
        (adopted, left_behind): (Vec<AttemptReport>, Option<HashSet<AttemptId>>),
        inputs: mpsc::Receiver<Input>,
    ) -> Self {
        let ctx = &io.ctx;
        let slewed = clock::slewed_beyond(clock::SLEW_LIMIT);
        let longest = (ctx.memory.latest()).map_or((0, Duration::ZERO), |m| {
            (m.epoch, from_millis(m.longest_lease_ms))
        });
        let timing = ctx.timing.with_slewed_clock(slewed);
        let mut lease = Lease::new(timing, LEASE_GRACE, opened_sent);
        lease.set_slewed(slewed);
        if left_behind.is_some() {
            // What the agent before this one claimed last.
            lease.copies.unsure(boot_now());
        }
        let slots = ctx.tunable().slots;
        let mut session = Self {
            lease,
            poll: FailureDetector::new(timing, slewed, longest),
            database: KnownDatabase::default(),
            scheduling: Scheduling::new(&io.me.address),
            attempts: Attempts::new(slots, warden, left_behind.unwrap_or_default()),
            leaving: Leaving::default(),
            inputs,
            io,
        };
        for report in session.attempts.adopt(&session.io, adopted, opened_sent) {
            session.exited(report);
        }
        session
    }

    /// What its warden serves.
    pub(crate) fn serving(&self) -> Serving {
        self.io.serving()
    }

    /// One line for `systemctl status`.
    pub(crate) fn status(&self) -> String {
        let what = if self.io.ctx.outage.lasts() {
            "the database is out of reach; "
        } else if !self.leaving.works() {
            "leaving; "
        } else if self.leaving.is_withheld() {
            "withheld by an operator; "
        } else {
            ""
        };
        let (session, running) = (self.io.me.session, self.attempts.count());
        let slots = self.attempts.slots();
        format!("{what}session {session}, {running} running in {slots} slots")
    }

    /// Runs until the session is over, however it ends.
    pub(crate) async fn run(mut self) -> SessionEnd {
        let mut sleeper = Sleeper::new();
        loop {
            let now = boot_now();
            // It sends nothing when it is not due.
            systemd::alive(now, || self.status());
            self.act(now);
            let next = self.leave_if_done(now);
            if let Some(end) = self.awaited(next).await {
                return end;
            }
            let wake = self.next_wakeup(boot_now());
            let mut input = tokio::select! {
                biased;
                input = self.inputs.recv() => input,
                () = sleeper.until(wake) => None,
            };
            while let Some(heard) = input {
                let next = self.handle(heard, boot_now());
                if let Some(end) = self.awaited(next).await {
                    return end;
                }
                input = self.inputs.try_recv().ok();
            }
        }
    }

    /// Decides about one input. Never waits: what takes time is started, and comes back as another input.
    fn handle(&mut self, input: Input, now: BootInstant) -> Next {
        let (io, scheduling) = (&self.io, &mut self.scheduling);
        if self.database.heard(io, &input, now) {
            self.poll.reconnected();
            scheduling.scheduler.hint();
        }
        match input {
            Input::Renewed { sent, result } => return self.renewed(sent, result, now),
            Input::Polled {
                sent,
                received,
                result,
            } => self.polled(sent, received, result),
            Input::JobsLoaded {
                after,
                newest,
                result,
            } => scheduling.jobs_loaded(io, after, newest, result),
            Input::OverdueLoaded(result) => scheduling.overdue(io, result, &self.database.clock, now),
            Input::Fired { fires, result } => {
                if scheduling.fired(io, &fires, result) {
                    self.poll.look_for_overdue(now);
                }
            }
            Input::Dispatched { job_id, result } => scheduling.dispatched(io, &job_id, result, now),
            Input::Claimed { sent, took, result } => self.claimed(sent, took, result, now),
            Input::Triggered(result) => scheduling.triggered(io, result),
            Input::RefusalsForgotten(result) => scheduling.refusals_forgotten(&result),
            Input::SerialsTold(left) => scheduling.signatures.answered(left),
            Input::Spawned { id, result } => {
                let follows = self.attempts.spawned(io, id, result, self.leaving.ends(id), now);
                self.follow(follows, now);
            }
            Input::Forbidden(ids) => self.attempts.forbidden(io, &ids, self.lease.still_unknown(&ids)),
            Input::GivenBack(ids) => {
                if self.attempts.given_back(io, &ids) {
                    scheduling.scheduler.hint();
                }
            }
            Input::Warden(input) => return self.warden(input, now),
            Input::Settled(settled) => self.settled(&settled, now),
            Input::Remembered(key) => self.poll.compared(key),
            Input::RunsRaised(raised) => self.database.runs_raised(raised),
            Input::Known { shown, known } => {
                if self.database.identified(io, &shown, &known) {
                    self.poll.poll_now();
                    self.lease.renew_now();
                }
            }
            Input::Watched { token, answered } => {
                if self.poll.acted(io, &token, answered) {
                    scheduling.scheduler.hint();
                }
            }
            Input::Note(note) => self.noted(&note, now),
            Input::Reopened(result) => {
                if self.leaving.described(result) {
                    scheduling.scheduler.hint();
                }
            }
            Input::Signal(signal) => return self.signal(signal, now),
        }
        Next::Go
    }

    /// Starts whatever is due now.
    fn act(&mut self, now: BootInstant) {
        self.renew_if_due(now);
        if self.poll.poll_if_due(&self.io, now) {
            self.scheduling.scheduler.polls();
        }
        let (works, claims) = (self.may_work(now), self.may_claim(now));
        let (io, scheduling, attempts) = (&self.io, &mut self.scheduling, &mut self.attempts);
        if works {
            let room = claims.then_some(|| attempts.room(io));
            scheduling.fire_if_due(io, now, &self.database.clock, room);
            scheduling.dispatch_if_due(io, now);
        }
        scheduling.settle_if_wanted(io);
        scheduling.signatures.tell(io, attempts.warden.connection());
        attempts.forbid_refused();
        let room = if claims { attempts.room(io) } else { 0 };
        let free = u32::try_from(room).unwrap_or(u32::MAX);
        io.ctx.events.metrics.slots_free.set(i64::from(free));
        if claims {
            scheduling.claim_if_wanted(io, now, free, attempts.slots());
        }
        self.drain_if_due(now);
    }

    /// Only of what [`Self::act`] would do: a time that passes without it would be waited for in a tight loop.
    fn next_wakeup(&self, now: BootInstant) -> BootInstant {
        let (works, claims) = (self.may_work(now), self.may_claim(now));
        let scheduling = &self.scheduling;
        let wakes = [
            Some(now + systemd::sign_every()),
            self.lease.next_wakeup(),
            self.poll.next_wakeup(),
            scheduling.scheduler.next_hint().filter(|_| claims),
            self.io.ctx.start_pause().ends_after(now),
            scheduling.next_fire(&self.database.clock, now).filter(|_| works),
            scheduling.tables.next_poll().filter(|_| works),
        ];
        let wakes = wakes.into_iter().flatten();
        wakes.chain(self.leaving.next_wakeups(now)).min().unwrap_or(now)
    }

    /// Whether this agent may claim; a hint whose time has come waits for that.
    fn may_claim(&self, now: BootInstant) -> bool {
        self.may_work(now) && self.io.ctx.start_pause().ends_after(now).is_none()
    }

    /// Whether this agent may start anything.
    fn may_work(&self, now: BootInstant) -> bool {
        self.leaving.works()
            && !self.leaving.is_withheld()
            && !self.io.ctx.outage.lasts()
            && self.database.clock.known()
            && self.lease.may_claim(now)
            && self.poll.may_claim()
    }
}
