//! Every metric of one agent, in one table. [`crate::events`] counts; the agent sets the gauges of what it holds now.

use std::sync::{Mutex, PoisonError};

use farmhand_core::attempt::RunKind;
use farmhand_core::lease::BootInstant;
use farmhand_core::release;
use farmhand_os::clock::boot_now;
use prometheus::core::Collector;
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

/// `field: type[labels] in buckets "name", "help";`
macro_rules! metrics {
    ($($field:ident: $type:ident$([$($label:literal),*])? $(in $buckets:ident)? $name:literal, $help:literal;)*) => {
        /// Every metric of an agent, registered once.
        pub struct Metrics {
            registry: Registry,
            pub(crate) lease: Lease,
            /// The farm's gauges while this agent exposes them, and until when it may.
            farm: Mutex<(Vec<MetricFamily>, BootInstant)>,
            $(#[doc = $help] pub $field: $type,)*
        }

        impl Metrics {
            fn registered() -> Result<Self, prometheus::Error> {
                let registry = Registry::new();
                Ok(Self {
                    $($field: {
                        let metric = $type::of(Opts::new($name, $help), &[$($($label),*)?], [$($buckets,)? LATENCY][0])?;
                        registry.register(Box::new(metric.clone()))?;
                        metric
                    },)*
                    lease: Lease::default(),
                    farm: Mutex::new((Vec::new(), BootInstant(0))),
                    registry,
                })
            }
        }
    };
}

metrics! {
    build: IntGaugeVec["version"] "farmhand_build_info", "Constant 1, labelled by version";
    claims: IntCounterVec["kind", "result"] "farmhand_claims_total", "Claims by what came of them";
    claim_duration: Histogram "farmhand_claim_duration_seconds", "Round trip of one claim statement";
    schedule_lag: HistogramVec["kind"] "farmhand_schedule_lag_seconds", "From the instant a run was due or ready to its claim";
    runs_started: IntCounterVec["kind"] "farmhand_runs_started_total", "Attempts started here";
    runs_finished: IntCounterVec["kind", "outcome"] "farmhand_runs_finished_total", "Runs ended by this agent, by outcome";
    run_duration: HistogramVec["kind"] in DURATION "farmhand_run_duration_seconds", "From exec to exit of an attempt";
    runs_in_progress: IntGauge "farmhand_runs_in_progress", "Attempts that hold a slot here";
    runs_unkillable: IntGauge "farmhand_runs_unkillable", "Attempts here that were killed and that the kernel does not end";
    slots: IntGauge "farmhand_slots", "Attempts that may run here at once";
    slots_free: IntGauge "farmhand_slots_free", "Attempts that this agent would claim now; 0 while it claims nothing";
    starts_refused: IntGauge "farmhand_starts_refused",
        "1 while the machine refuses to start processes; 0 once one has started again";
    retries: IntCounter "farmhand_retries_total", "Attempts sent back to be tried again";
    refusals: IntCounterVec["by"] "farmhand_refusals_total", "Attempts that this node would not start, by what forbids it";
    skips: IntCounterVec["reason"] "farmhand_skips_total", "Due instants recorded as skipped";
    takeovers: IntCounterVec["cause"] "farmhand_lease_takeovers_total", "Runs claimed here after another attempt was lost";
    takeover_delay: Histogram "farmhand_lease_takeover_delay_seconds",
        "From the last renewal seen of a dead session to its runs being free";
    timeouts: IntCounterVec["type"] "farmhand_timeouts_total", "What ran out of time";
    renewals: IntCounterVec["result"] "farmhand_lease_renewals_total", "Lease renewals by result";
    lease_remaining: Gauge "farmhand_lease_remaining_ratio", "Lease left, as a fraction of its TTL; 0 without a session";
    fence_rejections: IntCounterVec["op"] "farmhand_fence_rejections_total", "Writes refused because the run had moved on";
    fence_kills: IntCounterVec["result"] "farmhand_fence_kills_total",
        "Attempts killed because the lease or the run was no longer ours";
    db_up: IntGauge "farmhand_db_up", "1 while the database answers this agent";
    db_errors: IntCounterVec["op", "class"] "farmhand_db_errors_total", "Failed statements";
    db_query_duration: HistogramVec["op"] "farmhand_db_query_duration_seconds", "Round trip of a statement";
    db_connections: IntGaugeVec["state"] "farmhand_db_pool_connections", "Connections to PostgreSQL";
    db_clock_offset: Gauge "farmhand_db_clock_offset_seconds", "The database's wall clock minus this machine's";
    log_dropped: IntCounter "farmhand_log_dropped_bytes_total",
        "Output of commands beyond output.local, lost to a full disk, or not taken by journald or syslog";
    notifications: IntCounterVec["channel", "result"] "farmhand_notifications_total",
        "Tries to tell people of a job, and signs of life to the outside, by what came of them";
    http_requests: IntCounterVec["class"] "farmhand_http_requests_total", "Requests answered, by the class of their status";
    http_refused: IntCounterVec["reason"] "farmhand_http_refused_total",
        "Requests to the API turned away, and connections not taken, by reason";
}

trait Metric: Collector + Clone + Sized {
    fn of(opts: Opts, labels: &[&str], buckets: &[f64]) -> Result<Self, prometheus::Error>;
}

macro_rules! made_of {
    ($opts:ident, $labels:ident, $buckets:ident: $($type:ident = $make:expr;)*) => { $(impl Metric for $type {
        fn of($opts: Opts, $labels: &[&str], $buckets: &[f64]) -> Result<Self, prometheus::Error> {
            let _ = ($labels, $buckets);
            $make
        }
    })* };
}

made_of! {
    opts, labels, buckets:
    IntCounter = Self::with_opts(opts);
    IntCounterVec = Self::new(opts, labels);
    Gauge = Self::with_opts(opts);
    IntGauge = Self::with_opts(opts);
    IntGaugeVec = Self::new(opts, labels);
    Histogram = Self::with_opts(HistogramOpts::from(opts).buckets(buckets.to_vec()));
    HistogramVec = Self::new(HistogramOpts::from(opts).buckets(buckets.to_vec()), labels);
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
    /// The fixed label values of the counters and histograms that alerts watch start at zero.
    pub fn new() -> Result<Self, prometheus::Error> {
        let m = Self::registered()?;
        m.build.with_label_values(&[release::version()]).set(1);
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
