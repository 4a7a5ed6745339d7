//! What NOTIFY carries on the channel `farmhand`: hints to look sooner, never facts to act on.

use serde::Deserialize;

/// One notification. Losing any of them costs only time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Runs became due; the first of them.
    Due {
        /// The first run that became due.
        run_id: i64,
        /// Its job, as far as the notification tells.
        job: Option<String>,
        runs: i64,
        /// The node that is to take it; others may.
        node: Option<String>,
    },
    /// Definitions changed, up to this number of `job_seq`.
    Jobs {
        /// The number of the newest of them.
        seq: i64,
    },
    /// A held run is to be cancelled by the node at this address.
    Cancel { run_id: i64, node: String },
    /// A node's row was changed by hand (cordon, drain, resume).
    Node { address: String },
    /// Rows of this table job may wait. Sent by triggers of the user's own.
    Rows { job: String },
    /// The listening connection was opened anew: anything may have been missed.
    Reconnected {
        /// It leads to PostgreSQL itself. A pooler between may keep notifications to itself without a word.
        direct: bool,
    },
}

#[derive(Deserialize)]
struct Payload {
    due: Option<i64>,
    job: Option<String>,
    runs: Option<i64>,
    jobs: Option<i64>,
    cancel: Option<i64>,
    node: Option<String>,
    table: Option<String>,
}

impl Note {
    /// Reads a payload; anything unknown is nobody's business here.
    pub fn parse(payload: &str) -> Option<Self> {
        let p: Payload = serde_json::from_str(payload).ok()?;
        if let Some(run_id) = p.due {
            Some(Self::Due {
                run_id,
                job: p.job,
                runs: p.runs.unwrap_or(1),
                node: p.node,
            })
        } else if let Some(seq) = p.jobs {
            Some(Self::Jobs { seq })
        } else if let (Some(run_id), Some(node)) = (p.cancel, p.node.clone()) {
            Some(Self::Cancel { run_id, node })
        } else if let Some(job) = p.table {
            Some(Self::Rows { job })
        } else {
            p.node.map(|address| Self::Node { address })
        }
    }
}
