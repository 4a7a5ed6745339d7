//! Uninterruptible sleep on demand: the freezer of cgroup v1, whose SIGKILL stays pending until the thaw. Needs root.

use std::fs;
use std::time::{Duration, Instant};

use crate::cgroup_v1::{BOUND, Group};

/// Frozen processes; thawed when dropped.
#[derive(Debug)]
pub struct Frozen(Group);

impl Frozen {
    /// # Panics
    /// Without root, or without a freezer of cgroup v1.
    #[must_use]
    pub fn new(pid: i32) -> Self {
        Self::try_new(pid).unwrap_or_else(|| panic!("there is no process {pid}"))
    }

    /// `None` when the process has ended, or is frozen already.
    ///
    /// # Panics
    /// Without root, or without a freezer of cgroup v1.
    #[must_use]
    pub fn try_new(pid: i32) -> Option<Self> {
        let frozen = Self(Group::try_new("freezer", &pid.to_string())?);
        let there = frozen.0.take_in(pid);
        if there {
            frozen.become_("FROZEN");
        }
        there.then_some(frozen)
    }

    fn become_(&self, state: &str) {
        let file = self.0.dir.join("freezer.state");
        let until = Instant::now() + BOUND;
        loop {
            fs::write(&file, state).unwrap();
            if fs::read_to_string(&file).unwrap().trim() == state {
                return;
            }
            assert!(Instant::now() < until, "{} never became {state}", file.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.become_("THAWED");
    }
}
