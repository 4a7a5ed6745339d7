//! [`Events::emit`] alone turns an event into a log line, metrics and a row.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farmhand_store::events::EventRow;
use farmhand_store::{Observer, Severity};
use tokio::sync::mpsc::{self, error::TrySendError};

pub use farmhand_store::event::{Event, TakeoverCause};

use crate::metrics::Metrics;

/// The one subscriber. Rows wait in a bounded queue; when it is full they are counted as lost, never waited for.
#[derive(Clone)]
pub struct Events {
    /// What [`Events::emit`] counts in.
    pub metrics: Arc<Metrics>,
    address: Arc<str>,
    rows: mpsc::Sender<EventRow>,
    /// The last row found no room.
    full: Arc<AtomicBool>,
}

impl Events {
    /// `rows` is drained by the reporter into `farmhand.event`.
    pub fn new(metrics: Arc<Metrics>, address: &str, rows: mpsc::Sender<EventRow>) -> Self {
        Self {
            metrics,
            address: address.into(),
            rows,
            full: Arc::default(),
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
        farmhand_store::count_event!(self.metrics, &event);
        match event.severity() {
            None => tracing::trace!(?event),
            Some(Severity::Debug) => tracing::debug!("{event}"),
            Some(Severity::Info) => tracing::info!("{event}"),
            Some(Severity::Warning) => tracing::warn!("{event}"),
            Some(Severity::Error) => tracing::error!("{event}"),
        }
        if let Some(row) = event.row(&self.address) {
            let sent = self.rows.try_send(row);
            // Closed: the agent leaves.
            let full = matches!(sent, Err(TrySendError::Full(_)));
            let was_full = self.full.swap(full, Ordering::Relaxed);
            if sent.is_err() {
                self.metrics
                    .db_errors
                    .with_label_values(&["record_events", "queue_full"])
                    .inc();
            }
            if full && !was_full {
                let waiting = self.rows.max_capacity();
                tracing::warn!(
                    "{waiting} events wait for the database: what happens from here on is not recorded"
                );
            }
        }
    }
}
