//! Faults by the thousand, from a seed, and an oracle outside of everything that they hit.
//!
//! [`plan`] is a pure function from a seed to a list of faults; [`field`] is the farm that they hit, each agent in a
//! network of its own; [`effects`] does to it what the plan says; [`oracle`] and [`targets`] judge what the jobs themselves
//! wrote down. The method and what was found: `docs/lab/reliability.md`.

pub mod effects;
pub mod field;
pub mod gather;
pub mod jobs;
pub mod lateness;
pub mod leftovers;
pub mod nodes;
pub mod oracle;
pub mod pair;
pub mod patroni;
pub mod place;
pub mod plan;
mod planner;
pub mod report;
mod restarts;
pub mod run;
pub mod servers;
pub mod site;
pub mod sittings;
pub mod soak;
mod stalls;
pub mod table;
pub mod targets;
