//! Everything that can happen next, and what it does.

use stateright::{Model, Property};

use crate::config::{Config, Guard};
use crate::properties;
use crate::state::{Agent, Db, GENERATIONS, Op, Phase, Slot, State, Stmt};

pub const RENEWALS: usize = 0;
pub const WORK: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Lane { host: usize, agent: usize, lane: usize },
    Adrift(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time passes everywhere. Nothing else is forced to happen before or after it.
    Tick,
    Send {
        host: usize,
        agent: usize,
        lane: usize,
        stmt: Stmt,
        pick: u8,
    },
    /// The server goes on with a statement; a claim picks this run.
    Server {
        at: At,
        pick: u8,
    },
    /// The server finds the client gone before it begins, or the transaction is rolled back.
    Rollback(usize),
    Deliver {
        host: usize,
        agent: usize,
        lane: usize,
    },
    LoseConnection {
        host: usize,
        agent: usize,
        lane: usize,
    },
    /// It has waited for somebody's lock for as long as a statement may. Nothing is changed, and it may be sent again.
    TimeOut {
        host: usize,
        agent: usize,
        lane: usize,
    },
    /// The machine would not start what this claim won. The warden may be asked again by what is still on its way.
    RefuseStart {
        host: usize,
        agent: usize,
        lane: usize,
    },
    LateStart {
        host: usize,
        run: usize,
    },
    Exit {
        host: usize,
        run: usize,
        ok: bool,
    },
    KillWarden {
        host: usize,
    },
    GuardKills {
        host: usize,
    },
    CrashAgent {
        host: usize,
        agent: usize,
    },
    StartAgent {
        host: usize,
    },
    Adopt {
        host: usize,
        agent: usize,
    },
    Hang {
        host: usize,
    },
    /// The first host is copied with all that it has in memory; connections stay with the original.
    Clone,
    LockRun(usize),
    UnlockRun(usize),
    RestartDatabase,
    Replicate,
    Failover,
    StepWallClock,
}

#[derive(Clone, Debug)]
pub struct Protocol(pub Config);

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::initial(&self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let cfg = &self.0;
        for host in 0..cfg.hosts {
            for agent in 0..GENERATIONS {
                if let Some(a) = &state.hosts[host].agents[agent] {
                    state.agent_actions(cfg, host, agent, a, actions);
                }
            }
            state.host_actions(cfg, host, actions);
        }
        for (i, op) in state.adrift.iter().enumerate() {
            if let Some(op) = op {
                actions.push(Action::Rollback(i));
                state.server_actions(cfg, op, At::Adrift(i), actions);
            }
        }
        state.world_actions(cfg, actions);
        actions.push(Action::Tick);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        last.after(&self.0, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl State {
    pub fn after(&self, cfg: &Config, action: Action) -> Option<State> {
        let mut s = *self;
        s.apply(cfg, action)?;
        s.number_renewals_anew();
        s.forget_fences();
        (s != *self).then_some(s)
    }

    pub fn apply(&mut self, cfg: &Config, action: Action) -> Option<()> {
        match action {
            Action::Tick => self.tick(cfg),
            Action::Send {
                host,
                agent,
                lane,
                stmt,
                pick,
            } => {
                if let Stmt::Open { incarnation: l, .. } = stmt {
                    let host_lives = &mut self.hosts[host].incarnations;
                    if self.hosts[host].agents[agent].is_some_and(|a| a.opening == 0) {
                        *host_lives += 1;
                    }
                    self.agent(host, agent).opening = l;
                }
                let address = cfg.addresses[host];
                let op = Op {
                    stmt,
                    phase: Phase::Sent,
                    address,
                    age: 0,
                    before_warden: false,
                };
                self.agent(host, agent).lanes[lane] = Some(op);
                if cfg.at_once(&stmt) {
                    self.server_lane(cfg, host, agent, lane, pick)?;
                }
            }
            Action::Server {
                at: At::Lane { host, agent, lane },
                pick,
            } => {
                self.server_lane(cfg, host, agent, lane, pick)?;
            }
            Action::Server {
                at: At::Adrift(i),
                pick,
            } => {
                let op = self.adrift[i]?;
                let phase = self.server_step(cfg, &op, pick)?;
                self.adrift[i] = Some(Op { phase, ..op }).filter(|op| !matches!(op.phase, Phase::Done(_)));
            }
            Action::Rollback(i) => self.adrift[i] = None,
            Action::Deliver { host, agent, lane } => self.deliver(cfg, host, agent, lane),
            Action::LoseConnection { host, agent, lane } => {
                self.budget.lost_replies -= 1;
                self.cut(host, agent, lane);
                self.forget_watches(host, agent);
            }
            Action::TimeOut { host, agent, lane } => self.agent(host, agent).lanes[lane] = None,
            Action::RefuseStart { host, agent, lane } => self.refuse_start(cfg, host, agent, lane)?,
            Action::LateStart { host, run } => self.late_start(host, run)?,
            Action::Exit { host, run, ok } => {
                let w = self.hosts[host].warden.as_mut()?;
                let Slot::Live(attempt) = w.slots[run] else {
                    return None;
                };
                w.slots[run] = Slot::Exited { attempt, ok };
            }
            Action::KillWarden { host } => {
                self.budget.warden_kills -= 1;
                let w = self.hosts[host].warden.as_mut()?;
                w.dead = true;
                w.slots = w.slots.map(|s| {
                    if matches!(s, Slot::Live(_)) {
                        s
                    } else {
                        Slot::Empty
                    }
                });
            }
            Action::GuardKills { host } => self.hosts[host].warden = None,
            Action::CrashAgent { host, agent } => {
                self.budget.crashes -= 1;
                self.end_agent(host, agent);
            }
            Action::StartAgent { host } => {
                let server = if cfg.faults.failovers > 0 { 0 } else { 1 };
                let place = usize::from(self.hosts[host].agents[0].is_some());
                self.budget.second_agents -= u8::from(place == 1);
                self.hosts[host].agents[place] = Some(Agent {
                    server,
                    ..Agent::new(cfg.longer[host][1])
                });
            }
            Action::Adopt { host, agent } => self.adopt(host, agent),
            Action::Hang { host } => {
                self.budget.hangs -= 1;
                self.hosts[host].warden.as_mut()?.stuck = true;
            }
            Action::Clone => self.clone_host(),
            Action::LockRun(run) => {
                self.budget.row_locks -= 1;
                self.locked[run] = true;
            }
            Action::UnlockRun(run) => self.locked[run] = false,
            Action::RestartDatabase => {
                self.budget.restarts -= 1;
                self.drop_connections(cfg, true);
            }
            Action::Replicate => self.standby = Some(self.db),
            Action::Failover => {
                self.budget.failovers -= 1;
                let server = self.db.server + 1;
                self.unreplicated = 0;
                let db = if cfg.features.lossy {
                    self.standby.take()?
                } else {
                    self.db
                };
                self.db = Db {
                    server,
                    claims_open: false,
                    ..db
                };
                self.drop_connections(cfg, cfg.has(Guard::StopwatchAnewAfterFailover));
            }
            Action::StepWallClock => {
                self.budget.wall_steps -= 1;
                self.wall_stepped = true;
            }
        }
        Some(())
    }

    pub fn server_lane(
        &mut self,
        cfg: &Config,
        host: usize,
        agent: usize,
        lane: usize,
        pick: u8,
    ) -> Option<()> {
        let op = self.agent(host, agent).lanes[lane]?;
        let phase = self.server_step(cfg, &op, pick)?;
        self.count_unreplicated(cfg, &op, phase)?;
        self.agent(host, agent).lanes[lane] = Some(Op { phase, ..op });
        if let Phase::Done(reply) = phase
            && op.stmt.reply_at_once(reply)
        {
            self.deliver(cfg, host, agent, lane);
        }
        Some(())
    }
}
