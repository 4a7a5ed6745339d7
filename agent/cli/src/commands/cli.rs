//! The commands and their options, and which file does each.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use super::exit::{EXIT_CODES, Exit, Outcome};
use super::runtime::block_on;
use super::{
    agent, completion, dev, doctor, epoch, events, explain, flow, hints, import, job, key, lease, lock, man,
    migrate, next, next_job, node, notify, out, pool, report_progress, run, status, stream_engine, token,
    top, workers,
};

/// What holds for every command; with the exit codes part of the manual page.
const ENVIRONMENT: &str = "Environment: FARMHAND_DATABASE_URL, then DATABASE_URL, names the database; PGPASSFILE a file with its password; \
FARMHAND_LOG filters an agent's log; NO_COLOR and COLUMNS are respected.";

/// A farm of identical agents that run jobs from PostgreSQL.
#[derive(Parser, Debug)]
#[command(
    name = "farmhand",
    version = farmhand_core::release::version(),
    max_term_width = 100,
    disable_help_subcommand = true,
    after_long_help = format!("{EXIT_CODES}\n\n{ENVIRONMENT}")
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Data as JSON, times in RFC 3339 UTC
    #[arg(long, global = true)]
    json: bool,
    /// Show times, and read those without an offset, in UTC; else in the zone of TZ or of this machine
    #[arg(long, global = true)]
    utc: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// A farm on this machine, with a database and example jobs of its own: the first minute
    Dev(dev::DevArgs),
    /// Run the agent of this server
    Agent(Box<agent::AgentArgs>),
    /// Jobs: apply files, list, run, pause
    Job(job::JobArgs),
    /// Keys to sign job definitions with
    Key(key::KeyArgs),
    /// Runs: list, logs, cancel, retry
    Run(run::RunArgs),
    /// Nodes: list, cordon, drain
    Node(node::NodeArgs),
    /// Leases: list, release by force
    Lease(lease::LeaseArgs),
    /// Which database this is, and whether agents claim on it
    Epoch(epoch::EpochArgs),
    /// Pools: list, resize
    Pool(pool::PoolArgs),
    /// Tokens of the HTTP API and the page: create, list, revoke
    Token(token::TokenArgs),
    /// Notifications: list targets, send a test
    Notify(notify::NotifyArgs),
    /// Flows: plan and run tasks in dependency order on this machine
    Flow(flow::FlowArgs),
    /// Keep so many copies of a command running on this machine
    Workers(workers::WorkersArgs),
    /// Run a command that holds named locks, as flock does
    Lock(lock::LockArgs),
    /// The farm at a glance
    Status(status::StatusArgs),
    /// Bring the database's schema to this version
    Migrate(migrate::MigrateArgs),
    /// What this machine and this database allow, and what it costs
    Doctor(doctor::DoctorArgs),
    /// What happened
    Events(events::EventsArgs),
    /// Say from inside a job that it lives, and how far it has come
    Progress(report_progress::ProgressArgs),
    /// Why a job does not run
    Explain(explain::ExplainArgs),
    /// Show when a schedule fires
    Next(next::NextArgs),
    /// Turn what another scheduler ran into a job file
    Import(import::ImportArgs),
    /// Nodes, runs and the queue as they are now, until q
    Top(top::TopArgs),
    /// Print a completion script for a shell; it knows the names of jobs, nodes and runs
    Completion(completion::CompletionArgs),
    #[command(hide = true)]
    StreamEngine,
    /// Write the manual pages, one for each command, into a directory
    Man(man::ManArgs),
}

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    completion::answer(Cli::command);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            hints::correct(&mut error);
            // clap knows the stream; a stream that is gone changes nothing.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok }.into();
        }
    };
    match dispatch(&cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out::notes(&failure.to_string());
            failure.exit.into()
        }
    }
}

fn dispatch(cli: &Cli) -> Outcome {
    let json = cli.json;
    if cli.utc {
        out::in_utc();
    }
    match &cli.command {
        Command::Dev(args) => dev::run(args),
        Command::Agent(args) => agent::run(args, json),
        Command::Job(args) => block_on(job::run(args, json)),
        Command::Key(args) => key::run(args, json),
        Command::Run(args) => block_on(run::run(args, json)),
        Command::Node(args) => block_on(node::run(args, json)),
        Command::Lease(args) => block_on(lease::run(args, json)),
        Command::Epoch(args) => block_on(epoch::run(args, json)),
        Command::Pool(args) => block_on(pool::run(args, json)),
        Command::Token(args) => block_on(token::run(args, json)),
        Command::Notify(args) => block_on(notify::run(args, json)),
        Command::Flow(args) => flow::run(args, json),
        Command::Lock(args) => lock::run(args),
        Command::Workers(args) => workers::run(args, json),
        Command::Status(args) => block_on(status::run(args, json)),
        Command::Migrate(args) => block_on(migrate::run(args, json)),
        Command::Doctor(args) => doctor::run(args, json),
        Command::Events(args) => block_on(events::run(args, json)),
        Command::Next(args) if args.is_about_an_expression() => next::run_expr(args, json),
        Command::Next(args) => block_on(next_job::run(args, json)),
        Command::Progress(args) => report_progress::run(args),
        Command::Explain(args) => block_on(explain::run(args, json)),
        Command::Import(args) => import::run(args, json),
        Command::Top(args) => block_on(top::run(args, json)),
        Command::Completion(args) => completion::run(args, json),
        Command::StreamEngine => stream_engine::run(),
        Command::Man(args) => man::run(args, json, Cli::command()),
    }
}
