//! Jobs, runs and nodes that are not as they should be.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::nodes::NodeState;
use farmhand_core::words;

words! {
    /// What is wrong with a lease.
    LeaseTrouble {
        /// It is over, and no other node took the run over.
        Expired = "expired",
        /// Claimed and not started, or not free yet after its session.
        Stalled = "stalled",
        /// Past the attempt's timeout.
        Overrun = "overrun",
    }
}

/// A job whose due instant has not been fired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverdueJob {
    /// The job's name.
    pub job_id: String,
    /// The instant that has passed.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub next_run: Timestamp,
}

/// A running attempt whose lease is neither renewed nor taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StuckLease {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// The node that holds it.
    pub node: String,
    /// Which attempt of the run.
    pub attempt: i32,
    /// What is wrong with the lease.
    pub state: LeaseTrouble,
    /// Since when it is so.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub since: Timestamp,
}

/// A job whose last runs failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FailingJob {
    /// The job's name.
    pub job_id: String,
    /// How often in a row it failed.
    pub consecutive_failures: i32,
    /// How the last run ended.
    pub last_state: Option<String>,
    /// When the last run ended.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub last_finished: Option<Timestamp>,
    /// When a run last succeeded; none when none did.
    #[serde(default, deserialize_with = "crate::decode::instant_or_none")]
    pub last_success: Option<Timestamp>,
}

/// A node whose session others have ended again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlappingNode {
    /// The node's address.
    pub address: String,
    /// How often its session was ended by others within the last hour.
    pub times: i64,
}

/// A run that takes longer than usual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlowRun {
    /// The run's number.
    pub run_id: i64,
    /// The job's name.
    pub job_id: String,
    /// The node that runs it.
    pub node: String,
    /// When its command was started.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub started_at: Timestamp,
    /// 95 of 100 of the last successes of its job took no longer.
    pub p95_ms: u64,
    /// How many successes that is of.
    pub runs: usize,
}

/// A node that went without saying so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostNode {
    /// The node's address.
    pub address: String,
    /// Lost or expired.
    pub state: NodeState,
    /// When the session was ended, or its lease was over.
    #[serde(deserialize_with = "crate::decode::instant")]
    pub since: Timestamp,
}
