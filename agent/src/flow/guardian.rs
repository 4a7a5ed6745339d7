//! A small process that outlives an engine that is killed, and wakes whoever waits for its tasks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

use super::fifo::{Directory, Fifos};
use crate::warden::spawn::fork;

/// Longest a reader can be on its way to a FIFO on a machine that still does anything.
const BOUND: Duration = Duration::from_secs(30);
/// For who was woken to look at the status.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Ends when the engine says that it is done.
#[derive(Debug)]
pub struct Guardian {
    pid: i32,
    line: File,
}

impl Guardian {
    /// Forks it. It keeps nothing of the engine's but the line between them. In the end it deletes `memory`,
    /// which nobody else would.
    ///
    /// # Errors
    /// When there are no processes or descriptors left.
    ///
    /// # Safety
    /// This process must have one thread.
    pub unsafe fn start(deps: &Path, memory: Option<&Path>) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: promised by the caller.
        match unsafe { fork()? } {
            0 => {
                drop(write);
                guard(read, deps, memory);
                // SAFETY: leaves without the engine's exit handlers.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Self {
                pid,
                line: write.into(),
            }),
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The flow came to its end: nothing is left to guard.
    pub fn dismiss(mut self) {
        // Should it be gone already, nobody is there to be told.
        let _ = self.line.write_all(b"d");
    }
}

fn guard(line: OwnedFd, deps: &Path, memory: Option<&Path>) {
    // SAFETY: this process's own session, descriptors and signals; nothing else runs in it.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
        libc::dup2(line.as_raw_fd(), 3);
        libc::syscall(libc::SYS_close_range, 4, u32::MAX, 0);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        std::mem::forget(line);
    }
    // SAFETY: 3 is the line, and nobody else's.
    let mut line: File = unsafe { std::os::fd::FromRawFd::from_raw_fd(3) };
    let mut word = [0];
    // An error means what its end means.
    if matches!(line.read(&mut word), Ok(1)) {
        return;
    }
    if let Ok(mut fifos) = Directory::open(deps).and_then(Fifos::new) {
        let _ = fifos.recover();
        fifos.settle(BOUND);
    }
    if let Some(memory) = memory {
        // Who was woken reads how it ended.
        std::thread::sleep(READ_WITHIN);
        let _ = std::fs::remove_dir_all(memory);
    }
}
