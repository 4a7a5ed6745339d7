//! The lines of a list, and which of them are done. Pure: who reads and who runs is elsewhere.

mod checkpoint;
mod course;
mod item;
mod lines;
mod tail;

pub use checkpoint::{BadCheckpoint, Checkpoint, MAX_CHECKPOINT, PROGRESS_FD, WINDOW};
pub use course::{Course, Step};
pub use item::ItemEnd;
pub use lines::{Line, Lines, MAX_LINE, Refused};
pub use tail::{Tail, fnv1a};
