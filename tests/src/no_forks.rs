//! Processes that cannot fork: the pids controller of cgroup v1. Needs root.

use std::fs;

use crate::cgroup_v1::Group;

/// They can again when it is dropped.
#[derive(Debug)]
pub struct NoForks(Group);

impl NoForks {
    /// Of those that are still there.
    ///
    /// # Panics
    /// Without root, or without the pids controller of cgroup v1.
    #[must_use]
    pub fn new(pids: &[i32]) -> Self {
        let group = Group::new("pids", &format!("forks-{}", pids[0]));
        for pid in pids {
            group.take_in(*pid);
        }
        fs::write(group.dir.join("pids.max"), "0").unwrap();
        Self(group)
    }

    /// Whether a fork, or a thread, was refused.
    ///
    /// # Panics
    /// When the group is gone.
    #[must_use]
    pub fn refused(&self) -> bool {
        let events = fs::read_to_string(self.0.dir.join("pids.events")).unwrap();
        !events.trim().ends_with(" 0")
    }
}
