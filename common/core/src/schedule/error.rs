//! What is wrong with a schedule, where, and how to fix it.

use std::fmt;

/// Why a schedule was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// An expression cannot be read.
    #[error("{0}")]
    Expression(ExpressionError),
    #[error(
        "time zone {name:?} is not known here: use an IANA name such as Europe/Berlin (the system's tzdata lists them)"
    )]
    /// This machine does not know the time zone.
    Zone {
        /// As it is written.
        name: String,
    },
}

/// One expression of a schedule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Position in the job's list of expressions, from 0.
    pub index: usize,
    /// As it is written.
    pub expression: String,
    /// "minute", "day-of-week", …; None where no single field is at fault.
    pub field: Option<&'static str>,
    /// Where in the expression, in characters from 1; one past the end when something is missing.
    pub column: usize,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schedule {:?}", self.expression)?;
        if self.index > 0 {
            write!(f, " (number {} of the list)", self.index + 1)?;
        }
        write!(f, ": ")?;
        if let Some(field) = self.field {
            write!(f, "{field}, ")?;
        }
        write!(f, "column {}: {}; {}", self.column, self.problem, self.fix)
    }
}

/// How the refusal of an expression without any instant begins.
pub(super) const NEVER: &str = "can never fire";

impl ExpressionError {
    /// The expression is well formed, and names no day that ever comes.
    pub fn never_fires(&self) -> bool {
        self.problem.starts_with(NEVER)
    }

    /// The expression with a caret under the column, for a terminal; two lines.
    pub fn caret(&self) -> String {
        format!(
            "{}\n{:>width$}",
            self.expression.replace('\t', " "),
            "^",
            width = self.column
        )
    }
}

impl ScheduleError {
    /// The expression at fault, unless the time zone is.
    pub fn expression(&self) -> Option<&ExpressionError> {
        match self {
            Self::Expression(e) => Some(e),
            Self::Zone { .. } => None,
        }
    }
}

/// A mistake inside one expression, before anyone knows which expression of a list it is.
#[derive(Debug)]
pub(super) struct Fault {
    pub field: Option<&'static str>,
    /// Characters from 0.
    pub at: usize,
    pub problem: String,
    pub fix: String,
}

impl Fault {
    pub(crate) fn whole(at: usize, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            field: None,
            at,
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    pub(crate) fn in_expression(self, index: usize, expression: &str) -> ScheduleError {
        ScheduleError::Expression(ExpressionError {
            index,
            expression: expression.to_owned(),
            field: self.field,
            column: self.at + 1,
            problem: self.problem,
            fix: self.fix,
        })
    }
}
