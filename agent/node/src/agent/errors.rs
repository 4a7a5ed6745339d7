//! Why an agent cannot go on, and what it waits for instead.

use std::path::PathBuf;
use std::time::Duration;

use farmhand_core::lease::Relation;
use farmhand_core::retry::full_jitter;
use farmhand_os::clock::boot_now;
use farmhand_os::random::random;
use farmhand_store::StoreError;
use farmhand_telemetry::events::Event;

use crate::context::Context;
use crate::systemd;

/// Why an agent could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the address {address} belongs to another live agent (session {session}{}); give this one an --address of \
         its own, or stop the other", holder.map_or("", Relation::of_the_holder)
    )]
    AddressTaken {
        address: String,
        session: i64,
        /// Its machine, compared with this one.
        holder: Option<Relation>,
    },
    #[error(
        "the state directory {} belongs to the node {address}, whose jobs run under session {session}; start this agent \
         with --address {address}, or with a --state-dir of its own", dir.display()
    )]
    StateDirTaken {
        dir: PathBuf,
        address: String,
        session: i64,
    },
    /// Its warden obeys a newer agent, or was replaced by that one's.
    #[error(
        "a newer agent has taken over the warden of the state directory {}; this one leaves everything to it", dir.display()
    )]
    Superseded { dir: PathBuf },
    #[error("{what}: {why}")]
    Setup { what: String, why: String },
}

/// What is wrong with the machine or a setting.
pub fn setup(what: impl Into<String>, why: impl std::fmt::Display) -> AgentError {
    AgentError::Setup {
        what: what.into(),
        why: why.to_string(),
    }
}

/// Retries with full jitter while the database is out of reach.
pub(super) async fn retrying<T, F, Fut>(
    ctx: &Context,
    op: &'static str,
    mut attempt: F,
) -> Result<T, AgentError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    let mut failures = 0u32;
    loop {
        match attempt().await {
            Ok(value) => {
                if let Some(away) = ctx.outage.end(boot_now()) {
                    ctx.events.emit(Event::DatabaseUp { away: Some(away) });
                }
                return Ok(value);
            }
            Err(e) if e.is_permanent() => return Err(e.into()),
            Err(e) => {
                // The start is over: a database that is away may stay away for hours, and nobody shall wait for it.
                systemd::ready("the database is out of reach");
                if e.is_away() && ctx.outage.begin(boot_now()) {
                    ctx.events.emit(Event::DatabaseAway);
                }
                ctx.events.emit(Event::database_down(op, &e));
                failures = failures.saturating_add(1);
                let ceiling = Duration::from_millis(100 << failures.min(7)).min(Duration::from_secs(10));
                tokio::time::sleep(Duration::from_millis(50) + full_jitter(ceiling, random())).await;
            }
        }
    }
}
