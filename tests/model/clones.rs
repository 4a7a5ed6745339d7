//! A machine that is copied while its agent runs: two agents with one session, of which neither knows the other.

use crate::actions::WORK;
use crate::config::{Config, Guard};
use crate::state::{ANY, Agent, HOSTS, Host, RUNS, Slot, State, Stmt};

impl State {
    pub fn clone_host(&mut self) {
        self.budget.clones -= 1;
        let mut copy = Host {
            incarnations: self.hosts[HOSTS - 1].incarnations,
            ..self.hosts[0]
        };
        for agent in copy.agents.iter_mut().flatten() {
            agent.lanes = [None; 2];
        }
        self.hosts[HOSTS - 1] = copy;
    }

    /// The attempts that this agent knows to be its own.
    pub fn may_close(&self, cfg: &Config, h: usize, a: &Agent) -> [u8; RUNS] {
        if !cfg.has(Guard::CloseNamesItsOwn) {
            return [ANY; RUNS];
        }
        std::array::from_fn(|r| self.knows(h, a, r).unwrap_or(0))
    }

    fn knows(&self, h: usize, a: &Agent, r: usize) -> Option<u8> {
        let here = self.hosts[h].warden.and_then(|w| match w.slots[r] {
            Slot::Live(attempt) | Slot::Exited { attempt, .. } => Some(attempt),
            Slot::Empty => None,
        });
        here.or(a.release[r].map(|held| held.attempt))
    }

    /// Something is held that this agent did not ask for: it leaves the session to lapse.
    pub fn held_by_a_copy(&mut self, cfg: &Config, h: usize, g: usize, held: [(u8, u8); RUNS]) -> bool {
        if cfg.faults.clones == 0 || !cfg.has(Guard::OnlyOwnGivenBack) {
            return false;
        }
        let agent = *self.agent(h, g);
        let foreign =
            (0..RUNS).any(|r| held[r].0 != 0 && !agent.claims() && self.knows(h, &agent, r).is_none());
        if foreign {
            self.hosts[h].warden = None;
            self.agent(h, g).session = None;
        }
        foreign
    }
}

impl Agent {
    /// A claim of its own is under way.
    pub fn claims(&self) -> bool {
        self.lanes[WORK].is_some_and(|op| matches!(op.stmt, Stmt::Claim { .. }))
    }
}
