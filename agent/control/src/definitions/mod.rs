//! Changing definitions: what job files would change, and doing it, once for the command line and the API.

mod diff;
mod files;
mod plan;
mod rollback;
mod signed;
mod source;
mod store;
mod triggers;

use std::collections::BTreeMap;

use farmhand_core::definition::{Definitions, Enabled};
use farmhand_core::document::{Mistakes, Source};
use farmhand_core::text::shell_word;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::jobs::{Change, Left, Listed, Scope};
use farmhand_store::notify::{self, TargetRow};
use farmhand_store::reading::{self, PoolItem, every};
use farmhand_store::{Db, StoreError, tables};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use self::files::source_with;
use crate::actions::DEFINES;
use crate::{By, Refusal, jobs};

pub use diff::{Diff, Of, between, changed, without_path};
pub use files::{Files, Wanted, prefix_of, source_name, value_of};
pub use plan::Step;
pub(crate) use rollback::rollback;
pub use signed::{Signatures, attach, must_be_trusted, parse as parse_signatures, untrusted};
pub use store::store;

/// Changes of one apply that the audit names, at most.
const NAMED: usize = 100;

/// As what files are applied.
#[derive(Clone, Debug)]
pub struct Request {
    /// The sources that they are applied as, as [`Scope::sources`] has them.
    pub sources: Vec<String>,
    /// All that is in the files belongs to the first of them, whichever file it is in.
    pub named: bool,
    /// Before all names that the files define.
    pub prefix: String,
    /// Delete what these sources defined before and do not define any more.
    pub prune: bool,
    /// Take over what another source defines.
    pub take_over: bool,
}

/// The jobs that there are, and those that alone may be changed.
#[derive(Debug)]
pub struct Present {
    only: Option<Vec<String>>,
    jobs: Vec<Listed>,
}

/// What applying files would change.
#[derive(Debug)]
pub struct Plan {
    request: Request,
    wanted: Files,
    present: Present,
    pool_rows: Vec<PoolItem>,
    target_rows: Vec<TargetRow>,
    /// Of pools, targets and jobs, value by value.
    pub diffs: Vec<Diff>,
    pub pools: Vec<Step>,
    /// What happens to targets of messages.
    pub targets: Vec<Step>,
    pub jobs: Vec<Step>,
}

/// A plan for programs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DefinitionChanges)]
pub struct Changes {
    /// False for a preview, and when there was nothing to change.
    pub applied: bool,
    /// Every job of the files, and those that are deleted.
    pub jobs: Vec<Step>,
    /// The same of pools.
    pub pools: Vec<Step>,
    /// The same of targets of messages.
    pub targets: Vec<Step>,
}

/// What is to be said about the tables of table jobs.
#[derive(Debug)]
pub struct Tables {
    /// What will make a job slow.
    pub warnings: Vec<String>,
    pub refusal: Option<Refusal>,
}

impl Request {
    /// Of these sources, with this prefix: the same files with another one are other sources.
    pub fn of(sources: &[String], named: bool, prefix: &str) -> Self {
        Self {
            sources: sources.iter().map(|source| source_with(prefix, source)).collect(),
            named,
            prefix: prefix.to_owned(),
            prune: false,
            take_over: false,
        }
    }

    fn source_of(&self, file: &str) -> String {
        match self.sources.first().filter(|_| self.named) {
            Some(name) => name.clone(),
            None => source_with(&self.prefix, file),
        }
    }

    fn scope<'a>(&'a self, present: &'a Present) -> Scope<'a> {
        Scope {
            sources: Some(&self.sources),
            prune: self.prune,
            take_over: self.take_over,
            only: present.only.as_deref(),
        }
    }
}

impl Present {
    /// Reads what there is now, for the one who asks.
    pub async fn read(db: &Db, by: By<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            only: by.jobs().map(<[String]>::to_vec),
            jobs: jobs::all(db).await?,
        })
    }

    /// What only files and stored jobs together show: who triggers whom.
    pub fn check_triggers(
        &self,
        sources: &[Source],
        all: &Definitions,
        request: &Request,
    ) -> Result<(), Mistakes> {
        let scope = request.scope(self);
        triggers::check(sources, &all.jobs, &request.prefix, &self.jobs, &scope)
    }

    /// Compares files with what there is.
    /// Errors: As the store; 4 for what another source defines or needs; `Denied` for what they may not change.
    pub async fn plan(
        self,
        db: &Db,
        mut wanted: Files,
        request: Request,
        by: By<'_>,
    ) -> Result<Plan, Refusal> {
        wanted.belong_to(|file| request.source_of(file));
        let scope = request.scope(&self);
        source::check_sources(&wanted.jobs, &self.jobs, &scope)?;
        let pool_rows = every(|paging| async move { reading::pools(db, &paging).await });
        let pool_rows = pool_rows.await?.items;
        let target_rows = notify::targets(db).await?;
        let (pools_there, targets_there) = (
            source::shared_pools(&pool_rows),
            source::shared_targets(&target_rows),
        );
        let diffs = diff::diffs(&wanted, &self.jobs, &pool_rows, &target_rows, &scope);
        let (jobs, shared): (Vec<Step>, Vec<Step>) =
            plan::steps(&diffs, &wanted, &self.jobs).partition(|step| matches!(step.of, Of::JobId(_)));
        let (pools, targets): (Vec<Step>, Vec<Step>) = shared
            .into_iter()
            .partition(|step| matches!(step.of, Of::Pool(_)));
        source::check_shared("pool", &pools, &pools_there, &wanted.jobs, &self.jobs, &scope)?;
        source::check_shared(
            "target",
            &targets,
            &targets_there,
            &wanted.jobs,
            &self.jobs,
            &scope,
        )?;
        let plan = Plan {
            request,
            wanted,
            present: self,
            pool_rows,
            target_rows,
            diffs,
            pools,
            targets,
            jobs,
        };
        plan.may(by)?;
        Ok(plan)
    }
}

impl Plan {
    fn scope(&self) -> Scope<'_> {
        self.request.scope(&self.present)
    }

    /// Pools, targets, and then jobs.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.pools.iter().chain(&self.targets).chain(&self.jobs)
    }

    /// Whether they may change all that it changes.
    /// Errors: `Denied`, for a role that is not enough, for another's job and for what all share.
    fn may(&self, by: By<'_>) -> Result<(), Refusal> {
        by.has(DEFINES)?;
        let mut touched = self.steps().filter(|step| step.change != Change::Unchanged);
        touched.try_for_each(|step| match &step.of {
            Of::JobId(job) => by.reaches(job),
            shared => by.shares(shared.name()),
        })
    }

    /// Holds table jobs against their tables, as this role sees them. What makes them slow is only said.
    pub async fn check_tables(&self, db: &Db) -> Result<Tables, StoreError> {
        let (mut warnings, mut refusal) = (Vec::new(), None);
        for job in &self.wanted.jobs {
            let Some(table) = job
                .spec
                .table
                .as_ref()
                .filter(|_| job.spec.enabled == Enabled::Yes)
            else {
                continue;
            };
            warnings.extend(self.shared_table(job));
            for found in tables::check(db, table).await? {
                let text = format!("job {}: {}\n  {}", job.name, found.problem, found.fix);
                if found.fatal {
                    let so_far = refusal
                        .take()
                        .unwrap_or_else(|| Refusal::refused("a table is not as its job wants it"));
                    refusal = Some(so_far.why(text));
                } else {
                    warnings.push(text);
                }
            }
        }
        Ok(Tables {
            warnings,
            refusal: refusal.map(|r| r.next("nothing was applied; fix the table or the job file")),
        })
    }

    /// What is to be said where a job of another environment takes rows of the same table: they are not shared on purpose.
    fn shared_table(&self, job: &Wanted) -> Option<String> {
        let own = value_of(&job.spec.table);
        let same = |other: &&Listed| {
            let table = &other.spec["table"];
            let keys = ["schema", "name", "dispatch"];
            let alike = keys.iter().all(|key| table[*key] == own[*key]);
            let elsewhere = prefix_of(&other.source, &other.job_id) != self.request.prefix;
            // It may be taken over from there itself.
            alike && elsewhere && other.enabled && other.job_id != job.name
        };
        let other = self.present.jobs.iter().find(same)?;
        Some(format!(
            "job {}: {} of {} takes rows of the same table, and each row is run by one of the two\n  \
             give each environment a table of its own, as name = \"${{vars.env}}.outbox\"",
            job.name, other.job_id, other.source
        ))
    }

    /// Whether there is anything to be done; a signature alone may be new.
    pub fn changes(&self) -> bool {
        let pools = source::shared_pools(&self.pool_rows);
        let targets = source::shared_targets(&self.target_rows);
        source::moved(&self.wanted, &self.present.jobs, &pools, &targets, &self.scope())
            || self.wanted.jobs.iter().any(|job| job.signed.is_some())
            || self.steps().any(|step| step.change != Change::Unchanged)
    }

    /// Does it, in one transaction, and notes what became of the runs of deleted jobs.
    pub async fn apply(&mut self, db: &Db, by: By<'_>) -> Result<(), Refusal> {
        let acting = Acting::begin(db, self.deed(by));
        let applied = store(
            &acting,
            &self.wanted.jobs,
            Some(&self.wanted),
            self.scope(),
            by.who,
        )
        .await?;
        let left: BTreeMap<&str, Left> = (applied.iter())
            .filter_map(|job| Some((job.job_id.as_str(), job.left?)))
            .collect();
        for step in &mut self.jobs {
            let left = left.get(step.of.name());
            step.withdrawn = left.map(|left| left.withdrawn);
            step.running = left.map(|left| left.running);
        }
        Ok(())
    }

    /// As the audit has it, with the first jobs, pools and targets that it changes.
    fn deed(&self, by: By<'_>) -> Deed {
        let mut what = "farmhand job apply".to_owned();
        for source in &self.request.sources {
            what.push_str(&format!(" --source {}", shell_word(source)));
        }
        if self.request.prune {
            what.push_str(" --prune");
        }
        let named = |steps: &[Step]| -> BTreeMap<String, Change> {
            let touched = steps.iter().filter(|step| step.change != Change::Unchanged);
            let named = touched.map(|step| (step.of.name().to_owned(), step.change));
            named.take(NAMED).collect()
        };
        let (jobs, pools, targets) = (named(&self.jobs), named(&self.pools), named(&self.targets));
        Deed {
            detail: json!({"jobs": jobs, "pools": pools, "targets": targets}),
            ..by.deed("apply", what)
        }
    }

    /// For programs.
    pub fn into_changes(self, applied: bool) -> Changes {
        Changes {
            applied,
            jobs: self.jobs,
            pools: self.pools,
            targets: self.targets,
        }
    }
}
