//! Whole farms of real agents, one file per feature.

mod attempts;
mod bound;
mod continuous;
mod credentials;
mod crontab_hosts;
mod dispatcher_guide;
mod durations;
mod flows;
mod gates;
mod leaving;
mod locks;
mod many;
mod notify;
mod placeholders;
mod pooler;
mod process;
mod progress;
mod refusals;
mod rows_login;
mod run_log;
mod running;
mod streams;
mod systemd;
mod table_rows;
mod tables;
mod user;
