//! What happened, said once. [`Events::emit`] alone turns an event into a log line, metrics and a row.

mod measure;
mod record;
mod refused;
mod severity;
mod text;
mod told;

use std::sync::Arc;
use std::time::Duration;

use farmhand_store::events::Event as EventRow;
use farmhand_store::protocol::NewEpoch;
use farmhand_store::{Observer, Severity};
use serde_json::Value;
use tokio::sync::mpsc;

pub use refused::Refused;
pub use told::Told;

pub use farmhand_core::claimed::AttemptRef;

use self::severity::severity;
use crate::metrics::Metrics;
use crate::snapshot::SlowRun;

/// Everything worth a log line, a metric or a row in `farmhand.event`.
#[derive(Clone, Debug)]
pub enum Event {
    SessionOpened {
        session: i64,
    },
    SessionAdopted {
        session: i64,
        attempts: usize,
    },
    /// The first session of a boot fired the `@reboot` jobs.
    Booted {
        boot_id: String,
        runs: usize,
    },
    SessionLost {
        session: i64,
    },
    SessionShared {
        session: i64,
    },
    SessionClosed {
        session: i64,
        freed: usize,
    },
    /// A newer agent has taken the warden over.
    Superseded,
    Renewed {
        /// Fraction of the TTL.
        remaining: f64,
        ttl: Duration,
    },
    RenewalFailed {
        error: String,
    },
    /// All processes were ended by the kernel or by us because the lease could not be renewed in time.
    LeaseLapsed {
        session: i64,
        attempts: usize,
    },
    Claimed {
        attempt: AttemptRef,
        lag: Duration,
        takeover: Option<TakeoverCause>,
    },
    ClaimTook {
        took: Duration,
    },
    /// Another agent was first, or nothing was left to claim.
    ClaimLost {
        kind: &'static str,
    },
    ClaimFailed {
        error: String,
    },
    Started {
        attempt: AttemptRef,
        pid: i32,
    },
    /// The attempt ended its run; `ran` is absent when it never started.
    Ended {
        attempt: AttemptRef,
        outcome: &'static str,
        ran: Option<Duration>,
        detail: Value,
    },
    Retrying {
        attempt: AttemptRef,
        outcome: &'static str,
        delay: Duration,
    },
    /// We ended it, or its warden died: as `on_lost` says.
    AttemptLost {
        attempt: AttemptRef,
        why: &'static str,
    },
    TimedOut {
        attempt: AttemptRef,
        progress: bool,
    },
    /// Claimed runs given back unstarted.
    Released {
        session: i64,
        runs: usize,
        why: &'static str,
    },
    /// A write about an attempt was refused: the run had moved on.
    Fenced {
        op: &'static str,
        run_id: i64,
        attempt: i32,
        now: String,
    },
    /// We ended an attempt that no longer was ours to run.
    FenceKill {
        run_id: i64,
        attempt: i32,
        why: &'static str,
    },
    /// The node's policy does not let the job run as this user.
    UserRefused {
        attempt: AttemptRef,
        user: String,
        why: String,
    },
    /// No trusted key vouches for what this node was to execute, or its run has a key that its job does not take.
    DefinitionRefused {
        attempt: AttemptRef,
        why: String,
    },
    /// A child of an attempt went over its limit.
    ChildKilled {
        attempt: AttemptRef,
        name: String,
        pid: i32,
        what: String,
    },
    Unkillable {
        run_id: i64,
        attempt: i32,
    },
    /// A run takes longer than usual; said once.
    RunSlow(SlowRun),
    Skipped {
        job_id: String,
        reason: String,
        count: u64,
    },
    /// This agent expired another node's session.
    Expired {
        address: String,
        session: i64,
        silent: Duration,
        freed: usize,
    },
    /// A warden does not answer.
    RenewalWithheld {
        session: i64,
    },
    HoldReleased {
        run_id: i64,
        attempt: i32,
        address: String,
        session: i64,
    },
    /// Runs waited for a lock. Its holder, a named lease, was no longer renewed.
    LeaseFreed {
        name: String,
        client: String,
        login: String,
    },
    Swept {
        freed: usize,
    },
    /// Each-node runs whose node is gone.
    Abandoned {
        runs: usize,
    },
    /// Restarted, restored or replaced: nothing is claimed until it is known again.
    DatabaseUnknown {
        epoch: i64,
    },
    EpochOpened(NewEpoch),
    EpochChanged {
        from: i64,
        to: i64,
    },
    StartsRefused {
        why: String,
    },
    StartsResumed {
        after: Duration,
    },
    ClockSlewed {
        slewed: bool,
    },
    /// The database answers, after so long if it had been away.
    DatabaseUp {
        away: Option<Duration>,
    },
    /// The database does not answer this agent: the first failure of an outage.
    DatabaseAway,
    DatabaseDown {
        op: &'static str,
        class: &'static str,
        error: String,
    },
    ClockOffset {
        seconds: f64,
    },
    /// What a job left behind stays on the disk.
    NotRemoved {
        run_id: i64,
        attempt: i32,
        error: String,
    },
    OutputDropped {
        run_id: i64,
        attempt: i32,
        bytes: u64,
        error: Option<String>,
    },
    /// The service that takes the runs' lines is out of reach, or there again.
    RunLog {
        socket: String,
        trouble: Option<String>,
    },
    BadDefinition {
        job_id: String,
        error: String,
    },
    /// A table job's table is not as its definition wants it.
    TableRefused {
        job_id: String,
        error: String,
    },
    /// Rows of a table job wait whose key is NULL.
    RowsWithoutKey {
        job_id: String,
    },
    /// The configuration was read again; what is named waits for a restart.
    Reloaded {
        restart_needed: Vec<&'static str>,
    },
    ReloadFailed {
        error: String,
    },
    Draining {
        why: &'static str,
    },
    /// The drain's deadline passed: these are ended, to run elsewhere.
    DrainDeadline {
        attempts: usize,
    },
    /// A node that was told to drain runs nothing any more.
    Drained,
    /// People were told, or not.
    Told(Told),
    /// The API answered a request.
    Answered {
        status: u16,
    },
    /// The API turned a request away; only counted, `Refused` tells of it.
    TurnedAway {
        reason: &'static str,
    },
    /// Requests to the API that were turned away, folded.
    Refused(Refused),
    Housekeeping {
        task: &'static str,
        error: Option<String>,
    },
}

/// Why a run was free to be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeoverCause {
    Expired,
    Drain,
    Forced,
}

impl TakeoverCause {
    /// As events and metrics say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Drain => "drain",
            Self::Forced => "forced",
        }
    }
}

/// The one subscriber. Rows wait in a bounded queue; when it is full they are counted as lost, never waited for.
#[derive(Clone)]
pub struct Events {
    pub metrics: Arc<Metrics>,
    address: Arc<str>,
    rows: mpsc::Sender<EventRow>,
}

impl Events {
    /// `rows` is drained by the reporter into `farmhand.event`.
    pub fn new(metrics: Arc<Metrics>, address: &str, rows: mpsc::Sender<EventRow>) -> Self {
        Self {
            metrics,
            address: address.into(),
            rows,
        }
    }

    /// Measures every statement; what failed is logged by whoever sent it.
    pub fn statement_observer(&self) -> Observer {
        let metrics = self.metrics.clone();
        Arc::new(move |op, took, error| {
            metrics
                .db_query_duration
                .with_label_values(&[op])
                .observe(took.as_secs_f64());
            if let Some(error) = error {
                metrics.db_errors.with_label_values(&[op, error.class()]).inc();
            }
        })
    }

    /// Measures, logs and records an event; what finds no room in the queue of rows is counted.
    pub fn emit(&self, event: Event) {
        measure::measure(&self.metrics, &event);
        self.log(&event);
        if let Some(row) = record::row(&event, &self.address)
            && self.rows.try_send(row).is_err()
        {
            self.metrics
                .db_errors
                .with_label_values(&["record_events", "queue_full"])
                .inc();
        }
    }

    fn log(&self, event: &Event) {
        match event {
            Event::Renewed { .. }
            | Event::ClaimTook { .. }
            | Event::ClaimLost { .. }
            | Event::Answered { .. }
            | Event::TurnedAway { .. }
            | Event::ClockOffset { .. } => {
                tracing::trace!(?event);
            }
            _ => {
                let text = text::Text(event);
                match severity(event) {
                    Severity::Debug => tracing::debug!("{text}"),
                    Severity::Info => tracing::info!("{text}"),
                    Severity::Warning => tracing::warn!("{text}"),
                    Severity::Error => tracing::error!("{text}"),
                }
            }
        }
    }
}
