//! What a job is (`spec`), how a file says it (`file`), and how the command of a run is filled in (`fill`).

mod file;
mod fill;
mod spec;

pub use file::definition::{Definitions, JobDefinition};
pub use file::load::{load, load_all, load_with};
pub use file::notify::TargetDefinition;
pub use file::prefix::check_prefix;
pub use file::resources::PoolDefinition;
pub use file::schema::json_schema;
pub use file::triggers::{StoredJob, check_triggers};
pub use file::write::{job_file, job_keys};
pub use fill::params::{
    ParamError, ParamErrors, check_param, param_text, param_variable, parse_params, resolve_params,
};
pub use fill::placeholders::{Filling, argv, fill};
pub use spec::difference::{Change, changes, differences};
pub use spec::enabled::Enabled;
pub use spec::flow::{FlowSpec, Resume, Scripts, TaskSpec};
pub use spec::job::{
    CatchUp, ChildLimit, Isolation, JobSpec, Limits, Missed, OnLost, Output, Overlap, RunOn, TriggerOn,
};
pub use spec::names::{check_name, secret_name, variable_name};
pub use spec::needs::{Needs, Rate};
pub use spec::params::{ParamSpec, ParamType};
pub use spec::placement::{NODE_LABEL, Placement};
pub use spec::stream::StreamSpec;
pub use spec::table::{Column, MAX_ROW, SHORTEST_POLL, TableSpec, parse_table_name};
pub use spec::triggers::{TriggerFault, trigger_faults, trigger_text};

pub use crate::command::Command;
pub use crate::retry::{Backoff, Retry};
pub use crate::schedule::DstPolicy;

/// How job files name and quote things, for the crate that makes them of other files.
#[doc(hidden)]
pub mod for_importers {
    pub use super::file::vars::escape_variables;
    pub use super::fill::placeholders::{Placeholder, escape, placeholder};
    pub use super::spec::names::{is_user_name, is_variable};
    pub use super::spec::table::table_name;
}
