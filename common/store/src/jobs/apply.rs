//! New revisions of definitions, all of a file's or none.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

use super::applied::{Applied, ApplyOutcome, Blocked, Change};
use super::delete::withdraw;
use super::pools::{self, PoolChange};
use super::scope::Scope;
use super::targets::{self, TargetChange};
use super::{edges, pauses};
use crate::acting::Acting;
use crate::db::{Transaction, no_row, stmt};
use crate::error::StoreError;
use crate::protocol::rounds;
use crate::signatures::{self, Signed};
use farmhand_core::definition::{Enabled, JobSpec, Needs, RunOn};
use farmhand_core::due::SkipReason;

/// What an attempt with a timeout may take beyond timeout and grace before it counts as overrun: the time to start it
/// and to record its end.
const HARD_MARGIN_MS: u128 = 30_000;
/// Ten thousand definitions take seconds, and longer on a busy server.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// A definition as it shall be.
#[derive(Clone, Debug)]
pub struct JobChange {
    /// The job's name, new or known.
    pub job_id: String,
    pub spec: JobSpec,
    /// The first instant of the schedule after now; None for a job without one.
    pub next_run: Option<Timestamp>,
    /// Where it came from, for people: a file's name.
    pub source: String,
}

#[derive(Deserialize)]
pub(super) struct Present {
    pub(super) job_id: String,
    pub(super) rev: i64,
    pub(super) spec: Value,
    source: String,
    pub(super) deleted: bool,
    pub(super) overdue: Option<Timestamp>,
    decided_until: Option<Timestamp>,
    /// Of a paused job: what came after this has no record.
    pub(super) paused_from: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// The columns of `job` that follow from a definition.
#[derive(Debug, Serialize)]
struct Columns<'a> {
    job_id: &'a str,
    rev: i64,
    kind: &'static str,
    work: &'static str,
    enabled: bool,
    scheduled: bool,
    next_run: Option<Timestamp>,
    overlap: farmhand_core::definition::Overlap,
    on_lost: farmhand_core::definition::OnLost,
    priority: i32,
    hard_ms: Option<i64>,
    claim_within_ms: Option<i64>,
    placement: Option<Vec<BTreeMap<String, String>>>,
    instances: u32,
    each_node: bool,
    observe: bool,
    source: &'a str,
    spec: &'a JobSpec,
    #[serde(skip)]
    needs: Option<Needs>,
}

/// [`apply_all`], leaving pools and targets as they are.
pub async fn apply(
    acting: &Acting,
    changes: &[JobChange],
    prune: bool,
    by: &str,
) -> Result<ApplyOutcome, StoreError> {
    apply_all(acting, changes, None, None, prune, by).await
}

/// Applies definitions in one transaction; with `prune`, jobs, pools and targets that are not among them are deleted.
///
/// A definition equal to the present one makes no revision. Applies wait for each other, so that agents
/// following `job_seq` miss none.
pub async fn apply_all(
    acting: &Acting,
    changes: &[JobChange],
    pools: Option<&[PoolChange]>,
    targets: Option<&[TargetChange]>,
    prune: bool,
    by: &str,
) -> Result<ApplyOutcome, StoreError> {
    let scope = Scope {
        prune,
        ..Scope::default()
    };
    apply_signed(acting, changes, &BTreeMap::new(), (pools, targets), scope, by).await
}

/// [`apply_all`] with the signatures of jobs, by name: each is stored with the revision that is then the job's present one.
pub async fn apply_signed(
    acting: &Acting,
    changes: &[JobChange],
    signed: &BTreeMap<String, Signed>,
    (pools, targets): (Option<&[PoolChange]>, Option<&[TargetChange]>),
    scope: Scope<'_>,
    by: &str,
) -> Result<ApplyOutcome, StoreError> {
    let mut tx = acting.transaction_within("apply", LIMIT).await?;
    let seq = bump(&mut tx).await?;
    let names: Vec<&str> = changes.iter().map(|c| c.job_id.as_str()).collect();
    let of_these = [(&names as _, Type::TEXT_ARRAY), (&scope.prune as _, Type::BOOL)];
    let present: Vec<Present> = tx.rows(stmt!("apply_lock"), &of_these).await?;
    let present: BTreeMap<String, Present> = present.into_iter().map(|p| (p.job_id.clone(), p)).collect();

    let mut blocked = Vec::new();
    let mut columns = Vec::new();
    let mut applied = Vec::new();
    let mut moved = Vec::new();
    for change in changes {
        let spec = to_value(&change.spec)?;
        let before = present.get(&change.job_id);
        let live = before.filter(|p| !p.deleted);
        if let Some(other) = live.filter(|p| scope.forbids(&p.source)) {
            blocked.push(Blocked::OtherSource {
                what: "job",
                name: change.job_id.clone(),
                source: other.source.clone(),
            });
            continue;
        }
        if let Some(same) = live.filter(|p| p.spec == spec) {
            if scope.moves(&same.source, &change.source) {
                moved.push((change.job_id.as_str(), change.source.as_str()));
            }
            applied.push(Applied {
                job_id: change.job_id.clone(),
                rev: same.rev,
                change: Change::Unchanged,
                left: None,
            });
            continue;
        }
        if let Some(why) = before.and_then(|p| obstacle(p, change)) {
            blocked.push(why);
            continue;
        }
        let rev = before.map_or(1, |p| p.rev + 1);
        columns.push(Columns::of(change, rev)?);
        applied.push(Applied {
            job_id: change.job_id.clone(),
            rev,
            change: if live.is_some() {
                Change::Updated
            } else {
                Change::Created
            },
            left: None,
        });
    }
    let gone: Vec<&Present> = present
        .values()
        .filter(|p| {
            scope.prunes(&p.source, Some(&p.job_id)) && !p.deleted && !names.contains(&p.job_id.as_str())
        })
        .collect();
    let judged: Vec<&str> = (gone.iter().map(|p| p.job_id.as_str()))
        .chain(names.iter().copied())
        .collect();
    let plan = pools::plan(&mut tx, pools, &scope, &judged).await?;
    blocked.extend(plan.blocked(columns.iter().filter_map(|c| Some((c.job_id, c.needs.as_ref()?)))));
    let targets = targets::plan(&mut tx, targets, &scope, &judged).await?;
    blocked.extend(targets.blocked(columns.iter().map(|c| (c.job_id, &c.spec.notify[..]))));
    if !blocked.is_empty() {
        tx.rollback().await?;
        return Ok(ApplyOutcome::Blocked(blocked));
    }
    applied.extend(gone.iter().map(|p| Applied {
        job_id: p.job_id.clone(),
        rev: p.rev,
        change: Change::Deleted,
        left: None,
    }));
    if !moved.is_empty() {
        let (jobs, sources): (Vec<&str>, Vec<&str>) = moved.iter().copied().unzip();
        let _: Vec<Value> = tx
            .rows(
                stmt!("apply_moved"),
                &[
                    (&jobs, Type::TEXT_ARRAY),
                    (&sources, Type::TEXT_ARRAY),
                    (&by, Type::TEXT),
                ],
            )
            .await?;
    }
    let vouched: Vec<(&str, i64, &Signed)> = (applied.iter().filter(|a| a.change != Change::Deleted))
        .filter_map(|a| Some((a.job_id.as_str(), a.rev, signed.get(&a.job_id)?)))
        .collect();
    if columns.is_empty() && gone.is_empty() && plan.is_empty() && targets.is_empty() {
        // A signature for what is there already changes nothing that agents would have to read again.
        if signatures::sign(&mut tx, &vouched, by).await? > 0 || !moved.is_empty() {
            tx.commit().await?;
            return Ok(ApplyOutcome::Done { seq, applied });
        }
        tx.rollback().await?;
        return Ok(ApplyOutcome::Done {
            seq: seq - 1,
            applied,
        });
    }
    let changing = (columns.iter())
        .filter_map(|c| present.get(c.job_id))
        .chain(gone.iter().copied())
        .map(|job| (job, SkipReason::Withdrawn));
    pauses::record_so_far(&mut tx, changing, by).await?;
    let gone: Vec<&str> = gone.iter().map(|p| p.job_id.as_str()).collect();
    let is_anew = |name: &&str| present.get(*name).is_some_and(|p| p.deleted);
    let anew = columns.iter().map(|c| c.job_id).filter(is_anew);
    let ending: Vec<&str> = gone.iter().copied().chain(anew).collect();
    let left = withdraw(&mut tx, &ending, by).await?;
    let withdrawn: Vec<i64> = (gone.iter().map(|name| left.get(*name)))
        .map(|left| left.map_or(0, |left| left.withdrawn))
        .collect();
    let _: Vec<Value> = tx
        .rows(
            stmt!("apply"),
            &[
                (&Json(&columns), Type::JSON),
                (&gone, Type::TEXT_ARRAY),
                (&seq, Type::INT8),
                (&by, Type::TEXT),
                (&scope.sources.is_some(), Type::BOOL),
                (&withdrawn, Type::INT8_ARRAY),
            ],
        )
        .await?;
    signatures::sign(&mut tx, &vouched, by).await?;
    plan.store(&mut tx, by).await?;
    targets.store(&mut tx, by).await?;
    pools::add_needs(
        &mut tx,
        columns
            .iter()
            .filter_map(|c| Some((c.job_id, c.rev, c.needs.as_ref()?))),
    )
    .await?;
    let changed: Vec<&str> = (columns.iter().map(|c| c.job_id))
        .chain(gone.iter().copied())
        .collect();
    rounds(&mut tx, &changed).await?;
    targets::write_edges(&mut tx, &changed).await?;
    let faults = edges::write(&mut tx, &changed).await?;
    if !faults.is_empty() {
        tx.rollback().await?;
        return Ok(ApplyOutcome::Refused(faults));
    }
    tx.commit().await?;
    for job in applied.iter_mut().filter(|job| job.change == Change::Deleted) {
        job.left = left.get(&job.job_id).copied();
    }
    Ok(ApplyOutcome::Done { seq, applied })
}

/// The next number of a change of definitions. Its row stays locked until the end of the transaction:
/// numbers become visible in their order.
pub(super) async fn bump(tx: &mut Transaction) -> Result<i64, StoreError> {
    let row: Option<(i64,)> = tx.row(stmt!("job_seq"), &[]).await?;
    row.map(|(seq,)| seq).ok_or_else(|| no_row("job_seq"))
}

fn obstacle(present: &Present, change: &JobChange) -> Option<Blocked> {
    // What is disabled starts no more, and needs nobody to fire what was due.
    if let Some(at) = present.overdue.filter(|_| change.spec.enabled != Enabled::No) {
        return Some(Blocked::Overdue {
            job_id: present.job_id.clone(),
            rev: present.rev,
            next_run: at,
        });
    }
    match (change.next_run, present.decided_until) {
        (Some(next), Some(decided)) if next <= decided => Some(Blocked::Stale {
            job_id: present.job_id.clone(),
            decided_until: decided,
        }),
        _ => None,
    }
}

impl<'a> Columns<'a> {
    fn of(change: &'a JobChange, rev: i64) -> Result<Self, StoreError> {
        let spec = &change.spec;
        let ms = |ms: u128| i64::try_from(ms).unwrap_or(i64::MAX);
        let needs = spec.needs().map_err(StoreError::Refused)?;
        Ok(Self {
            job_id: &change.job_id,
            rev,
            kind: spec.kind(),
            work: spec.work(),
            enabled: spec.enabled != Enabled::No,
            scheduled: change.next_run.is_some(),
            next_run: change.next_run,
            overlap: spec.overlap,
            on_lost: spec.on_lost,
            priority: spec.priority,
            hard_ms: spec
                .timeout
                .map(|t| ms(t.as_millis() + spec.grace.as_millis() + HARD_MARGIN_MS)),
            claim_within_ms: spec.catch_up.within.map(|within| ms(within.as_millis())),
            placement: (!spec.placement.is_empty()).then(|| spec.placement.sets()),
            instances: spec.instances.max(1),
            each_node: spec.run_on == RunOn::EachNode,
            observe: spec.enabled == Enabled::Observe,
            source: &change.source,
            spec,
            needs,
        })
    }
}

fn to_value(spec: &JobSpec) -> Result<Value, StoreError> {
    serde_json::to_value(spec).map_err(|e| StoreError::Refused(e.to_string()))
}
