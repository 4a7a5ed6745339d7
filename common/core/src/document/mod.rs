//! TOML documents that people write, read so that every mistake is found at once and shown where it is.

mod convert;
mod problem;
mod reader;
mod suggest;
mod units;

pub use convert::*;
pub use problem::{Located, Mistakes, Problem, Related, Source};
pub use reader::{Reader, Sink, Spanned, parse_table};
pub use suggest::closest;
pub use units::{duration_text, from_millis, millis, parse_duration, parse_size, size_about, size_text};
