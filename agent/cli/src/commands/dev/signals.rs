//! Signals as events, taken one by one by the loop that asks.

use std::io;
use std::time::Duration;

use farmhand_os::signal::{block, stray};

/// What the loop is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Ctrl-C, SIGTERM, or the terminal is gone.
    End,
    Child,
    /// SIGALRM: the agents are to look for work now.
    Look,
    Nothing,
}

/// Ctrl-C, SIGTERM, the end of the terminal.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The set of signals that this process takes by asking. A child inherits the mask, unless it undoes that.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks the signals for this thread and those it will start.
    pub(super) fn take() -> io::Result<Self> {
        // Stray ones are taken and dropped.
        let taken = ENDING.into_iter().chain([libc::SIGCHLD]);
        block(taken.chain(stray())).map(Self)
    }

    /// The next event, at most after `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Event {
        let timeout = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // SAFETY: both pointers are valid for the call.
        match unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &timeout) } {
            signal if ENDING.contains(&signal) => Event::End,
            libc::SIGCHLD => Event::Child,
            libc::SIGALRM => Event::Look,
            _ => Event::Nothing,
        }
    }
}
