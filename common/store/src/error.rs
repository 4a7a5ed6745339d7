//! What can go wrong between an agent and PostgreSQL, told apart by what to do about it.

use std::fmt::Write as _;
use std::path::PathBuf;

use tokio_postgres::error::{Severity, SqlState};

use super::link::Distrust;

/// Classes of SQLSTATE in which the same statement may succeed later: rolled back for another's sake, out of some
/// resource, cancelled, not now, the system's fault.
const PASSING: [&str; 6] = ["08", "40", "53", "55P", "57", "58"];

/// Every failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("bad database URL: {0}")]
    Config(String),
    /// A file that was named for the connection.
    #[error("{why}")]
    File { file: PathBuf, why: String },
    #[error("database out of reach: {0}")]
    Unreachable(String),
    /// The connection was dropped. `unsure`: whether the statement took effect is unknown; otherwise nothing was changed.
    #[error("{op}: no answer from the database in time; the connection was dropped")]
    TimedOut { op: &'static str, unsure: bool },
    /// As with `TimedOut`.
    #[error("{op}: lost the connection to the database: {cause}")]
    ConnectionLost {
        op: &'static str,
        cause: String,
        unsure: bool,
    },
    /// Nobody is let in.
    #[error("the database denies access: {0}")]
    Denied(String),
    /// The login is let in, and lacks a right. `fix`: where the database said itself what to do.
    #[error("{why}")]
    Forbidden { why: String, fix: Option<String> },
    /// The token that is acted for was revoked, or has expired.
    #[error("the token is not good any more")]
    TokenOver,
    #[error("the database wants a password, and none was given")]
    PasswordMissing,
    #[error("the database is read-only (a standby, or default_transaction_read_only)")]
    ReadOnly,
    /// A server that could take writes.
    #[error("default_transaction_read_only is on, and the server is no standby")]
    WritesOff,
    #[error("the database has no Farmhand schema; run `farmhand migrate`")]
    SchemaMissing,
    /// Something that an administrator makes is not there yet.
    #[error("{why}; {fix}")]
    NotReady { why: String, fix: String },
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
            Self::Config(_) | Self::File { .. } => "config",
            Self::Unreachable(_) => "unreachable",
            Self::TimedOut { .. } => "timeout",
            Self::ConnectionLost { .. } => "connection_lost",
            Self::Denied(_) | Self::Forbidden { .. } | Self::TokenOver | Self::PasswordMissing => "denied",
            Self::ReadOnly | Self::WritesOff => "read_only",
            Self::SchemaMissing
            | Self::NotReady { .. }
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

    /// Whether trying again cannot help until somebody fixes something.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::File { .. }
                | Self::Denied(_)
                | Self::Forbidden { .. }
                | Self::TokenOver
                | Self::PasswordMissing
                | Self::SchemaMissing
                | Self::NotReady { .. }
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
            Self::Unreachable(_)
                | Self::TimedOut { .. }
                | Self::ConnectionLost { .. }
                | Self::ReadOnly
                | Self::WritesOff
        )
    }

    /// Whether a value was none that the database can hold: a text with NUL, a number out of its range.
    pub fn is_bad_value(&self) -> bool {
        matches!(self, Self::Sql { code, .. } if code.starts_with("22"))
    }

    /// Whether the database gave the statement up because it took too long.
    pub fn is_too_slow(&self) -> bool {
        matches!(self, Self::Sql { code, .. } if code == SqlState::QUERY_CANCELED.code())
    }

    /// Whether something of the database is broken that somebody may repair: the schema (42), an index or a page (XX).
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Sql { code, .. } if code.starts_with("42") || code.starts_with("XX"))
    }

    /// Whether the database answered and would refuse the statement again as it is, unless it [is broken](Self::is_broken)
    /// and repaired. Everything else passes, or somebody fixes it: an outage, a deadlock, a full disk, a right that was
    /// taken away.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Sql { code, .. } => !PASSING.iter().any(|class| code.starts_with(class)),
            Self::Refused(_) | Self::NotFound(_) | Self::Decode { .. } => true,
            _ => false,
        }
    }

    /// The same, of a statement that may have taken effect.
    #[must_use]
    pub(crate) fn unsure(mut self) -> Self {
        if let Self::TimedOut { unsure, .. } | Self::ConnectionLost { unsure, .. } = &mut self {
            *unsure = true;
        }
        self
    }

    fn lost(op: &'static str, cause: String) -> Self {
        Self::ConnectionLost {
            op,
            cause,
            unsure: false,
        }
    }

    pub(crate) fn from_statement(op: &'static str, error: &tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return if error.is_closed() || is_io(error) {
                Self::lost(op, chain(error))
            } else {
                Self::Decode {
                    op,
                    message: chain(error),
                }
            };
        };
        let code = db.code();
        let message = db.message().to_owned();
        let fatal = matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        match *code {
            // Whoever says that ends the session, perhaps in the middle of a commit: the server, or a pooler that has
            // lost the server (PgBouncer says so with a code of its own, 08P01).
            _ if fatal || code.code().starts_with("08") => Self::lost(op, message),
            // The next connection prepares it again, or nothing.
            _ if is_forgotten(error) => Self::lost(op, message),
            SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly,
            // It has no more numbers of transactions until somebody vacuums it.
            SqlState::PROGRAM_LIMIT_EXCEEDED
                if matches!(db.routine(), Some("GetNewTransactionId" | "GetNewMultiXactId")) =>
            {
                Self::Unreachable(message)
            }
            SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_TABLE => Self::SchemaMissing,
            SqlState::INSUFFICIENT_PRIVILEGE => Self::Forbidden {
                why: message,
                fix: db.hint().map(str::to_owned),
            },
            SqlState::NO_DATA_FOUND => Self::NotFound(message),
            SqlState::INVALID_PARAMETER_VALUE | SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => {
                Self::Refused(match db.hint() {
                    Some(hint) => format!("{message}: {hint}"),
                    None => message,
                })
            }
            SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
                Self::lost(op, message)
            }
            _ => Self::Sql {
                op,
                code: code.code().to_owned(),
                message,
            },
        }
    }

    pub(crate) fn from_connect(error: &tokio_postgres::Error, database: &str) -> Self {
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
            | SqlState::INSUFFICIENT_PRIVILEGE => Self::Denied(db.message().to_owned()),
            SqlState::INVALID_CATALOG_NAME => Self::NotReady {
                why: db.message().to_owned(),
                fix: format!(
                    "name another database in the URL, or create it as an administrator: CREATE DATABASE {} OWNER … \
                     ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0; then run `farmhand migrate`",
                    quoted(database)
                ),
            },
            _ => Self::Unreachable(db.message().to_owned()),
        }
    }
}

/// Whether the process that was to execute a prepared statement does not have it, has another one under its name, or has
/// it with results that it had before the schema changed. Nothing was done.
pub(crate) fn is_forgotten(error: &tokio_postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else {
        return false;
    };
    match *db.code() {
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => true,
        // PgBouncer has this code for all that it has to say, a lost server too.
        SqlState::PROTOCOL_VIOLATION => {
            db.parsed_severity() == Some(Severity::Error) || db.message().contains("prepared statement")
        }
        SqlState::FEATURE_NOT_SUPPORTED => db.routine() == Some("RevalidateCachedQuery"),
        _ => false,
    }
}

fn distrust(error: &tokio_postgres::Error) -> Option<Distrust> {
    let io = std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?;
    io.get_ref()?.downcast_ref().copied()
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|s| s.is::<std::io::Error>())
}

/// A name as SQL takes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio_postgres::{Config, NoTls};

    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], length.as_slice(), body].concat()
    }

    /// Lets anybody in, and answers the first statement with this error.
    async fn serve(mut wire: DuplexStream, severity: &str, code: &str) {
        let mut buffer = [0; 1024];
        let _ = wire.read(&mut buffer).await.unwrap();
        let idle = message(b'Z', b"I");
        wire.write_all(&[message(b'R', &[0; 4]), idle.clone()].concat())
            .await
            .unwrap();
        let _ = wire.read(&mut buffer).await.unwrap();
        let told = format!("S{severity}\0V{severity}\0C{code}\0Mserver conn crashed?\0\0");
        wire.write_all(&[message(b'E', told.as_bytes()), idle].concat())
            .await
            .unwrap();
    }

    async fn told(severity: &'static str, code: &str) -> StoreError {
        let (ours, theirs) = tokio::io::duplex(4096);
        let code = code.to_owned();
        tokio::spawn(async move { serve(theirs, severity, &code).await });
        let (client, connection) = Config::new().user("u").connect_raw(ours, NoTls).await.unwrap();
        tokio::spawn(connection);
        let error = client.simple_query("SELECT 1").await.unwrap_err();
        StoreError::from_statement("test", &error)
    }

    #[tokio::test]
    async fn a_server_out_of_transaction_numbers_is_an_outage_and_no_refusal() {
        assert!(told("ERROR", "54000\0RGetNewTransactionId").await.is_away());
        assert!(told("ERROR", "54000").await.is_refusal());
    }

    #[tokio::test]
    async fn a_pooler_that_lost_the_server_is_an_outage_and_no_answer() {
        for (severity, code) in [("FATAL", "08P01"), ("FATAL", "57P05"), ("ERROR", "08006")] {
            let error = told(severity, code).await;
            assert!(error.is_away(), "{code}: {error}");
        }
    }

    #[tokio::test]
    async fn a_prepared_statement_that_is_gone_is_an_outage_and_no_refusal() {
        for (code, routine) in [
            ("26000", "FetchPreparedStatement"),
            ("42P05", "StorePreparedStatement"),
            ("0A000", "RevalidateCachedQuery"),
        ] {
            let error = told("ERROR", &format!("{code}\0R{routine}")).await;
            assert!(error.is_away(), "{code}: {error}");
        }
        assert!(told("ERROR", "0A000").await.is_refusal());
    }

    #[tokio::test]
    async fn what_passes_by_itself_or_is_mended_by_somebody_is_no_refusal() {
        for code in ["40P01", "53100", "55P03", "57014", "58030", "42501"] {
            let error = told("ERROR", code).await;
            assert!(!error.is_refusal() && !error.is_away(), "{code}: {error}");
        }
        for code in ["22P05", "23514", "P0001"] {
            let error = told("ERROR", code).await;
            assert!(error.is_refusal() && !error.is_broken(), "{code}: {error}");
        }
    }

    /// The statement and its values may be good: less in it would not help.
    #[tokio::test]
    async fn a_schema_or_an_index_that_is_broken_is_no_fault_of_the_value() {
        for code in ["42703", "42883", "XX000", "XX001", "XX002"] {
            let error = told("ERROR", code).await;
            assert!(error.is_refusal() && error.is_broken(), "{code}: {error}");
        }
    }
}
