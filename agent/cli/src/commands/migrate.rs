//! `farmhand migrate`: brings the database's schema to this version.

use clap::Args;
use farmhand_control::Asker;
use farmhand_store::{DbConfig, migrate};

use super::{DatabaseArgs, Exit, Outcome, database, out, progress};

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// What the names of the database's roles begin with, for a cluster that has several farms [default: as before,
    /// at first farmhand]
    #[arg(long, value_name = "NAME")]
    role_prefix: Option<String>,
}

pub(super) async fn run(args: &MigrateArgs, as_json: bool) -> Outcome {
    let config = args.database.config()?;
    let target = config.target();
    let migrating = async |config: &DbConfig| {
        let work = migrate::migrate_roles(config, args.role_prefix.as_deref());
        progress::during("migrating, or waiting for another migration", work).await
    };
    let (done, roles) = database::with_password(config, Asker::Owner, migrating).await?;
    if let Some(sql) = roles.by_hand() {
        out::notes(&format!(
            "roles are missing, and this login may not make any: agents and people need the owner's rights until an \
             administrator says\n  {sql}\nand `farmhand migrate` has run again"
        ));
    }
    if as_json {
        out::json(&done);
        return Ok(Exit::Ok);
    }
    for step in &done {
        out::line(&format!("applied {} {}", step.version, step.name));
    }
    let version = migrate::current_version();
    let how = if done.is_empty() { "already " } else { "now " };
    out::line(&format!("the schema of {target} is {how}version {version}"));
    Ok(Exit::Ok)
}
