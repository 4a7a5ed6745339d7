//! A machine that is copied while its agent runs: two agents with one session, of which neither knows the other.

use crate::actions::WORK;
use crate::config::{Config, Guard};
use crate::state::{Agent, HOSTS, Host, RUNS, Slot, State, Stmt};

impl State {
    pub fn clone_host(&mut self) {
        self.budget.clones -= 1;
        let mut copy = Host {
            lives: self.hosts[HOSTS - 1].lives,
            ..self.hosts[0]
        };
        for agent in copy.agents.iter_mut().flatten() {
            agent.lanes = [None; 2];
        }
        self.hosts[HOSTS - 1] = copy;
    }

    /// One bit for each run that this agent may have claimed. No claim is without an answer where no reply is lost.
    pub fn may_have_claimed(&self, cfg: &Config, h: usize, a: &Agent) -> u8 {
        if cfg.faults.clones == 0 || !cfg.has(Guard::CloseNamesItsOwn) {
            return u8::MAX;
        }
        let of = |r: &usize| self.asked_for(h, a, *r);
        (0..RUNS).filter(of).map(|r| 1 << r).sum()
    }

    pub fn asked_for(&self, h: usize, a: &Agent, r: usize) -> bool {
        let host = &self.hosts[h];
        let has = host.warden.is_some_and(|w| w.slots[r] != Slot::Empty);
        a.claims() || has || a.release[r].is_some()
    }

    /// Something is held that this agent did not ask for: it leaves the session to lapse.
    pub fn held_by_a_copy(&mut self, cfg: &Config, h: usize, g: usize, held: [(u8, u8); RUNS]) -> bool {
        if cfg.faults.clones == 0 || !cfg.has(Guard::OnlyOwnGivenBack) {
            return false;
        }
        let agent = *self.agent(h, g);
        let foreign = (0..RUNS).any(|r| held[r].0 != 0 && !self.asked_for(h, &agent, r));
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
