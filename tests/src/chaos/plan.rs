//! Which faults happen when: a pure function of a seed and the farm's shape.

use serde::{Deserialize, Serialize};

use super::planner;

/// The farm, and how much is done to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// 3 to 7.
    pub agents: usize,
    /// Milliseconds during which faults begin.
    pub lasts_ms: u64,
    pub faults_per_hour: u64,
    /// The agents reach the database through PgBouncer in transaction mode.
    pub pgbouncer: bool,
    /// Failovers to the synchronous standby.
    pub failovers: bool,
    /// Sessions that only listen, when the plan opens some.
    pub listeners: usize,
    /// Faults in a declared window, in percent of those that hit processes.
    pub declared_percent: u64,
    /// This one is left alone for the whole time, so that what grows in it is seen.
    #[serde(default)]
    pub spared: Option<usize>,
    /// Seconds; the agents take them in turn. Empty: 3 for each.
    #[serde(default)]
    pub leases: Vec<u64>,
    /// Nothing but faults of this kind, as [`Fault::kind`] says it.
    #[serde(default)]
    pub only: Option<String>,
    /// Three servers that Patroni keeps, and so many failovers and switchovers, instead of a pair and other faults.
    #[serde(default)]
    pub patroni: u64,
}

impl Shape {
    /// The lease with which an agent first starts, in seconds.
    pub fn lease(&self, agent: usize) -> u64 {
        let turn = agent % self.leases.len().max(1);
        self.leases.get(turn).copied().unwrap_or(SHORTEST_LEASE)
    }

    pub fn shortest_lease(&self) -> u64 {
        self.leases.iter().copied().min().unwrap_or(SHORTEST_LEASE)
    }

    pub fn longest_lease(&self) -> u64 {
        self.leases.iter().copied().max().unwrap_or(SHORTEST_LEASE)
    }
}

const SHORTEST_LEASE: u64 = 3;

/// What happens to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Nothing,
    Kill,
    Stop,
}

/// Which packets of an agent are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    In,
    Out,
    Both,
}

/// Agents are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fault {
    /// kill -9 and SIGSTOP; after `lasts_ms` the stopped go on and a dead agent is started again.
    Processes {
        agent: usize,
        own: Act,
        warden: Act,
        reaper: Act,
    },
    Drop {
        agent: usize,
        way: Way,
    },
    /// The connections of an agent end after this many further bytes of one direction.
    Cut {
        agent: usize,
        after_bytes: u64,
        to_server: bool,
    },
    /// CLOCK_REALTIME of an agent, by seconds.
    Clock {
        agent: usize,
        seconds: i64,
    },
    DiskFull {
        agent: usize,
    },
    /// The agent is killed, with its wardens or without, and comes back with a lease of so many seconds.
    Lease {
        agent: usize,
        seconds: u64,
        wardens: bool,
    },
    /// Agents and wardens of neighbours in address order die at once, and come back together.
    Rack {
        first: usize,
        size: usize,
    },
    /// Its wardens are in uninterruptible sleep; the agent may be killed, and comes back halfway.
    Frozen {
        agent: usize,
        kill: bool,
    },
    /// Nothing of it can fork: the limit of its pids cgroup is reached.
    NoForks {
        agent: usize,
    },
    /// The value of its label `zone` from now on.
    Labels {
        agent: usize,
        zone: char,
    },
    /// It comes back under another name: of its node alone, or also under another address, as after a reboot. Then back again.
    Rename {
        agent: usize,
        address: bool,
    },
    /// Each write to the user's table takes so much longer.
    SlowTable {
        milliseconds: u64,
    },
    DatabaseRestart,
    DatabaseCrash,
    DatabaseFrozen,
    Failover,
    /// Patroni's, as are the next three: the primary is asked to step back for its standby.
    Switchover,
    /// The primary's network is gone until another one leads.
    PrimaryCut,
    /// Nothing keeps the primary any more, so that another one leads beside it.
    KeeperStopped,
    /// To a replica that lags too far.
    FailoverRefused,
    Snapshot,
    Listeners,
}

/// One fault: from `at_ms` after the beginning, for `lasts_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    pub at_ms: u64,
    pub lasts_ms: u64,
    #[serde(flatten)]
    pub fault: Fault,
    /// It opens a window in which two attempts of a run without PID isolation may live.
    #[serde(default)]
    pub declared: bool,
}

/// What a run of the suite does; written down as JSON, and read back for a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub shape: Shape,
    pub events: Vec<Event>,
}

impl Fault {
    pub fn agent(&self) -> Option<usize> {
        match *self {
            Fault::Processes { agent, .. }
            | Fault::Drop { agent, .. }
            | Fault::Cut { agent, .. }
            | Fault::Clock { agent, .. }
            | Fault::DiskFull { agent }
            | Fault::Lease { agent, .. }
            | Fault::Frozen { agent, .. }
            | Fault::NoForks { agent }
            | Fault::Labels { agent, .. }
            | Fault::Rename { agent, .. } => Some(agent),
            _ => None,
        }
    }

    /// The word by which a plan in JSON calls it.
    ///
    /// # Panics
    /// Never: each kind has its tag.
    pub fn kind(&self) -> String {
        let value = serde_json::to_value(self).expect("plain data");
        value["kind"].as_str().expect("a tag").to_owned()
    }

    pub fn hits_the_database(&self) -> bool {
        matches!(
            self,
            Fault::DatabaseRestart
                | Fault::DatabaseCrash
                | Fault::DatabaseFrozen
                | Fault::Failover
                | Fault::Switchover
                | Fault::PrimaryCut
                | Fault::KeeperStopped
                | Fault::FailoverRefused
        )
    }

    /// Another server may answer than before, or the same one after a start: claims wait until no unknown lease can be left.
    pub fn starts_a_server(&self) -> bool {
        self.hits_the_database() && *self != Fault::DatabaseFrozen
    }

    /// For counting.
    pub fn name(&self) -> String {
        match self {
            Fault::Processes {
                own, warden, reaper, ..
            } => {
                let named = [("agent", own), ("warden", warden), ("reaper", reaper)];
                let words = named.iter().filter(|(_, act)| **act != Act::Nothing);
                let words: Vec<String> = words
                    .map(|(who, act)| format!("{act:?} {who}").to_lowercase())
                    .collect();
                words.join(", ")
            }
            Fault::Drop { way, .. } => format!("packets dropped: {way:?}").to_lowercase(),
            Fault::Cut { .. } => "connection cut".to_owned(),
            Fault::Clock { .. } => "wall clock stepped".to_owned(),
            Fault::DiskFull { .. } => "disk full".to_owned(),
            Fault::Lease { wardens, .. } => with("other lease", "and wardens killed", *wardens),
            Fault::Rack { .. } => "rack dead".to_owned(),
            Fault::Frozen { kill, .. } => with("wardens frozen", "and kill agent", *kill),
            Fault::NoForks { .. } => "no forks".to_owned(),
            Fault::Labels { .. } => "other labels".to_owned(),
            Fault::Rename { address: false, .. } => "other node name, kill agent".to_owned(),
            Fault::Rename { address: true, .. } => "other address, kill agent".to_owned(),
            Fault::SlowTable { .. } => "slow table".to_owned(),
            Fault::DatabaseRestart => "database restarted".to_owned(),
            Fault::DatabaseCrash => "database killed".to_owned(),
            Fault::DatabaseFrozen => "database frozen".to_owned(),
            Fault::Failover => "failover".to_owned(),
            Fault::Switchover => "switchover".to_owned(),
            Fault::PrimaryCut => "primary cut off".to_owned(),
            Fault::KeeperStopped => "patroni stopped".to_owned(),
            Fault::FailoverRefused => "failover to a lagging replica refused".to_owned(),
            Fault::Snapshot => "snapshot held open".to_owned(),
            Fault::Listeners => "idle listeners".to_owned(),
        }
    }
}

fn with(what: &str, more: &str, is: bool) -> String {
    if is {
        format!("{what} {more}")
    } else {
        what.to_owned()
    }
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, shape: Shape) -> Self {
        let events = planner::events(seed, &shape);
        Self { seed, shape, events }
    }

    /// # Errors
    /// What is wrong with the text.
    pub fn parse(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain data")
    }
}
