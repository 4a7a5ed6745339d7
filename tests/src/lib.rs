//! The test harness.

pub mod acting;
pub mod alerts;
pub mod bench;
pub mod bin;
pub mod cgroup_v1;
pub mod chaos;
pub mod faketime;
pub mod farm;
pub mod freezer;
pub mod guides;
pub mod next;
pub mod no_forks;
pub mod outside;
pub mod pg;
pub mod ports;
pub mod processes;
pub mod proxy;
pub mod seed;
pub mod tmpfs;
pub mod wait;
pub mod watch;
pub mod witness;
