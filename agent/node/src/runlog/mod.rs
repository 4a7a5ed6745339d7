//! Each line of a run's output, also to journald or syslog.
//!
//! Lines are read from the attempts' local files, apart from the way into the database: they arrive while the
//! database is away, and nothing waits for whoever takes them.

mod about;
mod follower;
mod format;
#[doc(hidden)]
pub mod lines;
mod socket;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use self::about::About;
use self::follower::{Follower, Passed};
pub use self::format::Format;
use self::format::Writer;
use self::socket::{Sent, Socket};
use farmhand_telemetry::events::{Event, Events};
use farmhand_warden_client::wire::AttemptId;

/// New output is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Orders that may wait; the reporter then waits too, for a file to be read at most.
const ORDERS: usize = 1_024;
/// How long the end of an attempt may wait for a receiver that takes its lines one by one.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How long what still waits for the socket is tried when the agent leaves.
const LAST_TRY: Duration = Duration::from_millis(500);

/// Where the lines go, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLogConfig {
    /// journald's or syslog's.
    pub format: Format,
    /// The Unix socket of journald or syslog.
    pub socket: PathBuf,
}

enum Order {
    Follow(About),
    /// Their directories go once this is answered.
    End(Vec<AttemptId>, oneshot::Sender<()>),
}

/// The way to the forwarder; without one, every word is a no-op.
#[derive(Clone)]
pub(crate) struct RunLog(Option<mpsc::Sender<Order>>);

impl RunLog {
    /// Starts forwarding for the node under `address`. It ends when this value and its clones are dropped.
    pub(crate) fn start(
        config: Option<&RunLogConfig>,
        address: &str,
        events: &Events,
    ) -> (Self, JoinHandle<()>) {
        let Some(config) = config else {
            return (Self(None), tokio::spawn(std::future::ready(())));
        };
        let (tx, rx) = mpsc::channel(ORDERS);
        let forwarder = Forwarder {
            socket: Socket::new(config.socket.clone()),
            writer: Writer::new(config.format, address),
            followed: BTreeMap::new(),
            events: events.clone(),
            more: false,
            last: None,
        };
        (Self(Some(tx)), tokio::spawn(forwarder.run(rx)))
    }

    /// Forwards an attempt's output from now on; after a takeover of the warden, from where the earlier agent
    /// stopped.
    pub(crate) async fn follow(&self, about: About) {
        if let Some(orders) = &self.0 {
            let _ = orders.send(Order::Follow(about)).await;
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns when the rest of these attempts' output has been sent, lies in memory, or is given up and counted:
    /// their files are needed no more.
    pub(crate) async fn end(&self, ids: Vec<AttemptId>) {
        if let Some(orders) = &self.0 {
            let (done, answer) = oneshot::channel();
            if orders.send(Order::End(ids, done)).await.is_ok() {
                let _ = answer.await;
            }
        }
    }
}

struct Forwarder {
    socket: Socket,
    writer: Writer,
    followed: BTreeMap<AttemptId, Follower>,
    events: Events,
    /// A pass stopped before the end of what there was.
    more: bool,
    /// The last one that was looked at: the next look begins behind it.
    last: Option<AttemptId>,
}

impl Forwarder {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Follow(about)) => {
                        let line_max = self.writer.line_max();
                        self.followed
                            .entry(about.id)
                            .or_insert_with(|| Follower::new(about, line_max));
                    }
                    Some(Order::End(ids, done)) => {
                        for id in ids {
                            self.end(id).await;
                        }
                        let _ = done.send(());
                    }
                    None => break,
                },
                _ = ticks.tick(), if !self.followed.is_empty() || self.socket.waits() => self.look().await,
                () = self.socket.writable(), if self.more || self.socket.waits() => self.look().await,
            }
            self.say_changes();
        }
        let last = tokio::time::timeout(LAST_TRY, async {
            while !self.socket.flush() {
                self.socket.writable().await;
            }
        });
        if last.await.is_err() {
            let (lines, socket) = (self.socket.waiting(), self.socket.path().display());
            tracing::warn!(
                "{lines} lines of output of ended runs were not sent to {socket} before this agent left"
            );
        }
    }

    async fn look(&mut self) {
        self.more = false;
        if !self.socket.flush() {
            return;
        }
        let last = self.last.unwrap_or(AttemptId {
            run_id: 0,
            attempt: 0,
        });
        let behind = self.followed.range((Excluded(last), Unbounded));
        let ids: Vec<AttemptId> = behind
            .chain(self.followed.range(..=last))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let (socket, writer) = (&mut self.socket, &self.writer);
            let Some(follower) = self.followed.get_mut(&id) else {
                continue;
            };
            self.last = Some(id);
            match follower.pass(|about, line| socket.send(&writer.entry(about, line))) {
                Passed::All => {}
                Passed::More => self.more = true,
                Passed::Blocked => {
                    self.more = true;
                    return;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Its files go: what the socket does not take now waits in memory, within bounds.
    async fn end(&mut self, id: AttemptId) {
        let Some(mut follower) = self.followed.remove(&id) else {
            return;
        };
        self.socket.flush();
        follower.closing();
        let deadline = Instant::now() + END_WITHIN;
        loop {
            let (socket, writer) = (&mut self.socket, &self.writer);
            let passed = follower.pass(|about, line| {
                let entry = writer.entry(about, line);
                match socket.send(&entry) {
                    Sent::NotNow if socket.keep(entry) => Sent::Yes,
                    sent => sent,
                }
            });
            match passed {
                Passed::All => break,
                Passed::More => tokio::task::yield_now().await,
                Passed::Blocked if Instant::now() < deadline && self.socket.room().await => {}
                Passed::Blocked => {
                    while follower.give_up() {
                        tokio::task::yield_now().await;
                    }
                    break;
                }
            }
        }
        if follower.dropped() > 0 {
            self.events.emit(Event::OutputDropped {
                run_id: id.run_id,
                attempt: id.attempt,
                bytes: follower.dropped(),
                error: Some(format!(
                    "not sent to {}: {}",
                    self.socket.path().display(),
                    self.socket.why()
                )),
            });
        }
    }

    fn say_changes(&mut self) {
        if let Some(trouble) = self.socket.take_change() {
            self.events.emit(Event::RunLog {
                socket: self.socket.path().display().to_string(),
                trouble,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use farmhand_telemetry::metrics::Metrics;
    use farmhand_warden_client::Stream;
    use farmhand_warden_client::output::OutputWriter;

    use super::*;

    /// A forwarder with the endless output of so many runs.
    fn flooded(place: &Path, runs: i64) -> Forwarder {
        let events = Events::new(Arc::new(Metrics::new().unwrap()), "n1", mpsc::channel(64).0);
        let mut followed = BTreeMap::new();
        for run_id in 1..=runs {
            let (id, dir) = (AttemptId { run_id, attempt: 1 }, place.join(run_id.to_string()));
            std::fs::create_dir(&dir).unwrap();
            OutputWriter::new(dir.clone(), 8 << 20).write(
                Stream::Stdout,
                7,
                "line\n".repeat(200_000).as_bytes(),
            );
            let about = About {
                id,
                job_id: "flood".to_owned(),
                traceparent: String::new(),
                parent_run: None,
                dir,
            };
            followed.insert(id, Follower::new(about, 1_000));
        }
        Forwarder {
            socket: Socket::new(place.join("socket")),
            writer: Writer::new(Format::Syslog, "n1"),
            followed,
            events,
            more: false,
            last: None,
        }
    }

    #[tokio::test]
    async fn a_job_that_floods_a_slow_receiver_holds_back_no_other_jobs_lines() {
        let place = tempfile::tempdir().unwrap();
        let receiver = std::os::unix::net::UnixDatagram::bind(place.path().join("socket")).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let mut forwarder = flooded(place.path(), 3);
        let mut seen = std::collections::BTreeSet::new();
        // It connects, and then takes each time as much as its queue holds.
        for _ in 0..4 {
            forwarder.look().await;
            let mut datagram = [0; 4096];
            while let Ok(length) = receiver.recv(&mut datagram) {
                let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
                let run = text
                    .split(" run=\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next());
                seen.insert(run.unwrap().to_owned());
            }
            assert!(forwarder.more);
            forwarder.socket.writable().await;
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["1", "2", "3"]);
    }
}
