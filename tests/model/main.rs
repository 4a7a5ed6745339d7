//! The lease protocol, explored exhaustively. What is modelled, and what was found: `README.md` here.

mod actions;
mod agent;
mod config;
mod db;
mod fire;
mod mutations;
mod progress;
mod properties;
mod scenarios;
mod state;
