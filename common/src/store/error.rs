//! What can go wrong between an agent and PostgreSQL, told apart by what to do about it.

use std::fmt::Write as _;

use tokio_postgres::error::SqlState;

use super::link::Distrust;

/// Every failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("bad database URL: {0}")]
    Config(String),
    #[error("database out of reach: {0}")]
    Unreachable(String),
    /// The connection was dropped; whether the statement took effect is unknown.
    #[error("{op}: no answer from the database in time; the connection was dropped")]
    TimedOut { op: &'static str },
    /// Whether the statement took effect is unknown.
    #[error("{op}: lost the connection to the database: {cause}")]
    ConnectionLost { op: &'static str, cause: String },
    #[error("the database denies access: {0}")]
    Denied(String),
    #[error("the database wants a password, and none was given")]
    PasswordMissing,
    #[error("the database is read-only (a standby, or default_transaction_read_only)")]
    ReadOnly,
    #[error("the database has no Farmhand schema; run `farmhand migrate`")]
    SchemaMissing,
    #[error("the database's schema is version {db}, this binary needs {binary}; run `farmhand migrate`")]
    SchemaTooOld { db: i32, binary: i32 },
    #[error(
        "the database's schema is version {db}, newer than this binary's {binary}; install a newer farmhand"
    )]
    SchemaTooNew { db: i32, binary: i32 },
    #[error(
        "migration {version} ({name}) was applied with other contents than this binary's; the schema cannot be trusted"
    )]
    MigrationChanged { version: i32, name: String },
    /// Committed locally, but the wait for the synchronous standby was cancelled: no confirmation.
    #[error("{op}: committed, but not confirmed by the synchronous standby")]
    NotConfirmed { op: &'static str },
    #[error("not found: {0}")]
    NotFound(String),
    /// The request itself is wrong: a bad parameter, a disabled job.
    #[error("{0}")]
    Refused(String),
    #[error("{op}: {message} (SQLSTATE {code})")]
    Sql {
        op: &'static str,
        code: String,
        message: String,
    },
    /// A row was not of the shape this binary knows.
    #[error("{op}: unexpected data from the database: {message}")]
    Decode { op: &'static str, message: String },
}

impl StoreError {
    /// A word for metrics' `class` label; a closed set.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Config(_) => "config",
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut { .. } => "timeout",
            Self::ConnectionLost { .. } => "connection_lost",
            Self::Denied(_) | Self::PasswordMissing => "denied",
            Self::ReadOnly => "read_only",
            Self::SchemaMissing
            | Self::SchemaTooOld { .. }
            | Self::SchemaTooNew { .. }
            | Self::MigrationChanged { .. } => "schema",
            Self::NotConfirmed { .. } => "not_confirmed",
            Self::NotFound(_) => "not_found",
            Self::Refused(_) => "refused",
            Self::Sql { .. } => "sql",
            Self::Decode { .. } => "decode",
        }
    }

    /// Whether the statement may have taken effect all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(
            self,
            Self::TimedOut { .. } | Self::ConnectionLost { .. } | Self::NotConfirmed { .. }
        )
    }

    /// Whether trying again cannot help until somebody mends something.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Denied(_)
                | Self::PasswordMissing
                | Self::SchemaMissing
                | Self::SchemaTooOld { .. }
                | Self::SchemaTooNew { .. }
                | Self::MigrationChanged { .. }
                | Self::Refused(_)
                | Self::Decode { .. }
        )
    }

    /// Whether somebody else has just made the row that this was to make. A repetition sees it.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Sql { code, .. } if code == SqlState::UNIQUE_VIOLATION.code())
    }

    /// Whether the database is away, as opposed to having answered.
    pub fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::TimedOut { .. } | Self::ConnectionLost { .. } | Self::ReadOnly
        )
    }

    pub(crate) fn from_statement(op: &'static str, error: &tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return if error.is_closed() || is_io(error) {
                Self::ConnectionLost {
                    op,
                    cause: chain(error),
                }
            } else {
                Self::Decode {
                    op,
                    message: chain(error),
                }
            };
        };
        let code = db.code();
        let message = db.message().to_owned();
        match *code {
            SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly,
            SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_TABLE => Self::SchemaMissing,
            SqlState::INSUFFICIENT_PRIVILEGE => Self::Denied(message),
            SqlState::NO_DATA_FOUND => Self::NotFound(message),
            SqlState::INVALID_PARAMETER_VALUE | SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
                Self::Refused(match db.hint() {
                    Some(hint) => format!("{message}: {hint}"),
                    None => message,
                })
            }
            // The server ended the session, perhaps in the middle of a commit.
            SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
                Self::ConnectionLost { op, cause: message }
            }
            _ => Self::Sql {
                op,
                code: code.code().to_owned(),
                message,
            },
        }
    }

    pub(crate) fn from_connect(error: &tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            if let Some(distrust) = distrust(error) {
                return Self::Denied(distrust.to_string());
            }
            let text = chain(error);
            return if text.contains("database does not allow writes") {
                Self::ReadOnly
            } else if text.contains("password missing") {
                Self::PasswordMissing
            } else {
                Self::Unreachable(text)
            };
        };
        match *db.code() {
            SqlState::INVALID_PASSWORD
            | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | SqlState::INSUFFICIENT_PRIVILEGE
            | SqlState::INVALID_CATALOG_NAME => Self::Denied(db.message().to_owned()),
            _ => Self::Unreachable(db.message().to_owned()),
        }
    }
}

fn distrust(error: &tokio_postgres::Error) -> Option<Distrust> {
    let io = std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?;
    io.get_ref()?.downcast_ref().copied()
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|s| s.is::<std::io::Error>())
}

/// An error with its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
