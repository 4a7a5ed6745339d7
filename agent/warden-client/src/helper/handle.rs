//! The agent's end of its helper.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use super::protocol::{Files, Gone, Purpose, Reply, Request, Setup};
use super::wire;
use crate::engine_record::EngineRecord;
use crate::wire::{AttemptId, Serving};
use farmhand_os::removal;

/// Longer than a reaper may take to be ready.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);

/// A removal goes on for long before what is left is put aside. Who stopped waiting earlier would ask for more than the helper
/// has places.
fn within(request: &Request) -> Duration {
    match request {
        Request::Remove { .. } => removal::WITHIN + ANSWER_WITHIN,
        _ => ANSWER_WITHIN,
    }
}

/// One process has one: as its user, its rights are the process's.
static HELPER: OnceLock<Helper> = OnceLock::new();

/// The helper of this process; `None` where the agent has its rights itself.
pub fn here() -> Option<&'static Helper> {
    HELPER.get()
}

/// The agent's end.
#[derive(Debug)]
pub struct Helper {
    socket: OwnedFd,
    files: Files,
    trusted_keys: Option<PathBuf>,
}

/// What was found where a warden may live.
#[derive(Debug)]
pub enum LocatedWarden {
    Living(UnixStream),
    /// Certainly nobody lives.
    Nobody,
    /// It is stopped, or hangs.
    NoAnswer,
    /// A reaper lives but no warden listens.
    Busy,
}

fn unexpected(reply: Reply) -> io::Error {
    io::Error::other(match reply {
        Reply::Failed { why } => why,
        other => format!("the helper's answer makes no sense: {other:?}"),
    })
}

impl Helper {
    /// Starts one. Its memory and its environment are new: it knows nothing of what this process has read.
    pub(crate) fn start_process(
        state_dir: &Path,
        files: Files,
        trusted_keys: Option<PathBuf>,
    ) -> io::Result<Self> {
        let (socket, theirs) = wire::pair()?;
        let setup = Setup {
            state_dir: state_dir.to_owned(),
            files: files.clone(),
        };
        // Before there is anybody else who could be the first to say something.
        wire::send(&socket, &setup, None, SendFlags::empty())?;
        Command::new("/proc/self/exe")
            .arg0("farmhand")
            .arg("helper")
            .arg("--state-dir")
            .arg(state_dir)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            socket,
            files,
            trusted_keys,
        })
    }

    /// From now on it is what [`here`] gives.
    pub(crate) fn serve_this_process(self) {
        let _ = HELPER.set(self);
    }

    /// The list of trusted keys that the agent is held to; none when no signature is asked for.
    pub fn trusted_keys(&self) -> Option<PathBuf> {
        self.trusted_keys.clone()
    }

    /// Asks and waits for the answer, however long that takes.
    fn ask(&self, request: &Request, within: Option<Duration>) -> io::Result<(Reply, Option<OwnedFd>)> {
        let (mine, theirs) = wire::pair()?;
        rustix::net::sockopt::set_socket_timeout(&mine, rustix::net::sockopt::Timeout::Recv, within)?;
        wire::send(&self.socket, request, Some(theirs.as_fd()), SendFlags::empty())?;
        drop(theirs);
        match wire::receive(&mine, RecvFlags::empty()) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(io::Error::other("the helper is gone")),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the helper does not answer",
            )),
            Err(e) => Err(e),
        }
    }

    fn ask_soon(&self, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
        self.ask(request, Some(within(request)))
    }

    async fn ask_aside(
        &'static self,
        request: Request,
        within: Option<Duration>,
    ) -> io::Result<(Reply, Option<OwnedFd>)> {
        let asked = tokio::task::spawn_blocking(move || self.ask(&request, within)).await;
        asked.unwrap_or_else(|e| Err(io::Error::other(e)))
    }

    fn done(&self, request: &Request) -> io::Result<()> {
        match self.ask_soon(request)?.0 {
            Reply::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// A connection to the living warden, or why there is none.
    /// Errors: As for all requests: what the helper says, or that it is gone.
    pub async fn connect(&'static self) -> io::Result<LocatedWarden> {
        match self.ask_aside(Request::Connect, Some(ANSWER_WITHIN)).await? {
            (Reply::Connected, Some(stream)) => stream_of(stream).map(LocatedWarden::Living),
            (Reply::Nobody, _) => Ok(LocatedWarden::Nobody),
            (Reply::NoAnswer, _) => Ok(LocatedWarden::NoAnswer),
            (Reply::Busy, _) => Ok(LocatedWarden::Busy),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// A new warden, and a connection to it.
    pub async fn start(
        &'static self,
        (serving, address): (Serving, String),
        deadline_ns: u64,
        soft_ns: u64,
        max_attempts: u32,
    ) -> io::Result<UnixStream> {
        let request = Request::Start {
            serving,
            address,
            deadline_ns,
            soft_ns,
            max_attempts,
        };
        match self.ask_aside(request, Some(ANSWER_WITHIN)).await? {
            (Reply::Connected, Some(stream)) => stream_of(stream),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// SIGKILL for a warden that this agent has been connected to.
    pub fn kill(&self, pid: i32) -> io::Result<()> {
        self.done(&Request::Kill { pid })
    }

    /// Returns when neither reaper nor warden lives and what they left is ended.
    pub async fn gone(&'static self) -> io::Result<Gone> {
        match self.ask_aside(Request::Gone, None).await?.0 {
            Reply::Gone { gone } => Ok(gone),
            other => Err(unexpected(other)),
        }
    }

    /// Removes an ended attempt's directory.
    pub fn remove(&self, id: AttemptId) -> io::Result<()> {
        self.done(&Request::Remove { id })
    }

    /// An engine's record, open for reading; `None`: there is none yet.
    pub fn record(&self, id: AttemptId, record: EngineRecord) -> io::Result<Option<std::fs::File>> {
        match self.ask_soon(&Request::Record { id, record })? {
            (Reply::Record, file) => Ok(file.map(std::fs::File::from)),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Keeps how far an attempt's lines have been sent.
    pub fn mark(&self, id: AttemptId, sent: [u64; 4]) -> io::Result<()> {
        self.done(&Request::Mark { id, sent })
    }

    /// Returns when the helper is gone.
    pub async fn is_gone(&self) {
        let socket = self.socket.try_clone();
        // SAFETY: the descriptor is owned by the AsyncFd and stays open and the same for its life.
        let watched = socket.and_then(|s| unsafe {
            AsyncFd::register_with_interest(s, Interest::READABLE).map_err(io::Error::from)
        });
        match watched {
            // It never says anything here: there is something to read when it is the end.
            Ok(socket) => drop(socket.readable().await),
            Err(error) => tracing::error!("the helper cannot be watched: {error}"),
        }
    }
}

fn stream_of(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// The text of the agent's own file for a purpose, also when it is one that only root can read.
pub fn text_of(file: &Path, purpose: Purpose) -> io::Result<String> {
    match (std::fs::read_to_string(file), here()) {
        (Err(e), Some(helper)) if e.kind() == io::ErrorKind::PermissionDenied => {
            if helper.files.get(&purpose).is_none_or(|known| known != file) {
                return Err(e);
            }
            match helper.ask_soon(&Request::File { purpose })?.0 {
                Reply::Text { text } => Ok(text),
                other => Err(unexpected(other)),
            }
        }
        (read, _) => read,
    }
}

/// The text of a file that is the agent's own for any purpose, as the helper reads it.
/// Errors: As for any file, and for one that was not named when this process was root.
pub fn text_as_root(file: &Path) -> io::Result<String> {
    let named = here().and_then(|helper| helper.files.iter().find(|(_, known)| known.as_path() == file));
    let (purpose, _) = named.ok_or(io::ErrorKind::PermissionDenied)?;
    text_of(file, *purpose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_waited_for_as_long_as_it_may_take() {
        let id = AttemptId {
            run_id: 1,
            attempt: 1,
        };
        assert!(within(&Request::Remove { id }) > removal::WITHIN);
        assert_eq!(within(&Request::Connect), ANSWER_WITHIN);
    }
}
