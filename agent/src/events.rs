//! What happened, said once. [`Events::emit`] alone turns an event into a log line, metrics and a row.

use std::sync::Arc;
use std::time::Duration;

use farmhand_common::store::events::Event as EventRow;
use farmhand_common::store::{Observer, Severity, StoreError};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::metrics::Metrics;

/// One attempt, as events name it.
#[derive(Clone, Debug)]
pub struct AttemptRef {
    pub job_id: String,
    pub kind: String,
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
}

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
    SessionLost {
        session: i64,
    },
    SessionClosed {
        session: i64,
        freed: usize,
    },
    /// A newer agent has taken the warden over.
    Superseded,
    Renewed {
        remaining: f64,
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
    Unkillable {
        run_id: i64,
        attempt: i32,
    },
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
    Condemned {
        address: String,
        session: i64,
        run_id: i64,
    },
    HoldReleased {
        run_id: i64,
        attempt: i32,
        address: String,
        session: i64,
    },
    Swept {
        freed: usize,
    },
    TimelineOpened {
        timeline: i64,
    },
    TimelineChanged {
        from: i64,
        to: i64,
    },
    ClockSlewed {
        slewed: bool,
    },
    DatabaseUp,
    DatabaseDown {
        op: &'static str,
        class: &'static str,
        error: String,
    },
    ClockOffset {
        seconds: f64,
    },
    OutputDropped {
        run_id: i64,
        attempt: i32,
        bytes: u64,
        error: Option<String>,
    },
    BadDefinition {
        job_id: String,
        error: String,
    },
    Reloaded,
    Draining {
        why: &'static str,
    },
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
            metrics
                .db_up
                .set(i64::from(!error.is_some_and(StoreError::is_away)));
        })
    }

    pub fn emit(&self, event: Event) {
        self.measure(&event);
        self.log(&event);
        if let Some(row) = self.row(&event)
            && self.rows.try_send(row).is_err()
        {
            self.metrics
                .db_errors
                .with_label_values(&["record_events", "queue_full"])
                .inc();
        }
    }

    fn measure(&self, event: &Event) {
        let m = &self.metrics;
        match event {
            Event::Renewed { remaining } => {
                m.renewals.with_label_values(&["ok"]).inc();
                m.lease_remaining.set(*remaining);
            }
            Event::RenewalFailed { .. } => m.renewals.with_label_values(&["error"]).inc(),
            Event::SessionLost { .. } => {
                m.renewals.with_label_values(&["lost"]).inc();
                m.timeouts.with_label_values(&["lease"]).inc();
                m.lease_remaining.set(0.0);
            }
            Event::LeaseLapsed { attempts, .. } => {
                m.timeouts.with_label_values(&["lease"]).inc();
                m.fence_kills
                    .with_label_values(&["lapsed"])
                    .inc_by(*attempts as u64);
                m.lease_remaining.set(0.0);
            }
            Event::Claimed {
                attempt,
                lag,
                takeover,
            } => {
                m.claims.with_label_values(&[attempt.kind.as_str(), "won"]).inc();
                match takeover {
                    // It was due long before; how late a takeover is, the challenger measures.
                    Some(cause) => m.takeovers.with_label_values(&[cause.as_str()]).inc(),
                    None => {
                        let lags = m.schedule_lag.with_label_values(&[attempt.kind.as_str()]);
                        lags.observe(lag.as_secs_f64());
                    }
                }
            }
            Event::ClaimTook { took } => m.claim_duration.observe(took.as_secs_f64()),
            Event::ClaimLost { kind } => m.claims.with_label_values(&[kind, "lost"]).inc(),
            Event::ClaimFailed { .. } => m.claims.with_label_values(&["any", "error"]).inc(),
            Event::Started { attempt, .. } => {
                m.runs_started.with_label_values(&[attempt.kind.as_str()]).inc()
            }
            Event::Ended {
                attempt,
                outcome,
                ran,
                ..
            } => {
                m.runs_finished
                    .with_label_values(&[attempt.kind.as_str(), outcome])
                    .inc();
                if let Some(ran) = ran {
                    m.run_duration
                        .with_label_values(&[attempt.kind.as_str()])
                        .observe(ran.as_secs_f64());
                }
            }
            Event::Retrying { .. } => m.retries.inc(),
            Event::TimedOut { progress, .. } => {
                m.timeouts
                    .with_label_values(&[if *progress { "progress" } else { "run" }])
                    .inc();
            }
            Event::Fenced { op, .. } => m.fence_rejections.with_label_values(&[op]).inc(),
            Event::FenceKill { .. } => m.fence_kills.with_label_values(&["killed"]).inc(),
            Event::Unkillable { .. } => m.fence_kills.with_label_values(&["unkillable"]).inc(),
            Event::Skipped { reason, count, .. } => m.skips.with_label_values(&[reason]).inc_by(*count),
            Event::Expired { silent, .. } => m.takeover_delay.observe(silent.as_secs_f64()),
            Event::ClockOffset { seconds } => m.db_clock_offset.set(*seconds),
            Event::OutputDropped { bytes, .. } => m.log_dropped.inc_by(*bytes),
            _ => {}
        }
    }

    fn log(&self, event: &Event) {
        match event {
            Event::Renewed { .. }
            | Event::ClaimTook { .. }
            | Event::ClaimLost { .. }
            | Event::ClockOffset { .. } => {
                tracing::trace!(?event);
            }
            _ => {
                let text = Text(event);
                match severity(event) {
                    Severity::Debug => tracing::debug!("{text}"),
                    Severity::Info => tracing::info!("{text}"),
                    Severity::Warning => tracing::warn!("{text}"),
                    Severity::Error => tracing::error!("{text}"),
                }
            }
        }
    }

    fn row(&self, event: &Event) -> Option<EventRow> {
        let kind = kind(event)?;
        let mut row = EventRow {
            kind: kind.to_owned(),
            severity: severity(event),
            job_id: None,
            run_id: None,
            attempt: None,
            address: Some(self.address.to_string()),
            session: None,
            fence: None,
            detail: json!({}),
        };
        match event {
            Event::SessionOpened { session } | Event::SessionLost { session } => row.session = Some(*session),
            Event::SessionAdopted { session, attempts } | Event::LeaseLapsed { session, attempts } => {
                row.session = Some(*session);
                row.detail = json!({"attempts": attempts});
            }
            Event::SessionClosed { session, freed } => {
                row.session = Some(*session);
                row.detail = json!({"freed": freed});
            }
            Event::Claimed {
                attempt,
                takeover,
                lag,
            } => {
                about(&mut row, attempt);
                row.detail =
                    json!({"cause": takeover.map(TakeoverCause::as_str), "lag_ms": lag.as_millis() as u64});
            }
            Event::TimedOut { attempt, progress } => {
                about(&mut row, attempt);
                row.detail = json!({"type": if *progress { "progress" } else { "run" }});
            }
            Event::Retrying {
                attempt,
                outcome,
                delay,
            } => {
                about(&mut row, attempt);
                row.detail = json!({"outcome": outcome, "delay_ms": delay.as_millis() as u64});
            }
            Event::AttemptLost { attempt, why } => {
                about(&mut row, attempt);
                row.detail = json!({"why": why});
            }
            Event::Released { session, runs, why } => {
                row.session = Some(*session);
                row.detail = json!({"runs": runs, "why": why});
            }
            Event::Ended {
                attempt,
                outcome,
                detail,
                ..
            } => {
                about(&mut row, attempt);
                row.detail = json!({"outcome": outcome, "result": detail});
            }
            Event::Fenced {
                op,
                run_id,
                attempt,
                now,
            } => {
                (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
                row.detail = json!({"op": op, "now": now});
            }
            Event::FenceKill { run_id, attempt, why } => {
                (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
                row.detail = json!({"why": why});
            }
            Event::Unkillable { run_id, attempt } => {
                (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt))
            }
            Event::Skipped {
                job_id,
                reason,
                count,
            } => {
                row.job_id = Some(job_id.clone());
                row.detail = json!({"reason": reason, "count": count});
            }
            Event::Expired {
                address,
                session,
                silent,
                freed,
            } => {
                row.session = Some(*session);
                row.detail = json!({"node": address, "silent_ms": silent.as_millis() as u64, "freed": freed});
            }
            Event::Condemned {
                address,
                session,
                run_id,
            } => {
                (row.session, row.run_id) = (Some(*session), Some(*run_id));
                row.detail = json!({"node": address});
            }
            Event::HoldReleased {
                run_id,
                attempt,
                address,
                session,
            } => {
                (row.run_id, row.attempt, row.session) = (Some(*run_id), Some(*attempt), Some(*session));
                row.detail = json!({"node": address});
            }
            Event::Swept { freed } => row.detail = json!({"freed": freed}),
            Event::TimelineOpened { timeline } => row.detail = json!({"timeline": timeline}),
            Event::TimelineChanged { from, to } => row.detail = json!({"from": from, "to": to}),
            Event::ClockSlewed { slewed } => row.detail = json!({"slewed": slewed}),
            Event::OutputDropped {
                run_id,
                attempt,
                bytes,
                error,
            } => {
                (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
                row.detail = json!({"bytes": bytes, "error": error});
            }
            Event::BadDefinition { job_id, error } => {
                row.job_id = Some(job_id.clone());
                row.detail = json!({"error": error});
            }
            Event::Draining { why } => row.detail = json!({"why": why}),
            _ => {}
        }
        Some(row)
    }
}

fn about(row: &mut EventRow, attempt: &AttemptRef) {
    row.job_id = Some(attempt.job_id.clone());
    row.run_id = Some(attempt.run_id);
    row.attempt = Some(attempt.attempt);
    row.fence = Some(attempt.fence);
}

/// The name an event is stored under, or `None` where a row would say nothing that the run does not.
fn kind(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::SessionOpened { .. } => "session_opened",
        Event::SessionAdopted { .. } => "session_adopted",
        Event::SessionLost { .. } => "session_lost",
        Event::SessionClosed { .. } => "session_closed",
        Event::Superseded => "superseded",
        Event::LeaseLapsed { .. } => "lease_lapsed",
        Event::Claimed {
            takeover: Some(_), ..
        } => "takeover",
        Event::Ended { outcome, .. } if *outcome != "succeeded" => "run_ended",
        Event::Retrying { .. } => "retry",
        Event::TimedOut { .. } => "timed_out",
        Event::Released { .. } => "released",
        Event::AttemptLost { .. } => "attempt_lost",
        Event::Fenced { .. } => "fenced",
        Event::FenceKill { .. } => "fence_kill",
        Event::Unkillable { .. } => "unkillable",
        Event::Skipped { .. } => "skipped",
        Event::Expired { .. } => "expired",
        Event::Condemned { .. } => "condemned",
        Event::HoldReleased { .. } => "hold_released",
        Event::Swept { .. } => "swept",
        Event::TimelineOpened { .. } => "timeline_opened",
        Event::TimelineChanged { .. } => "timeline_changed",
        Event::ClockSlewed { .. } => "clock_slewed",
        Event::OutputDropped { .. } => "output_dropped",
        Event::BadDefinition { .. } => "bad_definition",
        Event::Draining { .. } => "draining",
        _ => return None,
    })
}

fn severity(event: &Event) -> Severity {
    match event {
        Event::Unkillable { .. } | Event::BadDefinition { .. } | Event::DatabaseDown { .. } => {
            Severity::Error
        }
        Event::SessionLost { .. }
        | Event::LeaseLapsed { .. }
        | Event::RenewalFailed { .. }
        | Event::ClaimFailed { .. }
        | Event::Claimed {
            takeover: Some(_), ..
        }
        | Event::AttemptLost { .. }
        | Event::TimedOut { .. }
        | Event::Fenced { .. }
        | Event::FenceKill { .. }
        | Event::Expired { .. }
        | Event::Condemned { .. }
        | Event::HoldReleased { .. }
        | Event::Swept { .. }
        | Event::Superseded
        | Event::OutputDropped { .. }
        | Event::TimelineChanged { .. }
        | Event::ClockSlewed { .. } => Severity::Warning,
        Event::Housekeeping { error: Some(_), .. } => Severity::Warning,
        Event::Claimed { .. } | Event::Started { .. } | Event::Housekeeping { .. } => Severity::Debug,
        Event::Ended { outcome, .. } if *outcome == "succeeded" => Severity::Debug,
        _ => Severity::Info,
    }
}

struct Text<'a>(&'a Event);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Event::SessionOpened { session } => write!(f, "opened session {session}"),
            Event::SessionAdopted { session, attempts } => {
                write!(
                    f,
                    "adopted session {session} with {attempts} running attempts from its warden"
                )
            }
            Event::SessionLost { session } => {
                write!(
                    f,
                    "session {session} is over: another agent expired it; ending what it ran"
                )
            }
            Event::SessionClosed { session, freed } => {
                write!(f, "closed session {session}, {freed} runs freed")
            }
            Event::Superseded => write!(f, "a newer agent has taken over the warden; leaving"),
            Event::LeaseLapsed { session, attempts } => {
                write!(
                    f,
                    "the lease of session {session} lapsed unrenewed; {attempts} attempts were ended"
                )
            }
            Event::RenewalFailed { error } => write!(f, "lease renewal failed: {error}"),
            Event::ClaimFailed { error } => write!(f, "claim failed: {error}"),
            Event::Claimed {
                attempt: a,
                lag,
                takeover,
            } => write!(
                f,
                "claimed {} run {} attempt {} fence {} ({} ms after due){}",
                a.job_id,
                a.run_id,
                a.attempt,
                a.fence,
                lag.as_millis(),
                takeover.map_or("", |_| ", a takeover")
            ),
            Event::Started { attempt: a, pid } => {
                write!(
                    f,
                    "started {} run {} attempt {} as pid {pid}",
                    a.job_id, a.run_id, a.attempt
                )
            }
            Event::Ended {
                attempt: a,
                outcome,
                ran,
                detail,
            } => {
                write!(f, "{} run {} attempt {} {outcome}", a.job_id, a.run_id, a.attempt)?;
                ran.map_or(Ok(()), |ran| write!(f, " after {ran:.3?} {detail}"))
            }
            Event::Retrying {
                attempt: a,
                outcome,
                delay,
            } => {
                write!(
                    f,
                    "{} run {} attempt {} {outcome}; again in {delay:.1?}",
                    a.job_id, a.run_id, a.attempt
                )
            }
            Event::TimedOut { attempt: a, progress } => write!(
                f,
                "{} run {} attempt {} {}",
                a.job_id,
                a.run_id,
                a.attempt,
                if *progress {
                    "made no progress for too long"
                } else {
                    "ran past its timeout"
                }
            ),
            Event::AttemptLost { attempt: a, why } => {
                write!(
                    f,
                    "{} run {} attempt {} is lost: {why}",
                    a.job_id, a.run_id, a.attempt
                )
            }
            Event::Released { runs, why, .. } => write!(f, "gave back {runs} claimed runs unstarted: {why}"),
            Event::Fenced {
                op,
                run_id,
                attempt,
                now,
            } => {
                write!(
                    f,
                    "{op} of run {run_id} attempt {attempt} refused: the run has moved on ({now})"
                )
            }
            Event::FenceKill { run_id, attempt, why } => {
                write!(f, "killed run {run_id} attempt {attempt}: {why}")
            }
            Event::Unkillable { run_id, attempt } => {
                write!(
                    f,
                    "run {run_id} attempt {attempt} has processes the kernel cannot end"
                )
            }
            Event::Skipped {
                job_id,
                reason,
                count,
            } => write!(f, "skipped {count} due instants of {job_id}: {reason}"),
            Event::Expired {
                address,
                session,
                silent,
                freed,
            } => write!(
                f,
                "expired session {session} of node {address}, silent for {silent:.1?}; {freed} runs are free"
            ),
            Event::Condemned {
                address,
                session,
                run_id,
            } => {
                write!(
                    f,
                    "condemned session {session} of node {address}: run {run_id} is far past its timeout"
                )
            }
            Event::HoldReleased {
                run_id,
                attempt,
                address,
                session,
            } => write!(
                f,
                "released run {run_id} attempt {attempt} that node {address} session {session} held past its lease"
            ),
            Event::Swept { freed } => write!(f, "freed {freed} runs claimed by sessions that had ended"),
            Event::TimelineOpened { timeline } => {
                write!(f, "opened PostgreSQL timeline {timeline} for claims")
            }
            Event::TimelineChanged { from, to } => {
                write!(
                    f,
                    "PostgreSQL is on timeline {to}, was {from}: a failover; comparing before claiming"
                )
            }
            Event::ClockSlewed { slewed: true } => {
                write!(
                    f,
                    "this machine's clock is being slewed; expiring nobody and holding shorter leases"
                )
            }
            Event::ClockSlewed { slewed: false } => {
                write!(f, "this machine's clock ticks at its own rate again")
            }
            Event::DatabaseUp => write!(f, "PostgreSQL answers"),
            Event::DatabaseDown { op, class, error } => {
                write!(f, "PostgreSQL: {op} failed ({class}): {error}")
            }
            Event::OutputDropped {
                run_id,
                attempt,
                bytes,
                error,
            } => {
                let why = error.as_deref().unwrap_or("over the local cap");
                write!(
                    f,
                    "run {run_id} attempt {attempt}: {bytes} bytes of output were not kept: {why}"
                )
            }
            Event::BadDefinition { job_id, error } => write!(f, "job {job_id} cannot be used: {error}"),
            Event::Reloaded => write!(f, "configuration read again"),
            Event::Draining { why } => write!(f, "draining: {why}"),
            Event::Housekeeping { task, error: None } => write!(f, "housekeeping: {task} done"),
            Event::Housekeeping { task, error: Some(e) } => write!(f, "housekeeping: {task} failed: {e}"),
            Event::Renewed { .. }
            | Event::ClaimTook { .. }
            | Event::ClaimLost { .. }
            | Event::ClockOffset { .. } => {
                write!(f, "{:?}", self.0)
            }
        }
    }
}
