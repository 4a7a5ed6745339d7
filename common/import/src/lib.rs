//! Crontabs, systemd's timers, Kubernetes' CronJobs and tables, and the jobs that do the same. Pure: no I/O.

pub mod crontab;
pub mod kubernetes;
mod proposed;
pub mod systemd;
mod table;
pub mod verify;

pub use proposed::{Import, Imported, Invalid, Machine, Note, Report, is_unedited};
pub use table::Proposal;
