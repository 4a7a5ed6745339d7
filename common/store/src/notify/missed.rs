//! Deadlines that are still missed when people are to be told of them.

use std::collections::BTreeMap;

use farmhand_core::notify::Happening;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::db::{Transaction, stmt};
use crate::decode;
use crate::error::StoreError;

#[derive(Deserialize)]
struct Success {
    job_id: String,
    #[serde(default, deserialize_with = "decode::instant_or_none")]
    last_success: Option<Timestamp>,
}

/// Without those of jobs that have succeeded since somebody looked.
pub(super) async fn still<'a>(
    tx: &mut Transaction,
    further: &'a [(String, Happening)],
) -> Result<Vec<&'a (String, Happening)>, StoreError> {
    if further.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = further.iter().map(|(job_id, _)| job_id.as_str()).collect();
    // A job without ends has no row yet that could be locked.
    let _: Vec<Value> = tx
        .rows(stmt!("notify_stats"), &[(&names, Type::TEXT_ARRAY)])
        .await?;
    let rows: Vec<Success> = tx
        .rows(stmt!("notify_successes"), &[(&names, Type::TEXT_ARRAY)])
        .await?;
    let last: BTreeMap<&str, Timestamp> = (rows.iter())
        .filter_map(|s| Some((s.job_id.as_str(), s.last_success?)))
        .collect();
    let missed = further.iter().filter(|(job_id, happening)| match happening {
        Happening::MissedDeadline { last_success, .. } => last.get(job_id.as_str()) <= last_success.as_ref(),
        _ => true,
    });
    Ok(missed.collect())
}
