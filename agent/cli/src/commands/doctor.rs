//! `farmhand doctor`: what this machine and this database allow, and what it costs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use farmhand_control::MEANWHILE;
use farmhand_core::release;
use farmhand_store::logins::{self, Login};
use farmhand_store::{Db, DbConfig, StoreError, epochs, migrate, notify, survey, tables};
use jiff::Timestamp;
use serde::Serialize;

use super::agent::other_database;
use super::database::without_password;
use super::{DatabaseArgs, Exit, Failure, Outcome, out, settings};
use crate::doctor::{Check, Level, availability, database, epoch, machine, rights, worst};

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The agent's state directory [env: FARMHAND_STATE_DIR] [default: as for `farmhand agent`]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// An operator's login, with which the agent changes definitions over the API; no password here
    /// [env: FARMHAND_DEFINITIONS_DATABASE_URL] [default: none]
    #[arg(long, value_name = "URL")]
    definitions_database_url: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    worst: Level,
    checks: &'a [Check],
}

/// Looks at the machine first: that needs a process with one thread.
pub(super) fn run(args: &DoctorArgs, as_json: bool) -> Outcome {
    let env = settings::environment();
    let named = || variable(&env, "FARMHAND_STATE_DIR").map(PathBuf::from);
    let state_dir = match args.state_dir.clone().or_else(named) {
        Some(dir) => std::path::absolute(dir)?,
        None => settings::default_state_dir(&env).map_err(Failure::usage)?,
    };
    let definitions = definitions(args.definitions_database_url.as_deref(), &env)?;
    let mut checks = machine::judge(&machine::look(&state_dir));
    let looked = async {
        let looked = look_at_database(&args.database, definitions.as_ref(), &mut checks);
        Ok(looked.await)
    };
    let reached = super::runtime::block_on(looked)?;
    if as_json {
        out::json(&Report {
            worst: worst(&checks),
            checks: &checks,
        });
    } else {
        print(&checks);
    }
    Ok(match (reached, worst(&checks)) {
        (Exit::Ok, Level::Failure) => Exit::Error,
        (reached, _) => reached,
    })
}

fn variable(env: &BTreeMap<String, String>, name: &str) -> Option<String> {
    env.get(name).filter(|text| !text.is_empty()).cloned()
}

/// The agent's login for definitions, where it has one.
fn definitions(given: Option<&str>, env: &BTreeMap<String, String>) -> Result<Option<DbConfig>, Failure> {
    const VARIABLE: &str = "FARMHAND_DEFINITIONS_DATABASE_URL";
    let given = given.map(|url| without_password(url, "--definitions-database-url", VARIABLE));
    let given = given.transpose().map_err(Failure::usage)?;
    let url = given.or_else(|| variable(env, VARIABLE));
    let config = other_database(url.as_deref(), Login::Definitions)?;
    Ok(config.map(|config| config.with_application_name("farmhand cli").with_listen(false)))
}

/// Adds what can be said of the database, and answers how far it got.
async fn look_at_database(
    args: &DatabaseArgs,
    definitions: Option<&DbConfig>,
    checks: &mut Vec<Check>,
) -> Exit {
    let config = match args.config() {
        Ok(config) => config,
        Err(failure) => {
            checks.push(refused("the URL cannot be used", &failure));
            return failure.exit;
        }
    };
    match look_at_server(&config).await {
        Ok(found) => checks.extend(found),
        Err(error) => {
            let failure = Failure::from(error);
            checks.push(refused(&config.target(), &failure));
            checks.extend(availability::servers(&roles(&config).await, 0));
            return failure.exit;
        }
    }
    let db = Db::new(&config);
    if let Err(error) = migrate::check(&db).await {
        checks.push(Check::bad(
            Level::Failure,
            "schema",
            error.to_string(),
            "agents of this version do not start on it",
            "run `farmhand migrate`, or the version that migrated it",
        ));
        return Exit::Ok;
    }
    checks.push(Check::ok(
        "schema",
        format!("version {}", migrate::current_version()),
    ));
    let target = config.target();
    let mut add = |found: Result<Vec<Check>, StoreError>| {
        checks.extend(found.unwrap_or_else(|error| vec![refused(&target, &Failure::from(error))]));
    };
    let newest = epochs::newest(&db).await;
    add(newest.map(|found| vec![epoch::judge(&found)]));
    let farm = survey::farm(&db).await;
    add(farm.map(|found| database::farm(&found, release::version())));
    let given = survey::rights(&db).await;
    add(given.map(|found| rights::judge(&found, &target, config.is_exposed())));
    if let Some(login) = definitions {
        let found = logins::check(&db, &Db::new(login), Login::Definitions).await;
        let judged = crate::doctor::definitions::judge(found, &login.target());
        add(Ok(vec![judged]));
    }
    let targets = notify::targets(&db).await;
    add(targets.map(|found| found.iter().map(crate::doctor::notify::judge).collect()));
    add(tables::survey(&db).await.map(|found| {
        let judged = found.iter().flat_map(crate::doctor::tables::judge);
        judged.chain(crate::doctor::tables::login(&found)).collect()
    }));
    Exit::Ok
}

fn refused(target: &str, failure: &Failure) -> Check {
    Check::bad(Level::Failure, "database", target, MEANWHILE, failure.to_string())
}

/// What each server of a URL that names several is.
async fn roles(config: &DbConfig) -> Vec<(String, Result<survey::Role, StoreError>)> {
    let mut answers = Vec::new();
    for server in config.servers() {
        let db = Db::new(&server.clone().of_any_kind());
        answers.push((server.target(), survey::role(&db).await));
    }
    answers
}

/// Twice, each time over a connection of its own: only the second can be one that a pooler had already used.
async fn look_at_server(config: &DbConfig) -> Result<Vec<Check>, StoreError> {
    let first = Db::new(config);
    survey::server(&first).await?;
    let connecting = Instant::now();
    let db = Db::new(config);
    survey::server(&db).await?;
    let (asked, asked_at) = (Instant::now(), Timestamp::now());
    let server = survey::server(&db).await?;
    let (connected_for, round_trip) = (connecting.elapsed(), asked.elapsed());
    // Both connections are open.
    let shared_backend = survey::backend(&first).await? == survey::backend(&db).await?;
    let middle = asked_at.as_duration().as_secs_f64() + round_trip.as_secs_f64() / 2.0;
    let link = database::Link {
        connected_for,
        round_trip,
        shared_backend,
        clock_offset: middle - server.now.as_duration().as_secs_f64(),
    };
    let answered = format!(
        "{} answered in {:.1} ms",
        config.target(),
        round_trip.as_secs_f64() * 1e3
    );
    let mut checks = vec![Check::ok("database", answered)];
    checks.extend(database::server(&server, &link));
    checks.extend(availability::servers(&roles(config).await, server.standbys));
    Ok(checks)
}

fn print(checks: &[Check]) {
    for check in checks {
        let mark = match check.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "WARNING",
            Level::Failure => "FAILURE",
        };
        out::line(&format!("{mark:<8} {:<19} {}", check.check, check.found));
        for (name, text) in [("impact", &check.impact), ("fix", &check.fix)] {
            if let Some(text) = text {
                let indented = text.replace('\n', "\n                                   ");
                let lines = format!("{:<28} {name}: {indented}", "");
                lines.lines().for_each(out::line);
            }
        }
    }
}
