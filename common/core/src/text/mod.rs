//! Texts: for people, from programs, and what must not be seen in them.

pub mod ansi;
mod phrases;
pub mod redact;
pub mod sanitize;

pub use phrases::{count, count_of, cut_at, shell_word, span, time};
