//! `farmhand completion`: a script for the shell, which asks this binary for the names of jobs, nodes and runs.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use farmhand_store::Db;
use farmhand_store::names::{Name, Names, names};
use serde_json::json;

use super::{DatabaseArgs, Exit, Failure, Outcome, out};
use farmhand_core::text::shell_word;

/// Set by the script when it asks.
const VARIABLE: &str = "_FARMHAND_COMPLETE";

/// How long somebody who pressed Tab waits for names.
const BOUND: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    shell: Shell,
}

pub(super) fn run(args: &CompletionArgs, as_json: bool) -> Outcome {
    let shells = Shells::builtins();
    let shell = args.shell.to_string();
    let Some(completer) = shells.completer(&shell) else {
        return Err(Failure::usage(format!("there is no completion for {shell}")));
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "farmhand", "farmhand", "farmhand", &mut script)?;
    if as_json {
        let script = String::from_utf8_lossy(&script);
        out::json(&json!({"shell": shell, "script": script}));
    } else {
        out::raw(&script);
    }
    Ok(Exit::Ok)
}

/// Answers the script and ends the process, if it is the script that called.
pub(super) fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin("farmhand")
        .completer("farmhand")
        .complete();
}

/// Completes an argument that names a job.
pub(crate) fn job_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(Names::Jobs, current))
}

/// Completes an argument that names a node, by its address.
pub(crate) fn node_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(Names::Nodes, current))
}

/// Completes an argument that names a pool.
pub(crate) fn pool_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(Names::Pools, current))
}

/// Completes an argument that names a run.
pub(crate) fn run_numbers() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(Names::Runs, current))
}

/// Silent and bounded: whoever completes a line did not ask for an error in the middle of it.
fn candidates(of: Names, current: &OsStr) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Some(prefix)) = (runtime, current.to_str()) else {
        return Vec::new();
    };
    let found = runtime.block_on(async { tokio::time::timeout(BOUND, look(of, prefix)).await });
    // A name server that does not answer is not waited for.
    runtime.shutdown_background();
    found
        .ok()
        .flatten()
        .unwrap_or_default()
        .into_iter()
        // The script hands a word to the shell as it is: a name that means something there is not offered.
        .filter(|name| shell_word(&name.name) == name.name)
        .enumerate()
        .map(|(nth, name)| {
            CompletionCandidate::new(name.name)
                .help(name.hint.map(Into::into))
                .display_order(Some(nth))
        })
        .collect()
}

async fn look(of: Names, prefix: &str) -> Option<Vec<Name>> {
    let config = DatabaseArgs { database_url: None }.config().ok()?;
    names(&Db::new(&config), of, prefix).await.ok()
}
