//! `farmhand job export`: stored jobs as a file.

use std::collections::BTreeSet;

use clap::Args;
use farmhand_control::jobs;
use farmhand_core::definition::{PoolDefinition, differences, job_file, load};
use farmhand_core::document::Source;
use farmhand_store::jobs::Listed;
use farmhand_store::reading::{self, every};
use farmhand_store::{Db, notify};
use serde_json::{Value, json};

use super::{Exit, Failure, Outcome, completion, out};

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// All jobs by default
    #[arg(add = completion::job_names())]
    name: Vec<String>,
    /// Only jobs that were applied from this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

pub(super) async fn run(db: &Db, args: &ExportArgs, as_json: bool) -> Outcome {
    let found = chosen(db, args).await?;
    let text = written(db, &found).await?;
    // What the file says is read back: a newer version's keys, or days of calendars that changed, are not in it.
    let source = Source {
        name: "the exported file".to_owned(),
        text: text.clone(),
    };
    let read = load(&[source]).map_err(|wrong| {
        Failure::broken("these jobs cannot be written as a file that this version reads")
            .why(wrong)
            .next("a newer version may have applied them: use that one; or export them one by one")
    })?;
    for (job, read) in found.iter().zip(&read) {
        let new = serde_json::to_value(&read.spec).unwrap_or_default();
        let keys = differences(&job.spec, &new);
        if !keys.is_empty() {
            out::note(&format!(
                "warning: {}: the file says something else than what is stored: {}",
                job.job_id,
                keys.join(", ")
            ));
        }
    }
    if as_json {
        let names: Vec<&str> = found.iter().map(|job| job.job_id.as_str()).collect();
        out::json(&json!({"jobs": names, "toml": text}));
    } else {
        out::raw(text.as_bytes());
    }
    Ok(Exit::Ok)
}

/// In the order of their names.
async fn chosen(db: &Db, args: &ExportArgs) -> Result<Vec<Listed>, Failure> {
    let mut found = if args.name.is_empty() {
        jobs::all(db).await?
    } else {
        let mut found = Vec::new();
        for name in args.name.iter().collect::<BTreeSet<_>>() {
            found.push(jobs::one(db, name).await?);
        }
        found
    };
    found.retain(|job| args.source.as_ref().is_none_or(|source| job.source == *source));
    found.sort_by(|a, b| a.job_id.cmp(&b.job_id));
    if found.is_empty() {
        let of = args
            .source
            .as_ref()
            .map_or(String::new(), |source| format!(" of the source {source}"));
        return Err(Failure::not_found(format!("there is no job{of}"))
            .next("`farmhand job ls` shows the jobs and their sources"));
    }
    Ok(found)
}

async fn written(db: &Db, found: &[Listed]) -> Result<String, Failure> {
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
