//! `@reboot`: what a node runs once per boot.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use super::fire::{Fired, Want, make};
use crate::LeaseIdentity;
use crate::db::{Db, stmt};
use crate::error::StoreError;
use farmhand_core::definition::JobSpec;
use farmhand_core::due::{self, SkipReason};
use farmhand_core::health::JobState;
use farmhand_core::making::Maker;

/// What a boot meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Booted {
    /// The runs made, waiting ones included.
    pub run_ids: Vec<i64>,
    /// By job, with what was skipped.
    pub fired: Vec<Fired>,
    /// Definitions that cannot be used, and why; they were left alone.
    pub unusable: Vec<(String, String)>,
}

/// Fires every `@reboot` job for this node, if its boot is one that the farm has not seen yet.
///
/// Like cron's, a job that is applied later waits for the next boot. Each job's boot ends in a run or in a
/// recorded skip. Nothing happens for a session that is over. None while claims are closed: ask again.
pub async fn fire_boot(db: &Db, me: &LeaseIdentity, boot_id: &str) -> Result<Option<Booted>, StoreError> {
    #[derive(Deserialize)]
    struct Seen {
        open: bool,
        /// None for a boot that was seen before.
        seen_at: Option<Timestamp>,
        job_ids: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Job {
        job_id: String,
        spec: Value,
        state: JobState,
    }
    let mut tx = db.transaction("fire_boot").await?;
    let seen: Vec<Seen> = tx
        .rows(
            stmt!("boot_seen"),
            &[
                (&me.address, Type::TEXT),
                (&me.session, Type::INT8),
                (&me.incarnation, Type::UUID),
                (&boot_id, Type::TEXT),
            ],
        )
        .await?;
    let Some(Seen {
        open: true,
        seen_at,
        job_ids,
    }) = seen.into_iter().next()
    else {
        tx.rollback().await?;
        return Ok(None);
    };
    let Some(at) = seen_at else {
        tx.commit().await?;
        return Ok(Some(Booted::default()));
    };
    let jobs: Vec<Job> = tx
        .rows(
            stmt!("boot_jobs"),
            &[(&job_ids, Type::TEXT_ARRAY), (&me.address, Type::TEXT)],
        )
        .await?;
    let mut booted = Booted::default();
    let mut wants = Vec::with_capacity(jobs.len());
    for job in &jobs {
        let skip = match skip(&job.job_id, &job.spec, at) {
            Ok(_) if job.state == JobState::Paused => Some(SkipReason::Paused),
            Ok(skip) => skip,
            Err(why) => {
                booted.unusable.push((job.job_id.clone(), why));
                continue;
            }
        };
        wants.push(Want {
            late_ms: Some(0),
            node: Some(&me.address),
            ..Want::one(&job.job_id, at, skip.map(SkipReason::as_str))
        });
    }
    if !wants.is_empty() {
        booted.fired = make(&mut tx, Maker::Boot, &wants).await?;
        booted.run_ids = booted.fired.iter().flat_map(|f| f.run_ids.clone()).collect();
    }
    tx.commit().await?;
    Ok(Some(booted))
}

fn skip(job_id: &str, spec: &Value, at: Timestamp) -> Result<Option<SkipReason>, String> {
    let spec: JobSpec = serde_json::from_value(spec.clone()).map_err(|e| e.to_string())?;
    let (_, policy) = due::compile(job_id, &spec).map_err(|e| e.to_string())?;
    Ok(due::skipped_at(&policy, at))
}
