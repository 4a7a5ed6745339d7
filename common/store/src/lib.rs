//! PostgreSQL: one function per statement in `sql/`.
//!
//! Every statement goes out with its parameter types, unnamed but for a few frequent ones on connections that lead
//! straight to PostgreSQL or to a pooler that keeps prepared statements (so it is right behind any transaction pooler), is
//! bounded in time on the client by dropping the connection, and turns row counts into enums.

#![warn(unreachable_pub)]

pub mod acting;
pub mod audit;
mod command;
mod config;
mod conn;
mod db;
mod decode;
mod direct;
pub mod epochs;
mod error;
pub mod event;
pub mod events;
mod files;
mod hosts;
pub mod jobs;
pub mod leases;
mod link;
mod login;
pub mod logins;
pub mod logs;
pub mod migrate;
pub mod names;
mod note;
pub mod notify;
mod options;
pub mod partitions;
mod password;
pub mod pools;
pub mod progress;
pub mod protocol;
pub mod proxy;
pub mod reading;
pub mod retention;
pub mod roles;
pub mod row_writer;
mod settings;
pub mod signatures;
pub mod slow;
pub mod snapshot;
mod statement;
pub mod streams;
pub mod survey;
pub mod tables;
pub mod tasks;
mod text;
pub mod tls;
pub mod tokens;
mod version;

pub use config::{DbConfig, PasswordIn};
pub use db::{Db, Observer, PoolGauge};
pub use error::StoreError;
pub use farmhand_core::attempt::{LeaseIdentity, RunKind};
pub use files::AsRoot;
pub use note::Note;
pub use text::{AttemptOutcome, LogStream, Role, Severity};
