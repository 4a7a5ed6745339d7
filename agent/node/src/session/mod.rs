//! One session of this node's lease, from the moment it is open until it is over.
//!
//! Everything that happens arrives as an [`Input`]; a synchronous handler decides and starts what must be
//! done as a task that answers with another input. So no two decisions ever interleave.

mod adopt;
pub(crate) mod attempts;
mod database;
mod lease;
mod leave;
mod losing;
mod notices;
mod order;
mod orphans;
mod progress;
mod refused_starts;
mod rows;
mod signature_sync;
mod starting;
mod triggers;
mod watch;
mod watchdog;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use farmhand_core::document::from_millis;
use farmhand_core::lease::{BootInstant, EpochKey};
use farmhand_store::{LeaseIdentity, StoreError};
use tokio::sync::mpsc;

use crate::alone::Alone;
use crate::context::Context;
use crate::dbclock::DbClock;
use crate::failure_detector::FailureDetector;
use crate::inbox::Input;
use crate::lease::Lease;
use crate::outage::Unanswered;
use crate::scheduler::Scheduler;
use crate::tables::Tables;
use crate::warden_link::WardenLink;
use farmhand_os::alarm::Sleeper;
use farmhand_os::clock::{self, boot_now};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::request::Assignment;
use farmhand_warden_client::wire::{AttemptId, AttemptReport, Serving};

/// Between SIGTERM and the kernel's timer when the lease runs out.
pub const LEASE_GRACE: Duration = Duration::from_secs(5);

/// Fire statements under way at once.
const FIRES_AT_ONCE: usize = 2;

/// Why a session's loop returned.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The warden has been asked.
    Starting,
    Running,
    /// Not started here: the machine would not, or it was won too late. Its run is being given back.
    Refused,
    /// Reported by the warden, being written down.
    Ended,
}

impl Phase {
    /// Whether a process of it may live.
    fn may_live(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

struct Attempt {
    assignment: Assignment,
    slot: Option<u32>,
    /// Read before the claim was sent; for adopted attempts, before the adoption.
    since: BootInstant,
    phase: Phase,
    cancelled: bool,
    /// Being ended, because the database does not show it as ours.
    fenced: bool,
    /// Killed, and the kernel does not end it.
    unkillable: bool,
    /// The newest of its children's ends that is an event already.
    kills_heard: u64,
}

impl Attempt {
    /// As of what no warden is asked to start.
    fn new(assignment: Assignment, phase: Phase) -> Self {
        Self {
            assignment,
            slot: None,
            since: boot_now(),
            phase,
            cancelled: false,
            fenced: false,
            unkillable: false,
            kills_heard: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Working,
    /// Claims nothing more; what still runs at `until` is ended.
    Draining {
        until: Option<BootInstant>,
    },
    /// Everything has been told to die; what is not written down by `give_up` is left to the lease.
    Killing {
        give_up: BootInstant,
    },
}

/// One session's whole state.
pub(crate) struct Session {
    ctx: Arc<Context>,
    me: LeaseIdentity,
    lease: Lease,
    alone: Alone,
    scheduler: Scheduler,
    tables: Tables,
    detector: FailureDetector,
    warden: WardenLink,
    attempts: HashMap<AttemptId, Attempt>,
    slots: u32,
    free_slots: BTreeSet<u32>,
    /// Refused by the machine; the warden is still to be told that they never start.
    to_forbid: BTreeSet<AttemptId>,
    mode: Mode,
    /// What this node says about itself is not in its row.
    undescribed: bool,
    /// Set in the node's row by an operator.
    withheld: bool,
    drain: Option<order::Drain>,
    /// Some jobs need pools, locks or rates.
    gates: bool,
    db_clock: DbClock,
    /// The database that could not be told for the one of before, said once.
    unknown: Option<EpochKey>,
    /// The database that was told of the numbers of runs that were seen here.
    raised_in: Option<EpochKey>,
    /// This session has met an outage, and no answer since.
    was_away: bool,
    /// Attempts that the warden ended at the lease's end, of which no event has told.
    ended_by_lease: usize,
    /// Attempts of a dead warden that are held until its last process has ended.
    stuck: HashSet<AttemptId>,
    slewed: bool,
    loading_jobs: bool,
    /// What is being loaded is of a database that was replaced since.
    jobs_outdated: bool,
    fires_in_flight: usize,
    trigger_dispatcher: triggers::TriggerDispatcher,
    signature_sync: signature_sync::SignatureSync,
    /// What a warden that was dead at the adoption had begun: lost, not "never started".
    left_behind: HashSet<AttemptId>,
    inputs: mpsc::Receiver<Input>,
    tx: mpsc::Sender<Input>,
}

impl Session {
    /// `opened_sent` was read before the statement that opened or adopted the session was sent.
    pub(crate) fn new(
        ctx: Arc<Context>,
        me: LeaseIdentity,
        opened_sent: BootInstant,
        warden: WardenLink,
        adopted: Vec<AttemptReport>,
        channel: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    ) -> Self {
        let slewed = clock::slewed_beyond(clock::SLEW_LIMIT);
        let timing = ctx.timing.with_slewed_clock(slewed);
        let remembered = ctx.memory.latest();
        let longest = remembered.map_or((0, Duration::ZERO), |m| {
            (m.epoch, from_millis(m.longest_lease_ms))
        });
        let mut session = Self {
            lease: Lease::new(timing, LEASE_GRACE, opened_sent),
            alone: Alone::default(),
            scheduler: Scheduler::new(&me.address),
            tables: Tables::default(),
            detector: FailureDetector::new(timing, slewed, longest),
            warden,
            attempts: HashMap::new(),
            free_slots: (1..=ctx.tunable().slots).collect(),
            slots: ctx.tunable().slots,
            to_forbid: BTreeSet::new(),
            mode: Mode::Working,
            undescribed: false,
            withheld: false,
            drain: None,
            gates: false,
            db_clock: DbClock::default(),
            unknown: None,
            raised_in: None,
            was_away: false,
            ended_by_lease: 0,
            stuck: HashSet::new(),
            slewed,
            loading_jobs: false,
            jobs_outdated: false,
            fires_in_flight: 0,
            trigger_dispatcher: triggers::TriggerDispatcher::default(),
            signature_sync: signature_sync::SignatureSync::default(),
            left_behind: HashSet::new(),
            inputs: channel.1,
            tx: channel.0,
            me,
            ctx,
        };
        session.adopt(adopted, opened_sent);
        session.warn_of_few_places();
        session
    }

    /// What its warden serves.
    pub(crate) fn serving(&self) -> Serving {
        Serving {
            session: self.me.session,
            incarnation: self.me.incarnation,
        }
    }

    /// Runs until the session is over, however it ends.
    pub(crate) async fn run(mut self) -> SessionEnd {
        let mut sleeper = Sleeper::new();
        loop {
            let now = boot_now();
            self.beat(now);
            self.act(now);
            if let Some(end) = self.check_end(now).await {
                return end;
            }
            let wake = self.next_wakeup(boot_now());
            let mut next = tokio::select! {
                biased;
                input = self.inputs.recv() => input,
                () = sleeper.until(wake) => None,
            };
            while let Some(input) = next {
                if let Some(end) = self.on(input).await {
                    return end;
                }
                next = self.inputs.try_recv().ok();
            }
        }
    }

    async fn on(&mut self, input: Input) -> Option<SessionEnd> {
        match input {
            Input::Renewed { sent, result } => return self.on_renewed(sent, result).await,
            Input::Polled {
                sent,
                received,
                result,
            } => self.on_polled(sent, received, result),
            Input::JobsLoaded {
                after,
                newest,
                result,
            } => self.on_jobs(after, newest, result),
            Input::OverdueLoaded(result) => self.on_overdue(result),
            Input::Fired { fires, result } => self.on_fired(&fires, result),
            Input::Dispatched { job_id, result } => self.on_dispatched(&job_id, result),
            Input::Claimed { sent, took, result } => self.on_claimed(sent, took, result),
            Input::Triggered(result) => self.on_triggered(result),
            Input::RefusalsForgotten(result) => self.on_refusals_forgotten(result),
            Input::SerialsTold(left) => self.on_serials_told(left),
            Input::Spawned { id, result } => self.on_spawned(id, result),
            Input::Forbidden(ids) => self.on_forbidden(&ids),
            Input::GivenBack(ids) => self.on_given_back(&ids),
            Input::Warden(input) => return self.on_warden(input).await,
            Input::Settled(settled) => self.on_settled(&settled),
            Input::Remembered(key) => self.detector.compared(key),
            Input::RunsRaised(true) => {}
            Input::RunsRaised(false) => self.raised_in = None,
            Input::Known { shown, known } => self.on_known(&shown, &known),
            Input::Watched(watched) => self.on_watched(watched),
            Input::Note(note) => self.on_note(&note),
            Input::Reopened(result) => self.on_reopened(result),
            Input::Signal(signal) => return self.on_signal(signal).await,
        }
        None
    }

    /// Starts whatever is due now.
    fn act(&mut self, now: BootInstant) {
        self.renew_if_due(now);
        self.poll_if_due(now);
        self.fire_if_due(now);
        self.dispatch_if_due(now);
        self.settle_if_wanted();
        self.tell_serials();
        self.forbid_refused();
        self.claim_if_wanted(now);
        self.drain_if_due(now);
    }

    /// Only of what [`Self::act`] would do: a time that passes without it would be waited for in a tight loop.
    fn next_wakeup(&self, now: BootInstant) -> BootInstant {
        let mut wakes = vec![now + crate::systemd::sign_every()];
        wakes.extend(self.lease.next_wakeup());
        wakes.extend(self.detector.next_wakeup());
        if self.may_claim(now) {
            wakes.extend(self.scheduler.next_hint());
        }
        wakes.extend(self.ctx.start_pause().ends_after(now));
        if self.may_fire(now) {
            wakes.extend(self.scheduler.next_due().map(|at| self.db_clock.boot_at(at, now)));
        }
        if self.may_work(now) {
            wakes.extend(self.tables.next_poll());
        }
        if let Mode::Draining { until: Some(until) } = self.mode {
            wakes.push(until);
        }
        wakes.extend(self.drain.as_ref().and_then(|drain| drain.next_wakeup(now)));
        wakes.into_iter().min().unwrap_or(now)
    }

    /// Whether this agent may claim; a hint whose time has come waits for that.
    fn may_claim(&self, now: BootInstant) -> bool {
        self.may_work(now) && self.ctx.start_pause().ends_after(now).is_none()
    }

    /// Whether this agent may fire now.
    fn may_fire(&self, now: BootInstant) -> bool {
        self.may_work(now) && self.fires_in_flight < FIRES_AT_ONCE
    }

    /// Whether this agent may start anything.
    fn may_work(&self, now: BootInstant) -> bool {
        self.mode == Mode::Working
            && !self.withheld
            && !self.ctx.outage.lasts()
            && self.db_clock.known()
            && self.lease.may_claim(now)
            && self.detector.may_claim()
    }

    /// Runs `work` beside the loop; its input comes back to it.
    fn spawn<F>(&self, work: F)
    where
        F: Future<Output = Input> + Send + 'static,
    {
        let tx = self.tx.clone();
        tokio::spawn(async move {
            // A closed channel: the session is over, and its answers with it.
            let _ = tx.send(work.await).await;
        });
    }

    fn emit(&self, event: Event) {
        self.ctx.events.emit(event);
    }

    /// Notes whether the database answers; says so when that changes.
    fn note_db<T>(&mut self, op: &'static str, unanswered: Unanswered, result: &Result<T, StoreError>) {
        match result {
            Ok(_) => {
                // Another task of this agent may have seen the end of the outage first.
                if std::mem::take(&mut self.was_away) {
                    self.detector.reconnected();
                    self.scheduler.hint();
                }
                if let Some(away) = self.ctx.outage.end(boot_now()) {
                    self.emit(Event::DatabaseUp { away: Some(away) });
                }
            }
            Err(e) => {
                if unanswered.is_outage(e) {
                    self.was_away = true;
                    if self.ctx.outage.begin(boot_now()) {
                        self.emit(Event::DatabaseAway);
                    }
                }
                self.emit(Event::database_down(op, e));
            }
        }
    }
}
