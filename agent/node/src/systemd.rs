//! What the service manager is told: systemd's notification protocol, sd_notify(3). Without a `NOTIFY_SOCKET` nothing
//! is sent.
//!
//! The sign of life comes from the agent's own loop and from nowhere else: a loop that hangs is silent, and the
//! manager then starts another agent, which adopts the jobs before their lease ends.

use std::pin::pin;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use sd_notify::NotifyState;

use farmhand_os::clock::boot_now;

/// How often a loop turns at least, where no watchdog wants it more often.
const AT_REST: Duration = Duration::from_secs(5);
/// By how much each sign of life of an agent that is still starting prolongs its start, or its stop when the machine goes down.
const EXTENSION_US: u32 = 30_000_000;
/// For the service manager to say whether the machine goes down.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// One process, one service manager: its environment variables are the process's, and so is this.
static READY: AtomicBool = AtomicBool::new(false);
/// The machine goes down, and what runs is given its time.
static GOING_DOWN: AtomicBool = AtomicBool::new(false);
static LAST_SIGN: AtomicU64 = AtomicU64::new(0);

/// Whether this process is a unit of systemd's: on SIGTERM the jobs are left to the next agent. Elsewhere nobody
/// would come.
pub(crate) fn is_systemd() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some() && std::env::var_os("INVOCATION_ID").is_some()
}

/// The longest that a loop may sleep: a quarter of the watchdog's patience.
pub(crate) fn sign_every() -> Duration {
    static EVERY: OnceLock<Duration> = OnceLock::new();
    *EVERY.get_or_init(|| {
        let patience = sd_notify::watchdog_enabled().map(|patience| patience / 4);
        patience.map_or(AT_REST, |every| every.clamp(Duration::from_millis(10), AT_REST))
    })
}

/// To be called from each turn of the loop whose hanging must not go unnoticed. Sends no more often than needed.
pub(crate) fn alive(now: BootInstant, status: impl FnOnce() -> String) {
    let last = BootInstant(LAST_SIGN.load(Ordering::Relaxed));
    if now.saturating_since(last) < sign_every() / 2 {
        return;
    }
    LAST_SIGN.store(now.0, Ordering::Relaxed);
    let status = status();
    let said = NotifyState::Status(&status);
    let (sign, longer) = (
        NotifyState::Watchdog,
        NotifyState::ExtendTimeoutUsec(EXTENSION_US),
    );
    match (READY.load(Ordering::Relaxed), GOING_DOWN.load(Ordering::Relaxed)) {
        (true, false) => tell(&[sign, said]),
        (true, true) => tell(&[sign, longer, said]),
        (false, _) => tell(&[longer, said]),
    }
}

/// From now on each sign of life prolongs the stop: the unit knows neither `stop_timeout` nor the grace of jobs.
pub(crate) fn going_down() {
    GOING_DOWN.store(true, Ordering::Relaxed);
}

/// The start is over: the agent works, or waits for something that may take any time.
pub(crate) fn ready(status: &str) {
    READY.store(true, Ordering::Relaxed);
    tell(&[
        NotifyState::Ready,
        NotifyState::Watchdog,
        NotifyState::Status(status),
    ]);
}

pub(crate) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// For work without a loop of its own. The signs come from the task that does it: work that blocks it sends none.
pub(crate) async fn while_waiting<T>(status: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        alive(boot_now(), || status.to_owned());
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(sign_every()) => {}
        }
    }
}

/// Whether the machine goes down, so that no next agent comes. A manager that does not answer says no.
pub(crate) async fn machine_goes_down() -> bool {
    let asked = tokio::process::Command::new("systemctl")
        .arg("is-system-running")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let answer = tokio::time::timeout(ANSWER_WITHIN, asked).await;
    matches!(answer, Ok(Ok(output)) if output.stdout.trim_ascii() == b"stopping")
}

fn tell(states: &[NotifyState<'_>]) {
    // A manager that is gone or does not listen changes nothing for the jobs.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("the service manager cannot be told: {error}");
    }
}
