//! Processes whose parent died become children of this one, so that it can see and end them.

use std::io;

use farmhand_os::reap;

/// From now on, and for the descendants of those that are children now.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// Lets those that ended go, but for `kept`: somebody else waits for these.
pub(super) fn reap(kept: &[i32]) {
    while let reap::Peek::Zombie(pid) = reap::peek() {
        // The kernel shows the same one until it is reaped: the others have their turn at the next call.
        if kept.contains(&pid) || reap::one(pid).is_none() {
            return;
        }
    }
}
