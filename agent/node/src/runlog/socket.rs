//! A datagram socket that is never waited for.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::time::Instant;

/// Between two tries to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// How long room is waited for; a receiver that lives takes something in that time.
const ROOM_WITHIN: Duration = Duration::from_millis(200);
/// Entries of ended attempts that may wait for room. Bytes.
const WAITING_MAX: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    /// Nobody is there, the receiver's queue is full, or others wait in front.
    NotNow,
    /// It is larger than the socket takes.
    Never,
}

pub(crate) struct Socket {
    path: PathBuf,
    datagrams: Option<UnixDatagram>,
    next_try: Instant,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    why: String,
    /// Nothing was taken while room was waited for, nor since.
    stuck: bool,
    away: bool,
    change: Option<Option<String>>,
}

impl Socket {
    /// Connects when first used.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            datagrams: None,
            next_try: Instant::now(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            why: "its queue is full".to_owned(),
            stuck: false,
            away: false,
            change: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Why it took nothing, the last time.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Since it was last asked: it went away, with the reason, or it is there again.
    pub(crate) fn take_change(&mut self) -> Option<Option<String>> {
        self.change.take()
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends one datagram, behind those that wait.
    pub(super) fn send(&mut self, datagram: &[u8]) -> Sent {
        if self.flush() {
            self.try_send(datagram)
        } else {
            Sent::NotNow
        }
    }

    /// Keeps an entry that cannot be sent now and will not be offered again. False: there is no room for it.
    pub(super) fn keep(&mut self, datagram: Vec<u8>) -> bool {
        let fits = self.waiting_bytes + datagram.len() <= WAITING_MAX;
        if fits {
            self.waiting_bytes += datagram.len();
            self.waiting.push_back(datagram);
        }
        fits
    }

    /// Sends what waits; true when nothing is left.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(first) = self.waiting.pop_front() {
            if self.try_send(&first) == Sent::NotNow {
                self.waiting.push_front(first);
                return false;
            }
            self.waiting_bytes -= first.len();
        }
        true
    }

    /// Returns when sending may be worth another try; never while nobody is there.
    pub(super) async fn writable(&self) {
        match &self.datagrams {
            Some(socket) => {
                if socket.writable().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for room, only a moment. False: there is none; then it does not wait again before something is taken.
    pub(super) async fn room(&mut self) -> bool {
        if self.stuck || self.datagrams.is_none() {
            return false;
        }
        self.stuck = tokio::time::timeout(ROOM_WITHIN, self.writable()).await.is_err();
        !self.stuck
    }

    fn try_send(&mut self, datagram: &[u8]) -> Sent {
        if !self.connected() {
            return Sent::NotNow;
        }
        let Some(socket) = &self.datagrams else {
            return Sent::NotNow;
        };
        match socket.try_send(datagram) {
            Ok(_) => {
                self.stuck = false;
                Sent::Yes
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                "its queue is full".clone_into(&mut self.why);
                Sent::NotNow
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                self.why = e.to_string();
                Sent::NotNow
            }
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
                self.why = e.to_string();
                Sent::Never
            }
            // Whoever listened has gone; the next one has another socket under the same name.
            Err(e) => {
                self.datagrams = None;
                self.next_try = Instant::now();
                self.went_away(e.to_string());
                Sent::NotNow
            }
        }
    }

    fn connected(&mut self) -> bool {
        if self.datagrams.is_some() {
            return true;
        }
        if Instant::now() < self.next_try {
            return false;
        }
        let connected = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(&self.path)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => {
                self.datagrams = Some(socket);
                if std::mem::replace(&mut self.away, false) {
                    self.change = Some(None);
                }
                true
            }
            Err(e) => {
                self.next_try = Instant::now() + AGAIN;
                self.went_away(e.to_string());
                false
            }
        }
    }

    fn went_away(&mut self, why: String) {
        if !std::mem::replace(&mut self.away, true) {
            self.change = Some(Some(why.clone()));
        }
        self.why = why;
    }
}
