//! Who owns the processes. The guard waits; its child, the warden, forks commands, keeps their deadlines and
//! dies by the kernel's hand when the lease ends; nothing else in this product touches a process of a job.
//! The argument and its windows: `docs/warden.md`.

mod client;
mod clock;
mod frame;
mod launch;
mod lock;
mod output;
mod paths;
mod proof;
pub mod protocol;
mod reader;
mod sweep;

pub use client::{ANSWER_WITHIN, Notice, Notices, WardenClient, WardenError};
pub use clock::{MILLISECOND, SECOND, boottime_ns, wall_ms};
pub use launch::Launch;
pub use output::Stream;
pub use paths::Paths;
pub use proof::{Gone, PidFd, ProofOfDeath, nobody_lives};
pub use reader::{Item, OutputReader};

/// Runs a hidden subcommand (`guard`, `warden`, `init`) and never returns from it; returns when the command
/// line is none of these. Must be called first in `main`, while the process has one thread.
pub fn dispatch() {}
