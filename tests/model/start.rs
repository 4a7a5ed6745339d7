//! Where a scenario begins.

use crate::config::{Config, Start};
use crate::state::*;

impl State {
    pub fn initial(cfg: &Config) -> State {
        let agent = |i: usize| Agent {
            server: 1,
            ..Agent::new(cfg.longer[i][0])
        };
        let host = |i: usize| Host {
            agents: [(i < cfg.hosts).then(|| agent(i)), None],
            warden: None,
            incarnations: 0,
            memory: 1,
        };
        let f = cfg.faults;
        let run = Run {
            state: RunState::Due,
            address: 0,
            session: 0,
            attempt: 0,
            fence: 0,
        };
        let absent = Run {
            state: RunState::Final,
            ..run
        };
        let mut state = State {
            db: Db {
                server: 1,
                epoch: 1,
                claims_open: true,
                longest: [0; 2],
                nodes: [NO_NODE; ADDRESSES],
                runs: std::array::from_fn(|r| if r < cfg.runs { run } else { absent }),
                sequence: 0,
            },
            standby: None,
            unreplicated: 0,
            hosts: std::array::from_fn(host),
            adrift: [None; ADRIFT],
            locked: [false; RUNS],
            budget: Budget {
                crashes: f.crashes,
                second_agents: f.second_agents,
                lost_replies: f.lost_replies,
                warden_kills: f.warden_kills,
                restarts: f.restarts,
                failovers: f.failovers,
                wall_steps: f.wall_steps,
                hangs: f.hangs,
                refused_starts: f.refused_starts,
                clones: f.clones,
                row_locks: f.row_locks,
            },
            last_attempt: [0; RUNS],
            last_fence: [(0, 0); RUNS],
            wall_stepped: false,
            broken: Broken::default(),
        };
        let open = match cfg.start {
            Start::Empty => 0,
            Start::FirstOpen => 1,
            // An address cannot be open twice.
            Start::AllOpen | Start::Orphan => cfg.hosts,
        };
        for h in 0..open {
            state.start_open(cfg, h, 1);
        }
        if cfg.start == Start::Orphan {
            state.start_open(cfg, 0, 3);
            state.db.runs[0] = Run {
                state: RunState::Running,
                address: 0,
                session: 1,
                attempt: 1,
                fence: 1,
            };
            state.last_attempt[0] = 1;
        }
        state
    }

    fn start_open(&mut self, cfg: &Config, h: usize, session: u8) {
        let incarnation = incarnation(h, 1);
        let host = &mut self.hosts[h];
        host.incarnations = 1;
        host.warden = Some(Warden::new((session, incarnation), 0, cfg.longer[h][0], 0));
        if let Some(agent) = &mut host.agents[0] {
            agent.session = Some((session, incarnation));
        }
        self.db.longest[0] = self.db.longest[0].max(cfg.longer[h][0]);
        self.db.nodes[usize::from(cfg.addresses[h])] = Node {
            session,
            incarnation,
            open: true,
            renewals: 1,
            longer: cfg.longer[h][0],
        };
    }
}
