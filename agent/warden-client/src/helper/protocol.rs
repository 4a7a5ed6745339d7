//! All that an agent without rights may ask of its helper. No request names a path, a program or a user; numbers are all
//! that goes into the names of files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine_record::EngineRecord;
use crate::wire::{AttemptId, Serving};

/// The first message, from the agent that still is root. Agent and helper are always of one release: they are one binary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub state_dir: PathBuf,
    pub files: Files,
}

/// The agent's own files, each with what alone it is read for.
pub type Files = BTreeMap<Purpose, PathBuf>;

/// What a file of the configuration is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Settings,
    /// The database's URL, as a systemd credential.
    Database,
    DatabasePassword,
    DatabaseRoot,
    DatabaseCertificate,
    DatabaseKey,
    RowsDatabasePassword,
    RowsDatabaseRoot,
    RowsDatabaseCertificate,
    RowsDatabaseKey,
    DefinitionsDatabasePassword,
    DefinitionsDatabaseRoot,
    DefinitionsDatabaseCertificate,
    DefinitionsDatabaseKey,
    /// The certificate of the API and the page.
    Certificate,
    CertificateKey,
    MailPassword,
    Ping,
}

/// What an agent asks of the privileged helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Connect,
    Start {
        serving: Serving,
        address: String,
        deadline_ns: u64,
        soft_ns: u64,
        max_attempts: u32,
    },
    /// SIGKILL for a warden that it handed a connection of over.
    Kill {
        pid: i32,
    },
    /// Answered when neither reaper nor warden lives and what they left is ended.
    Gone,
    Remove {
        id: AttemptId,
    },
    /// The record that the engine of an attempt keeps, open for reading.
    Record {
        id: AttemptId,
        record: EngineRecord,
    },
    /// Keeps how far an attempt's lines have been sent, for the next agent.
    Mark {
        id: AttemptId,
        /// The numbers of [`crate::output::SentSoFar`], as the file has them.
        sent: [u64; 4],
    },
    /// The file of the agent's own for this purpose, named when it was root.
    File {
        purpose: Purpose,
    },
}

/// What a proof of death says is left of a tree whose warden and reaper are dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gone {
    /// Nothing runs. `swept`: processes that the reaper had not ended because it was killed too.
    Empty { swept: u32 },
    /// Killed, but the kernel cannot end them (state D). No instruction of theirs will run again.
    Unkillable { pids: Vec<i32> },
}

/// What the helper answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// With the connection.
    Connected,
    /// No warden lives, and that is certain.
    Nobody,
    /// A warden lives and does not answer: it is stopped, or hangs.
    NoAnswer,
    /// A reaper lives but no warden listens.
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
