//! Attacks on a whole farm: each is refused, and recorded where people look for it.

mod credentials;
mod database;
mod directories;
mod environment;
mod files;
mod keys;
mod logins;
mod notifications;
mod parameters;
mod positions;
mod redaction;
mod signatures;
mod streams;
mod tables;
mod terminal;
mod unreadable;
