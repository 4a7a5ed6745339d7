//! Kubernetes' CronJobs, and the job files that say the same.
//!
//! Pure: parsed manifests come in, a job file and a report come out. A CronJob runs a container and a job a process of
//! the node: what the image holds must be installed there, and the report says so.

mod convert;
mod days;
mod left_out;
mod reading;
mod variables;

pub use convert::{File, import};
