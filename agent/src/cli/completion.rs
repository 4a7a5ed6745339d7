//! `farmhand completion`: a script for the shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::{Cli, Exit, Outcome, out};

#[derive(Args, Debug)]
pub struct CompletionArgs {
    shell: Shell,
}

pub fn run(args: &CompletionArgs, as_json: bool) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "farmhand", &mut script);
    if as_json {
        let script = String::from_utf8_lossy(&script);
        out::json(&json!({"shell": args.shell.to_string(), "script": script}));
    } else {
        out::raw(&script);
    }
    Ok(Exit::Ok)
}
