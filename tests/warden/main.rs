//! The real reaper and warden: what they run, and what is left when they are killed or stopped.

mod adopting;
mod bounds;
mod counting;
mod ending;
mod harness;
mod killed;
mod limits;
mod marks;
mod output;
mod placed;
mod recipes;
mod running;
mod secrets;
mod starting;
mod trust;
mod watching;
