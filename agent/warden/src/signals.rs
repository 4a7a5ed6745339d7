//! SIGCHLD and SIGTERM as something to poll.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

#[derive(Debug)]
pub(crate) struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks them for good; a forked child undoes that.
    pub(crate) fn block() -> io::Result<Signals> {
        // SAFETY: sets this process's own mask from an initialised set; the descriptor returned is ours.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [
                libc::SIGCHLD,
                libc::SIGTERM,
                libc::SIGINT,
                libc::SIGHUP,
                libc::SIGQUIT,
            ] {
                libc::sigaddset(&mut set, signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Signals {
                    fd: OwnedFd::from_raw_fd(fd),
                }),
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Takes all that arrived; true when SIGTERM was among them. The others are an agent's, not a warden's.
    pub(crate) fn asked_to_leave(&self) -> bool {
        // More than there can be: of each blocked signal at most one is pending.
        const MOST: usize = 8;
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        // SAFETY: signalfd_siginfo is plain data and the buffer is as large as what is asked for.
        let (infos, count) = unsafe {
            let mut infos: [libc::signalfd_siginfo; MOST] = std::mem::zeroed();
            let count = libc::read(self.fd.as_raw_fd(), (&raw mut infos).cast(), MOST * SIZE);
            (infos, usize::try_from(count).unwrap_or(0) / SIZE)
        };
        infos
            .iter()
            .take(count)
            .any(|info| info.ssi_signo == libc::SIGTERM as u32)
    }
}
