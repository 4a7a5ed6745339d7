//! A PostgreSQL of one's own: for `farmhand dev`, made from the programs that the machine has.
//!
//! It listens on a Unix socket alone, in a directory that nobody but its owner may enter; that is why it asks
//! for no password. PostgreSQL refuses to run as root, so root runs it under the user `postgres`; root can
//! enter that directory all the same.

mod place;
mod programs;
mod server;

use std::io;
use std::path::PathBuf;

pub use place::Place;
pub use server::Embedded;
pub(crate) use server::{LEAVE, LOOK, end_with_parent, private_log};

/// Why there is no embedded PostgreSQL, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error(
        "PostgreSQL's server programs are not on this machine (looked on PATH and in /usr/lib/postgresql)"
    )]
    NoPrograms,
    #[error("the data in {data} belongs to PostgreSQL {wanted}, and this machine has {}", .found.join(", "))]
    OtherVersion {
        data: PathBuf,
        wanted: String,
        found: Vec<String>,
    },
    #[error("PostgreSQL {version} is too old: 15 is the oldest that works")]
    TooOld { version: String },
    #[error("PostgreSQL refuses to run as root, and there is no user `postgres` to run it as")]
    NoUser,
    #[error("{path} must belong to uid {owner} and be closed to everybody else (mode 0700)")]
    Unsafe { path: PathBuf, owner: u32 },
    #[error("{program} failed:\n{output}")]
    Program { program: &'static str, output: String },
    #[error("another process (pid {pid}) still works in {data}")]
    Busy { pid: i32, data: PathBuf },
    #[error("PostgreSQL did not get ready; the end of {log}:\n{tail}")]
    NotReady { log: PathBuf, tail: String },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl EmbeddedError {
    /// What to do next, where there is something to do.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::NoPrograms | Self::TooOld { .. } => "apt-get install postgresql (PostgreSQL 15 or newer)",
            Self::OtherVersion { wanted, .. } => {
                return Some(format!(
                    "apt-get install postgresql-{wanted}, or choose another directory with --data"
                ));
            }
            Self::NoUser => "useradd --system postgres, or start as another user than root",
            Self::Busy { .. } => "end it, or choose another directory with --data",
            Self::Unsafe { .. } => "move it away and start again",
            Self::Program { .. } | Self::NotReady { .. } | Self::Io { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

/// Puts a name to an I/O error.
fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> EmbeddedError {
    let what = what.into();
    move |source| EmbeddedError::Io { what, source }
}
