//! How a line ended.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a line ended for good. Texts of bytes are hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemEnd {
    pub item: i64,
    /// `succeeded` (only of a replay), `failed`, `timed_out`, `refused`.
    pub outcome: String,
    pub failures: i32,
    pub line: String,
    pub started_at: Option<Timestamp>,
    pub ended_at: Timestamp,
    /// The command's, if it exited.
    pub exit_code: Option<i32>,
    /// What ended the command, if a signal did.
    pub signal: Option<i32>,
    /// Why it failed, if the engine knows.
    pub reason: Option<String>,
    /// The end of what the command wrote.
    pub output: Option<String>,
}
