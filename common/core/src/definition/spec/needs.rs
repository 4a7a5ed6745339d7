//! What the runs of a job need besides a slot: a place in a pool, locks, a rate that is not used up.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use super::job::JobSpec;
use crate::document::{duration_text, millis, parse_duration};

/// The most starts that a rate may count: each of them is a row while it counts.
const MOST_STARTS: u32 = 10_000;

/// At most `count` starts of a job within any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: u32,
    /// Within any time as long as this.
    pub window: Duration,
}

impl FromStr for Rate {
    type Err = String;

    /// Reads `10/1m`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (count, window) = text
            .split_once('/')
            .ok_or_else(|| format!("\"{text}\" is not a valid rate"))?;
        let count = (count.trim().parse::<u32>().ok())
            .filter(|n| (1..=MOST_STARTS).contains(n))
            .ok_or_else(|| {
                format!(
                    "\"{}\" is not a number of starts from 1 to {MOST_STARTS}",
                    count.trim()
                )
            })?;
        let window = window.trim();
        let window = match window {
            // A unit alone is one of it.
            "s" | "m" | "h" | "d" | "w" => parse_duration(&format!("1{window}")),
            _ => parse_duration(window),
        }
        .map_err(|_| format!("\"{window}\" is not a valid duration"))?;
        if window.is_zero() {
            return Err("the time is zero".to_owned());
        }
        Ok(Self { count, window })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, duration_text(self.window))
    }
}

/// As the database has it, one row for each revision of a job that needs anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// The first gate that a run meets: `pool`, `lock` or `rate`.
    pub gate: &'static str,
    /// A place in this pool, on the farm.
    pub pool: Option<String>,
    /// A place in this pool, on the node.
    pub node_pool: Option<String>,
    pub locks: Vec<String>,
    /// With `rate_ms`, the rate that must not be used up.
    pub rate_count: Option<u32>,
    /// The rate's window.
    pub rate_ms: Option<u64>,
}

impl JobSpec {
    /// What a run of it needs before it may be claimed; None for a job that needs nothing.
    /// Errors: For a rate that cannot be read, as another version may have stored it.
    pub fn needs(&self) -> Result<Option<Needs>, String> {
        let rate = self.rate.as_deref().map(Rate::from_str).transpose()?;
        let gate = match () {
            () if self.pool.is_some() || self.node_pool.is_some() => "pool",
            () if !self.locks.is_empty() => "lock",
            () if rate.is_some() => "rate",
            () => return Ok(None),
        };
        Ok(Some(Needs {
            gate,
            pool: self.pool.clone(),
            node_pool: self.node_pool.clone(),
            locks: self.locks.clone(),
            rate_count: rate.map(|r| r.count),
            rate_ms: rate.map(|r| millis(r.window)),
        }))
    }
}
