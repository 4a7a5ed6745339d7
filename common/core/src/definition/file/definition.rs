//! What job files define.

use std::ops::Range;

use super::notify::TargetDefinition;
use super::resources::PoolDefinition;
use crate::definition::spec::job::JobSpec;

/// One job as a file defines it.
#[derive(Clone, Debug)]
pub struct JobDefinition {
    /// As in `[job.NAME]`.
    pub name: String,
    pub spec: JobSpec,
    /// The names in its `triggered_by`, with their places.
    pub parents: Vec<(String, Range<usize>)>,
    /// Index of the source, and the bytes of the job's name in it.
    pub source: usize,
    /// The bytes of its name in the source.
    pub span: Range<usize>,
}

/// What job files define, each in the order of names.
#[derive(Clone, Debug)]
pub struct Definitions {
    /// `[job.NAME]` of all files.
    pub jobs: Vec<JobDefinition>,
    /// `[pool.NAME]` of all files.
    pub pools: Vec<PoolDefinition>,
    /// `[notify.NAME]` of all files.
    pub targets: Vec<TargetDefinition>,
}
