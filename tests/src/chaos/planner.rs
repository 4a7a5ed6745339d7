//! Chooses what happens next, from a seed: who may be hit, by what, and for how long.

use super::plan::{Act, Event, Fault, Shape, Way};
use farmhand_model::Chance;

/// For so long the same agents may be hit; one of the others is left alone for some of these.
const EPOCH_MS: u64 = 20_000;

/// For an agent to get its feet on the ground again.
const BACK_MS: u64 = 700;

/// The faults of a seed, in order.
pub fn events(seed: u64, shape: &Shape) -> Vec<Event> {
    if shape.patroni > 0 {
        return on_patroni(seed, shape.patroni);
    }
    let mut planner = Planner::new(seed, shape);
    let mut events = Vec::new();
    // Time for the farm to settle, and a first look without faults.
    let (mut at, mut epoch) = (3_000, u64::MAX);
    let mean = 3_600_000 / shape.faults_per_hour.max(1);
    while at < shape.lasts_ms {
        if at / EPOCH_MS != epoch {
            epoch = at / EPOCH_MS;
            planner.begin_epoch(at);
        }
        if let Some(event) = planner.event(at) {
            events.push(event);
        }
        at += planner.chance.between(mean / 4, mean + mean * 3 / 4);
    }
    events
}

/// So many failovers and switchovers, and after each fourth one a restart and a failover that is refused. On a busy machine
/// they take longer than planned, and follow each other without a pause.
fn on_patroni(seed: u64, moves: u64) -> Vec<Event> {
    let mut chance = Chance::new(seed);
    let mut events = Vec::new();
    let mut at = 3_000;
    for number in 0..moves {
        let (fault, takes) = match number % 4 {
            0 => (Fault::Switchover, 15_000),
            1 => (Fault::Failover, 40_000),
            2 => (Fault::PrimaryCut, 40_000),
            _ => (Fault::KeeperStopped, 40_000),
        };
        let mut happens = vec![(fault, takes)];
        if number % 4 == 3 {
            happens.extend([(Fault::DatabaseRestart, 10_000), (Fault::FailoverRefused, 10_000)]);
        }
        for (fault, takes) in happens {
            events.push(event(at, chance.between(0, 1_500), fault));
            at += takes;
        }
    }
    events
}

/// Nobody is left who could end a double-forked process: the reaper is gone or stopped, and the warden ends too, killed, or
/// by the reaper's death, or by the end of a lease that a stopped agent does not renew; and no agent is there to see it.
fn is_declared(own: Act, warden: Act, reaper: Act) -> bool {
    reaper != Act::Nothing && (warden != Act::Nothing || own != Act::Nothing)
}

/// Until when something else must not be done to an agent.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    processes: u64,
    network: u64,
    disk: u64,
}

/// What is known of the farm as it will be.
#[derive(Clone)]
struct State {
    busy: Vec<Busy>,
    leases: Vec<u64>,
    zones: Vec<char>,
    database_until: u64,
    table_until: u64,
}

struct Planner {
    chance: Chance,
    state: State,
    victims: Vec<usize>,
    database_may: bool,
    shape: Shape,
}

impl Planner {
    fn new(seed: u64, shape: &Shape) -> Self {
        let agents = 0..shape.agents;
        Self {
            chance: Chance::new(seed),
            state: State {
                busy: vec![Busy::default(); shape.agents],
                leases: agents.clone().map(|a| shape.lease(a)).collect(),
                zones: agents.map(zone).collect(),
                database_until: 5_000,
                table_until: 0,
            },
            victims: Vec::new(),
            database_may: false,
            shape: shape.clone(),
        }
    }

    fn begin_epoch(&mut self, at: u64) {
        self.victims = (0..self.shape.agents)
            .filter(|a| !self.is_spared(*a, at, at))
            .collect();
        self.database_may = self.shape.only.is_some() || (at / EPOCH_MS) % 3 == 1;
    }

    /// Left alone at some time in between, so that there is somebody to take over.
    fn is_spared(&self, agent: usize, from: u64, to: u64) -> bool {
        // Longer than the longest lease and its takeover.
        let epochs = if self.shape.longest_lease() > 3 { 6 } else { 3 };
        let anchor =
            |at: u64| usize::try_from(at / EPOCH_MS / epochs).expect("a small number") % self.shape.agents;
        Some(agent) == self.shape.spared || agent == anchor(from) || agent == anchor(to)
    }

    fn event(&mut self, at: u64) -> Option<Event> {
        let Some(only) = self.shape.only.clone() else {
            return self.draw(at);
        };
        (0..500).find_map(|_| {
            let before = self.state.clone();
            let drawn = self.draw(at).filter(|event| event.fault.kind() == only);
            if drawn.is_none() {
                self.state = before;
            }
            drawn
        })
    }

    fn draw(&mut self, at: u64) -> Option<Event> {
        if self.database_may
            && at >= self.state.database_until
            && self.chance.percent(15)
            && let Some(event) = self.on_the_database(at)
        {
            return Some(event);
        }
        if at >= self.state.table_until && self.chance.percent(4) {
            let lasts_ms = self.chance.between(1_000, 12_000);
            self.state.table_until = at + lasts_ms + 3_000;
            // The longest is longer than a transaction that writes to a table may last.
            let milliseconds = self.chance.of(&[50, 250, 1_500, 8_000]);
            return Some(event(at, lasts_ms, Fault::SlowTable { milliseconds }));
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
            self.state.database_until = at + lasts_ms + rest;
        }
        Some(event(at, lasts_ms, fault))
    }

    /// Mostly short, now and then longer than a short lease.
    fn duration(&mut self) -> u64 {
        if self.chance.percent(60) {
            self.chance.between(50, 1_500)
        } else {
            self.chance.between(1_500, 8_000)
        }
    }

    /// Shorter or longer than a lease of so many seconds.
    fn around_a_lease(&mut self, seconds: u64) -> u64 {
        self.chance.between(500, seconds * 1_200 + 3_000)
    }

    fn on_an_agent(&mut self, at: u64) -> Option<Event> {
        let agent = self.chance.of(&self.victims);
        let busy = self.state.busy[agent];
        let lasts_ms = self.duration();
        let until = at + lasts_ms + BACK_MS;
        match self.chance.below(100) {
            0..40 if at >= busy.processes => {
                let (own, warden, reaper) = self.acts();
                self.state.busy[agent].processes = until;
                let declared = is_declared(own, warden, reaper);
                let fault = Fault::Processes {
                    agent,
                    own,
                    warden,
                    reaper,
                };
                Some(Event {
                    declared,
                    ..event(at, lasts_ms, fault)
                })
            }
            40..53 if at >= busy.network => {
                self.state.busy[agent].network = until;
                let way = self.chance.of(&[Way::In, Way::Out, Way::Both]);
                Some(event(at, lasts_ms, Fault::Drop { agent, way }))
            }
            // Only every other agent has a proxy.
            53..63 if at >= busy.network && agent % 2 == 1 => {
                self.state.busy[agent].network = at + 300;
                let fault = Fault::Cut {
                    agent,
                    after_bytes: self.chance.between(1, 4_000),
                    to_server: self.chance.percent(50),
                };
                Some(event(at, 0, fault))
            }
            63..67 if at >= busy.disk => {
                let seconds = self.chance.of(&[-86_400, -3_600, -7, 7, 3_600, 86_400]);
                Some(event(at, lasts_ms, Fault::Clock { agent, seconds }))
            }
            67..71 if at >= busy.disk => {
                self.state.busy[agent].disk = until;
                Some(event(at, lasts_ms, Fault::DiskFull { agent }))
            }
            71..79 => self.other_settings(agent, at),
            // Some tries, because all of them must be free.
            79..84 => (0..6).find_map(|_| self.rack(at)),
            84..90 => {
                let lasts_ms = self.around_a_lease(self.state.leases[agent]);
                let kill = self.chance.percent(50);
                self.alone_for(agent, at, lasts_ms, Fault::Frozen { agent, kill })
            }
            90..93 => self.alone_for(agent, at, lasts_ms + 1_000, Fault::NoForks { agent }),
            93..96 => self.other_labels(agent, at),
            96..100 => {
                let lasts_ms = self.chance.between(6_000, 16_000);
                let address = self.chance.percent(60);
                self.alone_for(agent, at, lasts_ms, Fault::Rename { agent, address })
            }
            _ => None,
        }
    }

    /// Its processes are hit by nothing else meanwhile.
    fn alone_for(&mut self, agent: usize, at: u64, lasts_ms: u64, fault: Fault) -> Option<Event> {
        let until = at + lasts_ms + BACK_MS;
        if at < self.state.busy[agent].processes || self.is_spared(agent, at, until) {
            return None;
        }
        self.state.busy[agent].processes = until;
        Some(event(at, lasts_ms, fault))
    }

    fn other_settings(&mut self, agent: usize, at: u64) -> Option<Event> {
        let others: Vec<u64> = (self.shape.leases.iter().copied())
            .filter(|l| *l != self.state.leases[agent])
            .collect();
        if others.is_empty() {
            return None;
        }
        let fault = Fault::Lease {
            agent,
            seconds: self.chance.of(&others),
            wardens: self.chance.percent(40),
        };
        let lasts_ms = self.chance.between(0, 3_000);
        let event = self.alone_for(agent, at, lasts_ms, fault)?;
        if let Fault::Lease { seconds, .. } = fault {
            self.state.leases[agent] = seconds;
        }
        Some(event)
    }

    fn rack(&mut self, at: u64) -> Option<Event> {
        let first = self.chance.of(&self.victims);
        let size = usize::try_from(self.chance.between(2, 5)).expect("a few");
        let members = first..first + size;
        if members.end > self.shape.agents {
            return None;
        }
        let leases = members.clone().map(|a| self.state.leases[a]);
        let lease = if self.chance.percent(50) {
            leases.min()
        } else {
            leases.max()
        };
        let (takeover_ms, lasts_ms) = (lease? * 1_100 + 2_500, self.around_a_lease(lease?));
        let lasts_ms = if self.chance.percent(50) {
            takeover_ms
        } else {
            lasts_ms
        };
        let until = at + lasts_ms + BACK_MS;
        let free = |a: usize| at >= self.state.busy[a].processes && !self.is_spared(a, at, until);
        if !members.clone().all(free) {
            return None;
        }
        // Nothing else, so that the promise of their takeover can be judged.
        let until = Busy {
            processes: until,
            network: until,
            disk: until,
        };
        self.state.busy[first..first + size].fill(until);
        Some(event(at, lasts_ms, Fault::Rack { first, size }))
    }

    /// Somebody always has the zone that a job asks for.
    fn other_labels(&mut self, agent: usize, at: u64) -> Option<Event> {
        let own = self.state.zones[agent];
        let alone = self.state.zones.iter().filter(|z| **z == own).count() == 1;
        if alone || at < self.state.busy[agent].processes {
            return None;
        }
        let zone = if own == 'a' { 'b' } else { 'a' };
        self.state.zones[agent] = zone;
        Some(event(at, 0, Fault::Labels { agent, zone }))
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

/// The zone in which an agent first starts.
pub fn zone(agent: usize) -> char {
    if agent.is_multiple_of(2) { 'a' } else { 'b' }
}

fn event(at_ms: u64, lasts_ms: u64, fault: Fault) -> Event {
    Event {
        at_ms,
        lasts_ms,
        fault,
        declared: false,
    }
}
