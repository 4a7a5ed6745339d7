//! One line about what takes long, on stderr and on a terminal only; gone when it is over.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::out;

/// Nothing is said about what takes less.
const PATIENCE: Duration = Duration::from_millis(400);
const EVERY: Duration = Duration::from_millis(200);

/// The line; it is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    /// Columns of the terminal, when there is one.
    width: Option<u16>,
    since: Instant,
    said: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let there = io::stderr().is_terminal() && !dumb;
        let width = there.then(|| {
            let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
            size.map(|s| s.ws_col).filter(|width| *width > 0).unwrap_or(80)
        });
        Self {
            width,
            since: Instant::now(),
            said: None,
        }
    }
}

impl Progress {
    /// Shows a text in place of the one before; at most a few times in a second.
    pub(super) fn say(&mut self, text: impl FnOnce(Duration) -> String) {
        let Some(width) = self.width else { return };
        let last = self.said.map_or(self.since + PATIENCE, |said| said + EVERY);
        if Instant::now() < last {
            return;
        }
        self.said = Some(Instant::now());
        let text = out::one_line(&text(self.since.elapsed()));
        // The last column stays free: some terminals begin a new line there.
        let shown: String = text.chars().take(usize::from(width).saturating_sub(1)).collect();
        put(&format!("\r{shown}\x1b[K"));
    }

    /// Takes the line away, before something else is printed.
    pub(super) fn clear(&mut self) {
        if self.said.take().is_some() {
            put("\r\x1b[K");
        }
    }

    /// Waits for `work`, and says how long it has been doing so.
    pub(super) async fn during<T>(&mut self, what: &str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        self.since = Instant::now();
        let answer = loop {
            tokio::select! {
                answer = &mut work => break answer,
                () = tokio::time::sleep(EVERY) => {
                    self.say(|elapsed| format!("{what}, {}", out::span(elapsed)));
                }
            }
        };
        self.clear();
        answer
    }
}

/// Waits for `work`, and says how long it has been doing so.
pub(super) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    Progress::default().during(what, work).await
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn put(text: &str) {
    // Nobody depends on it.
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
