//! The race for due runs.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::session::set;
use crate::store::db::{Db, stmt};
use crate::store::error::StoreError;
use crate::store::signatures::Signed;
use crate::store::streams::Items;
use crate::store::{Kind, Me};

/// A run that is now held by the caller's session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub run_id: i64,
    pub job_id: String,
    pub rev: i64,
    pub kind: Kind,
    pub instance: i32,
    pub instances: i32,
    pub due_at: Timestamp,
    pub ready_at: Timestamp,
    pub attempt: i32,
    /// timeline · 2⁴⁰ + a sequence: grows with every claim, also over a failover.
    pub fence: i64,
    pub retries: i32,
    pub takeovers: i32,
    pub priority: i32,
    pub params: Value,
    pub parent_run: Option<i64>,
    /// Of a table job's row.
    pub key: Option<String>,
    /// Of a triggered run: the run of each job that triggered it.
    pub parents: Option<Value>,
    /// The first of several runs that were made together.
    pub firing: Option<i64>,
    /// Why it was due again: `takeover`, `retry`, …
    pub reason: Option<String>,
    /// The job's definition at `rev`; null only if it was deleted from `job_revision` by hand.
    #[serde(serialize_with = "plain", deserialize_with = "shared")]
    pub spec: Arc<Value>,
    /// Tasks of a flow that are not to run again.
    pub done: Option<Vec<String>>,
    /// Of a stream: what is known of its lines beyond the checkpoint.
    pub items: Option<Items>,
    /// What an earlier attempt last reported about how far it had come.
    pub checkpoint: Option<String>,
    /// When the claim was made, by the database's clock.
    pub claimed_at: Timestamp,
    /// Who vouches for the definition; read only where signatures are asked for.
    #[serde(default)]
    pub signed: Option<Signed>,
}

fn plain<S: Serializer>(spec: &Arc<Value>, to: S) -> Result<S::Ok, S::Error> {
    Value::serialize(spec, to)
}

fn shared<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Value>, D::Error> {
    Value::deserialize(from).map(Arc::new)
}

/// Claims up to `limit` runs that are due, in order of priority and readiness, out of `only` when given.
///
/// Nothing is claimed unless the caller's session is open, uncondemned, and neither cordoned nor
/// draining, and the server's timeline is open. Labels are those the session was opened with.
pub async fn claim(db: &Db, me: &Me, limit: i64, only: Option<&[i64]>) -> Result<Vec<Claimed>, StoreError> {
    let mut claimed: Vec<Claimed> = db
        .rows(
            stmt!("claim", often),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.life, Type::UUID),
                (&limit, Type::INT8),
                (&only, Type::INT8_ARRAY),
            ],
        )
        .await?;
    share_specs(&mut claimed);
    Ok(claimed)
}

/// A definition comes with one run of its revision, and is all of theirs.
fn share_specs(claimed: &mut [Claimed]) {
    let mut specs: HashMap<(String, i64), Arc<Value>> = HashMap::new();
    for run in claimed.iter().filter(|run| !run.spec.is_null()) {
        specs.insert((run.job_id.clone(), run.rev), Arc::clone(&run.spec));
    }
    for run in claimed.iter_mut().filter(|run| run.spec.is_null()) {
        // One clone of a short text per run; a key of borrowed parts would take a type of its own.
        if let Some(spec) = specs.get(&(run.job_id.clone(), run.rev)) {
            run.spec = Arc::clone(spec);
        }
    }
}

/// One attempt, unmistakably: after a failover that lost commits its number is given a second time, its fence
/// never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
}

impl From<&Claimed> for Attempt {
    fn from(run: &Claimed) -> Self {
        Self {
            run_id: run.run_id,
            attempt: run.attempt,
            fence: run.fence,
        }
    }
}

/// An attempt's exec.
#[derive(Clone, Debug, Serialize)]
pub struct Started {
    pub run_id: i64,
    pub attempt: i32,
    pub fence: i64,
    pub started_at: Timestamp,
}

/// Records when attempts of this session were started, for people; returns how many still run.
pub async fn started(db: &Db, me: &Me, starts: &[Started]) -> Result<usize, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        #[expect(dead_code, reason = "only counted")]
        run_id: i64,
    }
    let rows: Vec<Row> = db
        .rows(
            stmt!("started", often),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&set(starts), Type::JSON),
            ],
        )
        .await?;
    Ok(rows.len())
}
