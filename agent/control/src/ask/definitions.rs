//! Definitions as files.

use std::collections::BTreeSet;

use farmhand_core::definition::{PoolDefinition, differences, job_file, load};
use farmhand_core::document::Source;
use farmhand_store::jobs::Listed;
use farmhand_store::reading::{self, every};
use farmhand_store::{Db, notify};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Question;
use super::parts::{filled, words};
use crate::{Refusal, jobs};

/// Stored jobs as a job file, with the pools, targets and calendars that they name
#[derive(Deserialize, ToSchema)]
pub struct Export {
    /// Names with commas between them; all jobs when it is left out.
    #[serde(default, deserialize_with = "words")]
    pub name: Vec<String>,
    /// Only jobs that were applied from this source.
    pub source: Option<String>,
}

/// A job file.
#[derive(Serialize, ToSchema)]
pub struct Exported {
    /// The jobs that are in it, by name.
    pub jobs: Vec<String>,
    /// All of it.
    pub toml: String,
    /// Jobs of which the file says something else than what is stored.
    pub warnings: Vec<String>,
}

impl Question for Export {
    const PATH: &'static str = "/api/v1/definitions";
    type Answer = Exported;

    async fn answer(&self, db: &Db) -> Result<Exported, Refusal> {
        let found = self.chosen(db).await?;
        let text = written(db, &found).await?;
        // What the file says is read back: a newer version's keys, or days of calendars that changed, are not in it.
        let source = Source {
            name: "the exported file".to_owned(),
            text: text.clone(),
        };
        let read = load(&[source]).map_err(|wrong| {
            Refusal::broken("these jobs cannot be written as a file that this version reads")
                .why(wrong)
                .next("a newer version may have applied them: use that one; or export them one by one")
        })?;
        let mut warnings = Vec::new();
        for (job, read) in found.iter().zip(&read) {
            let new = serde_json::to_value(&read.spec).unwrap_or_default();
            let keys = differences(&job.spec, &new);
            if !keys.is_empty() {
                let (name, keys) = (&job.job_id, keys.join(", "));
                warnings.push(format!(
                    "{name}: the file says something else than what is stored: {keys}"
                ));
            }
        }
        Ok(Exported {
            jobs: found.into_iter().map(|job| job.job_id).collect(),
            toml: text,
            warnings,
        })
    }
}

impl Export {
    /// In the order of their names.
    async fn chosen(&self, db: &Db) -> Result<Vec<Listed>, Refusal> {
        let mut found = if self.name.is_empty() {
            jobs::all(db).await?
        } else {
            let mut found = Vec::new();
            for name in self.name.iter().collect::<BTreeSet<_>>() {
                found.push(jobs::one(db, name).await?);
            }
            found
        };
        let source = filled(self.source.as_ref());
        found.retain(|job| source.as_ref().is_none_or(|source| job.source == *source));
        found.sort_by(|a, b| a.job_id.cmp(&b.job_id));
        if found.is_empty() {
            let of = source.map_or(String::new(), |source| format!(" of the source {source}"));
            return Err(Refusal::not_found(format!("there is no job{of}"))
                .next("`farmhand job ls` shows the jobs and their sources"));
        }
        Ok(found)
    }
}

async fn written(db: &Db, found: &[Listed]) -> Result<String, Refusal> {
    let pools = every(|paging| async move { reading::pools(db, &paging).await });
    let pools: Vec<PoolDefinition> = (pools.await?.items.into_iter())
        .map(|pool| PoolDefinition {
            name: pool.name,
            size: pool.file_size,
            source: 0,
        })
        .collect();
    let targets = notify::targets(db).await?;
    let targets: Vec<_> = (targets.iter())
        .filter_map(|target| Some((target.name.as_str(), target.spec.as_ref()?)))
        .collect();
    let specs: Vec<(&str, &Value)> = found.iter().map(|job| (job.job_id.as_str(), &job.spec)).collect();
    Ok(job_file(&specs, &pools, &targets))
}
