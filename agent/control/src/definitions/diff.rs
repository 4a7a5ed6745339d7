//! What applying job files would change, value by value.

use std::collections::BTreeMap;
use std::fmt;

use farmhand_core::definition::{Change as Values, changes};
use farmhand_core::notify::Url;
use farmhand_store::jobs::{Change, Listed, Scope};
use farmhand_store::notify::TargetRow;
use farmhand_store::reading::PoolItem;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::files::{Files, value_of};

/// What differs of one job, pool or target.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = DefinitionDiff)]
pub struct Diff {
    /// Which one.
    #[serde(flatten)]
    #[schema(value_type = Named)]
    pub of: Of,
    /// What happens to it.
    pub change: Change,
    /// Each key that differs, before and after.
    pub keys: BTreeMap<String, Values>,
}

/// What kind of definition it is, and its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    JobId(String),
    Pool(String),
    Target(String),
}

/// As the API's documents describe [`Of`]: one of these is there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DefinitionName)]
pub(super) struct Named {
    /// A job's name.
    job_id: Option<String>,
    /// A pool's name.
    pool: Option<String>,
    /// The name of a target of messages.
    target: Option<String>,
}

impl Of {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::JobId(name) | Self::Pool(name) | Self::Target(name) => name,
        }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobId(name) => f.write_str(name),
            Self::Pool(name) => write!(f, "pool {name}"),
            Self::Target(name) => write!(f, "notify {name}"),
        }
    }
}

/// What files define against what is there.
pub(super) fn diffs(
    wanted: &Files,
    present: &[Listed],
    pools: &[PoolItem],
    targets: &[TargetRow],
    scope: &Scope<'_>,
) -> Vec<Diff> {
    let size = |size: u32| json!({"size": size});
    let mut diffs = compare(
        Of::Pool,
        (wanted.pools.iter()).map(|pool| (pool.name.as_str(), size(pool.size))),
        (pools.iter()).map(|old| (old.name.as_str(), old.source.as_str(), size(old.file_size))),
        scope,
    );
    diffs.extend(compare(
        Of::Target,
        (wanted.targets.iter()).map(|target| (target.name.as_str(), value_of(&target.spec))),
        (targets.iter()).filter_map(|old| {
            Some((
                old.name.as_str(),
                old.source.as_str(),
                value_of(old.spec.as_ref()?),
            ))
        }),
        scope,
    ));
    diffs.extend(compare(
        Of::JobId,
        (wanted.jobs.iter()).map(|job| (job.name.as_str(), value_of(&job.spec))),
        (present.iter()).map(|old| (old.job_id.as_str(), old.source.as_str(), old.spec.clone())),
        scope,
    ));
    diffs
}

/// What files define against what is there, with its source; then what would be deleted.
fn compare<'a>(
    of: fn(String) -> Of,
    wanted: impl Iterator<Item = (&'a str, Value)>,
    present: impl Iterator<Item = (&'a str, &'a str, Value)>,
    scope: &Scope<'_>,
) -> Vec<Diff> {
    let mut present: BTreeMap<&str, (&str, Value)> = present
        .map(|(name, source, value)| (name, (source, value)))
        .collect();
    let mut diffs = Vec::new();
    for (name, new) in wanted {
        diffs.push(match present.remove(name) {
            Some((_, old)) => hide_path(between(of(name.to_owned()), &old, &new)),
            None => whole(of(name.to_owned()), Change::Created),
        });
    }
    let is_job = |name: &str| matches!(of(name.to_owned()), Of::JobId(_));
    let prunes = |name: &str, source: &str| scope.prunes(source, is_job(name).then_some(name));
    let gone = present.iter().filter(|(name, (source, _))| prunes(name, source));
    diffs.extend(gone.map(|(name, _)| whole(of((*name).to_owned()), Change::Deleted)));
    diffs
}

/// As `notify ls` shows a webhook.
fn hide_path(mut diff: Diff) -> Diff {
    if let (Of::Target(_), Some(change)) = (&diff.of, diff.keys.get_mut("webhook")) {
        for url in [&mut change.old, &mut change.new] {
            *url = url
                .as_str()
                .map_or(Value::Null, |url| json!(format!("{}/…", without_path(url))));
        }
    }
    diff
}

fn whole(of: Of, change: Change) -> Diff {
    let keys = BTreeMap::new();
    Diff { of, change, keys }
}

/// What differs between two definitions.
pub fn between(of: Of, old: &Value, new: &Value) -> Diff {
    changed(of, changes(old, new))
}

/// The same, of what is known to differ.
pub fn changed(of: Of, keys: BTreeMap<String, Values>) -> Diff {
    let change = if keys.is_empty() {
        Change::Unchanged
    } else {
        Change::Updated
    };
    Diff { of, change, keys }
}

/// Without the path of a URL: it may be a secret.
pub fn without_path(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "webhook".to_owned(), |url| url.shown())
}
