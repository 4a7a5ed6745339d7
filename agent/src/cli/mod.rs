//! The command line: one file per noun.

mod agent;
mod completion;
mod database;
mod dev;
mod events;
mod exit;
mod migrate;
mod next;
pub mod out;
mod settings;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use database::DatabaseArgs;
pub use exit::{Exit, Failure, Outcome};

/// A farm of identical agents that run jobs from PostgreSQL.
#[derive(Parser, Debug)]
#[command(
    name = "farmhand",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Data as JSON, times in RFC 3339 UTC
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// A farm on this machine, with a database and example jobs of its own: the first minute
    Dev(dev::DevArgs),
    /// Run the agent of this server
    Agent(agent::AgentArgs),
    /// Bring the database's schema to this version
    Migrate(migrate::MigrateArgs),
    /// What happened
    Events(events::EventsArgs),
    /// Show when a schedule fires
    Next(next::NextArgs),
    /// Print a completion script for a shell
    Completion(completion::CompletionArgs),
}

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap knows the stream; a stream that is gone changes nothing.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.into();
        }
    };
    match dispatch(&cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out::note(&failure.to_string());
            failure.exit.into()
        }
    }
}

fn dispatch(cli: &Cli) -> Outcome {
    let json = cli.json;
    match &cli.command {
        Command::Dev(args) => dev::run(args),
        Command::Agent(args) => agent::run(args, json),
        Command::Migrate(args) => block_on(migrate::run(args, json)),
        Command::Events(args) => block_on(events::run(args, json)),
        Command::Next(args) => next::run_expr(args, json),
        Command::Completion(args) => completion::run(args, json),
    }
}

/// Commands need no threads of their own.
fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(command)
}
