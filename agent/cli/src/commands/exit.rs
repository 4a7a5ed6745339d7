//! How a command ends, and what it says when it cannot do what it was asked.

use std::fmt;
use std::process::ExitCode;

use farmhand_control::{Kind, Refusal};
use farmhand_core::sanitize::one_line;

/// The exit codes that scripts lean on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    /// The database is out of reach.
    Unreachable = 5,
    /// The database, or the machine, denies it.
    Denied = 6,
    RunFailed = 10,
    RunTimedOut = 11,
    RunCancelled = 12,
    RunSkipped = 13,
    /// `job diff --exit-code`.
    Differs = 14,
    WaitExpired = 124,
    /// Ctrl-C.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What a command returns: how it ended, or why it could not.
pub(crate) type Outcome = Result<Exit, Failure>;

/// An error for people: what happened, why, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub exit: Exit,
    what: String,
    why: Vec<String>,
    next: Option<String>,
}

impl Failure {
    /// A failure with this exit code, without reasons yet.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            why: Vec::new(),
            next: None,
        }
    }

    /// The command line itself makes no sense.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Adds a reason.
    #[must_use]
    pub(crate) fn why(mut self, why: impl fmt::Display) -> Self {
        self.why.push(why.to_string());
        self
    }

    /// Says what to do now.
    #[must_use]
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.what))?;
        for why in &self.why {
            write!(f, "\n  why:  {}", why.replace('\n', "\n        "))?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {}", next.replace('\n', "\n        "))?;
        }
        Ok(())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Store(error) => error.into(),
            Refusal::Partly { done, error } => Self::from(error).why(done),
            Refusal::Said {
                kind,
                what,
                why,
                next,
            } => Self {
                exit: match kind {
                    Kind::Usage => Exit::Usage,
                    Kind::NotFound => Exit::NotFound,
                    Kind::Refused => Exit::Refused,
                    Kind::Denied => Exit::Denied,
                    Kind::Away | Kind::Slow => Exit::Unreachable,
                    Kind::Broken => Exit::Error,
                },
                what,
                why,
                next,
            },
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Error, "input or output failed").why(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let failure = Self::new(Exit::Error, error.to_string());
        error.chain().skip(1).fold(failure, Self::why)
    }
}
