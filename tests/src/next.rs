//! What the release after this one is, for tests of upgrades: `src/bin/farmhand-next.rs`.

use std::path::PathBuf;

use farmhand_store::migrate::{MIGRATIONS, Migration};

use crate::bin::beside;

pub const VERSION: &str = "99.0.0";

/// What a step of a new release may do to any table, it does to every one: each gets another column.
const STEP: &str = "
    CREATE TABLE farmhand.next_thing (id bigint PRIMARY KEY);
    DO $$
    DECLARE
        name text;
    BEGIN
        FOR name IN SELECT c.oid::regclass::text FROM pg_class c
            WHERE c.relnamespace = 'farmhand'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        LOOP
            EXECUTE format('ALTER TABLE %s ADD COLUMN next_word text', name);
        END LOOP;
    END
    $$";

/// The program.
pub fn program() -> PathBuf {
    beside("farmhand-next")
}

/// Its schema: this release's, and a step.
pub fn steps() -> Vec<Migration> {
    let mut steps = MIGRATIONS.to_vec();
    let last = steps.last().map_or(0, |step| step.version);
    steps.push(Migration {
        version: last + 1,
        name: "next",
        sql: STEP,
    });
    steps
}
