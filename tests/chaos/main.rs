//! Whole farms of real agents, and what may happen to them.

mod clocks;
mod database;
mod flows;
mod killed;
mod network;
mod stopped;
