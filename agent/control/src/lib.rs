//! What people do with a farm: one function for the command line, the API and the page.

pub mod actions;
mod answer;
pub mod ask;
pub mod backfill;
pub mod bulk;
mod choice;
pub mod definitions;
pub mod due_now;
pub mod epochs;
pub mod jobs;
pub mod many;
mod moment;
pub mod nodes;
mod perform;
mod refusal;
mod rights;
pub mod runs;

pub use actions::{About, Act, Action, Many};
pub use answer::Answer;
pub use choice::{BulkAction, Chosen, Picked};
pub use moment::{moment, past_moment};
pub use perform::perform;
pub use refusal::{Asker, Exit, Kind, MEANWHILE, Refusal};
pub use rights::{By, Token, lacks};
