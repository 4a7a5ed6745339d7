//! The command line as people and scripts meet it: what it prints where, and its exit codes.

mod ack;
mod agent;
mod apply;
mod bad_input;
mod bad_kinds;
mod bulk;
mod check;
mod epoch;
mod farm;
mod friction;
mod gitops;
mod import;
mod import_hosts;
mod pools;
mod pty;
mod reading;
mod rename;
mod restricted;
mod running;
mod schedules;
mod shell;
mod sources;
mod terminal;
mod told;
mod triggers;
mod typed;
