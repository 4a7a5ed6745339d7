//! The agent's validated configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What one agent runs with. Raw flags, environment and file are merged and checked before this exists.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    pub database_url: String,
    pub node_name: String,
    /// Key of the node's lease; unique in the farm.
    pub address: String,
    /// Attempts that may run here at once.
    pub slots: u32,
    pub labels: BTreeMap<String, String>,
    pub listen: Option<SocketAddr>,
    pub state_dir: PathBuf,
    /// From 3 s up.
    pub lease_ttl: Duration,
    /// LISTEN for hints; off behind a transaction pooler. Only an accelerator.
    pub notify: bool,
    /// How long SIGTERM may take before the agent leaves.
    pub stop_timeout: Duration,
    /// How long finished runs, their output and events are kept.
    pub retention: Duration,
}
