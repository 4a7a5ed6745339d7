//! All that an agent without rights may ask of its helper. No request names a path, a program or a user; numbers are all
//! that goes into the names of files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::gone::Gone;
use crate::wire::{AttemptId, Kind, Serving};

/// The first message, from the agent that still is root. Agent and helper are always of one release: they are one binary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub state_dir: PathBuf,
    /// What [`Request::File`] may be about.
    pub files: Files,
}

/// The agent's own files, each with what alone it is read for.
pub type Files = BTreeMap<Purpose, PathBuf>;

/// What a file of the configuration is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Settings,
    Database,
    DatabasePassword,
    DatabaseRoot,
    DatabaseCertificate,
    DatabaseKey,
    RowsDatabasePassword,
    RowsDatabaseRoot,
    RowsDatabaseCertificate,
    RowsDatabaseKey,
    Certificate,
    CertificateKey,
    MailPassword,
    Ping,
}

/// What an agent asks of the privileged helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The kinds of warden that have ever lived here.
    Kinds,
    /// A connection to the living warden of a kind.
    Connect { kind: Kind },
    /// A new warden, and a connection to it.
    Start {
        kind: Kind,
        serving: Serving,
        address: Option<String>,
        deadline_ns: u64,
        soft_ns: u64,
        max_attempts: u32,
    },
    /// SIGKILL for a warden that it handed a connection of over.
    Kill { pid: i32 },
    /// Answered when neither reaper nor warden of this kind lives and what they left is ended.
    Gone { kind: Kind },
    /// Removes an ended attempt's directory.
    Remove { kind: Kind, id: AttemptId },
    /// The record that the engine of an attempt keeps, open for reading.
    Record {
        kind: Kind,
        id: AttemptId,
        record: Record,
    },
    /// Keeps how far an attempt's lines have been sent, for the next agent.
    Mark {
        kind: Kind,
        id: AttemptId,
        sent: [u64; 4],
    },
    /// The file of the agent's own for this purpose, named when it was root.
    File { purpose: Purpose },
}

/// What the helper answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    Kinds {
        kinds: Vec<Kind>,
    },
    /// With the connection.
    Connected,
    /// No warden lives, and that is certain.
    Nobody,
    NoAnswer,
    Busy,
    Gone {
        gone: Gone,
    },
    /// With the open file; without one there is none yet.
    Record,
    Text {
        text: String,
    },
    Done,
    Failed {
        why: String,
    },
}
