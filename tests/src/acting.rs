//! Somebody who does something by hand, for tests of the statements.

use farmhand_store::Db;
use farmhand_store::acting::{Acting, Deed};

/// Anna, at the command line.
pub fn anna(db: &Db) -> Acting {
    Acting::begin(db, Deed::of("anna", "test", "farmhand test"))
}
