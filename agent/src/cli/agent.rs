//! `farmhand agent`: flags, environment and file become a configuration, and the agent runs.

use std::path::PathBuf;

use clap::Args;

use super::{Outcome, settings};

/// Raw flags. They stay texts here so that every mistake in flags, environment and file comes at once.
#[derive(Args, Clone, Debug, Default)]
pub struct AgentArgs {
    /// The database; no password here: FARMHAND_DATABASE_URL or PGPASSFILE can hold one
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub node_name: Option<String>,
    /// Key of the node's lease, unique in the farm [default: the node's name]
    #[arg(long)]
    pub address: Option<String>,
    /// Attempts that may run here at once [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    pub slots: Option<String>,
    /// A label of this node; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Where the API and the metrics listen, or "off" [default: 127.0.0.1:7070]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<String>,
    /// Sockets, output and state of this agent [default: /var/lib/farmhand, for others than root below the home]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<String>,
    /// How long the node's lease lives unrenewed, from 3s [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub lease_ttl: Option<String>,
    /// Listen for hints from the database: on or off (behind a transaction pooler) [default: on]
    #[arg(long, value_name = "on|off")]
    pub notify: Option<String>,
    /// How long SIGTERM may take before the agent leaves [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub stop_timeout: Option<String>,
    /// How long finished runs, their output and the events are kept [default: 30d]
    #[arg(long, value_name = "DURATION")]
    pub retention: Option<String>,
    /// A TOML file with the same keys (dashes as underscores, labels as a table)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

pub fn run(args: &AgentArgs, as_json: bool) -> Outcome {
    let config = settings::load(args, &settings::environment())?;
    let _ = as_json;
    // The loops land next; until then nothing may look as if an agent ran.
    Err(super::Failure::new(
        super::Exit::Error,
        format!("this build has no agent loops to run as {}", config.address),
    ))
}
