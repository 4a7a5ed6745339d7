//! How a farm shall be.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Agent, Database, Farm, TTL, local};
use crate::pg::TestDb;
use crate::proxy::Proxy;
use crate::witness::Witness;

/// See [`Farm::new`].
pub struct FarmBuilder {
    agents: usize,
    ttl: Duration,
    slots: u32,
    jobs: String,
    database: Option<Database>,
    url: Option<String>,
    proxied: bool,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    policy: Option<String>,
    dir: PathBuf,
}

impl Default for FarmBuilder {
    fn default() -> Self {
        Self {
            agents: 1,
            ttl: TTL,
            slots: 4,
            jobs: String::new(),
            database: None,
            url: None,
            proxied: false,
            arguments: Vec::new(),
            env: Vec::new(),
            policy: None,
            dir: std::env::var_os("FARMHAND_BENCH_DIR").map_or_else(|| "/tmp".into(), PathBuf::from),
        }
    }
}

impl FarmBuilder {
    /// n1, n2 … nN.
    #[must_use]
    pub fn agents(mut self, agents: usize) -> Self {
        self.agents = agents;
        self
    }

    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Of each agent.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Job definitions, as [`Farm::apply`] takes them; applied before the agents start.
    #[must_use]
    pub fn jobs(mut self, toml: &str) -> Self {
        self.jobs.push_str(toml);
        self
    }

    /// Instead of a database of its own on the shared server.
    #[must_use]
    pub fn on(mut self, database: impl Into<Database>) -> Self {
        self.database = Some(database.into());
        self
    }

    /// The agents' URL, when it is not the database's own.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Each agent reaches the database through a proxy of its own.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// Further arguments of every agent.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|a| (*a).to_owned()));
        self
    }

    /// Lets jobs run as whom these rules name; without, as the agents' own user alone.
    #[must_use]
    pub fn policy(mut self, rules: &str) -> Self {
        self.policy = Some(rules.to_owned());
        self
    }

    /// Everything of the farm lies in a directory of its own in this one.
    #[must_use]
    pub fn dir(mut self, dir: &str) -> Self {
        self.dir = dir.into();
        self
    }

    /// In every agent's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Starts the agents; each of them has its session when this returns.
    pub async fn start(self) -> Farm {
        let mut farm = self.prepare().await;
        farm.start_agents().await;
        farm
    }

    /// Everything but starting the agents.
    pub async fn prepare(self) -> Farm {
        let database = match self.database {
            Some(database) => database,
            None => TestDb::new().await.into(),
        };
        // Short, because of the sockets in it; passable, because jobs may run as other users.
        let dir = tempfile::Builder::new()
            .prefix("fh-farm-")
            .tempdir_in(&self.dir)
            .expect("a temporary directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let witness = Witness::new(&dir.path().join("witness"));
        std::fs::File::create(witness.path()).expect("the witness file");
        std::fs::set_permissions(witness.path(), std::fs::Permissions::from_mode(0o666)).expect("its mode");
        let mut agents = Vec::new();
        for number in 1..=self.agents {
            let proxy = if self.proxied {
                Some(Proxy::start(local(database.port())).await)
            } else {
                None
            };
            let url = match (&proxy, &self.url) {
                (Some(proxy), _) => database.url_through(proxy.port()),
                (None, Some(url)) => url.clone(),
                (None, None) => database.agent_url(),
            };
            let mut arguments = vec![
                "--lease-ttl".to_owned(),
                format!("{}ms", self.ttl.as_millis()),
                "--slots".to_owned(),
                self.slots.to_string(),
            ];
            if let Some(rules) = &self.policy {
                let file = dir.path().join("policy.toml");
                std::fs::write(&file, rules).expect("a policy");
                arguments.extend(["--policy".to_owned(), file.display().to_string()]);
            }
            arguments.extend(self.arguments.iter().cloned());
            agents.push(Agent::new(
                dir.path(),
                &format!("n{number}"),
                url,
                proxy,
                arguments,
                self.env.clone(),
            ));
        }
        let sql = database.client().await;
        let farm = Farm {
            agents,
            sql,
            witness,
            dir,
            database,
        };
        if !self.jobs.is_empty() {
            farm.apply(&self.jobs);
        }
        farm
    }
}
