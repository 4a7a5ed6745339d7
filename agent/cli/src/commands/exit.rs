//! How a command ends, and what it says when it cannot do what it was asked.

use std::fmt;

use farmhand_control::Refusal;
pub(crate) use farmhand_control::{Exit, Kind};
use farmhand_core::text::sanitize::one_line;
use farmhand_store::StoreError;

/// On every manual page.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 done; 1 error; 2 usage; 3 not found; 4 refused; 5 database out of reach; 6 denied; \
     with --wait 10 failed, 11 timed out, 12 cancelled, 13 skipped; with --exit-code 14 differences; 124 the waiting expired; \
     130 Ctrl-C.";

/// What a command returns: how it ended, or why it could not.
pub(crate) type Outcome = Result<Exit, Failure>;

/// An error for people: what happened, why, and what to do next. It ends a command as its kind does, or in a way that only
/// commands end.
#[derive(Debug)]
pub(crate) struct Failure {
    pub exit: Exit,
    refusal: Refusal,
}

impl Failure {
    /// A failure of this kind, without reasons yet.
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Refusal::new(kind, what).into()
    }

    /// The command line itself makes no sense.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// It makes sense, but not now.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::new(Kind::Refused, what)
    }

    /// There is no such thing.
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, what)
    }

    /// Something does not work as it should.
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::new(Kind::Broken, what)
    }

    /// With an exit code that only commands have.
    #[must_use]
    pub(crate) fn ending(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Adds a reason.
    #[must_use]
    pub(crate) fn why(mut self, why: impl fmt::Display) -> Self {
        self.refusal = self.refusal.why(why);
        self
    }

    /// Says what to do now.
    #[must_use]
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.refusal = self.refusal.next(next);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", one_line(&self.refusal.what))?;
        for why in &self.refusal.why {
            write!(f, "\n  why:  {}", why.replace('\n', "\n        "))?;
        }
        if let Some(next) = &self.refusal.next {
            write!(f, "\n  next: {}", next.replace('\n', "\n        "))?;
        }
        Ok(())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self {
            exit: refusal.kind.exit(),
            refusal,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::broken("input or output failed").why(error)
    }
}
