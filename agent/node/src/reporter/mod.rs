//! Writes down how attempts ended, their output before that, and events; in sets, until it is confirmed.

mod answer;
mod progress;
mod record;
mod refused;
mod report;
mod rows;
mod starts;
mod tasks;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::time::Duration;

use farmhand_core::retry::full_jitter;
use farmhand_store::events::{Event as EventRow, record_events};
use farmhand_store::logs::{append_log, log_end, trim_log};
use farmhand_store::protocol::{self, Finish, FinishResult, Lose, Retry};
use farmhand_store::{Db, LeaseIdentity, StoreError};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use self::answer::Answer;
pub(crate) use self::progress::Checkpoints;
pub(crate) use self::report::Report;
use self::report::{Ended, Followed};
use self::rows::{finish_row, lose_row, op, retry_row};
use self::tasks::RecordShippers;

use crate::inbox::{SessionHandle, Settled};
use crate::output::Shipper;
use crate::row_writer::RowBell;
use crate::runlog::{About, RunLog};
use crate::verdict::Verdict;
use farmhand_os::random::random;
use farmhand_telemetry::events::{Event, Events};
use farmhand_warden_client::Paths;
use farmhand_warden_client::wire::AttemptId;

/// Live output reaches the database this often.
const SHIP_EVERY: Duration = Duration::from_secs(1);
/// Reports written in one statement.
const SET: usize = 500;
/// Attempts whose output shares a statement: each brings at most 4 MiB a round.
const SHIP_SET: usize = 16;
/// Event rows written in one statement.
const EVENT_SET: usize = 500;

/// One per agent; outlives its sessions, so that what ended in one is still tried after it.
pub(crate) struct Reporter {
    db: Db,
    events: Events,
    state_dir: PathBuf,
    session_handle: SessionHandle,
    shippers: HashMap<AttemptId, Shipper>,
    records: RecordShippers,
    checkpoints: Checkpoints,
    /// Starts to be shown to people; those that end within a tick never are.
    starts: HashMap<AttemptId, (LeaseIdentity, i64, Timestamp)>,
    run_log: RunLog,
    row_bell: RowBell,
    /// Ends of rounds that wait until claims are open.
    closed: Vec<Ended>,
}

impl Reporter {
    pub(crate) fn new(
        db: Db,
        events: Events,
        state_dir: PathBuf,
        session_handle: SessionHandle,
        run_log: RunLog,
        checkpoints: Checkpoints,
        row_bell: RowBell,
    ) -> Self {
        Self {
            db,
            events,
            state_dir,
            session_handle,
            shippers: HashMap::new(),
            records: RecordShippers::default(),
            checkpoints,
            starts: HashMap::new(),
            run_log,
            row_bell,
            closed: Vec::new(),
        }
    }

    /// Runs until `stop` is told or dropped and what was sent before is written down.
    pub(crate) async fn run(
        mut self,
        mut reports: mpsc::UnboundedReceiver<Report>,
        mut rows: mpsc::Receiver<EventRow>,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut ticks = tokio::time::interval(SHIP_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut polls = tokio::time::interval(tasks::POLL_EVERY);
        polls.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut batch, mut events) = (Vec::new(), Vec::new());
        loop {
            tokio::select! {
                _ = reports.recv_many(&mut batch, SET) => self.take(&mut batch).await,
                _ = rows.recv_many(&mut events, EVENT_SET) => self.record(&mut events).await,
                _ = ticks.tick(), if !self.shippers.is_empty() || !self.closed.is_empty() => {
                    self.settle_closed().await;
                    self.show_starts().await;
                    // A checkpoint says that what it passes is written down: taken before, stored after.
                    let waiting = self.checkpoints.take();
                    if self.records.ship_live(&self.db).await {
                        self.checkpoints.store_live(&self.db, waiting).await;
                    } else {
                        self.checkpoints.give_back(waiting);
                    }
                    self.ship_live().await;
                }
                _ = polls.tick(), if self.records.is_hasty() => {
                    self.records.ship_live(&self.db).await;
                }
                _ = &mut stop => break,
            }
        }
        reports.close();
        rows.close();
        while reports.recv_many(&mut batch, SET).await > 0 {
            self.take(&mut batch).await;
        }
        while rows.recv_many(&mut events, EVENT_SET).await > 0 {
            self.record(&mut events).await;
        }
        while !self.closed.is_empty() {
            ticks.tick().await;
            self.settle_closed().await;
        }
    }

    async fn settle_closed(&mut self) {
        let closed = std::mem::take(&mut self.closed);
        if !closed.is_empty() {
            self.settle(closed).await;
        }
    }

    async fn take(&mut self, batch: &mut Vec<Report>) {
        let mut ended = Vec::new();
        for report in batch.drain(..) {
            match report {
                Report::Follow(followed) => self.follow(followed).await,
                Report::Started { me, attempt, at } => {
                    self.starts.insert(attempt.into(), (me, attempt.fence, at));
                }
                Report::Ended(report) => {
                    self.starts.remove(&report.assignment.id());
                    report
                        .progress()
                        .into_iter()
                        .for_each(|p| self.checkpoints.note(p));
                    ended.push(*report);
                }
            }
        }
        if !ended.is_empty() {
            self.settle(ended).await;
        }
    }

    async fn follow(&mut self, followed: Followed) {
        let (id, kind) = (followed.id, followed.kind);
        if let Some((held, what)) = followed.records {
            self.records.follow(id, held, &self.state_dir, kind, what);
        }
        let Entry::Vacant(new) = self.shippers.entry(id) else {
            return;
        };
        let dir = Paths::new(&self.state_dir, kind).attempt_dir(id);
        new.insert(Shipper::new(id, dir.clone(), followed.keep, followed.fresh));
        let job_id = followed.job_id;
        let about = About {
            id,
            kind,
            job_id,
            dir,
        };
        self.run_log.follow(about).await;
    }

    async fn ship_live(&mut self) {
        let ids: Vec<AttemptId> = self.shippers.keys().copied().collect();
        for part in ids.chunks(SHIP_SET) {
            if let Err(e) = self.ship(part, false).await {
                tracing::debug!("output waits: {e}");
                return;
            }
        }
    }

    /// Sends what is new of these attempts; with `all`, until there is nothing left.
    async fn ship(&mut self, ids: &[AttemptId], all: bool) -> Result<(), StoreError> {
        loop {
            let mut more = false;
            let mut chunks = Vec::new();
            for id in ids {
                let Some(shipper) = self.shippers.get_mut(id) else {
                    continue;
                };
                if shipper.unplaced() {
                    shipper.place(log_end(&self.db, id.run_id, id.attempt).await?);
                }
                if let Err(e) = shipper.read() {
                    tracing::warn!("output of attempt {id} cannot be read: {e}");
                }
                let (pending, trim) = shipper.pending();
                chunks.extend_from_slice(pending);
                if let Some((from, to)) = trim {
                    trim_log(&self.db, id.run_id, id.attempt, from, to).await?;
                }
                more |= shipper.more();
            }
            if !chunks.is_empty() {
                append_log(&self.db, &chunks).await?;
            }
            for id in ids {
                if let Some(shipper) = self.shippers.get_mut(id) {
                    shipper.sent();
                }
            }
            if !(all && more) {
                return Ok(());
            }
        }
    }

    /// Writes a set of ends down, however long the database is away.
    async fn settle(&mut self, mut ended: Vec<Ended>) {
        let mut failures = 0u32;
        loop {
            match self.try_settle(&mut ended).await {
                Ok(settled) => {
                    self.finish(ended, settled).await;
                    return;
                }
                Err(e) => {
                    self.events.emit(Event::DatabaseDown {
                        op: "finish",
                        class: e.class(),
                        error: e.to_string(),
                    });
                    if let [only] = ended.as_slice() {
                        // It would be refused for ever.
                        if e.is_refusal() {
                            tracing::error!("run {} cannot be written down: {e}", only.assignment.run_id);
                            return;
                        }
                    } else if !e.is_away() {
                        // Whose fault it is shows when they are fewer.
                        let rest = ended.split_off(ended.len() / 2);
                        Box::pin(self.settle(ended)).await;
                        Box::pin(self.settle(rest)).await;
                        return;
                    }
                    failures = failures.saturating_add(1);
                    let ceiling = Duration::from_millis(100 << failures.min(4));
                    tokio::time::sleep(full_jitter(ceiling, random())).await;
                }
            }
        }
    }

    /// Output first: once a state is final, the log is complete within the caps.
    /// None is an end that has to wait until claims are open.
    async fn try_settle(&mut self, ended: &mut [Ended]) -> Result<Vec<Option<Settled>>, StoreError> {
        refused::decide(&self.db, ended).await?;
        let ended = &*ended;
        for e in ended.iter().filter(|e| e.result.is_some()) {
            self.follow(Followed::new(&e.assignment, e.kind, false)).await;
        }
        let waiting = self.checkpoints.take();
        if let Err(e) = self.records.ship(&self.db).await {
            self.checkpoints.give_back(waiting);
            return Err(e);
        }
        // Whoever claims the next attempt finds the last checkpoint of this one.
        self.checkpoints.store(&self.db, waiting).await?;
        let ids: Vec<AttemptId> = ended.iter().map(|e| e.assignment.id()).collect();
        for part in ids.chunks(SHIP_SET) {
            self.ship(part, true).await?;
        }
        let dropped = |e: &Ended| {
            let output = e.result.as_ref().map(|result| &result.output);
            output.map_or(0, |output| {
                let shipper = self.shippers.get(&e.assignment.id());
                shipper.map_or(output.dropped_bytes, |s| s.dropped(output))
            })
        };
        let finish: Vec<Finish> = ended.iter().filter_map(|e| finish_row(e, dropped(e))).collect();
        let retry: Vec<Retry> = ended.iter().filter_map(|e| retry_row(e, dropped(e))).collect();
        let lose: Vec<Lose> = ended.iter().filter_map(lose_row).collect();
        let mut results = HashMap::new();
        results.extend(protocol::finish(&self.db, &finish).await?);
        results.extend(protocol::retry(&self.db, &retry).await?);
        results.extend(protocol::lose(&self.db, &lose).await?);
        results.extend(refused::give_back(&self.db, ended).await?);
        Ok(ended
            .iter()
            .map(|e| {
                let id = e.assignment.id();
                Some(match (results.get(&id.fenced(e.assignment.fence)), &e.verdict) {
                    (Some(FinishResult::ClaimsClosed), _) => return None,
                    (Some(FinishResult::Fenced { now }), verdict) => {
                        self.events.emit(Event::Fenced {
                            op: op(verdict),
                            run_id: id.run_id,
                            attempt: id.attempt,
                            now: format!("{now:?}"),
                        });
                        Settled::Fenced
                    }
                    (Some(FinishResult::Ended(_)), _) => Settled::Done,
                    (_, Verdict::Retry { delay, .. }) => Settled::Again(*delay),
                    (_, Verdict::Lost { .. } | Verdict::Refused { .. }) => Settled::Again(Duration::ZERO),
                    (_, Verdict::GivenBack { delay, .. }) => Settled::Again(*delay),
                    // The next round of a continuous job.
                    (_, Verdict::Final { again, .. }) => again.map_or(Settled::Done, Settled::Again),
                })
            })
            .collect())
    }

    async fn finish(&mut self, all: Vec<Ended>, settled: Vec<Option<Settled>>) {
        let (waiting, over): (Vec<_>, Vec<_>) =
            all.into_iter().zip(settled).partition(|(_, how)| how.is_none());
        self.closed.extend(waiting.into_iter().map(|(e, _)| e));
        let (ended, settled): (Vec<Ended>, Vec<Settled>) =
            over.into_iter().filter_map(|(e, how)| Some((e, how?))).unzip();
        if ended.is_empty() {
            return;
        }
        for (e, how) in ended.iter().zip(&settled) {
            self.shippers.remove(&e.assignment.id());
            self.records.forget(e.assignment.id());
            if *how != Settled::Fenced {
                e.tell(&self.events);
            }
        }
        let answer = Answer {
            ended,
            settled,
            run_log: self.run_log.clone(),
            session_handle: self.session_handle.clone(),
            state_dir: self.state_dir.clone(),
            events: self.events.clone(),
        };
        if self.run_log.is_on() {
            // Its last lines may take a moment, which what ends next need not wait for.
            tokio::spawn(answer.give());
        } else {
            answer.give().await;
        }
    }

    /// Events are worth a few tries, not a standstill.
    async fn record(&self, events: &mut Vec<EventRow>) {
        for _ in 0..3 {
            match record_events(&self.db, events).await {
                Ok(()) => break,
                Err(e) => {
                    tracing::debug!("{} events not recorded: {e}", events.len());
                    tokio::time::sleep(full_jitter(Duration::from_secs(1), random())).await;
                }
            }
        }
        events.clear();
    }
}
