//! What a session hears, and the way to the session of the moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use farmhand_core::lease::{BootInstant, Database, EpochKey};
use farmhand_store::protocol::{Claimed, Fire, Fired, JobRow, LostWhy, Overdue, PartialClaim, Poll, Renewed};
use farmhand_store::tables::Dispatched;
use farmhand_store::{Note, StoreError};
use farmhand_warden_client::wire::{AttemptId, Event};
use farmhand_warden_client::{Gone, Notices, WardenClient, WardenError};
use tokio::sync::mpsc;

use crate::signals::Signal;

pub(crate) enum Input {
    Renewed {
        sent: BootInstant,
        result: Result<Renewed, StoreError>,
    },
    Polled {
        sent: BootInstant,
        received: BootInstant,
        result: Result<Poll, StoreError>,
    },
    /// Those that changed after `after`; `newest` was there when they were asked for, as far as that is known.
    JobsLoaded {
        after: i64,
        newest: Option<i64>,
        result: Result<Vec<JobRow>, StoreError>,
    },
    OverdueLoaded(Result<Vec<Overdue>, StoreError>),
    Fired {
        fires: Vec<Fire>,
        result: Result<Vec<Fired>, StoreError>,
    },
    Claimed {
        sent: BootInstant,
        took: Duration,
        result: Result<Vec<Claimed>, PartialClaim>,
    },
    /// Rows of a table job were looked for.
    Dispatched {
        job_id: String,
        result: Result<Dispatched, StoreError>,
    },
    Triggered(Result<Vec<Fired>, StoreError>),
    RefusalsForgotten(Result<usize, StoreError>),
    /// The warden was told of signed definitions; of these it could not be.
    SerialsTold(Vec<(String, i64)>),
    /// The warden answered a spawn, or was never asked.
    Spawned {
        id: AttemptId,
        result: Result<i32, NotStarted>,
    },
    /// The warden has recorded that these never start here (or there is no warden that could start them).
    Forbidden(Vec<AttemptId>),
    /// These were given back without a start, or had moved on.
    GivenBack(Vec<AttemptId>),
    Warden(WardenInput),
    Settled(Vec<(AttemptId, Settled)>),
    /// The disk has the epoch of this database.
    Remembered(EpochKey),
    /// Whether this is the database that the agent remembers.
    Known {
        shown: Box<Database>,
        known: Result<bool, StoreError>,
    },
    /// Whether the database was told of the numbers of runs that this agent has seen.
    RunsRaised(bool),
    /// A statement about what was watched was answered. `answered`: not with an error, so that runs may have become claimable.
    Watched {
        token: String,
        answered: bool,
    },
    Note(Note),
    Signal(Signal),
    /// What the node says about itself was written anew.
    Reopened(Result<(), StoreError>),
}

pub(crate) enum WardenInput {
    Event(Event),
    /// It was told its end: what holds now, if it answered.
    Deadline(Option<BootInstant>),
    /// No answer to the order to end it: it may not have been sent.
    Untold(AttemptId),
    /// The connection ended; nothing is proven by that.
    Disconnected,
    /// Warden and reaper are proven dead and their tree is empty.
    Dead(std::io::Result<Gone>),
    /// What a dead warden had left, and the kernel could not end, has ended: the attempts that were held for it.
    Emptied(Vec<AttemptId>, LostWhy),
    Started(Result<(WardenClient, Notices), WardenError>),
}

#[derive(Debug)]
pub(crate) enum NotStarted {
    /// No warden takes it, here or elsewhere.
    Invalid(String),
    /// By the machine: others may start it.
    Machine(String),
    /// By this warden, now.
    Refused(String),
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Written down; the run is over.
    Done,
    /// Written down; due again after so long.
    Again(Duration),
    /// Refused: the run had moved on.
    Fenced,
}

/// Where answers go: the session of the moment, if any.
#[derive(Clone, Default)]
pub(crate) struct SessionHandle(Arc<Mutex<Option<mpsc::Sender<Input>>>>);

impl SessionHandle {
    pub(crate) fn set(&self, to: Option<mpsc::Sender<Input>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// True if a session took it.
    pub(crate) async fn send(&self, input: Input) -> bool {
        let to = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match to {
            Some(to) => to.send(input).await.is_ok(),
            None => false,
        }
    }
}
