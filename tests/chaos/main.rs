//! Whole farms of real agents, and what may happen to them.

mod killed;
mod stopped;
