//! Proof that a warden and everything it ran are gone. Only a pidfd (or waitpid) proves a process dead; a
//! refused connection or a missing socket proves nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{lock, sweep};
use crate::helper::{self, Gone};
use crate::paths::Paths;
use farmhand_os::process;

/// How many looks, a second apart, tell a process that hangs from one that is ending.
const HANGS_FOR: usize = 3;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug)]
pub struct PidFd {
    pid: i32,
    fd: AsyncFd<OwnedFd>,
}

impl PidFd {
    /// `None`: no such process any more. The caller proves afterwards that it was the right one.
    pub fn open(pid: i32) -> io::Result<Option<PidFd>> {
        let number = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no pid"))?;
        match pidfd_open(number, PidfdFlags::empty()) {
            // SAFETY: the descriptor is owned by the AsyncFd and stays open and the same for its life.
            Ok(fd) => unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }
                .map(|fd| Some(PidFd { pid, fd }))
                .map_err(io::Error::from),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Its number, which may be another process's once it was reaped.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns when the process is dead; a zombie is.
    pub async fn dead(&self) {
        // A pidfd stays readable once it is, so the readiness is never cleared. It fails only without a
        // reactor, which is a bug in the caller.
        let _ = self.fd.readable().await;
    }

    /// As [`Self::dead`]; or when SIGKILL is pending and the process hangs in a system call all the same.
    pub async fn gone(&self) {
        let mut hangs = 0;
        while hangs < HANGS_FOR {
            tokio::select! {
                () = self.dead() => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            hangs = if process::is_ending(self.pid) {
                hangs + 1
            } else {
                0
            };
        }
    }

    /// Now; a zombie is.
    pub fn is_dead(&self) -> bool {
        let mut poll = [rustix::event::PollFd::new(
            self.fd.get_ref(),
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut poll, Some(&rustix::event::Timespec::default())).is_ok_and(|n| n > 0)
    }

    /// Sends SIGKILL; a process that is dead already is no error.
    pub fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(self.fd.get_ref(), Signal::KILL) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// Held from the moment of connecting; cheap to clone.
#[derive(Clone, Debug)]
pub struct ProofOfDeath {
    warden: Arc<PidFd>,
    /// Absent when the warden never said who its reaper is; then the lock tells.
    reaper: Option<Arc<PidFd>>,
    paths: Paths,
}

impl ProofOfDeath {
    /// For a warden and its reaper; None for a reaper that has ended already.
    pub fn new(warden: PidFd, reaper: Option<PidFd>, paths: Paths) -> Self {
        ProofOfDeath {
            warden: Arc::new(warden),
            reaper: reaper.map(Arc::new),
            paths,
        }
    }

    /// The files of this warden.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Of the process that answered the hello.
    pub fn warden_pid(&self) -> i32 {
        self.warden.pid()
    }

    /// None when there was no reaper left to watch.
    pub fn reaper_pid(&self) -> Option<i32> {
        self.reaper.as_ref().map(|g| g.pid())
    }

    /// Ends the warden at once, stopped or not; the reaper then ends everything else.
    pub fn kill_warden(&self) -> io::Result<()> {
        match helper::here() {
            Some(helper) => helper.kill(self.warden.pid()),
            None => self.warden.kill(),
        }
    }

    /// Returns when the warden itself is dead. Its processes may be dying still.
    pub async fn warden_dead(&self) {
        self.warden.dead().await;
    }

    /// Returns when the reaper is dead. It has ended everything then, unless it was killed.
    pub async fn reaper_dead(&self) {
        match &self.reaper {
            Some(reaper) => reaper.dead().await,
            None => std::future::pending().await,
        }
    }

    /// Returns when warden and reaper are gone and the tree is empty, as far as cgroups and marks can tell.
    pub async fn tree_gone(&self) -> io::Result<Gone> {
        self.warden.gone().await;
        if let Some(reaper) = &self.reaper {
            reaper.gone().await;
        }
        nobody_lives(&self.paths).await
    }
}

/// Waits until neither reaper nor warden of this state directory lives, then sweeps what they left.
/// For an agent that never spoke to them.
pub async fn nobody_lives(paths: &Paths) -> io::Result<Gone> {
    if let Some(helper) = helper::here() {
        return helper.gone().await;
    }
    // The lock has no readiness to wait for. It is kept while sweeping: what a reaper that starts meanwhile
    // lets run is none of the sweep's business.
    let lock = loop {
        match lock::acquire(&paths.lock()) {
            Ok(Some(lock)) => break Some(lock),
            Ok(None) => tokio::time::sleep(Duration::from_millis(10)).await,
            // No directory: nothing ever lived here.
            Err(e) if e.kind() == io::ErrorKind::NotFound => break None,
            Err(e) => return Err(e),
        }
    };
    let paths = paths.clone();
    tokio::task::spawn_blocking(move || {
        let gone = sweep::leftovers(&paths);
        drop(lock);
        gone
    })
    .await
    .map_err(io::Error::other)?
}
