//! A request to the API that was turned away: as a log line and a row.

use std::fmt;
use std::net::IpAddr;

use farmhand_store::events::Event as EventRow;
use serde_json::json;

/// Longest path that is written down, in characters.
const PATH: usize = 200;

/// One refusal, or several of one kind.
#[derive(Clone, Debug)]
pub struct Refused {
    /// One of a closed set; see `docs/reference/metrics.md`.
    pub reason: &'static str,
    /// The token's name, when it is known.
    pub token: Option<String>,
    /// None for those of many addresses.
    pub remote: Option<IpAddr>,
    /// The HTTP method of the latest.
    pub method: String,
    /// Of the latest.
    pub path: String,
    pub times: u64,
}

impl Refused {
    pub(super) fn fill(&self, row: &mut EventRow) {
        row.detail = json!({"reason": self.reason, "token": self.token, "remote": self.remote,
            "method": self.method, "path": self.shown_path(), "times": self.times});
    }

    /// What others sent must neither steer a terminal nor look like a line of ours.
    fn shown_path(&self) -> String {
        let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        self.path.chars().take(PATH).map(plain).collect()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused {} {:?}", self.method, self.shown_path())?;
        match self.remote {
            Some(remote) => write!(f, " from {remote}")?,
            None => write!(f, " from many addresses")?,
        }
        write!(f, ": {}", self.reason)?;
        if let Some(token) = &self.token {
            write!(f, ", token {token}")?;
        }
        if self.times > 1 {
            write!(f, ", {} times", self.times)?;
        }
        Ok(())
    }
}
