//! What a session sends because something is due, and what the answers say: changes of jobs, firings, claims, rows of tables, settlements.

use std::time::Duration;

use farmhand_core::due;
use farmhand_core::lease::{BootInstant, claim_delay, rank};
use farmhand_os::clock::boot_now;
use farmhand_os::random::random;
use farmhand_store::protocol::{self, Claimed, Fire, Fired, JobRow, Overdue, PartialClaim, Poll};
use farmhand_store::tables::{self as rows, Dispatched};
use farmhand_store::{StoreError, signatures};
use farmhand_telemetry::events::Event;

use super::scheduler::{Scheduler, TRYING_RANKS};
use super::signatures::SignatureSync;
use super::tables::{TABLE_RANKS, Tables};
use super::triggers::TriggerDispatcher;
use crate::inbox::Input;
use crate::session::database::DbClock;
use crate::session::io::Io;
use crate::session::poll::OVERDUE_AFTER;

/// Fire statements under way at once.
const FIRES_AT_ONCE: usize = 2;

/// Overdue jobs read at once; the next poll brings more.
const OVERDUE_BATCH: i64 = 10_000;

/// As long as `claim` leaves shards to the other nodes, and a little.
const SHARDS_LEFT_TO_OTHERS: Duration = Duration::from_millis(3_100);

/// After a claim that failed.
const CLAIM_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Scheduling {
    pub(crate) scheduler: Scheduler,
    pub(crate) tables: Tables,
    triggers: TriggerDispatcher,
    pub(crate) signatures: SignatureSync,
    loading_jobs: bool,
    /// What is being loaded is of a database that was replaced since.
    jobs_outdated: bool,
    fires_in_flight: usize,
    /// Some jobs need pools, locks or rates.
    gates: bool,
}

impl Scheduling {
    pub(crate) fn new(me: &str) -> Self {
        Self {
            scheduler: Scheduler::new(me),
            tables: Tables::default(),
            triggers: TriggerDispatcher::default(),
            signatures: SignatureSync::default(),
            loading_jobs: false,
            jobs_outdated: false,
            fires_in_flight: 0,
            gates: false,
        }
    }

    /// When the next job may have to be fired.
    pub(crate) fn next_fire(&self, clock: &DbClock, now: BootInstant) -> Option<BootInstant> {
        let may_fire = self.fires_in_flight < FIRES_AT_ONCE;
        let due = self.scheduler.next_due().filter(|_| may_fire);
        due.map(|at| clock.boot_at(at, now))
    }

    /// `room`: how many runs may be claimed; None while none may.
    pub(crate) fn fire_if_due(
        &mut self,
        io: &Io,
        now: BootInstant,
        clock: &DbClock,
        room: Option<impl Fn() -> usize>,
    ) {
        while self.fires_in_flight < FIRES_AT_ONCE {
            let fires = self.scheduler.take_due(clock.at(now));
            if fires.is_empty() {
                return;
            }
            // What a claim or a firing under way will take is not known yet, nor what a claim that waits for more places will.
            let free = self.fires_in_flight == 0 && self.scheduler.has_places() && !self.leaves_to_others(io);
            let room = room.as_ref().filter(|_| free).map_or(0, |room| room());
            self.fires_in_flight += 1;
            let ctx = io.ctx.clone();
            io.spawn(async move {
                let result = protocol::fire_for(&ctx.db, &fires, room).await;
                Input::Fired { fires, result }
            });
        }
    }

    /// Whether runs may be left to others here, who then have to be told of them.
    fn leaves_to_others(&self, io: &Io) -> bool {
        self.signatures.refused_lately() || io.ctx.start_pause().why().is_some()
    }

    /// Whether something may be overdue then.
    pub(crate) fn fired(&mut self, io: &Io, fires: &[Fire], result: Result<Vec<Fired>, StoreError>) -> bool {
        self.fires_in_flight -= 1;
        let Ok(fired) = result else {
            // It may not have been fired.
            return true;
        };
        skips(&fired).for_each(|event| io.emit(event));
        if fired.iter().any(|f| !f.run_ids.is_empty()) {
            self.scheduler.hint();
        }
        let lost = fired.len() < fires.len();
        if lost {
            io.emit(Event::ClaimLost { kind: "scheduled" });
        }
        // Usually a later rank finds the work done. Alone, the clock was not there yet after all.
        lost && self.scheduler.live().len() == 1
    }

    /// A poll was answered. `anew`: by a database that may have given the numbers of changes a second time.
    pub(crate) fn polled(
        &mut self,
        io: &Io,
        poll: &Poll,
        anew: bool,
        clock: &DbClock,
        received: BootInstant,
    ) {
        self.scheduler.set_live(poll.live_addresses.clone());
        let anew = anew || self.scheduler.was_set_back(poll.job_seq);
        if anew {
            self.scheduler.start_over();
            self.jobs_outdated = self.loading_jobs;
        }
        if self.scheduler.is_behind(poll.job_seq) || anew {
            self.load_jobs(io, Some(poll.job_seq));
        }
        // What has just become due is somebody's turn; left alone for longer, it is everybody's.
        if (poll.earliest_next_run).is_some_and(|at| at + OVERDUE_AFTER <= poll.db_now) {
            let ctx = io.ctx.clone();
            io.spawn(async move { Input::OverdueLoaded(protocol::overdue(&ctx.db, OVERDUE_BATCH).await) });
        }
        if poll.unsettled {
            self.triggers.left_behind();
        }
        if let Some(ready) = poll.earliest_ready {
            self.scheduler.hint_at(clock.boot_at(ready, received));
        }
        self.gates = poll.gates;
        // A run that waits for a pool, a lock or a rate: at once for everybody when its time has passed, else in an order that spares the
        // database the herd; whom it leaves out the next poll tells.
        if let Some(at) = poll.gated_at {
            let ready = clock.boot_at(at, received);
            let rank = rank("", at.as_microsecond(), &io.me.address, self.scheduler.live());
            if ready <= received {
                self.scheduler.hint_at(ready);
            } else if rank < TRYING_RANKS {
                self.scheduler.hint_at(ready + claim_delay(rank));
            }
        }
        self.signatures.forget_refusals_if_changed(io);
    }

    /// Runs of a job are due; for one node, if there is `node`.
    pub(crate) fn due(&mut self, io: &Io, job: &str, run_id: i64, runs: i64, now: BootInstant) {
        let rank = rank(job, run_id, &io.me.address, self.scheduler.live());
        // The others' polls tell them of what these leave undone.
        let wanted = usize::try_from(runs).unwrap_or(TRYING_RANKS);
        if rank < TRYING_RANKS {
            self.scheduler.hint_at(now + claim_delay(rank));
        } else if rank < wanted {
            // Several runs: more nodes, not later ones.
            self.scheduler.hint_at(now + claim_delay(TRYING_RANKS - 1));
        }
    }

    pub(crate) fn changed(&mut self, io: &Io, seq: i64) {
        if seq > self.scheduler.seq() {
            self.load_jobs(io, None);
        }
    }

    fn load_jobs(&mut self, io: &Io, newest: Option<i64>) {
        if std::mem::replace(&mut self.loading_jobs, true) {
            return;
        }
        let (ctx, after) = (io.ctx.clone(), self.scheduler.seq());
        io.spawn(async move {
            Input::JobsLoaded {
                after,
                newest,
                result: protocol::jobs_since(&ctx.db, after).await,
            }
        });
    }

    pub(crate) fn jobs_loaded(
        &mut self,
        io: &Io,
        after: i64,
        newest: Option<i64>,
        result: Result<Vec<JobRow>, StoreError>,
    ) {
        self.loading_jobs = false;
        if std::mem::take(&mut self.jobs_outdated) {
            self.load_jobs(io, None);
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
            self.triggers.keep(&all);
        }
        for row in rows {
            self.tables.learn(&row, boot_now());
            self.triggers.learn(&row);
            self.signatures.learn(io, &row);
            if let Err(error) = self.scheduler.learn(&row) {
                io.emit(Event::BadDefinition {
                    job_id: row.job_id.clone(),
                    error,
                });
            }
        }
    }

    pub(crate) fn overdue(
        &mut self,
        io: &Io,
        result: Result<Vec<Overdue>, StoreError>,
        clock: &DbClock,
        now: BootInstant,
    ) {
        let rows = result.unwrap_or_default();
        if !self.loading_jobs && self.scheduler.starts_over(&rows, now) {
            self.load_jobs(io, None);
        }
        self.scheduler.overdue(&rows, clock.at(now));
    }

    /// Asks for up to `free` runs, of `slots` places in all, if there is reason to.
    pub(crate) fn claim_if_wanted(&mut self, io: &Io, now: BootInstant, free: u32, slots: u32) {
        let Some(n) = self.scheduler.take_claim(now, free, slots) else {
            return;
        };
        let (ctx, me, gates) = (io.ctx.clone(), io.me.clone(), self.gates);
        io.spawn(async move {
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

    /// A claim was answered; `error`: not of all that it may have won. `starts`: what it won is started here.
    pub(crate) fn claimed(
        &mut self,
        io: &Io,
        won: &[Claimed],
        error: Option<&StoreError>,
        starts: bool,
        now: BootInstant,
    ) {
        self.scheduler.claimed(error.is_none().then_some(won.len()));
        if let Some(e) = error {
            self.scheduler.hint_at(now + CLAIM_AGAIN);
            io.emit(Event::ClaimFailed { error: e.to_string() });
        } else if won.is_empty() {
            io.emit(Event::ClaimLost { kind: "any" });
        }
        if starts && won.iter().any(|run| run.instances > 1 && run.firing.is_some()) {
            // Shards that the nodes they were left to did not take.
            self.scheduler.hint_at(now + SHARDS_LEFT_TO_OTHERS);
        }
    }

    /// An attempt has ended, and its run comes again, or the next round, whose end others may follow.
    pub(crate) fn comes_again(&mut self, job_id: &str, at: BootInstant) {
        self.triggers.ended(job_id);
        self.scheduler.hint_at(at);
    }

    /// A run has ended, and nothing of it comes again.
    pub(crate) fn ended(&mut self, job_id: &str) {
        self.triggers.ended(job_id);
        if self.gates {
            // Others may have waited for what it held.
            self.scheduler.hint();
        } else {
            // Queued runs of the same job may have been let go.
            self.scheduler.hint_if_backlog();
        }
    }

    /// Rows of a job wait, and every agent is told.
    pub(crate) fn rows_wait(&mut self, io: &Io, job_id: &str, now: BootInstant) {
        let rank = rank(job_id, 0, &io.me.address, self.scheduler.live());
        if rank < TABLE_RANKS {
            self.tables.poll_at(job_id, now + claim_delay(rank));
        }
    }

    pub(crate) fn dispatch_if_due(&mut self, io: &Io, now: BootInstant) {
        let (own, live) = (&io.me.address, self.scheduler.live());
        let due = self.tables.take_due(now, |job| rank(job, 0, own, live), random);
        for job_id in due {
            let ctx = io.ctx.clone();
            io.spawn(async move {
                let result = rows::dispatch(&ctx.tables_db, &job_id).await;
                Input::Dispatched { job_id, result }
            });
        }
    }

    pub(crate) fn dispatched(
        &mut self,
        io: &Io,
        job_id: &str,
        result: Result<Dispatched, StoreError>,
        now: BootInstant,
    ) {
        // What fails with another login is told of the job, but for a connection that broke or leads to a standby: the next poll makes a
        // new one.
        let result = match result {
            Err(
                lost @ (StoreError::ConnectionLost { .. } | StoreError::ReadOnly | StoreError::WritesOff),
            ) => Err(lost),
            Err(error) if io.ctx.config.rows_database_url.is_some() && !io.ctx.outage.lasts() => {
                Ok(Dispatched {
                    problem: Some(format!("the login for rows: {error}")),
                    ..Dispatched::default()
                })
            }
            result => result,
        };
        if let Some(error) = self.tables.polled(job_id, &result, now) {
            io.emit(Event::TableRefused {
                job_id: job_id.to_owned(),
                error,
            });
        }
        let Ok(answer) = result else { return };
        if self.tables.lacks_keys(job_id, &answer) {
            io.emit(Event::RowsWithoutKey {
                job_id: job_id.to_owned(),
            });
        }
        if answer.unwritten {
            io.ctx.row_bell.ring();
        }
        if answer.made > 0 {
            self.scheduler.hint();
        }
    }

    pub(crate) fn settle_if_wanted(&mut self, io: &Io) {
        let Some(parents) = self.triggers.take() else {
            return;
        };
        let ctx = io.ctx.clone();
        io.spawn(async move { Input::Triggered(protocol::settle(&ctx.db, parents.as_deref()).await) });
    }

    pub(crate) fn triggered(&mut self, io: &Io, result: Result<Vec<Fired>, StoreError>) {
        self.triggers.answered();
        // After an error the next poll shows what is left.
        let fired = result.unwrap_or_default();
        skips(&fired).for_each(|event| io.emit(event));
        if fired.iter().any(|job| !job.run_ids.is_empty()) {
            self.scheduler.hint();
        }
    }

    pub(crate) fn refusals_forgotten(&mut self, result: &Result<usize, StoreError>) {
        match result {
            Ok(0) => {}
            Ok(_) => self.scheduler.hint(),
            Err(_) => self.signatures.ask_again(),
        }
    }
}

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
