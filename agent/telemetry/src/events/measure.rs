//! Events as metrics.

use super::Event;
use crate::metrics::Metrics;
use farmhand_os::clock::boot_now;

/// Updates the metrics that an event names.
pub(super) fn measure(m: &Metrics, event: &Event) {
    match event {
        Event::Answered { status } => {
            let class = ["1xx", "2xx", "3xx", "4xx", "5xx"]
                .get(usize::from(status / 100).wrapping_sub(1))
                .unwrap_or(&"5xx");
            m.http_requests.with_label_values(&[class]).inc();
        }
        Event::TurnedAway { reason } => m.http_refused.with_label_values(&[reason]).inc(),
        Event::Renewed { remaining, ttl } => {
            m.renewals.with_label_values(&["ok"]).inc();
            m.lease(*remaining, boot_now(), ttl.as_secs_f64());
        }
        Event::RenewalFailed { .. } => m.renewals.with_label_values(&["error"]).inc(),
        Event::RenewalWithheld { .. } => m.renewals.with_label_values(&["withheld"]).inc(),
        Event::SessionLost { .. } => {
            m.renewals.with_label_values(&["lost"]).inc();
            m.timeouts.with_label_values(&["lease"]).inc();
            m.no_lease();
        }
        Event::LeaseLapsed { attempts, .. } => {
            m.timeouts.with_label_values(&["lease"]).inc();
            m.fence_kills
                .with_label_values(&["lapsed"])
                .inc_by(*attempts as u64);
            m.no_lease();
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
        Event::Started { attempt, .. } => m.runs_started.with_label_values(&[attempt.kind.as_str()]).inc(),
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
        Event::UserRefused { .. } => m.refusals.with_label_values(&["policy"]).inc(),
        Event::DefinitionRefused { .. } => m.refusals.with_label_values(&["signature"]).inc(),
        Event::Retrying { .. } => m.retries.inc(),
        Event::TimedOut { progress, .. } => {
            m.timeouts
                .with_label_values(&[if *progress { "progress" } else { "run" }])
                .inc();
        }
        Event::Fenced { op, .. } => m.fence_rejections.with_label_values(&[op]).inc(),
        Event::FenceKill { .. } => m.fence_kills.with_label_values(&["killed"]).inc(),
        Event::StartsRefused { .. } => m.starts_refused.set(1),
        Event::StartsResumed { .. } => m.starts_refused.set(0),
        Event::Skipped { reason, count, .. } => m.skips.with_label_values(&[reason]).inc_by(*count),
        Event::Expired { silent, .. } => m.takeover_delay.observe(silent.as_secs_f64()),
        Event::DatabaseUp { .. } => m.db_up.set(1),
        Event::DatabaseAway => m.db_up.set(0),
        Event::ClockOffset { seconds } => m.db_clock_offset.set(*seconds),
        Event::OutputDropped { bytes, .. } => m.log_dropped.inc_by(*bytes),
        Event::Told(told) => told.measure(m),
        _ => {}
    }
}
