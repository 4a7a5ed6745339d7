//! The gates, and what was found at each.

use jiff::Timestamp;
use serde::Serialize;

crate::words! {
    /// The gates in the order in which a run meets them.
    Gate {
        /// Whether there is such a job.
        Exists = "exists",
        /// Whether its definition says enabled = true.
        Enabled = "enabled",
        /// Whether somebody paused it.
        Paused = "paused",
        /// Whether the instant is one of its schedule.
        Schedule = "schedule",
        /// Whether it lies between `start` and `end`.
        Window = "window",
        /// Whether a calendar excludes the day.
        Calendar = "calendar",
        /// What a clock change did to the time.
        Dst = "dst",
        /// Whether the instant was made into a run.
        Fired = "fired",
        /// Whether an earlier run has ended.
        Overlap = "overlap",
        /// Whether its parents have ended as they must.
        Trigger = "trigger",
        /// Whether its pool has a place on the farm.
        Pool = "pool",
        /// Whether its locks are free.
        Lock = "lock",
        /// Whether its rate is used up.
        Rate = "rate",
        /// The run's own time: a retry's pause.
        Ready = "ready",
        /// Whether a node has the labels.
        Placement = "placement",
        /// Whether one of these is ready.
        Nodes = "nodes",
        /// Whether its pool has a place on one of these.
        NodePool = "node_pool",
        /// Whether one of these has a slot.
        Slots = "slots",
        /// Whether claims are open.
        Database = "database",
    }
}

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Finding {
    pub gate: Gate,
    pub open: bool,
    /// The answer, for people.
    pub what: String,
    /// Since when it is closed, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What would open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frees: Option<String>,
}

/// Every gate that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    pub job_id: String,
    /// The instant that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The first closed gate; None when nothing holds it back.
    pub held_by: Option<Gate>,
    pub answer: String,
    /// The answers, in the order in which a run meets them.
    pub gates: Vec<Finding>,
}

#[derive(Default)]
pub(super) struct Walk {
    pub(super) gates: Vec<Finding>,
}

impl Walk {
    pub(super) fn open(&mut self, gate: Gate, what: impl Into<String>) {
        let what = what.into();
        self.gates.push(Finding {
            gate,
            open: true,
            what,
            since: None,
            frees: None,
        });
    }

    pub(super) fn closed(
        &mut self,
        gate: Gate,
        what: impl Into<String>,
        since: Option<Timestamp>,
        frees: impl Into<String>,
    ) {
        self.gates.push(Finding {
            gate,
            open: false,
            what: what.into(),
            since,
            frees: Some(frees.into()),
        });
    }
}
