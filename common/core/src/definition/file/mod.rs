//! Job files: read into definitions with all that is wrong in them, and written again.

mod arguments;
mod calendar;
#[cfg(test)]
mod calendar_tests;
mod child_limits;
mod continuous;
mod defined;
pub mod definition;
mod flow;
#[cfg(test)]
mod flow_tests;
mod from_table;
mod job;
mod keys;
#[cfg(test)]
mod kinds_tests;
pub mod load;
#[cfg(test)]
mod needs_tests;
pub mod notify;
#[cfg(test)]
mod notify_tests;
mod observe;
mod params;
mod placement;
pub mod prefix;
pub mod resources;
mod retry;
pub mod schema;
#[cfg(test)]
mod schema_tests;
mod secrets;
mod stream;
mod table;
#[cfg(test)]
mod tests;
pub mod triggers;
mod value_rules;
pub mod vars;
pub mod write;
#[cfg(test)]
mod write_tests;
