//! Whether a job fires. With `observe = true` what the farm would do with it is recorded, and nothing of it is executed.
//!
//! It is stored as the word "observe" where `enabled` has true or false. A release that does not know the word cannot
//! read the definition: it fires nothing of the job, and gives back a run of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a job fires and takes submissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Value", try_from = "Value")]
pub enum Enabled {
    /// It does.
    #[default]
    Yes,
    /// It does neither.
    No,
    /// Its instants are recorded as skipped, and it takes no submissions.
    Observe,
}

/// The word that is stored.
const OBSERVE: &str = "observe";

impl From<Enabled> for Value {
    fn from(enabled: Enabled) -> Self {
        match enabled {
            Enabled::Yes => true.into(),
            Enabled::No => false.into(),
            Enabled::Observe => OBSERVE.into(),
        }
    }
}

impl TryFrom<Value> for Enabled {
    type Error = String;

    fn try_from(stored: Value) -> Result<Self, String> {
        match &stored {
            Value::Bool(true) => Ok(Self::Yes),
            Value::Bool(false) => Ok(Self::No),
            Value::String(word) if word == OBSERVE => Ok(Self::Observe),
            other => Err(format!(
                "`enabled` is {other}; expected true, false or \"{OBSERVE}\""
            )),
        }
    }
}
