//! A sign of life to a dead man's switch outside: whoever gets none any more knows that the farm is dead, or nobody's.
//!
//! One agent at a time sends it, and only while the farm does its work. No farm can report its own death; this is
//! how somebody else does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use farmhand_core::notify::Url;
use farmhand_store::notify::{self, Health, Turn};
use farmhand_store::{Db, StoreError, tls};
use hyper::Method;

use super::{post, secrets};
use crate::context::Context;
use farmhand_telemetry::events::Event;
use farmhand_telemetry::snapshot;
use farmhand_warden_client::helper::Purpose;

/// A due instant that has waited for longer is nobody's.
const OVERDUE_SECONDS: f64 = 60.0;

/// Until an agent that begins has its session, usually.
const BEGUN: Duration = Duration::from_secs(5);

/// Where the sign of life goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Its URL, or the file that holds it.
    pub to: PingUrl,
    /// Between two signs of life.
    pub every: Duration,
}

/// Where a ping goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PingUrl {
    /// As the configuration has it.
    Given(Url),
    /// Read anew each time.
    File(PathBuf),
}

impl PingUrl {
    fn read(&self) -> Result<Url, String> {
        match self {
            Self::Given(url) => Ok(url.clone()),
            Self::File(file) => Url::parse(secrets::read(file, Purpose::Ping)?.trim())
                .map_err(|why| format!("{}: {why}", file.display())),
        }
    }
}

/// Sends it for as long as the agent lives.
pub(super) async fn run(ctx: Arc<Context>, db: Db, ping: Ping) {
    // An agent that has just begun has no session yet, and may be the only one.
    let first = tokio::time::Instant::now() + ping.every.min(BEGUN);
    let mut tick = tokio::time::interval_at(first, ping.every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut withheld = None;
    loop {
        tick.tick().await;
        match run_once(&ctx, &db, &ping).await {
            // It is another agent's turn. What this one withholds later is news again.
            Ok(None) => withheld = None,
            Ok(Some(Outcome::Sent)) => {
                withheld = None;
                ctx.events.emit(Event::Pinged { error: None });
            }
            Ok(Some(Outcome::Failed(error))) => ctx.events.emit(Event::Pinged { error: Some(error) }),
            Ok(Some(Outcome::Withheld(why))) => {
                if withheld != Some(why) {
                    ctx.events.emit(Event::PingWithheld { why });
                }
                withheld = Some(why);
            }
            // A database out of reach: silence says it.
            Err(e) => tracing::debug!("ping: {e}"),
        }
    }
}

enum Outcome {
    Sent,
    Failed(String),
    Withheld(&'static str),
}

/// `None`: another agent had the turn.
async fn run_once(ctx: &Context, db: &Db, ping: &Ping) -> Result<Option<Outcome>, StoreError> {
    let every = snapshot::turn(ping.every);
    if !notify::take_turn(db, Turn::Ping, &ctx.config.address, every).await? {
        return Ok(None);
    }
    if let Some(why) = unwell(&notify::health(db).await?) {
        return Ok(Some(Outcome::Withheld(why)));
    }
    let Err(why) = send(ping).await else {
        return Ok(Some(Outcome::Sent));
    };
    // Another agent may reach what this one does not.
    if let Err(e) = notify::give_turn_back(db, Turn::Ping, &ctx.config.address).await {
        tracing::debug!("ping: {e}");
    }
    Ok(Some(Outcome::Failed(why)))
}

async fn send(ping: &Ping) -> Result<(), String> {
    let url = ping.to.read()?;
    let tls = Arc::new(tls::outgoing().map_err(|e| e.to_string())?);
    let what = post::Outgoing {
        method: Method::GET,
        url: &url,
        headers: Vec::new(),
        body: Bytes::new(),
        secrets: post::secrets(&url, &[]),
    };
    post::send(&tls, what, post::LIMIT).await
}

/// Why the farm does not do its work.
fn unwell(health: &Health) -> Option<&'static str> {
    if !health.claims_open {
        Some("claims are closed: the database was restarted or replaced")
    } else if health.ready == 0 {
        Some("no node is ready")
    } else if health.overdue.is_some_and(|s| s > OVERDUE_SECONDS) {
        Some("jobs that are due are not fired")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_farm_that_does_not_do_its_work_gives_no_sign_of_life() {
        let well = Health {
            claims_open: true,
            ready: 1,
            overdue: Some(59.0),
        };
        assert_eq!(unwell(&well), None);
        let overdue = None;
        assert_eq!(
            unwell(&Health {
                overdue,
                ..well.clone()
            }),
            None
        );
        let overdue = Some(61.0);
        assert!(
            unwell(&Health {
                overdue,
                ..well.clone()
            })
            .is_some()
        );
        let ready = 0;
        assert!(
            unwell(&Health {
                ready,
                ..well.clone()
            })
            .is_some()
        );
        let claims_open = false;
        assert!(unwell(&Health { claims_open, ..well }).is_some());
    }
}
