//! What is answered to an action.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::choice::Picked;
use crate::definitions::Diff;

/// What was done, or would be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Answer {
    /// False for a preview.
    pub applied: bool,
    /// In a sentence.
    pub what: String,
    /// Why it may run something twice. A page asks again.
    pub twice: Option<String>,
    /// The command that does the same.
    pub cli: String,
    /// Runs that were made, ended or freed.
    pub runs: Vec<i64>,
    /// Of a preview that is about many runs: these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub chosen: Vec<Picked>,
    /// Of definitions: what differs, value by value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub diff: Vec<Diff>,
    /// Test messages that were made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub notifications: Vec<Uuid>,
}

impl From<String> for Answer {
    fn from(what: String) -> Self {
        Self {
            what,
            ..Self::default()
        }
    }
}
