//! `farmhand migrate`: brings the database's schema to this version.

use clap::Args;
use farmhand_common::store::migrate;

use super::progress::Progress;
use super::{DatabaseArgs, Exit, Outcome, database, out};

#[derive(Args, Debug)]
pub struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

pub async fn run(args: &MigrateArgs, as_json: bool) -> Outcome {
    let config = args.database.config()?;
    let work = migrate::migrate(&config);
    let done = Progress::default()
        .during("migrating, or waiting for another migration", work)
        .await
        .map_err(|e| database::located(e, &config))?;
    if as_json {
        out::json(&done);
        return Ok(Exit::Ok);
    }
    for step in &done {
        out::line(&format!("applied {} {}", step.version, step.name));
    }
    let version = migrate::current_version();
    let how = if done.is_empty() { "already " } else { "now " };
    out::line(&format!(
        "the schema of {} is {how}version {version}",
        config.target()
    ));
    Ok(Exit::Ok)
}
