//! The real guard and warden: what they run, and what is left when they are killed or stopped.

mod harness;
mod running;
