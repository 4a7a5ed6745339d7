//! Whether a descriptor has something to read.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits at most for so long. A wait that a signal ends says yes: whoever reads finds out.
pub fn is_readable(fd: impl AsFd, within: Duration) -> bool {
    let time: Option<Timespec> = within.try_into().ok();
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    !matches!(poll(&mut fds, time.as_ref()), Ok(0))
}
