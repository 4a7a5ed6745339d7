//! What an engine has: the list, the lines that are at work or wait, and what it says of them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use farmhand_core::input::stream::StreamInput;
use farmhand_core::stream::{BadCheckpoint, Course};
use farmhand_os::signal::Signals;
use jiff::Timestamp;

use super::teller::Teller;
use crate::flow::output::Output;
use crate::flow::signals::Limit;
use crate::flow::spawn::Spawner;
use crate::stream::list::List;
use crate::stream::record::Place;

/// Why a stream cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Checkpoint(#[from] BadCheckpoint),
    #[error("the stream cannot be run here: {0}")]
    Io(#[from] io::Error),
}

/// How a stream ended.
#[derive(Debug)]
pub struct End {
    pub interrupted: bool,
    /// Why it ended before its list did.
    pub trouble: Option<String>,
    /// Lines that were given up, in all attempts.
    pub failed: u64,
}

/// Hands the lines of a list to workers, and keeps a checkpoint.
#[derive(Debug)]
pub struct StreamEngine {
    pub(super) handed: StreamInput,
    pub(super) list: List,
    pub(super) course: Course,
    pub(super) spawner: Spawner,
    pub(super) signals: Signals,
    pub(super) place: Place,
    pub(super) teller: Teller,
    pub(super) workers: BTreeMap<i32, Worker>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) ended: bool,
    /// A line was asked for, and there was none yet.
    pub(super) hungry: bool,
    pub(super) busy: bool,
    pub(super) trouble: Option<String>,
    pub(super) stopping: bool,
    pub(super) leaving: bool,
    pub(super) given_up: u64,
    pub(super) look_at: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) index: u64,
    /// What the command is told; the same but in a replay.
    pub(super) number: u64,
    pub(super) line: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) item: Item,
    /// From 0.
    pub(super) slot: usize,
    pub(super) output: Output,
    /// Where the command may say that it lives; none once that is closed.
    pub(super) progress: Option<OwnedFd>,
    pub(super) began: Timestamp,
    pub(super) limit: Limit<Killed>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) item: Item,
    pub(super) at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    Silence,
    Stop,
}
