//! Writes down how attempts ended, their output before that, and events; in sets, until it is confirmed.

mod answer;
mod events;
mod progress;
mod record;
mod refused;
mod report;
mod rows;
mod sets;
mod settle;
mod ship;
mod starts;
mod tasks;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use farmhand_store::Db;
use farmhand_store::events::EventRow;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::events::{EVENT_SET, EventRows};
pub(crate) use self::progress::Checkpoints;
use self::report::Ended;
pub(crate) use self::report::Report;
use self::sets::SHIP_EVERY;
use self::starts::Starts;
use self::tasks::RecordShippers;

use crate::inbox::SessionHandle;
use crate::row_writer::RowBell;
use crate::runlog::RunLog;
use crate::ship_window::Shipper;
use farmhand_telemetry::events::Events;
use farmhand_warden_client::wire::AttemptId;

/// Reports written in one statement.
const SET: usize = 500;
/// Tries to record events when the agent leaves.
const LAST_TRIES: usize = 3;

/// One per agent; outlives its sessions, so that what ended in one is still tried after it.
pub(crate) struct Reporter {
    db: Db,
    events: Events,
    state_dir: PathBuf,
    session_handle: SessionHandle,
    shippers: HashMap<AttemptId, Shipper>,
    records: RecordShippers,
    checkpoints: Checkpoints,
    starts: Starts,
    run_log: RunLog,
    row_bell: RowBell,
    /// Ends of rounds that wait until claims are open.
    closed: Vec<Ended>,
    /// Ends whose statement took too long or was refused, each by itself, and when they are tried again.
    slow: VecDeque<Ended>,
    slow_again: Instant,
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
            starts: Starts::new(),
            run_log,
            row_bell,
            closed: Vec::new(),
            slow: VecDeque::new(),
            slow_again: Instant::now(),
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
        let (mut batch, mut events) = (Vec::new(), EventRows::new());
        loop {
            tokio::select! {
                _ = reports.recv_many(&mut batch, SET) => self.take(&mut batch).await,
                _ = rows.recv_many(&mut events.waiting, EVENT_SET), if events.waiting.is_empty() => {
                    events.record(&self.db).await;
                }
                _ = ticks.tick(), if !self.shippers.is_empty() || self.ends_wait() || !events.waiting.is_empty() => {
                    self.settle_waiting().await;
                    if self.starts.are_due() {
                        self.starts.show(&self.db, &self.row_bell).await;
                    }
                    if events.are_due() {
                        events.record(&self.db).await;
                    }
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
        // What goes on running here is not stalled.
        self.starts.show(&self.db, &self.row_bell).await;
        // Events are worth a few tries, not a standstill.
        let mut tries = 0;
        while !events.waiting.is_empty() || rows.recv_many(&mut events.waiting, EVENT_SET).await > 0 {
            if !events.record(&self.db).await {
                tries += 1;
                if tries == LAST_TRIES {
                    break;
                }
                ticks.tick().await;
            }
        }
        while self.ends_wait() {
            ticks.tick().await;
            self.settle_waiting().await;
        }
    }

    fn ends_wait(&self) -> bool {
        !self.closed.is_empty() || !self.slow.is_empty()
    }

    async fn take(&mut self, batch: &mut Vec<Report>) {
        let mut ended = Vec::new();
        for report in batch.drain(..) {
            match report {
                Report::Follow(followed) => self.follow(followed).await,
                Report::Forget(ids) => self.forget(ids).await,
                Report::Started { me, attempt, at } => {
                    self.starts.note(me, attempt, at);
                }
                Report::Ended(report) => {
                    self.starts.forget(report.assignment.id());
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
}

/// A database that is away.
#[cfg(test)]
fn nowhere() -> Db {
    use farmhand_store::{DbConfig, PasswordIn};
    let url = "postgresql://farm@127.0.0.1:1/farmhand?sslmode=disable";
    Db::new(&DbConfig::from_url(url, PasswordIn::Allowed).unwrap())
}
