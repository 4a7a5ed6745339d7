//! The database as this session sees it.

mod clock;
mod known;

pub(crate) use clock::DbClock;
pub(crate) use known::KnownDatabase;
