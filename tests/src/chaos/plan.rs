//! Which faults happen when: a pure function of a seed and the farm's shape.

use serde::{Deserialize, Serialize};

use super::random::Chance;

/// For so long the same agents may be hit; one of the others is left alone for three of these.
const EPOCH_MS: u64 = 20_000;

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
}

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
        guard: Act,
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
    DatabaseRestart,
    DatabaseCrash,
    DatabaseFrozen,
    Failover,
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
            | Fault::DiskFull { agent } => Some(agent),
            _ => None,
        }
    }

    pub fn hits_the_database(&self) -> bool {
        matches!(
            self,
            Fault::DatabaseRestart | Fault::DatabaseCrash | Fault::DatabaseFrozen | Fault::Failover
        )
    }

    /// For counting.
    pub fn name(&self) -> String {
        match self {
            Fault::Processes {
                own, warden, guard, ..
            } => {
                let named = [("agent", own), ("warden", warden), ("guard", guard)];
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
            Fault::DatabaseRestart => "database restarted".to_owned(),
            Fault::DatabaseCrash => "database killed".to_owned(),
            Fault::DatabaseFrozen => "database frozen".to_owned(),
            Fault::Failover => "failover".to_owned(),
            Fault::Snapshot => "snapshot held open".to_owned(),
            Fault::Listeners => "idle listeners".to_owned(),
        }
    }
}

/// Nobody is left who could end a double-forked process: the guard is gone or stopped, and the warden ends too, killed, or
/// by the guard's death, or by the end of a lease that a stopped agent does not renew; and no agent is there to see it.
fn is_declared(own: Act, warden: Act, guard: Act) -> bool {
    guard != Act::Nothing && (warden != Act::Nothing || own != Act::Nothing)
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, shape: Shape) -> Self {
        let mut planner = Planner {
            chance: Chance::new(seed),
            busy: vec![Busy::default(); shape.agents],
            database_until: 5_000,
            anchor: 0,
            victims: Vec::new(),
            database_may: false,
            shape: shape.clone(),
        };
        let mut events = Vec::new();
        // Time for the farm to settle, and a first look without faults.
        let (mut at, mut epoch) = (3_000, u64::MAX);
        let mean = 3_600_000 / shape.faults_per_hour.max(1);
        while at < shape.lasts_ms {
            if at / EPOCH_MS != epoch {
                epoch = at / EPOCH_MS;
                planner.begin_epoch(epoch);
            }
            if let Some(event) = planner.event(at) {
                events.push(event);
            }
            at += planner.chance.between(mean / 4, mean + mean * 3 / 4);
        }
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

/// Until when something else must not be done to an agent.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    processes: u64,
    network: u64,
    disk: u64,
}

struct Planner {
    chance: Chance,
    busy: Vec<Busy>,
    database_until: u64,
    /// Left alone, so that there is somebody to take over.
    anchor: usize,
    victims: Vec<usize>,
    database_may: bool,
    shape: Shape,
}

impl Planner {
    fn begin_epoch(&mut self, epoch: u64) {
        let agents = self.shape.agents;
        self.anchor = usize::try_from(epoch / 3).expect("a small number") % agents;
        self.victims = (0..agents)
            .filter(|a| *a != self.anchor && Some(*a) != self.shape.spared)
            .collect();
        self.database_may = epoch % 3 == 1;
    }

    fn event(&mut self, at: u64) -> Option<Event> {
        if self.database_may
            && at >= self.database_until
            && self.chance.percent(15)
            && let Some(event) = self.on_the_database(at)
        {
            return Some(event);
        }
        // Some tries, because whoever is picked may be busy.
        (0..8).find_map(|_| self.on_an_agent(at))
    }

    fn on_the_database(&mut self, at: u64) -> Option<Event> {
        let (fault, lasts_ms, rest) = match self.chance.below(10) {
            0..2 => (Fault::DatabaseRestart, self.chance.between(0, 2_000), 3_000),
            2..4 => (Fault::DatabaseCrash, self.chance.between(0, 3_000), 4_000),
            4..6 => (Fault::DatabaseFrozen, self.chance.between(300, 5_000), 3_000),
            6..8 if self.shape.failovers => (Fault::Failover, self.chance.between(0, 1_500), 20_000),
            8 if self.shape.listeners > 0 => (Fault::Listeners, self.chance.between(3_000, 8_000), 3_000),
            _ => (Fault::Snapshot, self.chance.between(5_000, 15_000), 0),
        };
        let holds = matches!(fault, Fault::Snapshot);
        if !holds {
            self.database_until = at + lasts_ms + rest;
        }
        Some(event(at, lasts_ms, fault))
    }

    /// Mostly short, now and then longer than a lease.
    fn duration(&mut self) -> u64 {
        if self.chance.percent(60) {
            self.chance.between(50, 1_500)
        } else {
            self.chance.between(1_500, 8_000)
        }
    }

    fn on_an_agent(&mut self, at: u64) -> Option<Event> {
        let agent = self.chance.of(&self.victims);
        let busy = self.busy[agent];
        let lasts_ms = self.duration();
        // For the agent to get its feet on the ground again.
        let until = at + lasts_ms + 700;
        match self.chance.below(100) {
            0..55 if at >= busy.processes => {
                let (own, warden, guard) = self.acts();
                self.busy[agent].processes = until;
                let declared = is_declared(own, warden, guard);
                let fault = Fault::Processes {
                    agent,
                    own,
                    warden,
                    guard,
                };
                Some(Event {
                    declared,
                    ..event(at, lasts_ms, fault)
                })
            }
            55..75 if at >= busy.network => {
                self.busy[agent].network = until;
                let way = self.chance.of(&[Way::In, Way::Out, Way::Both]);
                Some(event(at, lasts_ms, Fault::Drop { agent, way }))
            }
            // Only every other agent has a proxy.
            75..90 if at >= busy.network && agent % 2 == 1 => {
                self.busy[agent].network = at + 300;
                let fault = Fault::Cut {
                    agent,
                    after_bytes: self.chance.between(1, 4_000),
                    to_server: self.chance.percent(50),
                };
                Some(event(at, 0, fault))
            }
            90..95 => {
                let seconds = self.chance.of(&[-86_400, -3_600, -7, 7, 3_600, 86_400]);
                Some(event(at, lasts_ms, Fault::Clock { agent, seconds }))
            }
            95..100 if at >= busy.disk => {
                self.busy[agent].disk = until;
                Some(event(at, lasts_ms, Fault::DiskFull { agent }))
            }
            _ => None,
        }
    }

    fn acts(&mut self) -> (Act, Act, Act) {
        let all = [Act::Nothing, Act::Kill, Act::Stop];
        let wants_declared = self.chance.percent(self.shape.declared_percent);
        loop {
            let acts = (self.chance.of(&all), self.chance.of(&all), self.chance.of(&all));
            let nothing = acts == (Act::Nothing, Act::Nothing, Act::Nothing);
            if !nothing && is_declared(acts.0, acts.1, acts.2) == wants_declared {
                return acts;
            }
        }
    }
}

fn event(at_ms: u64, lasts_ms: u64, fault: Fault) -> Event {
    Event {
        at_ms,
        lasts_ms,
        fault,
        declared: false,
    }
}
