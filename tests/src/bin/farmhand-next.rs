//! The release after this one: the same program, which calls itself 99.0.0 and knows one more step of the schema. With
//! `FARMHAND_NEXT_SCHEMA=same` its schema is this release's.
//!
//! Its step does to every table what a step of a new release may do to any: each gets another column.

use std::process::ExitCode;

use farmhand_core::release;
use farmhand_store::migrate::{self, Migration};
use farmhand_tests::bin::NEXT_VERSION;

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

fn main() -> ExitCode {
    release::is_version(NEXT_VERSION);
    if std::env::var_os("FARMHAND_NEXT_SCHEMA").is_none() {
        let mut steps = migrate::MIGRATIONS.to_vec();
        steps.push(Migration {
            version: migrate::current_version() + 1,
            name: "next",
            sql: STEP,
        });
        migrate::has_steps(steps);
    }
    // As in the program that ships.
    farmhand_warden::dispatch();
    farmhand::commands::main()
}
