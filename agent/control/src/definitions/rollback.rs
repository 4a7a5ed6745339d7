//! Back to an earlier revision: it is applied like any other definition, so history only grows.

use farmhand_store::acting::Acting;
use farmhand_store::jobs::{self, Scope};
use farmhand_store::signatures;

use super::{Of, Wanted, between, store, value_of};
use crate::actions::Rollback;
use crate::jobs::one;
use crate::{Answer, Refusal};

/// Revisions looked through.
const REVISIONS: i64 = 10_000;

/// Errors: 3 for an unknown job or revision, 4 when the revision cannot be read or applied.
pub(crate) async fn rollback(
    acting: &Acting,
    action: &Rollback,
    by: &str,
    commit: bool,
) -> Result<Answer, Refusal> {
    let db = acting.db();
    let Rollback { job: name, rev } = action;
    let row = one(db, name).await?;
    let revisions = jobs::revisions(db, name, REVISIONS).await?;
    let revision = revisions.iter().find(|r| r.rev == *rev).ok_or_else(|| {
        Refusal::not_found(format!("{name} has no revision {rev}"))
            .next(format!("`farmhand job show {name}` lists the revisions"))
    })?;
    let spec = serde_json::from_value(revision.spec.clone()).map_err(|error| {
        Refusal::refused(format!("revision {rev} cannot be read"))
            .why(error)
            .next("a newer version may have applied it: use that one")
    })?;
    let diff = between(Of::JobId(name.clone()), &row.spec, &value_of(&spec));
    if diff.keys.is_empty() {
        return Ok(format!("{name} is as revision {rev} already").into());
    }
    let present = [(row.job_id.clone(), row.rev)];
    let unsigned = match signatures::signatures(db, &present).await?.is_empty() {
        true => "",
        false => {
            "; the present revision is signed and a rollback is not: nodes with trusted keys will refuse it. Sign the older \
             file again and apply that instead"
        }
    };
    let mut what = format!("{name} becomes as revision {rev}, in a new revision{unsigned}");
    if commit {
        let wanted = Wanted {
            name: name.clone(),
            spec,
            source: format!("rollback to revision {rev}, from {}", revision.source),
            // Nodes would refuse an old signature: the signer must sign this revision again.
            signed: None,
        };
        store(acting, &[wanted], None, Scope::default(), by).await?;
        what = format!(
            "{name}: revision {} is as revision {rev}{unsigned}",
            one(db, name).await?.rev
        );
    }
    Ok(Answer {
        what,
        diff: vec![diff],
        ..Answer::default()
    })
}
