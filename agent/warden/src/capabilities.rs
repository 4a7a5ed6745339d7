//! What this machine lets a warden do. Each answer comes from doing it, in a child where it would change this
//! process.

use std::io;
use std::path::Path;

use super::child::spawn::isolation;
use super::fence::KernelFence;
use farmhand_os::alarm::Alarm;
use farmhand_os::clock::{SECOND, boottime_ns};
use farmhand_os::fork::in_child;
use farmhand_warden_client::death::cgroup;
use farmhand_warden_client::paths::Paths;

/// Answers for the user that asks, from the cgroup it asks in.
#[derive(Debug)]
pub struct Capabilities {
    /// A cgroup of its own per attempt, with these controllers; else why not.
    pub cgroup: io::Result<Vec<String>>,
    /// A PID namespace per attempt.
    pub pid_namespace: bool,
    /// The timer that ends a warden with its lease.
    pub kernel_fence: bool,
}

/// Asks. The process must have one thread, and `state_dir` need not exist.
pub fn capabilities(state_dir: &Path) -> Capabilities {
    let asked = |question: fn() -> bool| in_child(question).unwrap_or(false);
    Capabilities {
        cgroup: controllers(state_dir),
        pid_namespace: asked(|| {
            // SAFETY: changes the namespaces of a child that then ends.
            unsafe { libc::unshare(isolation()) == 0 }
        }),
        kernel_fence: asked(|| {
            let alarm = Alarm::new();
            alarm.is_ok_and(|alarm| KernelFence::arm(boottime_ns() + 3600 * SECOND, alarm).is_ok())
        }),
    }
}

/// Under a name that no warden of this directory has, so that a running one is not disturbed.
fn controllers(state_dir: &Path) -> io::Result<Vec<String>> {
    let name = format!("doctor-{}", std::process::id());
    let parent = cgroup::make_parent(&Paths::new(&state_dir.join(name)))?;
    let controllers = std::fs::read_to_string(parent.join("cgroup.controllers"));
    let removed = cgroup::remove(&parent);
    let controllers = controllers?.split_whitespace().map(str::to_owned).collect();
    removed.map(|()| controllers)
}
