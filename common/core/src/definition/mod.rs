//! What a job is: job files, and the validated form of a definition as stored in `job.spec`.

mod arguments;
mod calendar;
#[cfg(test)]
mod calendar_tests;
mod check;
mod continuous;
mod declared_params;
mod difference;
mod filling;
mod flow;
mod flow_spec;
#[cfg(test)]
mod flow_tests;
mod job;
mod keys;
#[cfg(test)]
mod kinds_tests;
mod load;
mod needs;
#[cfg(test)]
mod needs_tests;
mod notify;
#[cfg(test)]
mod notify_tests;
mod observe;
mod params;
mod placement;
mod pools;
mod prefix;
mod retry;
mod schema;
#[cfg(test)]
mod schema_tests;
mod secrets;
mod spec;
mod stored;
mod stream;
mod stream_spec;
mod table;
#[cfg(test)]
mod tests;
mod triggers;
mod twice;
mod values;
mod vars;
mod watched;
mod written;
#[cfg(test)]
mod written_tests;

pub use check::{param_variable, variable_name};
pub use difference::{Change, changes, differences};
pub use filling::{Filling, argv, fill};
pub use flow_spec::{FlowSpec, Resume, Scripts, TaskSpec};
pub use load::{Definitions, JobDefinition, check_name, load, load_all, load_with};
pub use needs::{Needs, Rate};
pub use notify::TargetDefinition;
pub use observe::Enabled;
pub use params::{ParamError, ParamErrors, check_param, param_text, parse_params, resolve_params};
pub use placement::{NODE_LABEL, Placement};
pub use pools::PoolDefinition;
pub use prefix::check_prefix;
pub use schema::json_schema;
pub use secrets::secret_name;
pub use spec::*;
pub use stream_spec::StreamSpec;
pub use table::{Column, MAX_ROW, SHORTEST_POLL, TableSpec, parse_table_name};
pub use triggers::{StoredJob, TriggerFault, check_triggers, trigger_faults, trigger_text};
pub use written::{job_file, job_keys};

/// How job files name and quote things, for the crate that makes them of other files.
#[doc(hidden)]
pub mod for_importers {
    pub use super::check::is_user_name;
    pub use super::filling::{Placeholder, escape, placeholder};
    pub use super::table::table_name;
    pub use super::vars::escape_variables;
}
