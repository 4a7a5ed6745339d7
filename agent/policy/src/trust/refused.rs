//! Why a definition is not executed.

/// Why a definition is not executed here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not signed by a trusted key: the definition has no signature")]
    Unsigned,
    #[error("not signed by a trusted key: {file} has no key \"{key}\"")]
    UnknownKey { key: String, file: String },
    #[error("not signed by a trusted key: the signature of \"{key}\" does not fit the definition")]
    BadSignature { key: String },
    #[error("what was signed cannot be read: {why}")]
    Unreadable { why: String },
    #[error("it is signed as the job \"{signed}\", not as \"{job}\"")]
    OtherJob { signed: String, job: String },
    #[error("the definition in the database is not the one that \"{key}\" signed")]
    Altered { key: String },
    #[error("it is older than what this node has seen: signed with serial {serial}, seen {seen}")]
    Older { serial: u64, seen: u64 },
    #[error("what this node has seen cannot be remembered: {why}")]
    Memory { why: String },
    #[error("{why}")]
    Unusable { why: String },
}
