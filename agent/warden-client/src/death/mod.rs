//! Whether a warden lives, and the proof that it and everything it ran are gone.

pub mod census;
pub mod cgroup;
pub mod lock;
mod proof;
pub mod sweep;

pub use proof::{PidFd, ProofOfDeath, nobody_lives};
