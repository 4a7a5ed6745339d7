//! The list of a stream, as it is stored.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::defaults::with_defaults;
use crate::serde_time::opt_millis;

with_defaults! {
    /// Where the list comes from, and how its lines are treated. Either `file` or `list` is there.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct StreamSpec {
        /// An absolute path, with strftime directives of the due instant in the job's zone.
        pub file: Option<String>,
        /// The key `command`: prints the list.
        #[serde(alias = "command")]
        pub list: Option<Command>,
        /// Whether a run goes on with lines that are appended, until the next due instant.
        pub follow: bool,
        /// Lines at a time.
        pub workers: u32 = 1,
        /// Of one line: what gives no sign of life for longer is killed.
        #[serde(with = "opt_millis")]
        pub progress_timeout: Option<Duration>,
        /// A line that failed so often is recorded and passed over.
        pub max_item_failures: u32 = 3,
    }
}

impl StreamSpec {
    /// The path of the run that is due at `due`.
    /// Errors: A sentence: a directive that is none, a zone that this machine does not know.
    pub fn path_at(&self, due: Timestamp, timezone: &str) -> Result<Option<String>, String> {
        let Some(pattern) = &self.file else {
            return Ok(None);
        };
        let zone = TimeZone::get(timezone).map_err(|e| e.to_string())?;
        path(pattern, due, zone).map(Some)
    }
}

pub(in crate::definition) fn path(pattern: &str, due: Timestamp, zone: TimeZone) -> Result<String, String> {
    let text = jiff::fmt::strtime::format(pattern, &due.to_zoned(zone)).map_err(|e| e.to_string())?;
    if text.contains('\0') {
        return Err("the name has a NUL byte".to_owned());
    }
    Ok(text)
}
