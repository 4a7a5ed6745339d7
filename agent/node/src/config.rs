//! The agent's validated configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use farmhand_store::proxy::TrustedProxy;

pub use crate::notify::Outside;
use crate::runlog::RunLogConfig;

/// Where certificate and key lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and what stands between it and its root, in PEM.
    pub cert: PathBuf,
    /// The certificate's private key, in PEM.
    pub key: PathBuf,
}

/// What one agent runs with. Raw flags, environment and file are merged and checked before this exists.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    pub database_url: String,
    /// With another login, for all that touches users' tables; without one the agent's own does.
    pub rows_database_url: Option<String>,
    /// With another login, for definitions that the API changes; without one it changes none.
    pub definitions_database_url: Option<String>,
    /// The machine's name, which people are shown besides the address.
    pub node_name: String,
    /// Key of the node's lease; unique in the farm.
    pub address: String,
    /// Attempts that may run here at once.
    pub slots: u32,
    /// The node's labels, which jobs can ask for, without that of its address, which every node has.
    pub labels: BTreeMap<String, String>,
    /// Where metrics and health are served; nowhere when absent.
    pub listen: Option<SocketAddr>,
    /// Whether the API and the page are served there too, besides metrics and health.
    pub api: bool,
    /// Whether the metrics want a token, as the API does.
    pub metrics_token: bool,
    /// What they are served with; always there when the API can be reached from elsewhere.
    pub tls: Option<TlsFiles>,
    /// Who may sign people in before it.
    pub proxy: Option<TrustedProxy>,
    /// Where wardens, their attempts and the agent's own files are.
    pub state_dir: PathBuf,
    /// From 3 s up.
    pub lease_ttl: Duration,
    /// LISTEN for hints; off behind a transaction pooler. Only an accelerator.
    pub notify: bool,
    /// After SIGTERM, how long what runs may take to end by itself.
    pub stop_timeout: Duration,
    /// How long finished runs, their output and events are kept.
    pub retention: Duration,
    /// Where each line of the runs' output goes besides the files and the database.
    pub run_log: Option<RunLogConfig>,
    /// Says who jobs may run as; without one, the agent's own user alone.
    pub policy: Option<PathBuf>,
    /// The keys by which definitions must be signed to be executed here; without one none need be.
    pub trusted_keys: Option<PathBuf>,
    /// Whom the part that talks to networks becomes; without one it stays who started it.
    pub user: Option<String>,
    /// How people are told of what happens.
    pub outside: Outside,
}

/// What a running agent takes over when it reads its configuration again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tunable {
    pub slots: u32,
    pub labels: BTreeMap<String, String>,
    pub stop_timeout: Duration,
    pub retention: Duration,
}

impl AgentConfig {
    /// The settings that may change while the agent runs.
    pub(crate) fn tunable(&self) -> Tunable {
        Tunable {
            slots: self.slots,
            labels: self.labels.clone(),
            stop_timeout: self.stop_timeout,
            retention: self.retention,
        }
    }

    /// Between two snapshots of the farm for its metrics: whole seconds that divide a minute. Who wants to notice within a short
    /// lease that a node is lost wants to see it as soon.
    pub(crate) fn snapshot_every(&self) -> Duration {
        let most = (self.lease_ttl.as_secs() / 3).min(15);
        Duration::from_secs((1..=most).rfind(|seconds| 60 % seconds == 0).unwrap_or(1))
    }

    /// Keys that differ in `new` and are taken over only by a restart.
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let differs = [
            ("database_url", self.database_url != new.database_url),
            (
                "rows_database_url",
                self.rows_database_url != new.rows_database_url,
            ),
            (
                "definitions_database_url",
                self.definitions_database_url != new.definitions_database_url,
            ),
            ("node_name", self.node_name != new.node_name),
            ("address", self.address != new.address),
            ("listen", self.listen != new.listen),
            ("api", self.api != new.api),
            ("metrics_token", self.metrics_token != new.metrics_token),
            ("tls_cert", self.tls != new.tls),
            ("trusted_proxy", self.proxy != new.proxy),
            (
                "state_dir",
                std::path::absolute(&new.state_dir).is_ok_and(|dir| self.state_dir != dir),
            ),
            ("lease_ttl", self.lease_ttl != new.lease_ttl),
            ("notify", self.notify != new.notify),
            ("run_log", self.run_log != new.run_log),
            ("user", self.user != new.user),
            ("policy", self.policy != new.policy),
            ("trusted_keys", self.trusted_keys != new.trusted_keys),
            ("secrets_dir", self.outside.secrets_dir != new.outside.secrets_dir),
            ("smtp", self.outside.smtp != new.outside.smtp),
            ("ping", self.outside.ping != new.outside.ping),
        ];
        differs
            .into_iter()
            .filter_map(|(key, differs)| differs.then_some(key))
            .collect()
    }
}
