//! An attempt as the picture of lanes shows it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use farmhand_core::words;

words! {
    /// How an attempt ended.
    BarEnd {
        /// It has not ended.
        Running = "running",
        /// With success, and so did its run.
        Succeeded = "succeeded",
        /// Its command failed.
        Failed = "failed",
        /// It ran past its timeout, or made no progress for too long.
        TimedOut = "timed_out",
        /// Somebody cancelled the run.
        Cancelled = "cancelled",
        /// Its node's session ended while it ran.
        Lost = "lost",
        /// The node gave it back.
        Released = "released",
        /// Its command was never started.
        NeverStarted = "never_started",
    }
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bar {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// Which attempt of the run.
    pub attempt: i32,
    /// The node that ran it.
    pub node: String,
    /// The session that held it.
    pub session: i64,
    /// The fence of its claim.
    pub fence: i64,
    /// When it was claimed.
    #[serde(alias = "claimed_at")]
    pub from: Timestamp,
    /// When its command was started; none when it never was.
    pub started_at: Option<Timestamp>,
    /// None while it runs.
    #[serde(alias = "ended_at")]
    pub to: Option<Timestamp>,
    /// How it ended, or that it runs.
    pub end: BarEnd,
    /// Why it ended so.
    pub reason: Option<String>,
    /// What the command exited with; none when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; none when none did.
    pub signal: Option<i32>,
    /// How long its command ran, in milliseconds, by its node's clock; where no node measured it, until the end was recorded.
    pub ran_ms: Option<i64>,
    /// Of a lost one whose session was expired: since when its node had not renewed its lease, at the latest. From there to `to` no node may run
    /// it: the lease gap.
    pub gap_from: Option<Timestamp>,
    /// Of a lost one: the attempt that took over, as far as it is in the picture.
    pub successor: Option<Successor>,
    /// The attempt, a lost one of this run, that it took over from.
    pub took_over_from: Option<i32>,
    /// What a holder that had lost it still tried, or that it was killed.
    #[serde(default)]
    #[schema(required = true)]
    pub fenced: Vec<FenceMark>,
}

/// Whether an attempt that was lost for `reason` was lost because its session was ended under it. Its own node may tell
/// other ends: "lease lapsed", "warden died", "session closed".
pub fn was_expired(reason: Option<&str>) -> bool {
    matches!(reason, Some("session ended" | "holder lost"))
}

/// The attempt that took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Successor {
    /// Which attempt of the same run.
    pub attempt: i32,
    /// The node that ran it.
    pub node: String,
    /// The fence of its claim.
    pub fence: i64,
    /// When it was claimed.
    pub from: Timestamp,
}

/// A refused write or a killed process of a holder that had lost its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FenceMark {
    /// When it was recorded.
    pub at: Timestamp,
    /// `fenced`: a write was refused; `fence_kill`: its processes were killed.
    pub kind: String,
    /// The node that recorded it.
    pub node: Option<String>,
}
