//! Signals: as something to poll, and those that nothing here has a use for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Ends of children and requests to stop, as a descriptor.
#[derive(Debug)]
pub struct Signals(OwnedFd);

const WATCHED: [i32; 5] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
];

impl Signals {
    /// Blocks them for good; what is started has to undo that.
    pub fn block() -> io::Result<Self> {
        let set = block(WATCHED)?;
        // SAFETY: the set is initialised; the descriptor that comes back is new.
        unsafe {
            match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// Readable while a signal waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sleeps until one of them arrives, one of `others` is readable, or it is `until`. Whatever ends the sleep, everything is to
    /// be looked at.
    pub fn sleep<'f>(&'f self, until: Option<Instant>, others: impl IntoIterator<Item = BorrowedFd<'f>>) {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        let time: Option<Timespec> = left.and_then(|left| left.try_into().ok());
        let fds = std::iter::once(self.fd()).chain(others);
        let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let _ = poll(&mut fds.collect::<Vec<_>>(), time.as_ref());
    }

    /// Takes all that arrived; those that ask to stop.
    pub fn take(&self) -> Vec<i32> {
        // More than there can be: of each blocked signal at most one is pending.
        const MOST: usize = 8;
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        // SAFETY: signalfd_siginfo is plain data and the buffer is as large as what is asked for.
        let (infos, count) = unsafe {
            let mut infos: [libc::signalfd_siginfo; MOST] = std::mem::zeroed();
            let count = libc::read(self.0.as_raw_fd(), (&raw mut infos).cast(), MOST * SIZE);
            (infos, usize::try_from(count).unwrap_or(0) / SIZE)
        };
        let taken = infos.iter().take(count).map(|info| info.ssi_signo.cast_signed());
        taken.filter(|signal| *signal != libc::SIGCHLD).collect()
    }
}

/// Blocks these for this thread and those it will start.
pub fn block(signals: impl IntoIterator<Item = i32>) -> io::Result<libc::sigset_t> {
    let set = set(signals);
    mask(libc::SIG_BLOCK, &set).map(|()| set)
}

/// Blocks none any more: for a child, before it becomes another program, which would inherit the mask.
pub fn unblock_all() -> io::Result<()> {
    mask(libc::SIG_SETMASK, &set([]))
}

fn set(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: the set is plain data, initialised by sigemptyset before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

fn mask(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: changes this thread's mask by an initialised set.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// What ends a process by default, is no fault of its own and has no meaning for any of ours. `pkill -ALRM farmhand`
/// wakes agents; it reaches every process of that name.
pub fn stray() -> impl Iterator<Item = i32> {
    let named = [
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGSTKFLT,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
    ];
    named.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Ends of children can be waited for, whatever this process was started with: of one that ignores SIGCHLD the kernel keeps none.
pub fn hear_of_children() {
    // SAFETY: sets a disposition of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// For good. A child of ours inherits it; a command gets the defaults back.
pub fn ignore_stray() {
    for signal in stray() {
        // SAFETY: sets a disposition of this process.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
