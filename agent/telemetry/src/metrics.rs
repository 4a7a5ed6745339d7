//! Every metric of one agent, by name. Updated by [`crate::events`] and by nobody else.

use std::sync::{Mutex, PoisonError};

use farmhand_core::attempt::RunKind;
use farmhand_core::lease::BootInstant;
use farmhand_core::release;
use farmhand_os::clock::boot_now;
use prometheus::proto::MetricFamily;
use prometheus::{
    Encoder, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};

/// Seconds, from a millisecond to ten minutes.
const LATENCY: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
];
/// Seconds, from ten milliseconds to a day.
const DURATION: &[f64] = &[
    0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0,
];

/// Every metric of an agent, registered once.
pub struct Metrics {
    registry: Registry,
    pub(crate) claims: IntCounterVec,
    pub(crate) claim_duration: Histogram,
    pub(crate) schedule_lag: HistogramVec,
    pub(crate) runs_started: IntCounterVec,
    pub(crate) runs_finished: IntCounterVec,
    pub(crate) run_duration: HistogramVec,
    /// Attempts that hold a slot here.
    pub runs_in_progress: IntGauge,
    /// Attempts of this node that were killed and that the kernel does not end.
    pub runs_unkillable: IntGauge,
    /// Attempts that may run here at once.
    pub slots: IntGauge,
    /// Slots that this agent would claim for now.
    pub slots_free: IntGauge,
    pub(crate) starts_refused: IntGauge,
    pub(crate) retries: IntCounter,
    pub(crate) refusals: IntCounterVec,
    pub(crate) skips: IntCounterVec,
    pub(crate) takeovers: IntCounterVec,
    pub(crate) takeover_delay: Histogram,
    pub(crate) timeouts: IntCounterVec,
    pub(crate) renewals: IntCounterVec,
    lease_remaining: Gauge,
    pub(crate) lease: Lease,
    /// The farm's gauges while this agent exposes them, and until when it may.
    farm: Mutex<(Vec<MetricFamily>, BootInstant)>,
    pub(crate) fence_rejections: IntCounterVec,
    pub(crate) fence_kills: IntCounterVec,
    /// 1 while the database answers this agent, else 0.
    pub db_up: IntGauge,
    pub(crate) db_errors: IntCounterVec,
    pub(crate) db_query_duration: HistogramVec,
    pub(crate) db_connections: IntGaugeVec,
    pub(crate) db_clock_offset: Gauge,
    pub(crate) log_dropped: IntCounter,
    pub(crate) notifications: IntCounterVec,
    pub(crate) http_requests: IntCounterVec,
    pub(crate) http_refused: IntCounterVec,
}

/// The fraction of the lease that was left, when, and its TTL in seconds.
#[derive(Default)]
pub(crate) struct Lease(Mutex<Option<(f64, BootInstant, f64)>>);

impl Lease {
    /// Runs down from this fraction of `ttl` seconds.
    pub(crate) fn set(&self, fraction: f64, ttl: f64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((fraction, boot_now(), ttl));
    }

    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn left(&self, now: BootInstant) -> f64 {
        let lease = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |(left, at, ttl)| left - now.saturating_since(at).as_secs_f64() / ttl;
        lease.map_or(0.0, left).max(0.0)
    }
}

impl Metrics {
    /// Registers every series; the fixed label values of the counters and histograms that alerts watch start at zero.
    pub fn new() -> Result<Self, prometheus::Error> {
        let r = Registry::new();
        let build = int_gauge_vec(
            &r,
            "farmhand_build_info",
            "Constant 1, labelled by version",
            &["version"],
        )?;
        build.with_label_values(&[release::version()]).set(1);
        let m = Self {
            claims: counters(
                &r,
                "farmhand_claims_total",
                "Claims by what came of them",
                &["kind", "result"],
            )?,
            claim_duration: histogram(
                &r,
                "farmhand_claim_duration_seconds",
                "Round trip of one claim statement",
            )?,
            schedule_lag: histograms(
                &r,
                "farmhand_schedule_lag_seconds",
                "From the instant a run was due or ready to its claim",
                "kind",
                LATENCY,
            )?,
            runs_started: counters(
                &r,
                "farmhand_runs_started_total",
                "Attempts started here",
                &["kind"],
            )?,
            runs_finished: counters(
                &r,
                "farmhand_runs_finished_total",
                "Runs ended by this agent, by outcome",
                &["kind", "outcome"],
            )?,
            run_duration: histograms(
                &r,
                "farmhand_run_duration_seconds",
                "From exec to exit of an attempt",
                "kind",
                DURATION,
            )?,
            runs_in_progress: int_gauge(&r, "farmhand_runs_in_progress", "Attempts that hold a slot here")?,
            runs_unkillable: int_gauge(
                &r,
                "farmhand_runs_unkillable",
                "Attempts here that were killed and that the kernel does not end",
            )?,
            slots: int_gauge(&r, "farmhand_slots", "Attempts that may run here at once")?,
            slots_free: int_gauge(
                &r,
                "farmhand_slots_free",
                "Attempts that this agent would claim now; 0 while it claims nothing",
            )?,
            starts_refused: int_gauge(
                &r,
                "farmhand_starts_refused",
                "1 while the machine refuses to start processes; 0 once one has started again",
            )?,
            retries: counter(
                &r,
                "farmhand_retries_total",
                "Attempts sent back to be tried again",
            )?,
            refusals: counters(
                &r,
                "farmhand_refusals_total",
                "Attempts that this node would not start, by what forbids it",
                &["by"],
            )?,
            skips: counters(
                &r,
                "farmhand_skips_total",
                "Due instants recorded as skipped",
                &["reason"],
            )?,
            takeovers: counters(
                &r,
                "farmhand_lease_takeovers_total",
                "Runs claimed here after another attempt was lost",
                &["cause"],
            )?,
            takeover_delay: histogram(
                &r,
                "farmhand_lease_takeover_delay_seconds",
                "From the last renewal seen of a dead session to its runs being free",
            )?,
            timeouts: counters(&r, "farmhand_timeouts_total", "What ran out of time", &["type"])?,
            renewals: counters(
                &r,
                "farmhand_lease_renewals_total",
                "Lease renewals by result",
                &["result"],
            )?,
            lease_remaining: gauge(
                &r,
                "farmhand_lease_remaining_ratio",
                "Lease left, as a fraction of its TTL; 0 without a session",
            )?,
            lease: Lease::default(),
            farm: Mutex::new((Vec::new(), BootInstant(0))),
            fence_rejections: counters(
                &r,
                "farmhand_fence_rejections_total",
                "Writes refused because the run had moved on",
                &["op"],
            )?,
            fence_kills: counters(
                &r,
                "farmhand_fence_kills_total",
                "Attempts killed because the lease or the run was no longer ours",
                &["result"],
            )?,
            db_up: int_gauge(&r, "farmhand_db_up", "1 while the database answers this agent")?,
            db_errors: counters(
                &r,
                "farmhand_db_errors_total",
                "Failed statements",
                &["op", "class"],
            )?,
            db_query_duration: histograms(
                &r,
                "farmhand_db_query_duration_seconds",
                "Round trip of a statement",
                "op",
                LATENCY,
            )?,
            db_connections: int_gauge_vec(
                &r,
                "farmhand_db_pool_connections",
                "Connections to PostgreSQL",
                &["state"],
            )?,
            db_clock_offset: gauge(
                &r,
                "farmhand_db_clock_offset_seconds",
                "The database's wall clock minus this machine's",
            )?,
            log_dropped: counter(
                &r,
                "farmhand_log_dropped_bytes_total",
                "Output of commands beyond output.local, lost to a full disk, or not taken by journald or syslog",
            )?,
            notifications: counters(
                &r,
                "farmhand_notifications_total",
                "Tries to tell people of a job, and signs of life to the outside, by what came of them",
                &["channel", "result"],
            )?,
            http_requests: counters(
                &r,
                "farmhand_http_requests_total",
                "Requests answered, by the class of their status",
                &["class"],
            )?,
            http_refused: counters(
                &r,
                "farmhand_http_refused_total",
                "Requests to the API turned away, and connections not taken, by reason",
                &["reason"],
            )?,
            registry: r,
        };
        for cause in ["expired", "drain", "forced"] {
            m.takeovers.with_label_values(&[cause]);
        }
        for kind in ["lease", "progress", "run"] {
            m.timeouts.with_label_values(&[kind]);
        }
        for result in ["ok", "lost", "error", "withheld"] {
            m.renewals.with_label_values(&[result]);
        }
        for channel in ["webhook", "email", "ping"] {
            for result in ["delivered", "error", "failed"] {
                m.notifications.with_label_values(&[channel, result]);
            }
        }
        // An increase from nothing to one is not seen by rate().
        for result in ["killed", "lapsed"] {
            m.fence_kills.with_label_values(&[result]);
        }
        for kind in RunKind::ALL.iter().filter(|kind| **kind != RunKind::Unknown) {
            m.schedule_lag.with_label_values(&[kind.as_str()]);
        }
        Ok(m)
    }

    /// Shows the farm's gauges until then, by this machine's stopwatch.
    pub(crate) fn expose_farm(&self, families: Vec<MetricFamily>, until: BootInstant) {
        *self.farm.lock().unwrap_or_else(PoisonError::into_inner) = (families, until);
    }

    /// Everything that is exposed at `now`.
    pub fn gather(&self, now: BootInstant) -> Vec<MetricFamily> {
        self.lease_remaining.set(self.lease.left(now));
        let mut all = self.registry.gather();
        let farm = self.farm.lock().unwrap_or_else(PoisonError::into_inner);
        if now < farm.1 {
            all.extend_from_slice(&farm.0);
        }
        all
    }

    /// Connections of the pool, as they are now.
    pub fn connections(&self, idle: usize, used: usize) {
        for (state, n) in [("idle", idle), ("used", used)] {
            self.db_connections
                .with_label_values(&[state])
                .set(i64::try_from(n).unwrap_or(i64::MAX));
        }
    }

    /// The text exposition format.
    pub fn render(&self, now: BootInstant) -> Result<Vec<u8>, prometheus::Error> {
        let mut out = Vec::with_capacity(16 * 1024);
        TextEncoder::new().encode(&self.gather(now), &mut out)?;
        Ok(out)
    }
}

fn counter(r: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    let c = IntCounter::new(name, help)?;
    r.register(Box::new(c.clone()))?;
    Ok(c)
}

fn counters(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    let c = IntCounterVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(c.clone()))?;
    Ok(c)
}

fn gauge(r: &Registry, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
    let g = Gauge::new(name, help)?;
    r.register(Box::new(g.clone()))?;
    Ok(g)
}

fn int_gauge(r: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    let g = IntGauge::new(name, help)?;
    r.register(Box::new(g.clone()))?;
    Ok(g)
}

fn int_gauge_vec(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, prometheus::Error> {
    let g = IntGaugeVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(g.clone()))?;
    Ok(g)
}

fn histogram(r: &Registry, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    let h = Histogram::with_opts(HistogramOpts::new(name, help).buckets(LATENCY.to_vec()))?;
    r.register(Box::new(h.clone()))?;
    Ok(h)
}

fn histograms(
    r: &Registry,
    name: &str,
    help: &str,
    label: &str,
    buckets: &[f64],
) -> Result<HistogramVec, prometheus::Error> {
    let h = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &[label])?;
    r.register(Box::new(h.clone()))?;
    Ok(h)
}
