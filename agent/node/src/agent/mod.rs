//! One agent from start to end: connects, gets a session, lives it, and gets the next when it is lost.

mod adoption;
mod connections;
mod errors;
mod opening;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use farmhand_core::lease::LeaseTiming;
use farmhand_store::logins::{self, Login};
use farmhand_store::{Db, DbConfig, Note, migrate};
use tokio::sync::{mpsc, oneshot};

use self::connections::Connections;
use self::errors::retrying;
pub use self::errors::{AgentError, setup};
use crate::config::AgentConfig;
use crate::context::{Context, Reload};
use crate::inbox::{Input, SessionHandle};
use crate::memory::Memory;
use crate::notify::{Notifier, Wake};
use crate::outage::Outage;
use crate::reporter::{Checkpoints, Reporter};
use crate::row_writer::{self, RowBell};
use crate::runlog::RunLog;
use crate::session::SessionEnd;
use crate::{housekeeping, signals, systemd};
use farmhand_os::accounts;
use farmhand_policy::Policy;
use farmhand_policy::trust::Trust;
use farmhand_telemetry::Health;
use farmhand_telemetry::events::{Event, Events};
use farmhand_telemetry::metrics::Metrics;
use farmhand_warden_client::{Paths, helper, prepare};

/// Inputs of a session that may wait; senders then wait too.
const INPUTS: usize = 4_096;
/// Event rows that may wait for the database; more are counted and dropped.
const EVENT_ROWS: usize = 10_000;

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

/// What an agent lends to what is served on its port.
pub struct Served {
    /// Where what is served says what happened.
    pub events: Events,
    pub db: Db,
    /// Whether the agent holds a session.
    pub health: Health,
    pub address: String,
}

/// Begins to serve.
pub type Serve = Box<dyn FnOnce(Served) + Send>;

/// Runs one agent until it is told to leave. `rows_database` is the login for users' tables, where there is one. `reload` reads the configuration again on SIGHUP.
/// Errors: What makes going on pointless: a wrong password, a missing or newer schema, a taken address or port, an
/// unusable state directory. A database that is merely away is waited for.
pub async fn run(
    config: AgentConfig,
    database: DbConfig,
    rows_database: Option<DbConfig>,
    reload: Reload,
    serve: Serve,
) -> Result<Ended, AgentError> {
    let timing = LeaseTiming::new(config.lease_ttl).map_err(|e| setup("--lease-ttl", e))?;
    if helper::here().is_none() {
        prepare(&Paths::new(&config.state_dir))
            .map_err(|e| setup(format!("state directory {}", config.state_dir.display()), e))?;
    }
    let mut signals = signals::listen().map_err(|e| setup("signals", e))?;
    // With a helper they have been looked at, by root; they need not be for everybody to read.
    if helper::here().is_none() {
        check_policy(config.policy.as_deref())?;
        if let Some(file) = &config.trusted_keys {
            Trust::read(file).map_err(|why| setup("--trusted-keys", why))?;
        }
    }
    let metrics = Arc::new(Metrics::new().map_err(|e| setup("metrics", e))?);
    metrics.slots.set(i64::from(config.slots));
    let (rows_tx, rows) = mpsc::channel(EVENT_ROWS);
    let events = Events::new(metrics.clone(), &config.address, rows_tx);
    let Connections {
        db,
        lease_db,
        notes,
        notify_db,
        tables_db,
        row_notes_db,
        rows_db,
    } = Connections::new(&config, database, rows_database, timing, &events);
    let session_handle = SessionHandle::default();
    let (reports, reports_rx) = mpsc::unbounded_channel();
    let checkpoints = Checkpoints::default();
    let row_bell = RowBell::default();
    let (run_log, forwarder) = RunLog::start(config.run_log.as_ref(), &config.address, &events);
    let reporter = Reporter::new(
        db.clone(),
        events.clone(),
        config.state_dir.clone(),
        session_handle.clone(),
        run_log,
        checkpoints.clone(),
        row_bell.clone(),
    );
    let (stop_reporter, stopped) = oneshot::channel();
    let reporter = tokio::spawn(reporter.run(reports_rx, rows, stopped));
    let health = Health::default();
    serve(Served {
        events: events.clone(),
        db: db.clone(),
        health: health.clone(),
        address: config.address.clone(),
    });
    let memory = Memory::read(Paths::new(&config.state_dir).memory());
    let ctx = Arc::new(Context {
        hand_over: systemd::is_systemd(),
        reload,
        tunable: RwLock::new(config.tunable()),
        config,
        db,
        lease_db,
        events,
        memory,
        outage: Outage::default(),
        wake: Wake::default(),
        tables_db,
        row_bell,
        timing,
        reports,
        checkpoints,
        unfreed: AtomicBool::default(),
        start_pause: Mutex::default(),
    });
    forward_notes(notes, session_handle.clone());
    let housekeeper = housekeeping::start(ctx.clone())
        .await
        .map_err(|e| setup("housekeeping", e))?;
    let notifier = Notifier::start(ctx.clone(), notify_db);
    let row_writer = row_writer::start(ctx.row_bell.clone(), row_notes_db, rows_db);
    let result = tokio::select! {
        ended = live(&ctx, &session_handle, &health, &mut signals) => ended,
        // As in a crash: the jobs go on, and the next agent, with a helper of its own, finds their wardens.
        () = helper_gone() => Err(setup("--user", "the helper is gone, without which nothing can be started here")),
    };
    systemd::stopping(match &result {
        Ok(Ended::HandedOver) => "leaving the jobs to the next agent",
        Ok(Ended::Stopped | Ended::Superseded) => "leaving",
        Err(_) => "leaving because of an error",
    });
    notifier.stop().await;
    row_writer.abort();
    housekeeper.stop(&ctx).await;
    session_handle.set(None);
    drop(stop_reporter);
    // What is still to be written down: bounded, because the database may be away.
    let _ = tokio::time::timeout(Duration::from_secs(5), reporter).await;
    let _ = tokio::time::timeout(Duration::from_secs(1), forwarder).await;
    result
}

/// The warden reads it again for each start; this is to say at once what is wrong.
fn check_policy(file: Option<&Path>) -> Result<(), AgentError> {
    match file {
        Some(file) => Policy::read(file).map(drop).map_err(|why| setup("--policy", why)),
        None => {
            let uid = rustix::process::geteuid();
            let name = accounts::of(uid.as_raw()).ok().flatten();
            let name = name.map_or_else(
                || format!("user {uid}"),
                |user| user.name.to_string_lossy().into_owned(),
            );
            tracing::warn!(
                "there is no policy: jobs run as {name}, the agent's own user, and as nobody else; --policy FILE \
                 says who they may run as"
            );
            Ok(())
        }
    }
}

async fn helper_gone() {
    match helper::here() {
        Some(helper) => helper.is_gone().await,
        None => std::future::pending().await,
    }
}

fn forward_notes(mut notes: mpsc::Receiver<Note>, session_handle: SessionHandle) {
    tokio::spawn(async move {
        while let Some(note) = notes.recv().await {
            session_handle.send(Input::Note(note)).await;
        }
    });
}

/// One session after the other.
async fn live(
    ctx: &Arc<Context>,
    session_handle: &SessionHandle,
    health: &Health,
    signals: &mut mpsc::Receiver<signals::Signal>,
) -> Result<Ended, AgentError> {
    let mut reload = false;
    tokio::select! {
        ready = systemd::while_waiting("connecting to the database", database_ready(ctx)) => ready?,
        signal = leave_signal(signals, &mut reload) => {
            tracing::info!("leaving on {signal:?} before the database answered");
            return Ok(Ended::Stopped);
        }
    }
    let mut last = None;
    loop {
        let (tx, rx) = mpsc::channel(INPUTS);
        let opening = opening::begin(ctx, last, (tx.clone(), rx));
        let session = tokio::select! {
            session = systemd::while_waiting("waiting for a session", opening) => match session {
                Err(AgentError::Superseded { .. }) if last.is_some() => {
                    ctx.events.emit(Event::Superseded);
                    return Ok(Ended::Superseded);
                }
                session => session?,
            },
            signal = leave_signal(signals, &mut reload) => {
                tracing::info!("leaving on {signal:?} without a session");
                return Ok(Ended::Stopped);
            }
        };
        last = Some(session.serving());
        if std::mem::take(&mut reload) {
            let _ = tx.try_send(Input::Signal(signals::Signal::Reload));
        }
        session_handle.set(Some(tx.clone()));
        health.ready(true);
        systemd::ready(&session.status());
        let mut leaving = None;
        let end = {
            let mut running = std::pin::pin!(session.run());
            loop {
                tokio::select! {
                    end = &mut running => break end,
                    Some(signal) = signals.recv() => {
                        if signal.is_leaving() {
                            leaving = Some(signal);
                        }
                        let _ = tx.try_send(Input::Signal(signal));
                    }
                }
            }
        };
        health.ready(false);
        ctx.events.metrics.slots_free.set(0);
        session_handle.set(None);
        match end {
            // The session may have been too busy with its own end to hear of it.
            SessionEnd::Lost => {
                if let Some(signal) = leaving {
                    tracing::info!("leaving on {signal:?} after the session was lost");
                    return Ok(Ended::Stopped);
                }
            }
            SessionEnd::Closed => return Ok(Ended::Stopped),
            SessionEnd::HandedOver => return Ok(Ended::HandedOver),
            SessionEnd::Superseded => return Ok(Ended::Superseded),
        }
    }
}

/// The next signal that means leaving; there is nothing yet that could be drained. A session is to be told to `reload`.
async fn leave_signal(signals: &mut mpsc::Receiver<signals::Signal>, reload: &mut bool) -> signals::Signal {
    loop {
        match signals.recv().await {
            Some(signal) if signal.is_leaving() => return signal,
            Some(signal) => *reload |= signal == signals::Signal::Reload,
            None => std::future::pending().await,
        }
    }
}

/// Waits for the database; errors only for what waiting would not fix.
async fn database_ready(ctx: &Context) -> Result<(), AgentError> {
    retrying(ctx, "connect", || migrate::check(&ctx.db)).await?;
    if ctx.config.rows_database_url.is_some() {
        let check = || logins::check(&ctx.db, &ctx.tables_db, Login::Rows);
        retrying(ctx, "login for rows", check).await?;
    }
    ctx.events.emit(Event::DatabaseUp { away: None });
    Ok(())
}
