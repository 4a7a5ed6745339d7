//! Waking waiters through FIFO files without losing one.
//!
//! While `NAME` is a FIFO its task has not ended, and whoever opens it for reading sleeps in the kernel. On
//! completion the status is written, the FIFO is exchanged for an empty file, and whoever still came to the
//! FIFO is woken by opening it for reading and writing ("a pulse"), again and again until the kernel proves
//! that nobody can be on the way to it any more. `docs/internals/fifo.md` has the reasons.

mod directory;
mod fifos;
mod names;
mod recover;
mod retire;
mod wait;
pub mod without_engine;

pub use directory::Directory;
pub use fifos::Fifos;
pub use names::{Notice, Status, file_name};
pub use wait::{WaitError, status, wait};
