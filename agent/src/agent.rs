//! One agent from start to end: connects, gets a session, lives it, and gets the next when it is lost.

use std::sync::Arc;
use std::time::Duration;

use farmhand_common::core::lease::{BootInstant, LeaseTiming, MIN_TTL};
use farmhand_common::core::retry::full_jitter;
use farmhand_common::store::protocol::{self, Opened};
use farmhand_common::store::{Db, DbConfig, Me, Note, PasswordIn, StoreError, migrate};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::clock::{self, boot_now};
use crate::config::AgentConfig;
use crate::events::{Event, Events};
use crate::keeper::Keeper;
use crate::metrics::Metrics;
use crate::random::random;
use crate::reporter::{Outlet, Reporter};
use crate::session::{Context, Input, LEASE_GRACE, Session, SessionEnd};
use crate::warden::protocol::{AttemptReport, Kind, Serving};
use crate::warden::{Notices, Paths, WardenClient, WardenError};
use crate::wardens::{self, Wardens};
use crate::{housekeeping, http, signals};

/// Inputs of a session that may wait; senders then wait too.
const INPUTS: usize = 4_096;
/// Connections for everything but renewals, at the most; one at rest.
const POOL: usize = 4;
/// Nodes whose TTLs say how long a new timeline is watched.
const NODES_LOOKED_AT: u32 = 512;
/// Event rows that may wait for the database; more are counted and dropped.
const EVENT_ROWS: usize = 10_000;

/// Why an agent could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another agent lives under this address.
    #[error(
        "the address {address} belongs to another live agent (session {session}); give this one an --address of \
         its own, or stop the other"
    )]
    AddressTaken { address: String, session: i64 },
    #[error("{what}: {why}")]
    Setup { what: String, why: String },
}

fn setup(what: impl Into<String>, why: impl std::fmt::Display) -> AgentError {
    AgentError::Setup {
        what: what.into(),
        why: why.to_string(),
    }
}

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its session is closed and nothing of it runs.
    Stopped,
    /// Its jobs go on under the warden.
    HandedOver,
    /// A newer agent of the same state directory has taken over.
    Superseded,
}

/// Runs one agent until it is told to leave.
///
/// # Errors
/// What makes going on pointless: a wrong password, a missing or newer schema, a taken address or port, an
/// unusable state directory. A database that is merely away is waited for.
pub async fn run(mut config: AgentConfig) -> Result<Ended, AgentError> {
    config.state_dir = std::path::absolute(&config.state_dir)
        .map_err(|e| setup(format!("state directory {}", config.state_dir.display()), e))?;
    let timing = LeaseTiming::new(config.lease_ttl).map_err(|e| setup("--lease-ttl", e))?;
    Paths::new(&config.state_dir, Kind::Main)
        .prepare()
        .map_err(|e| setup(format!("state directory {}", config.state_dir.display()), e))?;
    let mut signals = signals::listen().map_err(|e| setup("signals", e))?;
    let metrics = Arc::new(Metrics::new().map_err(|e| setup("metrics", e))?);
    metrics.slots.set(i64::from(config.slots));
    let listener = match config.listen {
        Some(addr) => Some(
            http::bind(addr)
                .await
                .map_err(|e| setup(format!("--listen {addr}"), e))?,
        ),
        None => None,
    };
    let (rows_tx, rows) = mpsc::channel(EVENT_ROWS);
    let events = Events::new(metrics.clone(), &config.address, rows_tx);
    let (db, keeper_db, notes) = connect(&config, timing, &events)?;
    let outlet = Outlet::default();
    let (reports, reports_rx) = mpsc::unbounded_channel();
    let reporter = Reporter::new(
        db.clone(),
        events.clone(),
        config.state_dir.clone(),
        outlet.clone(),
    );
    let (stop_reporter, stopped) = oneshot::channel();
    let reporter = tokio::spawn(reporter.run(reports_rx, rows, stopped));
    let health = http::Health::default();
    if let Some(listener) = listener {
        tokio::spawn(http::serve(listener, metrics.clone(), db.clone(), health.clone()));
    }
    let ctx = Arc::new(Context {
        hand_over: handed_over_on_term(),
        config,
        db,
        keeper_db,
        events,
        timing,
        reports,
    });
    forward_notes(notes, outlet.clone());
    let housekeeper = housekeeping::start(ctx.clone())
        .await
        .map_err(|e| setup("housekeeping", e))?;
    let result = live(&ctx, &outlet, &health, &mut signals).await;
    housekeeper.stop().await;
    outlet.set(None);
    drop(stop_reporter);
    // What is still to be written down: bounded, because the database may be away.
    let _ = tokio::time::timeout(Duration::from_secs(5), reporter).await;
    result
}

/// Under systemd SIGTERM leaves the jobs to the next agent; elsewhere nobody would come.
fn handed_over_on_term() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some() && std::env::var_os("INVOCATION_ID").is_some()
}

fn connect(
    config: &AgentConfig,
    timing: LeaseTiming,
    events: &Events,
) -> Result<(Db, Db, mpsc::Receiver<Note>), AgentError> {
    let db_config = DbConfig::from_url(&config.database_url, PasswordIn::Allowed)?
        .with_application_name(&format!("farmhand {}", config.address))
        .with_max_pool(POOL)
        .with_listen(config.notify);
    // A renewal that takes longer than this is tried again on a new connection while the lease still lives.
    let bound = timing.renew_every().min(Duration::from_secs(5));
    let db = Db::new(&db_config);
    let (keeper_db, notes) = Db::dedicated(&db_config.clone().with_timeouts(bound, bound));
    let observer = events.statement_observer();
    Ok((
        db.observed_by(observer.clone()),
        keeper_db.observed_by(observer),
        notes,
    ))
}

fn forward_notes(mut notes: mpsc::Receiver<Note>, outlet: Outlet) {
    tokio::spawn(async move {
        while let Some(note) = notes.recv().await {
            outlet.send(Input::Note(note)).await;
        }
    });
}

/// One session after the other.
async fn live(
    ctx: &Arc<Context>,
    outlet: &Outlet,
    health: &http::Health,
    signals: &mut mpsc::Receiver<signals::Signal>,
) -> Result<Ended, AgentError> {
    tokio::select! {
        ready = database_ready(ctx) => ready?,
        signal = leave_signal(signals) => {
            tracing::info!("leaving on {signal:?} before the database answered");
            return Ok(Ended::Stopped);
        }
    }
    let mut adoptable = true;
    loop {
        let (tx, rx) = mpsc::channel(INPUTS);
        let session = tokio::select! {
            session = begin(ctx, std::mem::take(&mut adoptable), (tx.clone(), rx)) => session?,
            signal = leave_signal(signals) => {
                tracing::info!("leaving on {signal:?} without a session");
                return Ok(Ended::Stopped);
            }
        };
        outlet.set(Some(tx.clone()));
        health.ready(true);
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let end = {
            let mut running = std::pin::pin!(session.run());
            loop {
                tokio::select! {
                    end = &mut running => break end,
                    Some(signal) = signals.recv() => { let _ = tx.try_send(Input::Signal(signal)); }
                }
            }
        };
        health.ready(false);
        outlet.set(None);
        match end {
            SessionEnd::Lost => {}
            SessionEnd::Closed => return Ok(Ended::Stopped),
            SessionEnd::HandedOver => return Ok(Ended::HandedOver),
            SessionEnd::Superseded => return Ok(Ended::Superseded),
        }
    }
}

/// The next signal that means leaving; there is nothing yet that could be drained.
async fn leave_signal(signals: &mut mpsc::Receiver<signals::Signal>) -> signals::Signal {
    loop {
        match signals.recv().await {
            Some(signals::Signal::Reload | signals::Signal::Look) => {}
            Some(signal) => return signal,
            None => std::future::pending().await,
        }
    }
}

/// Waits for the database; errors only for what waiting would not mend.
async fn database_ready(ctx: &Context) -> Result<(), AgentError> {
    retrying(ctx, "connect", || migrate::check(&ctx.db)).await?;
    ctx.events.emit(Event::DatabaseUp);
    Ok(())
}

/// Retries with full jitter while the database is out of reach.
async fn retrying<T, F, Fut>(ctx: &Context, op: &'static str, mut attempt: F) -> Result<T, AgentError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    let mut failures = 0u32;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(e) if e.is_permanent() => return Err(e.into()),
            Err(e) => {
                ctx.events.emit(Event::DatabaseDown {
                    op,
                    class: e.class(),
                    error: e.to_string(),
                });
                failures = failures.saturating_add(1);
                let ceiling = Duration::from_millis(100 << failures.min(7)).min(Duration::from_secs(10));
                tokio::time::sleep(Duration::from_millis(50) + full_jitter(ceiling, random())).await;
            }
        }
    }
}

/// A session of this node: the one its warden serves, or a new one.
async fn begin(
    ctx: &Arc<Context>,
    adoptable: bool,
    channel: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> Result<Session, AgentError> {
    let mut found = existing_wardens(ctx).await?;
    if adoptable && let Some(serving) = common_serving(&found) {
        let sent = boot_now();
        let info = ctx.node_info(serving.life);
        let opened = retrying(ctx, "open", || protocol::open(&ctx.db, &info)).await?;
        if opened == Opened::Session(serving.session) && boot_now() < ctx.timing.holder_deadline(sent) {
            return adopt(ctx, serving, sent, found, channel).await;
        }
        if let Opened::Session(session) = opened {
            // Ours, but another session than the wardens serve: nobody may run under it.
            let me = Me {
                address: ctx.config.address.clone(),
                session,
                life: serving.life,
            };
            retrying(ctx, "close", || protocol::close(&ctx.db, &me)).await?;
        }
    }
    for (kind, client, _) in found.drain(..) {
        wardens::end(client, Duration::ZERO)
            .await
            .map_err(|e| setup(format!("the {} warden", kind.name()), e))?;
    }
    let (me, sent) = open(ctx).await?;
    ctx.events.emit(Event::SessionOpened { session: me.session });
    let mut wardens = new_wardens(ctx, &me, channel.0.clone());
    if let Err(e) = wardens.start_main(deadlines(ctx, sent, Kind::Main)).await {
        retrying(ctx, "close", || protocol::close(&ctx.db, &me)).await?;
        return Err(setup("starting the warden", e));
    }
    Ok(Session::new(ctx.clone(), me, sent, wardens, Vec::new(), channel))
}

/// Connects to every warden of the state directory, which cuts an older agent off.
async fn existing_wardens(ctx: &Context) -> Result<Vec<(Kind, WardenClient, Notices)>, AgentError> {
    let dir = &ctx.config.state_dir;
    let mut found = Vec::new();
    for kind in Paths::kinds(dir).map_err(|e| setup("state directory", e))? {
        loop {
            match WardenClient::connect_existing(dir, kind).await {
                Ok(Some((client, notices))) => found.push((kind, client, notices)),
                Ok(None) => {}
                // Stopped, or its guard is still ending processes: its kernel timer is running out.
                Err(e @ (WardenError::NoAnswer { .. } | WardenError::Busy(_) | WardenError::Gone)) => {
                    tracing::warn!("waiting for the {} warden: {e}", kind.name());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
                Err(e) => return Err(setup(format!("the {} warden", kind.name()), e)),
            }
            break;
        }
    }
    Ok(found)
}

/// The lease that all of them serve.
fn common_serving(found: &[(Kind, WardenClient, Notices)]) -> Option<Serving> {
    let serving = found.first()?.1.identity().serving;
    found
        .iter()
        .all(|(_, client, _)| client.identity().serving == serving)
        .then_some(serving)
}

async fn adopt(
    ctx: &Arc<Context>,
    serving: Serving,
    sent: BootInstant,
    found: Vec<(Kind, WardenClient, Notices)>,
    channel: (mpsc::Sender<Input>, mpsc::Receiver<Input>),
) -> Result<Session, AgentError> {
    let me = Me {
        address: ctx.config.address.clone(),
        session: serving.session,
        life: serving.life,
    };
    let mut wardens = new_wardens(ctx, &me, channel.0.clone());
    let mut adopted: Vec<(Kind, AttemptReport)> = Vec::new();
    for (kind, client, notices) in found {
        let listing = client
            .list()
            .await
            .map_err(|e| setup(format!("the {} warden", kind.name()), e))?;
        adopted.extend(listing.attempts.into_iter().map(|a| (kind, a)));
        wardens.insert(kind, client, notices, deadlines(ctx, sent, kind));
    }
    wardens.ensure(Kind::Main, deadlines(ctx, sent, Kind::Main));
    ctx.events.emit(Event::SessionAdopted {
        session: me.session,
        attempts: adopted.len(),
    });
    Ok(Session::new(ctx.clone(), me, sent, wardens, adopted, channel))
}

/// Opens a new session, expiring a dead one of the same address by the challenger's rule.
async fn open(ctx: &Context) -> Result<(Me, BootInstant), AgentError> {
    let life = Uuid::new_v4();
    let info = ctx.node_info(life);
    let mut watched: Option<(i64, Uuid, i64, BootInstant)> = None;
    let mut beats = 0;
    loop {
        let sent = boot_now();
        let opened = retrying(ctx, "open", || protocol::open(&ctx.db, &info)).await?;
        let now = boot_now();
        match opened {
            Opened::Session(session) => {
                let me = Me {
                    address: info.address.clone(),
                    session,
                    life,
                };
                if now < ctx.timing.soft_deadline(sent, ctx.timing.kill_allowance()) {
                    return Ok((me, sent));
                }
                // Confirmed too late to be used.
                retrying(ctx, "close", || protocol::close(&ctx.db, &me)).await?;
            }
            Opened::Taken {
                session,
                life,
                beat,
                ttl_ms,
            } => {
                let since = match watched {
                    Some((s, l, b, since)) if (s, l, b) == (session, life, beat) => since,
                    Some((s, l, ..)) if (s, l) == (session, life) => {
                        beats += 1;
                        if beats >= 2 {
                            return Err(AgentError::AddressTaken {
                                address: info.address.clone(),
                                session,
                            });
                        }
                        now
                    }
                    _ => {
                        tracing::warn!(
                            "session {session} of {} is open; waiting to see whether its agent lives",
                            info.address
                        );
                        now
                    }
                };
                watched = Some((session, life, beat, since));
                let ripe = since + challenge_after(ttl_ms);
                if now < ripe {
                    clock::sleep_until(ripe.min(now + Duration::from_millis(500))).await;
                } else if !clock::slewed_beyond(clock::SLEW_LIMIT) {
                    retrying(ctx, "expire", || {
                        protocol::expire(&ctx.db, &info.address, session, life, beat)
                    })
                    .await?;
                } else {
                    clock::sleep_until(now + Duration::from_secs(1)).await;
                }
            }
            Opened::TimelineClosed => open_timeline(ctx).await?,
        }
    }
}

/// W of a lease with this TTL.
fn challenge_after(ttl_ms: i64) -> Duration {
    let ttl = Duration::from_millis(u64::try_from(ttl_ms).unwrap_or(0)).max(MIN_TTL);
    LeaseTiming::new(ttl).map_or(ttl, |timing| timing.challenge_after())
}

/// Watches a closed timeline for W, then opens it. The last timeline's holders have lapsed by then.
async fn open_timeline(ctx: &Context) -> Result<(), AgentError> {
    let nobody = Me {
        address: ctx.config.address.clone(),
        session: 0,
        life: Uuid::nil(),
    };
    let mut watched: Option<(i64, BootInstant)> = None;
    loop {
        let look = retrying(ctx, "look", || protocol::look(&ctx.db, &nobody, NODES_LOOKED_AT)).await?;
        let now = boot_now();
        if look.timeline_open {
            return Ok(());
        }
        let since = match watched {
            Some((tli, since)) if tli == look.tli => since,
            _ => now,
        };
        watched = Some((look.tli, since));
        let longest = look
            .nodes
            .iter()
            .map(|n| n.ttl_ms)
            .max()
            .map_or(Duration::ZERO, challenge_after);
        let wait = longest.max(ctx.timing.challenge_after());
        if now >= since + wait {
            retrying(ctx, "open_timeline", || {
                protocol::open_timeline(&ctx.db, look.tli, &nobody.address)
            })
            .await?;
        }
        clock::sleep_until(now + Duration::from_millis(500)).await;
    }
}

fn new_wardens(ctx: &Context, me: &Me, tx: mpsc::Sender<Input>) -> Wardens {
    let serving = Serving {
        session: me.session,
        life: me.life,
    };
    // Ended attempts stay with the warden until they are written down.
    let max_attempts = ctx.config.slots.saturating_mul(4).saturating_add(1_024);
    Wardens::new(ctx.config.state_dir.clone(), serving, max_attempts, tx)
}

/// Kernel timer and SIGTERM time of a warden, for a lease confirmed at `sent`.
fn deadlines(ctx: &Context, sent: BootInstant, kind: Kind) -> (BootInstant, BootInstant) {
    Keeper::new(ctx.timing, LEASE_GRACE, sent).deadlines(kind.hold())
}
