//! Lists of lines: a file that grows, what a command prints. Of either, all lines or only some.

mod command;
mod file;
mod reading;
mod splitter;

pub(crate) use reading::{List, name};
pub(crate) use splitter::{Next, Read};
