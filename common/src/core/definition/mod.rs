//! What a job is: the validated form of a definition, as stored in `job.spec`.

mod spec;

pub use spec::*;
