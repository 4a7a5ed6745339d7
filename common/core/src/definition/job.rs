//! One job's table becomes a [`JobSpec`].

use std::ops::Range;

use super::calendar::Calendars;
use super::keys::{JOB, OWN_KEYS};
use super::notify::Targets;
use super::pools::Pools;
use super::spec::JobSpec;
use super::stored::{parsed, stored};
use super::{
    arguments, check, continuous, declared_params, flow, observe, secrets, stream, table, triggers, watched,
};
use crate::document::Reader;

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
            if let Some(span) = job.key_span(key) {
                let what = format!("`{key}` cannot be inherited");
                job.sink().report(span, what, "write it in each job");
            }
        }
    }
    let stored = stored(&mut job, JOB);
    let mut spec: JobSpec = parsed(&job, &stored);
    shared.calendars.read_job(&mut job, &mut spec);
    shared.pools.check(&mut job, &spec);
    shared.targets.check(&mut job, &spec);
    observe::settle(&stored, &mut spec);
    continuous::settle(&mut job, &mut spec);
    watched::read(&mut job, &mut spec);
    declared_params::read(&mut job, &mut spec);
    flow::read_flow(&mut job, &stored, &mut spec, &shared.pools);
    table::settle(&mut job, &mut spec);
    stream::settle(&mut job, &mut spec);
    if let JobLayer::Job { name } = layer {
        check::whole(&mut job, &spec, name);
        secrets::check(&mut job, &spec);
        continuous::check(&mut job, &spec);
        observe::check(&mut job, &spec);
        arguments::check(&mut job, &spec);
        triggers::check_job(&mut job, &spec);
    }
    spec
}
