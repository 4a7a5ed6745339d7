//! Which jobs this agent fires, when it polls for work, and how much it asks for.
//!
//! Pure bookkeeping over a small copy of every job's schedule; times are the database's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use farmhand_core::definition::{JobSpec, RunOn};
use farmhand_core::due::{self, DuePolicy};
use farmhand_core::lease::{BootInstant, claim_delay, rank};
use farmhand_core::schedule::Schedule;
use farmhand_store::protocol::{Fire, JobRow, Overdue};
use jiff::Timestamp;

use crate::session::answers::Answers;

/// Jobs fired in one statement.
const FIRE_BATCH: usize = 1_000;

/// Runs made by one statement, beyond those of its last job: a catch-up is done piece by piece, each within the time that a
/// statement has.
const RUNS_BATCH: usize = 10_000;

/// Skipped instants that are planned for one statement, beyond those of its last job: the session's loop waits for the plan.
const INSTANTS_BATCH: i64 = 1_000_000;

/// Between two readings of all jobs.
const START_OVER: Duration = Duration::from_secs(60);

/// Nodes that wake for a due instant by themselves, one after the other.
pub(crate) const TRYING_RANKS: usize = 3;

/// With more to claim than there are places, so long a claim waits for half of them: ends come one by one, and a claim costs for one run
/// what it costs for several.
const GATHER: Duration = Duration::from_millis(1);

/// By then the first ranks have fired it, or a poll has shown it overdue.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(3);

struct CachedJob {
    rev: i64,
    schedule: Schedule,
    policy: DuePolicy,
    next_run: Timestamp,
    wake: Timestamp,
    /// Whether this agent fires it at `wake`.
    fires: bool,
    /// Its schedule has come to its end, as far as is known here: not waited for, until a poll shows it overdue.
    over: bool,
    /// Runs that one instant makes, on each of its nodes.
    instances: usize,
    /// Whether all nodes are its nodes.
    each_node: bool,
}

impl CachedJob {
    /// So long after it fires for its next instant, which a spread makes a little later than that.
    fn late_by(&self, delay: Duration) -> Timestamp {
        let late = self.schedule.late_at(self.next_run);
        self.next_run
            .saturating_add(late + delay)
            .unwrap_or(self.next_run)
    }
}

/// The jobs as this agent last saw them, and what it waits for.
pub(crate) struct Scheduler {
    me: String,
    live: Vec<String>,
    jobs: HashMap<String, CachedJob>,
    wakes: BTreeSet<(Timestamp, String)>,
    seq: i64,
    /// As it was when the poll under way was sent.
    polled_from: i64,
    /// The last poll showed changes that were not read yet.
    behind: bool,
    started_over: Option<BootInstant>,
    /// Something may be claimable now.
    hint: bool,
    /// The last claim took all it asked for.
    backlog: bool,
    /// Something may be claimable then.
    later: Option<BootInstant>,
    /// Until then a claim waits for more places.
    gathers_until: Option<BootInstant>,
    in_flight: u32,
    sent: u64,
    answered: u64,
    pub(crate) claims: Answers,
}

impl Scheduler {
    pub(crate) fn new(me: &str) -> Self {
        Self {
            me: me.to_owned(),
            live: vec![me.to_owned()],
            jobs: HashMap::new(),
            wakes: BTreeSet::new(),
            seq: 0,
            polled_from: 0,
            behind: true,
            started_over: None,
            hint: true,
            backlog: false,
            later: None,
            gathers_until: None,
            in_flight: 0,
            sent: 0,
            answered: 0,
            claims: Answers::default(),
        }
    }

    /// The newest job change seen.
    pub(crate) fn seq(&self) -> i64 {
        self.seq
    }

    /// Nodes that may fire, for the order in which they try. A change re-ranks every waiting job.
    pub(crate) fn set_live(&mut self, mut live: Vec<String>) {
        if !live.contains(&self.me) {
            live.push(self.me.clone());
        }
        live.sort_unstable();
        if live == self.live {
            return;
        }
        self.live = live;
        let names: Vec<String> = self.jobs.keys().cloned().collect();
        for name in names {
            self.arm(&name);
        }
    }

    /// Takes a job's row in; returns why its definition cannot be used, if so.
    pub(crate) fn learn(&mut self, row: &JobRow) -> Result<(), String> {
        self.seq = self.seq.max(row.seq);
        self.forget(&row.job_id);
        let Some(next_run) = row
            .next_run
            .filter(|_| row.enabled && !row.paused && !row.deleted)
        else {
            return Ok(());
        };
        let spec: JobSpec = serde_json::from_value(row.spec.clone()).map_err(|e| e.to_string())?;
        let (schedule, policy) = due::compile(&row.job_id, &spec).map_err(|e| e.to_string())?;
        let job = CachedJob {
            rev: row.rev,
            schedule,
            policy,
            next_run,
            wake: next_run,
            fires: false,
            over: false,
            instances: usize::try_from(spec.instances).unwrap_or(1),
            each_node: spec.run_on == RunOn::EachNode,
        };
        self.jobs.insert(row.job_id.clone(), job);
        self.arm(&row.job_id);
        Ok(())
    }

    pub(crate) fn polls(&mut self) {
        self.polled_from = self.seq;
    }

    /// Whether the database has lost changes that were read before the poll that shows `newest`: it is an older copy.
    pub(crate) fn was_set_back(&self, newest: i64) -> bool {
        newest < self.polled_from
    }

    /// Every job has to be read anew: the database may have given the numbers of changes a second time.
    pub(crate) fn start_over(&mut self) {
        (self.seq, self.polled_from) = (0, 0);
    }

    /// All jobs were read; others are gone.
    pub(crate) fn keep(&mut self, all: &HashSet<&str>) {
        let gone: Vec<String> = (self.jobs.keys())
            .filter(|job_id| !all.contains(job_id.as_str()))
            .cloned()
            .collect();
        for job_id in gone {
            self.forget(&job_id);
        }
    }

    /// Whether there are changes to read, when a poll shows `newest`.
    pub(crate) fn is_behind(&mut self, newest: i64) -> bool {
        self.behind = newest != self.seq;
        self.behind
    }

    /// Every job change up to `seq` was read.
    pub(crate) fn caught_up(&mut self, seq: i64) {
        (self.seq, self.behind) = (seq, false);
    }

    /// Whether every job has to be read anew: something is overdue that is not as it is known here, although all changes
    /// were read. So it is after a failover that lost some and gave their numbers to others. Once a minute at the most, since
    /// a definition that cannot be used here is never known.
    pub(crate) fn starts_over(&mut self, rows: &[Overdue], now: BootInstant) -> bool {
        let known = |row: &Overdue| self.jobs.get(&row.job_id).is_some_and(|j| j.rev == row.rev);
        if self.behind || rows.iter().all(known) || self.started_over.is_some_and(|at| now < at + START_OVER)
        {
            return false;
        }
        self.started_over = Some(now);
        self.start_over();
        true
    }

    /// Jobs that are due in the database and that nobody has fired: tried here at once, whoever's turn it was. One whose
    /// definition here is another than the one that is due waits for it: what is due follows from its own schedule alone.
    pub(crate) fn overdue(&mut self, rows: &[Overdue], db_now: Timestamp) {
        for row in rows {
            if let Some(job) = self.jobs.get_mut(&row.job_id).filter(|j| j.rev == row.rev) {
                self.wakes.remove(&(job.wake, row.job_id.clone()));
                job.next_run = row.next_run;
                job.wake = db_now.min(row.next_run).max(job.late_by(Duration::ZERO));
                (job.fires, job.over) = (true, false);
                self.wakes.insert((job.wake, row.job_id.clone()));
            }
        }
    }

    fn forget(&mut self, job_id: &str) {
        if let Some(job) = self.jobs.remove(job_id) {
            self.wakes.remove(&(job.wake, job_id.to_owned()));
        }
    }

    /// Waits until the job fires for its next instant: to fire it if it is this agent's turn, or nearly; else to look
    /// past it.
    fn arm(&mut self, job_id: &str) {
        let Some(job) = self.jobs.get_mut(job_id).filter(|j| !j.over) else {
            return;
        };
        self.wakes.remove(&(job.wake, job_id.to_owned()));
        let rank = rank(job_id, job.next_run.as_microsecond(), &self.me, &self.live);
        job.fires = rank < TRYING_RANKS;
        let delay = if job.fires {
            claim_delay(rank)
        } else {
            LEFT_TO_OTHERS
        };
        job.wake = job.late_by(delay);
        self.wakes.insert((job.wake, job_id.to_owned()));
    }

    /// When the next job may have to be fired, by the database's clock.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// What to fire now: at most one statement's worth, each job once; call again until there is nothing.
    pub(crate) fn take_due(&mut self, db_now: Timestamp) -> Vec<Fire> {
        let (mut fires, mut runs, mut decided) = (Vec::new(), 0, 0);
        let due = |wakes: &BTreeSet<(Timestamp, String)>| wakes.first().is_some_and(|(at, _)| *at <= db_now);
        let room = |fires: &Vec<Fire>, runs, decided| {
            fires.len() < FIRE_BATCH && runs < RUNS_BATCH && decided < INSTANTS_BATCH
        };
        while room(&fires, runs, decided) && due(&self.wakes) {
            let Some((_, job_id)) = self.wakes.pop_first() else {
                break;
            };
            let Some(job) = self.jobs.get_mut(&job_id) else {
                continue;
            };
            if !job.fires {
                match due::next_run(&job.schedule, &job.policy, db_now) {
                    Some(next) => {
                        job.next_run = next;
                        self.arm(&job_id);
                    }
                    None => job.over = true,
                }
                continue;
            }
            let seen = job.next_run;
            let late = job.schedule.late_at(seen);
            let plan = due::plan(&job.schedule, &job.policy, seen, db_now);
            let nodes = if job.each_node { self.live.len() } else { 1 };
            runs += plan.due.len() * job.instances * nodes;
            decided += plan.skipped.iter().map(|fold| fold.count).sum::<i64>();
            // The next instant, whichever agent fires this one. If none does, the poll finds it overdue; also the last instant.
            job.over = plan.following.is_none();
            job.next_run = plan.following.unwrap_or(job.next_run);
            fires.push(Fire {
                job_id: job_id.clone(),
                rev: job.rev,
                seen,
                following: plan.following,
                due: plan.due,
                late_ms: i64::try_from(late.as_millis()).unwrap_or(0),
                skipped: plan.skipped,
            });
        }
        // After the whole: what a very long absence leaves undecided is due already, and for the next statement.
        for fire in &fires {
            self.arm(&fire.job_id);
        }
        fires
    }

    /// Something became claimable.
    pub(crate) fn hint(&mut self) {
        self.hint = true;
    }

    /// Something becomes claimable at `at`.
    pub(crate) fn hint_at(&mut self, at: BootInstant) {
        self.later = Some(self.later.map_or(at, |l| l.min(at)));
    }

    pub(crate) fn next_hint(&self) -> Option<BootInstant> {
        self.later.into_iter().chain(self.gathers_until).min()
    }

    /// A slot is free again: there may be more than the last claim could take.
    pub(crate) fn hint_if_backlog(&mut self) {
        self.hint |= self.backlog;
    }

    /// No claim is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether a free place is for what is fired now: no claim is under way, and none is to take it for what waited before.
    pub(crate) fn has_places(&self) -> bool {
        self.is_idle() && !(self.hint && self.backlog)
    }

    /// Live nodes as last seen, in address order, this one among them.
    pub(crate) fn live(&self) -> &[String] {
        &self.live
    }

    /// Asks for up to `free` runs, of `slots` places in all, if there is reason to; one claim is in flight at a time.
    pub(crate) fn take_claim(&mut self, now: BootInstant, free: u32, slots: u32) -> Option<u32> {
        if self.later.is_some_and(|at| at <= now) {
            (self.later, self.hint) = (None, true);
        }
        let gathers_until = self.gathers_until.take().unwrap_or(now + GATHER);
        if !self.hint || free == 0 || self.in_flight > 0 {
            return None;
        }
        if self.backlog && free < slots / 2 && now < gathers_until {
            self.gathers_until = Some(gathers_until);
            return None;
        }
        self.hint = false;
        self.in_flight = free;
        self.sent += 1;
        self.claims.sent();
        Some(free)
    }

    /// A claim was answered with `won` runs. A full answer means there may be more.
    pub(crate) fn claimed(&mut self, won: Option<usize>) {
        let asked = std::mem::take(&mut self.in_flight);
        self.answered += 1;
        if won.is_some() {
            self.claims.answered();
        }
        self.backlog = won.is_some_and(|n| n >= asked as usize);
        self.hint |= self.backlog;
    }

    /// Claims sent and answered so far.
    pub(crate) fn serials(&self) -> (u64, u64) {
        (self.sent, self.answered)
    }
}

#[cfg(test)]
mod tests;
