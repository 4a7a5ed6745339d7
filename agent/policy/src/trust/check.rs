//! Whether a trusted key vouches for a definition.

use std::path::Path;

use farmhand_core::attempt::Signed;
use farmhand_core::definition::JobSpec;

use super::document::Document;
use super::keys::{self, PublicKey};
use super::refused::Refused;

/// What holds for one start.
#[derive(Clone, Debug)]
pub enum Trust {
    /// No list of keys: definitions need no signature.
    Off,
    /// Definitions need a signature of one of these keys.
    Keys { file: String, keys: Vec<PublicKey> },
    /// The list cannot be used: nothing is executed.
    Unusable { why: String },
}

/// A definition that a trusted key signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Vouched {
    pub job: String,
    /// Which of the job's signed definitions it is.
    pub serial: u64,
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

    /// Errors: What is wrong with the file, or with who could change it.
    pub fn read(path: &Path) -> Result<Trust, String> {
        let wrong = |why: String| format!("the trusted keys {} cannot be used: {why}", path.display());
        let text = crate::root_owned::read_trusted(path).map_err(wrong)?;
        Ok(Trust::Keys {
            keys: keys::list(&text).map_err(wrong)?,
            file: path.display().to_string(),
        })
    }

    /// The definition that is vouched for; `None` where no signature is asked for.
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
    /// Errors: When it is not for this job, or the database says something else about it.
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
