//! The triggers of files: what is wrong with one job's list, and with all of them together.

use std::collections::BTreeMap;
use std::ops::Range;

use super::definition::JobDefinition;
use crate::definition::spec::job::{JobSpec, RunOn};
use crate::definition::spec::triggers::{TriggerFault, trigger_faults};
use crate::document::{Mistakes, Problem, Reader, Related, Source, closest};

/// A job that is stored and stands in none of the files.
#[derive(Clone, Debug)]
pub struct StoredJob {
    pub name: String,
    pub triggered_by: Vec<String>,
    pub source: String,
}

/// Checks the triggers of files together with the jobs that are stored and stay, and those that `--prune` deletes. The names in the
/// files are those of `jobs` without the prefix.
pub fn check_triggers(
    sources: &[Source],
    jobs: &[JobDefinition],
    prefix: &str,
    stored: &[StoredJob],
    pruned: &[String],
) -> Result<(), Mistakes> {
    let mut parents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in stored {
        parents.insert(&job.name, job.triggered_by.iter().map(String::as_str).collect());
    }
    for job in jobs {
        parents.insert(
            &job.name,
            job.spec.triggered_by.iter().map(String::as_str).collect(),
        );
    }
    let files: BTreeMap<&str, &JobDefinition> = jobs.iter().map(|job| (job.name.as_str(), job)).collect();
    let problems = trigger_faults(&parents).into_iter().filter_map(|fault| match fault {
        TriggerFault::Unknown { child, parent } => {
            let job = files.get(child.as_str())?;
            Some(Problem {
                source: job.source,
                span: place(job, &parent),
                what: format!("job `{child}` is triggered by `{parent}`, and there is no such job"),
                fix: if pruned.contains(&parent) {
                    format!("--prune would delete `{parent}`, which is in none of these files: add it to them, or take it out of `triggered_by`")
                } else {
                    // No job runs after itself.
                    missing(&parent, prefix, parents.keys().copied().filter(|name| *name != child))
                },
                related: None,
            })
        }
        TriggerFault::Cycle(circle) => round(sources, &files, stored, circle),
        // The database, which knows the parents of other files too, finds these.
        TriggerFault::Endless { .. } => None,
    });
    Mistakes::check(sources, problems.collect())
}

/// What to write instead of a parent that is not there, as the file names it.
fn missing<'a>(parent: &str, prefix: &str, known: impl Iterator<Item = &'a str>) -> String {
    let written = parent.strip_prefix(prefix).unwrap_or(parent);
    let near = closest(written, known.filter_map(|name| name.strip_prefix(prefix)));
    match near {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if prefix.is_empty() => "apply that job with this one, or before it".to_owned(),
        None => format!(
            "with the prefix `{prefix}` a job runs after jobs that have it, too: apply that job with this one, or before it"
        ),
    }
}

/// A circle as a problem at its first job that stands in a file; None when none does.
fn round(
    sources: &[Source],
    files: &BTreeMap<&str, &JobDefinition>,
    stored: &[StoredJob],
    mut circle: Vec<String>,
) -> Option<Problem> {
    let first = circle.iter().position(|job| files.contains_key(job.as_str()))?;
    circle.rotate_left(first);
    let job = files.get(circle[0].as_str())?;
    let step = |job: &String| match files.get(job.as_str()) {
        Some(found) => {
            let source = &sources[found.source];
            let line = source
                .text
                .get(..place(found, "").start)
                .map_or(0, |t| t.matches('\n').count());
            format!("`{job}` ({}:{})", source.name, line + 1)
        }
        None => {
            let from = stored
                .iter()
                .find(|s| s.name == *job)
                .map_or("", |s| s.source.as_str());
            format!("`{job}` (stored, from {from})")
        }
    };
    let steps: Vec<String> = circle.iter().map(step).collect();
    let second = circle.get(1).and_then(|name| files.get(name.as_str()));
    Some(Problem {
        source: job.source,
        span: place(job, circle.get(1).unwrap_or(&circle[0])),
        what: format!(
            "the triggers go round in a circle: {} is triggered by `{}` again",
            steps.join(" is triggered by "),
            circle[0]
        ),
        fix: "take one of them out of a `triggered_by`".to_owned(),
        related: second.map(|other| Related {
            source: other.source,
            span: place(other, circle.get(2).unwrap_or(&circle[0])),
            label: "and here it goes on".to_owned(),
        }),
    })
}

/// Where a job names a parent; failing that, the first name in its list, or the job's own.
fn place(job: &JobDefinition, parent: &str) -> Range<usize> {
    let named = job.parents.iter().find(|(name, _)| name == parent);
    let found = named.or_else(|| job.parents.first());
    found.map_or_else(|| job.span.clone(), |(_, span)| span.clone())
}

pub(super) fn check_job(job: &mut Reader<'_>, spec: &JobSpec) {
    // What it inherits is for the others.
    if spec.triggered_by.is_empty() && job.key_span("triggered_by").is_none() {
        job.refuse_own(
            "trigger_on",
            "`trigger_on` without `triggered_by`",
            "name the jobs whose end triggers this one: triggered_by = [\"other\"]",
        );
    }
    if spec.is_continuous() && !spec.triggered_by.is_empty() {
        job.refuse(
            "triggered_by",
            "`triggered_by` and @continuous exclude each other",
            "a continuous job begins again by itself: keep one of them",
        );
    }
    if spec.table.is_some() && !spec.triggered_by.is_empty() {
        job.refuse(
            "triggered_by",
            "`triggered_by` and `table` exclude each other",
            "a table job runs for rows of its table: keep one of them",
        );
    }
    let mut names = spec.triggered_by.clone();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
        let what = format!("`triggered_by` names `{}` twice", twice[0]);
        job.refuse("triggered_by", what, "once is enough");
    }
    if spec.instances > 1 && spec.run_on == RunOn::EachNode {
        job.refuse(
            "instances",
            "`instances` and run_on = \"each-node\" exclude each other",
            "shards are spread over the farm; on each node there would be one of every number",
        );
    }
}
