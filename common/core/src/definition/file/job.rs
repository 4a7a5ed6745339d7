//! One job's table becomes a [`JobSpec`].

use std::ops::Range;

use super::calendar::Calendars;
use super::from_table::{parsed, stored};
use super::keys::{JOB, OWN_KEYS};
use super::notify::Targets;
use super::resources::Pools;
use super::{
    arguments, child_limits, continuous, flow, observe, params, placement, secrets, stream, table, triggers,
};
use crate::definition::fill::params::param_variable;
use crate::definition::spec::job::{JobSpec, RunOn};
use crate::document::Reader;
use crate::schedule::{ParseContext, Schedule};

/// What jobs may refer to, of all files read together.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub calendars: Calendars,
    pub pools: Pools,
    pub targets: Targets,
}

/// Whether a table is a job or what jobs inherit.
pub(super) enum JobLayer {
    /// With the span of its name.
    Job {
        name: Range<usize>,
    },
    Defaults,
}

/// Reads a job. What is wrong goes to the reader's sink, and the result is then not to be used.
pub(super) fn read_job(mut job: Reader<'_>, layer: &JobLayer, shared: &Shared) -> JobSpec {
    if let JobLayer::Defaults = layer {
        for key in OWN_KEYS {
            job.refuse(
                key,
                format!("`{key}` cannot be inherited"),
                "write it in each job",
            );
        }
    }
    let stored = stored(&mut job, JOB);
    let mut spec: JobSpec = parsed(&job, &stored);
    shared.calendars.read_job(&mut job, &mut spec);
    shared.pools.check(&mut job, &spec);
    shared.targets.check(&mut job, &spec);
    observe::settle(&stored, &mut spec);
    continuous::settle(&mut job, &mut spec);
    child_limits::read(&mut job, &mut spec);
    params::read(&mut job, &mut spec);
    flow::read_flow(&mut job, &stored, &mut spec, &shared.pools);
    table::settle(&mut job, &mut spec);
    stream::settle(&mut job, &mut spec);
    if let JobLayer::Job { name } = layer {
        whole(&mut job, &spec, name);
        secrets::check(&mut job, &spec);
        continuous::check(&mut job, &spec);
        observe::check(&mut job, &spec);
        arguments::check(&mut job, &spec);
        triggers::check_job(&mut job, &spec);
    }
    spec
}

/// What no single key can tell.
fn whole(job: &mut Reader<'_>, spec: &JobSpec, name: &Range<usize>) {
    let sink = job.sink();
    let kinds = ["command", "task", "flow"];
    let mut present = kinds
        .iter()
        .filter_map(|key| job.key_span(key).map(|span| (key, span)));
    match (present.next(), present.next()) {
        (None, _) => sink.report(
            name.clone(),
            "the job has nothing to run",
            "add `command`, for example command = [\"/usr/bin/true\"]",
        ),
        (Some((first, _)), Some((second, span))) => sink.report(
            span,
            format!("`{second}` and `{first}` exclude each other"),
            "keep one of them, or make two jobs",
        ),
        (Some(_), None) => {}
    }
    if let (Some(start), Some(end)) = (&spec.start, &spec.end)
        && start.parse::<jiff::Timestamp>().ok() >= end.parse::<jiff::Timestamp>().ok()
    {
        let fix = "no instant lies between them: swap them?";
        job.refuse("end", "`end` is not after `start`", fix);
    }
    boot(job, spec);
    placement::check(job, &spec.placement);
    required_params(job, spec);
}

/// A boot is a node's own, so is what it fires.
fn boot(job: &mut Reader<'_>, spec: &JobSpec) {
    let at_boot = spec.schedule.iter().any(|text| {
        Schedule::parse(&[text], &ParseContext::default()).is_ok_and(|schedule| schedule.fires_at_boot())
    });
    if at_boot
        && spec.run_on != RunOn::EachNode
        && let Some(found) = job.raw("schedule")
    {
        job.sink().report(
            found.span,
            "`schedule`: @reboot fires once per boot of each node",
            "add run_on = \"each-node\", and `where` for some nodes only",
        );
    }
}

fn required_params(job: &mut Reader<'_>, spec: &JobSpec) {
    if spec.table.is_some() && spec.params.contains_key("key") {
        let what = "`{key}` is the row's key in a table job";
        job.refuse("params", what, "rename the parameter");
    }
    let mut variables: Vec<String> = spec.params.keys().map(|p| param_variable(p)).collect();
    variables.sort_unstable();
    if let Some(twice) = variables.windows(2).find(|w| w[0] == w[1]) {
        let what = format!("two parameters share the variable {}", twice[0]);
        job.refuse("params", what, "rename one of them");
    }
    let needed = (spec.params.iter()).find(|(_, p)| p.required && p.default.is_none());
    let nobody = match (&spec.table, spec.schedule.is_empty()) {
        (Some(_), _) => Some(("a row", "give it a default: a row gives its key and nothing else")),
        (None, false) => Some(("the schedule", "give it a default, or leave the schedule out")),
        (None, true) => None,
    };
    if let (Some((name, _)), Some((who, fix))) = (needed, nobody) {
        let what = format!("parameter `{name}` is required, and {who} gives none");
        job.refuse("params", what, fix);
    }
}
