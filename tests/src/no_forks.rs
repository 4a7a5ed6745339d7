//! Processes that cannot fork: the pids controller of cgroup v1. Needs root.

use std::fs;

use crate::cgroup_v1::Group;

/// They can again when it is dropped.
#[derive(Debug)]
pub struct NoForks(#[expect(dead_code, reason = "dropped")] Group);

impl NoForks {
    /// # Panics
    /// Without root, without the pids controller of cgroup v1, or when a process is gone.
    #[must_use]
    pub fn new(pids: &[i32]) -> Self {
        let group = Group::new("pids", &format!("forks-{}", pids[0]));
        pids.iter().for_each(|pid| group.take_in(*pid));
        fs::write(group.dir.join("pids.max"), "0").unwrap();
        Self(group)
    }
}
