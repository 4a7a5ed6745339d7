//! Sources: what an apply may delete, and what it may not change.

use farmhand_store::jobs::{Listed, Scope};

use super::apply::{ApplyArgs, Files, Kind, Step, Wanted};
use super::{Exit, Failure, job_files, out, terminal};

impl ApplyArgs {
    /// What the definitions of these files belong to.
    pub(super) fn sources(&self) -> Result<Vec<String>, Failure> {
        if let Some(name) = &self.source {
            return match name.trim() {
                "" => Err(Failure::usage("--source needs a name")),
                name => Ok(vec![name.to_owned()]),
            };
        }
        if self.prune && self.path.iter().any(|path| path.as_os_str() == "-") {
            return Err(Failure::usage("--prune needs to know what was applied before")
                .why("standard input has no name")
                .next("add --source NAME"));
        }
        Ok(self.path.iter().map(|path| job_files::name_of(path)).collect())
    }
}

impl Files {
    /// All of it, whichever file it is in.
    pub(super) fn belong_to(&mut self, source: &str) {
        let jobs = self.jobs.iter_mut().map(|job| &mut job.source);
        let pools = self.pools.iter_mut().map(|pool| &mut pool.source);
        let targets = self.targets.iter_mut().map(|target| &mut target.source);
        for of in jobs.chain(pools).chain(targets) {
            source.clone_into(of);
        }
    }
}

/// Has a person agree to what is deleted; where there is none, `--yes` must say so.
pub(super) fn confirm(steps: &[Step], others: usize, args: &ApplyArgs) -> Result<(), Failure> {
    let gone: Vec<&Step> = steps.iter().filter(|step| step.change == Kind::Deleted).collect();
    let all = gone.len() + others;
    if all == 0 || args.yes {
        return Ok(());
    }
    let running = gone.iter().filter(|step| step.running_at.is_some()).count();
    let what = match (gone.len(), others) {
        (jobs, 0) => out::count(jobs, "job"),
        (jobs, others) => format!(
            "{} and {}",
            out::count(jobs, "job"),
            out::count(others, "other definition")
        ),
    };
    let live = match running {
        0 => String::new(),
        n => format!(" ({n} running now)"),
    };
    if !terminal::can_ask() {
        return Err(Failure::new(
            Exit::Refused,
            format!("this would delete {what}{live}; nothing was applied"),
        )
        .why("there is no terminal to confirm it on")
        .next("check the plan with --dry-run, then add --yes"));
    }
    let answer = terminal::ask(&format!("Delete {what}{live}? Their history stays. [y/N] "))?;
    if answer.eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "nothing was applied"))
}

/// Refuses to change what another source defines.
pub(super) fn check_sources(wanted: &[Wanted], present: &[Listed], scope: &Scope<'_>) -> Result<(), Failure> {
    let other = |job: &&Wanted| {
        let listed = present.iter().find(|listed| listed.job_id == job.name);
        listed.filter(|listed| !scope.covers(&listed.source) && !scope.take_over)
    };
    match wanted.iter().find_map(|job| other(&job)) {
        Some(listed) => Err(other_source(&listed.job_id, &listed.source)),
        None => Ok(()),
    }
}

pub(super) fn other_source(job_id: &str, source: &str) -> Failure {
    Failure::new(Exit::Refused, "nothing was applied")
        .why(format!("{job_id} is defined by another source: {source}"))
        .next(format!(
            "apply {source} instead, rename the job, or move the job here with --take-over"
        ))
}
