//! Time, failures, and what the actions lean on.

use crate::config::{Config, Guard};
use crate::state::*;

impl State {
    /// What a failover may lose is bounded.
    pub fn count_unreplicated(&mut self, cfg: &Config, op: &Op, phase: Phase) -> Option<()> {
        let read = matches!(op.stmt, Stmt::Poll { .. }) || matches!(phase, Phase::Done(Reply::NoRow));
        if self.standby.is_some() && matches!(phase, Phase::Done(_)) && !read {
            self.unreplicated += 1;
        }
        (self.unreplicated <= cfg.max_lost_commits).then_some(())
    }

    pub fn adopt(&mut self, host: usize, agent: usize) {
        let h = &mut self.hosts[host];
        let mut session = None;
        if let Some(w) = &mut h.warden {
            w.obeys = u8::from(agent == 1);
            session = Some((w.session, w.incarnation));
        }
        self.agent(host, agent).session = session;
    }

    pub fn forget_watches(&mut self, host: usize, agent: usize) {
        let a = self.agent(host, agent);
        a.watch = None;
        a.server_watch = None;
    }

    pub fn drop_connections(&mut self, _cfg: &Config, watches_too: bool) {
        self.adrift = [None; 2];
        for host in 0..HOSTS {
            for agent in 0..GENERATIONS {
                if let Some(a) = &mut self.hosts[host].agents[agent] {
                    a.lanes = [None; 2];
                    a.server_watch = None;
                    if watches_too {
                        self.forget_watches(host, agent);
                    }
                }
            }
        }
    }

    pub fn tick(&mut self, cfg: &Config) {
        let end = cfg.horizon();
        let older = |age: u8| (age + 1).min(end);
        for host in &mut self.hosts {
            for a in host.agents.iter_mut().flatten() {
                for op in a.lanes.iter_mut().flatten().filter(|op| cfg.age_matters(op)) {
                    op.age = older(op.age);
                }
                a.watch
                    .iter_mut()
                    .for_each(|w| w.age = older(w.age).min(cfg.wait_ticks + cfg.longest()));
                a.server_watch
                    .iter_mut()
                    .for_each(|t| t.1 = older(t.1).min(cfg.server_ticks()));
            }
            if let Some(w) = &mut host.warden {
                w.age = older(w.age);
            }
            // The agent is told nothing of it: its guard may be stuck then, too.
            if let Some(w) = host
                .warden
                .as_mut()
                .filter(|w| w.stuck && w.age >= cfg.lease_ticks + w.longer)
                && cfg.has(Guard::FenceEndsTheTree)
            {
                w.slots = [Slot::Empty; RUNS];
            }
            if cfg.has(Guard::KernelTimer) {
                host.warden = host
                    .warden
                    .filter(|w| w.stuck || w.age < cfg.lease_ticks + w.longer);
            }
        }
    }

    /// What an empty slot's last attempt had for a fence is nobody's business.
    pub fn forget_fences(&mut self) {
        for host in &mut self.hosts {
            if let Some(w) = &mut host.warden {
                for r in 0..RUNS {
                    if w.slots[r] == Slot::Empty {
                        w.fences[r] = 0;
                    }
                }
            }
        }
    }

    /// Only whether renewals are equal matters; counting on would make the same state look new.
    pub fn number_renewals_anew(&mut self) {
        let mut s = *self;
        for address in 0..ADDRESSES {
            let mut used: [u8; 64] = [0; 64];
            let mut n = 0;
            s.renewals(address, |renewals| {
                if !used[..n].contains(renewals) {
                    used[n] = *renewals;
                    n += 1;
                }
            });
            used[..n].sort_unstable();
            self.renewals(address, |renewals| {
                let rank = used[..n].iter().position(|u| u == renewals).unwrap_or(0);
                *renewals = rank as u8;
            });
        }
    }

    pub fn renewals(&mut self, address: usize, mut each: impl FnMut(&mut u8)) {
        each(&mut self.db.nodes[address].renewals);
        if let Some(db) = &mut self.standby {
            each(&mut db.nodes[address].renewals);
        }
        let agents = self.hosts.iter_mut().flat_map(|h| h.agents.iter_mut().flatten());
        for a in agents {
            a.watch
                .iter_mut()
                .filter(|w| usize::from(w.address) == address)
                .for_each(|w| each(&mut w.renewals));
            for op in a.lanes.iter_mut().flatten() {
                op.renewals(address, &mut each);
            }
        }
        for op in self.adrift.iter_mut().flatten() {
            op.renewals(address, &mut each);
        }
    }
}

impl Op {
    pub fn renewals(&mut self, address: usize, each: &mut impl FnMut(&mut u8)) {
        match &mut self.stmt {
            Stmt::Expire {
                address: a, renewals, ..
            } if usize::from(*a) == address => each(renewals),
            Stmt::Poll { address: a } if usize::from(*a) == address => {
                if let Phase::Done(Reply::Polled { node, .. }) = &mut self.phase {
                    each(&mut node.renewals);
                }
            }
            _ => {}
        }
    }
}

impl Stmt {
    /// A reply whose delay could only keep its lane busy is delivered with the commit. That it may be lost
    /// instead is a step of its own, before the commit.
    pub fn reply_at_once(&self, reply: Reply) -> bool {
        match self {
            Stmt::Open { .. } | Stmt::Renew { .. } => false,
            Stmt::Claim { .. } => reply == Reply::NoRow,
            _ => true,
        }
    }
}

impl crate::state::Run {
    pub fn claimable(&self, cfg: &Config) -> bool {
        self.state == RunState::Due && self.attempt < cfg.max_attempts
    }
}

impl Config {
    /// A statement whose late arrival is the same as its being sent later is executed when it is sent.
    pub fn at_once(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Poll { .. } => self.has(Guard::StopwatchFromReceipt),
            Stmt::Sweep => true,
            Stmt::Expire { .. } | Stmt::Close { .. } | Stmt::Claim { .. } => !self.features.delays,
            _ => false,
        }
    }

    /// Ages that nobody asks for would only multiply states.
    pub fn age_matters(&self, op: &Op) -> bool {
        match op.stmt {
            Stmt::Open { .. } | Stmt::Renew { .. } => true,
            Stmt::Poll { .. } => !self.has(Guard::StopwatchFromReceipt),
            Stmt::Claim { .. } => !self.has(Guard::LateClaimReleased),
            _ => false,
        }
    }
}

impl crate::state::Node {
    pub fn ended(&self, session: u8) -> bool {
        session < self.session || (session == self.session && !self.open)
    }
}

impl Db {
    pub fn has_orphan(&self) -> bool {
        (0..RUNS).any(|r| self.is_orphan(r))
    }

    pub fn is_orphan(&self, r: usize) -> bool {
        let run = &self.runs[r];
        run.state == RunState::Running && self.nodes[usize::from(run.address)].ended(run.session)
    }
}

impl Host {
    pub fn known(&self) -> u8 {
        let live = |r: &usize| self.live(*r) > 0;
        (0..RUNS).filter(live).map(|r| 1 << r).sum()
    }
}

impl crate::state::Warden {
    /// The attempts that it runs or has run and that are not recorded.
    pub fn attempts(&self, address: u8) -> impl Iterator<Item = Held> {
        let (slots, fences, session) = (self.slots, self.fences, self.session);
        (0..RUNS).filter_map(move |r| match slots[r] {
            Slot::Empty => None,
            Slot::Live(attempt) | Slot::Exited { attempt, .. } => Some(Held {
                run: u8::try_from(r).expect("few runs"),
                attempt,
                fence: fences[r],
                address,
                session,
            }),
        })
    }
}
