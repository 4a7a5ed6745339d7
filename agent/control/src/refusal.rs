//! Why something was not done: an error for people, whoever asked.

use std::fmt;

use farmhand_store::StoreError;

/// What sort of error it is: the command line makes an exit code of it, the API a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request itself is wrong.
    Usage,
    /// There is no such job, run, node or pool.
    NotFound,
    /// It conflicts with the current state.
    Refused,
}

/// Why something was not done.
#[derive(Debug)]
pub enum Refusal {
    /// The database failed, or says no; what to do about that is for each caller to say.
    Store(StoreError),
    /// The database failed after a part had been done.
    Partly {
        /// What was done, for people.
        done: String,
        /// What then failed.
        error: StoreError,
    },
    /// What happened, why, and what to do next.
    Said {
        /// What sort of error it is.
        kind: Kind,
        /// What happened, in one sentence.
        what: String,
        /// Reasons, the nearest first.
        why: Vec<String>,
        /// What to do now.
        next: Option<String>,
    },
}

impl Refusal {
    /// A refusal of this kind, without reasons yet.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self::Said {
            kind,
            what: what.into(),
            why: Vec::new(),
            next: None,
        }
    }

    /// The request itself makes no sense.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// Adds a reason.
    #[must_use]
    pub fn why(mut self, text: impl fmt::Display) -> Self {
        if let Self::Said { why, .. } = &mut self {
            why.push(text.to_string());
        }
        self
    }

    /// Says what to do now.
    #[must_use]
    pub fn next(mut self, text: impl Into<String>) -> Self {
        if let Self::Said { next, .. } = &mut self {
            *next = Some(text.into());
        }
        self
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
