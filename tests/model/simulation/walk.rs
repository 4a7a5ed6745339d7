//! One farm, from a seed.

use std::time::Duration;

use farmhand_model::Chance;
use jiff::Timestamp;
use stateright::Model;

use crate::actions::{Action, At, Protocol};
use crate::config::{Config, Faults, Features, Guard, Start, tight_ticks};
use crate::coverage::Coverage;
use crate::locks::Locks;
use crate::properties;
use crate::runs::Jobs;
use crate::size::{HOSTS, RUNS};
use crate::state::{Op, Phase, State, Stmt};

const STEPS: u64 = 1_500;
const AIMED_STEPS: u64 = 150;
/// Of a lease, so that ticks and the protocol's own ages agree.
const TICKS_PER_LEASE: u32 = 3;
/// As in `config::tight_ticks`.
const TICK: Duration = Duration::from_millis(3300 / TICKS_PER_LEASE as u64);

/// Makes a farm one in which a certain danger is likely.
pub type Aim = fn(&mut Config);

/// A farm of this name is asked whether its runs can still end, though a warden hangs.
pub const STUCK: &str = "stuck warden";

pub struct Walk {
    model: Protocol,
    state: State,
    jobs: Jobs,
    replicated: Option<Jobs>,
    chance: Chance,
    seed: u64,
    ticks: u64,
    steps: u64,
    begun: Timestamp,
    path: Vec<String>,
    /// Aimed at one danger: short, with more faults.
    aimed: bool,
}

impl Walk {
    pub fn new(seed: u64, removed: Option<Guard>) -> Self {
        Self::aimed(seed, removed, None)
    }

    /// A farm as `aim` has made it.
    pub fn aimed(seed: u64, removed: Option<Guard>, aim: Option<Aim>) -> Self {
        let mut chance = Chance::new(seed);
        let mut whole = config(seed, &mut chance);
        if let Some(aim) = aim {
            aim(&mut whole);
        }
        let cfg = removed.map_or(whole, |guard| whole.without(guard));
        let begun = Timestamp::from_second(1_700_000_000 + (seed % 60) as i64).expect("a time");
        Self {
            state: State::initial(&cfg),
            jobs: Jobs::new(begun, &mut chance),
            replicated: None,
            model: Protocol(cfg),
            chance,
            seed,
            ticks: 0,
            steps: 0,
            begun,
            path: Vec::new(),
            aimed: aim.is_some(),
        }
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn simulated(&self) -> Duration {
        TICK * u32::try_from(self.ticks).expect("an hour or so")
    }

    /// Walks until nothing more can happen within the model's numbers.
    ///
    /// # Errors
    /// The property that does not hold, with the last steps.
    pub fn go(&mut self, covered: &mut Coverage) -> Result<(), String> {
        let properties = properties::all();
        self.jobs.begin(&self.state.db);
        let mut actions = Vec::new();
        let steps = if self.aimed { AIMED_STEPS } else { STEPS };
        while self.steps < steps && self.has_room() {
            self.steps += 1;
            self.around(covered);
            actions.clear();
            self.model.actions(&self.state, &mut actions);
            let action = self.pick(&actions);
            let Some(after) = self.state.after(&self.model.0, action) else {
                continue;
            };
            let before = std::mem::replace(&mut self.state, after);
            self.path.push(format!("{action:?}"));
            self.observe(&before, action, covered);
            self.jobs.check(&self.state.db);
            for property in &properties {
                // Whether it can still end is a walk of its own, and one in which no warden is stuck for ever.
                let asked = if self.model.0.faults.hangs == 0 {
                    self.steps.is_multiple_of(97)
                } else {
                    self.model.0.name == STUCK && self.steps.is_multiple_of(29)
                };
                if property.name == properties::STUCK && !asked {
                    continue;
                }
                if !(property.condition)(&self.model, &self.state) {
                    return Err(self.story(property.name));
                }
            }
        }
        self.jobs.check_instants();
        Ok(())
    }

    fn story(&self, property: &str) -> String {
        let tail = self.path.len().saturating_sub(80);
        format!(
            "seed {} ({}): not so: {property}\n{}\n{:?}",
            self.seed,
            self.model.0.name,
            self.path[tail..].join("\n"),
            self.state
        )
    }

    /// The model counts in bytes.
    fn has_room(&self) -> bool {
        let sessions = self.state.db.nodes.iter().all(|n| n.session < 28);
        sessions && self.state.db.runs.iter().all(|r| r.attempt < 200)
    }

    /// Schedules and people, who are no part of the model.
    fn around(&mut self, covered: &mut Coverage) {
        let now = self.begun + self.simulated();
        let row = self.chance.below(RUNS as u64) as usize;
        // A row that a claim has locked makes everybody else wait.
        if Locks::of(&self.state, &self.model.0).run[row] {
            return;
        }
        if self.chance.percent(6) {
            self.jobs.fire(row, &mut self.state.db, now, covered);
        } else if self.chance.percent(1) {
            self.jobs.cancel(row, &mut self.state.db, covered);
        }
    }

    /// Mostly what moves things on; now and then a fault.
    fn pick(&mut self, actions: &[Action]) -> Action {
        for _ in 0..20 {
            let action = self.chance.of(actions);
            let percent = match action {
                // As often as anything else that may be, so that some of it is late.
                Action::Tick => 35,
                Action::Send {
                    stmt: Stmt::Renew { .. },
                    ..
                } => 60,
                Action::Send { .. } | Action::Server { .. } | Action::Deliver { .. } => 100,
                Action::Exit { .. } => 40,
                Action::GuardKills { .. } | Action::StartAgent { .. } | Action::Adopt { .. } => 60,
                Action::Rollback(_) => 20,
                Action::LoseConnection { .. } | Action::RefuseStart { .. } => 10,
                _ if self.aimed => 20,
                _ => 3,
            };
            if self.chance.percent(percent) {
                return action;
            }
        }
        Action::Tick
    }

    fn observe(&mut self, before: &State, action: Action, covered: &mut Coverage) {
        self.ticks += u64::from(action == Action::Tick);
        match action {
            Action::Replicate => self.replicated = Some(self.jobs.clone()),
            // What the standby lacks is undone, above as below.
            Action::Failover if self.model.0.features.lossy => {
                self.jobs = self.replicated.take().expect("a standby has what was replicated");
            }
            _ => {}
        }
        let Some((stmt, op)) = executed(&self.model.0, before, action) else {
            covered.count(name(&action));
            return;
        };
        // What the server answered: asked again on the state as it was, because a reply may be delivered at once.
        let mut again = *before;
        let pick = match action {
            Action::Send { pick, .. } | Action::Server { pick, .. } => pick,
            _ => 0,
        };
        if let Some(Phase::Done(reply)) = again.server_step(&self.model.0, &op, pick) {
            covered.statement(&stmt, &reply);
        }
        for row in 0..RUNS {
            let was = before.db.runs[row];
            self.jobs
                .follow(row, &was, &mut self.state.db, &stmt, &mut self.chance, covered);
        }
    }
}

/// The statement that the server went on with in this step.
fn executed(cfg: &Config, before: &State, action: Action) -> Option<(Stmt, Op)> {
    let op = match action {
        Action::Send { stmt, host, .. } if cfg.at_once(&stmt) => Op {
            stmt,
            phase: Phase::Sent,
            address: cfg.addresses[host],
            age: 0,
            before_warden: false,
        },
        Action::Server {
            at: At::Lane { host, agent, lane },
            ..
        } => before.hosts[host].agents[agent]?.lanes[lane]?,
        Action::Server {
            at: At::Adrift(i), ..
        } => before.adrift[i]?,
        _ => return None,
    };
    Some((op.stmt, op))
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Tick => "tick",
        Action::Send { .. } => "send",
        Action::Server { .. } => "server",
        Action::Rollback(_) => "rollback",
        Action::Deliver { .. } => "deliver",
        Action::LoseConnection { .. } => "connection lost",
        Action::RefuseStart { .. } => "start refused",
        Action::LateStart { .. } => "late start",
        Action::TimeOut { .. } => "time out",
        Action::LockRun(_) => "run locked",
        Action::UnlockRun(_) => "run unlocked",
        Action::Exit { ok: true, .. } => "exit 0",
        Action::Exit { ok: false, .. } => "exit 1",
        Action::KillWarden { .. } => "warden killed",
        Action::GuardKills { .. } => "guard kills",
        Action::CrashAgent { .. } => "agent crashes",
        Action::StartAgent { .. } => "agent starts",
        Action::Adopt { .. } => "adopt",
        Action::Hang { .. } => "hang",
        Action::Clone => "clone",
        Action::RestartDatabase => "database restarts",
        Action::Replicate => "replicate",
        Action::Failover => "failover",
        Action::StepWallClock => "wall clock steps",
    }
}

/// A farm of four hosts; what it has to bear differs.
fn config(seed: u64, chance: &mut Chance) -> Config {
    let (lease_ticks, wait_ticks) = tight_ticks(TICKS_PER_LEASE);
    let lossy = seed.is_multiple_of(5);
    let start = match seed % 7 {
        0 => Start::Orphan,
        2 => Start::Empty,
        _ => Start::AllOpen,
    };
    let addresses = if seed.is_multiple_of(6) && start != Start::AllOpen && start != Start::Orphan {
        [0, 0, 1, 2]
    } else {
        [0, 1, 2, 3]
    };
    // Leases of several lengths, and of another length after a restart.
    let longer = std::array::from_fn(|h| {
        let longer = |n: u64| ((n + h as u64) % 3) as u8;
        [longer(seed / 7), longer(seed / 11)]
    });
    Config {
        name: if lossy { "lossy" } else { "sound" },
        removed: [None; 3],
        addresses,
        hosts: HOSTS,
        runs: RUNS,
        lease_ticks,
        wait_ticks,
        longer,
        max_attempts: 200,
        max_session: [28; HOSTS],
        max_incarnations: 14,
        max_lost_commits: 3,
        faults: Faults {
            crashes: chance.below(5) as u8,
            second_agents: chance.below(3) as u8,
            lost_replies: chance.below(8) as u8,
            warden_kills: chance.below(4) as u8,
            restarts: chance.below(2) as u8,
            failovers: chance.below(2) as u8,
            wall_steps: chance.below(2) as u8,
            hangs: chance.below(2) as u8,
            refused_starts: chance.below(3) as u8,
            clones: 0,
            row_locks: 0,
        },
        features: Features {
            failures: true,
            sweeps: true,
            delays: chance.percent(70),
            lossy,
            keep_session: chance.percent(50),
            watchers: 0b1111,
        },
        start,
    }
}
