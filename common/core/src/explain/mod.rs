//! Why a job does not run: the gates that a run passes, in their order, and which of them holds it back.
//!
//! Pure: what the database knows comes in as [`Facts`].

mod facts;
mod gates;
mod instant;
mod needs;
#[cfg(test)]
mod needs_tests;
#[cfg(test)]
mod observed_tests;
mod places;
mod running;
#[cfg(test)]
mod runs_tests;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
mod trigger;
#[cfg(test)]
mod trigger_tests;
mod walk;

pub use facts::{
    Facts, Held, Known, Leased, Live, Needed, Node, Outcome, Paused, TriggerWait, Triggering, subject,
};
pub use gates::explain;
pub use walk::{Explanation, Finding, Gate};
