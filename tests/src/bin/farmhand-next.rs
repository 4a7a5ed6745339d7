//! The release after this one: the same program, which calls itself another version and knows one more step of the schema.
//! With `FARMHAND_NEXT_SCHEMA=same` its schema is this release's.

use std::process::ExitCode;

use farmhand_core::release;
use farmhand_store::migrate;
use farmhand_tests::next;

fn main() -> ExitCode {
    release::is_version(next::VERSION);
    if std::env::var_os("FARMHAND_NEXT_SCHEMA").is_none() {
        migrate::has_steps(next::steps());
    }
    // As in the program that ships.
    farmhand_warden::dispatch();
    farmhand::commands::main()
}
