//! Whose definitions this node executes. The warden asks before each start, over the very text from which it then builds
//! the command itself: nothing that the database or an agent says beside it can change what runs.

pub mod document;
pub mod keys;
mod seen;
#[cfg(test)]
mod tests;

use std::path::Path;

use farmhand_core::claimed::Signed;
use farmhand_core::definition::JobSpec;

pub use document::{Document, parse_signatures};
pub use keys::{PrivateKey, PublicKey};
pub use seen::Seen;

/// Where the list of trusted keys is looked for when nothing else is said.
pub const DEFAULT_FILE: &str = "/etc/farmhand/trusted-keys";

/// What holds for one start.
#[derive(Clone, Debug)]
pub enum Trust {
    /// No list of keys: definitions need no signature.
    Off,
    /// Definitions need a signature of one of these keys.
    Keys {
        /// The list's path, for messages.
        file: String,
        keys: Vec<PublicKey>,
    },
    /// The list cannot be used: nothing is executed.
    Unusable {
        /// What is wrong with it.
        why: String,
    },
}

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

/// A definition that a trusted key signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Vouched {
    /// The job's name, as it was signed.
    pub job: String,
    /// Which of the job's signed definitions it is.
    pub serial: u64,
    /// The definition, as it was signed.
    pub spec: JobSpec,
    pub key: String,
}

impl Trust {
    /// What the file says now. Whatever is wrong with it lets nothing run.
    pub fn now(file: Option<&Path>) -> Trust {
        match file {
            None => Trust::Off,
            Some(path) => Self::read(path).unwrap_or_else(|why| Trust::Unusable { why }),
        }
    }

    /// # Errors
    /// What is wrong with the file, or with who could change it.
    pub fn read(path: &Path) -> Result<Trust, String> {
        let wrong = |why: String| format!("the trusted keys {} cannot be used: {why}", path.display());
        let text = crate::read_trusted(path).map_err(wrong)?;
        Ok(Trust::Keys {
            keys: keys::list(&text).map_err(wrong)?,
            file: path.display().to_string(),
        })
    }

    /// The definition that is vouched for; `None` where no signature is asked for.
    ///
    /// # Errors
    /// Why it must not be executed.
    pub fn check(&self, signed: Option<&Signed>) -> Result<Option<Vouched>, Refused> {
        let (file, keys) = match self {
            Trust::Off => return Ok(None),
            Trust::Unusable { why } => return Err(Refused::Unusable { why: why.clone() }),
            Trust::Keys { file, keys } => (file, keys),
        };
        let signed = signed.ok_or(Refused::Unsigned)?;
        let key = keys.iter().find(|key| key.name() == signed.key);
        let key = key.ok_or_else(|| Refused::UnknownKey {
            key: signed.key.chars().take(100).collect(),
            file: file.clone(),
        })?;
        if !key.verifies(&signed.document, &signed.signature) {
            return Err(Refused::BadSignature {
                key: signed.key.clone(),
            });
        }
        // Read only now: nothing that is not vouched for is looked into.
        let read = Document::parse(&signed.document).and_then(|document| {
            let spec = serde_json::from_value(document.spec).map_err(|e| e.to_string())?;
            Ok(Vouched {
                job: document.job,
                serial: document.serial,
                spec,
                key: signed.key.clone(),
            })
        });
        read.map(Some).map_err(|why| Refused::Unreadable { why })
    }
}

impl Vouched {
    /// # Errors
    /// When it is not for this job, or the database says something else about it.
    pub fn fits(&self, job: &str, stored: &serde_json::Value) -> Result<(), Refused> {
        if self.job != job {
            return Err(Refused::OtherJob {
                signed: self.job.clone(),
                job: job.chars().take(200).collect(),
            });
        }
        let same = serde_json::from_value::<JobSpec>(stored.clone()).is_ok_and(|stored| stored == self.spec);
        if same {
            return Ok(());
        }
        Err(Refused::Altered {
            key: self.key.clone(),
        })
    }
}
