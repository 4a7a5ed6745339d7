//! What an agent makes of a reply. Agent and warden share a machine and a socket: what one does at the
//! other is one step, for the step may come arbitrarily late and the kernel's timer does not wait for it.

use crate::config::{Config, Guard};
use crate::state::{Agent, Held, Host, Op, Phase, RUNS, Reply, RunState, Slot, State, Stmt, Warden, Watch};

impl State {
    pub fn agent(&mut self, h: usize, g: usize) -> &mut Agent {
        self.hosts[h].agents[g]
            .as_mut()
            .expect("the action names a live agent")
    }

    /// A newer agent talks to the warden; this one leaves and touches nothing.
    pub fn superseded(&self, cfg: &Config, h: usize, g: usize) -> bool {
        let obeys = |w: &Warden| w.dead || usize::from(w.obeys) == g;
        let host = &self.hosts[h];
        cfg.has(Guard::OlderAgentCutOff) && !host.warden.iter().all(obeys)
    }

    pub fn deliver(&mut self, cfg: &Config, h: usize, g: usize, lane: usize) {
        let op = self.agent(h, g).lanes[lane]
            .take()
            .expect("the action names an operation");
        let Phase::Done(reply) = op.phase else {
            unreachable!("only a finished statement has a reply")
        };
        if self.superseded(cfg, h, g) {
            return self.end_agent(h, g);
        }
        match op.stmt {
            Stmt::Open { incarnation, .. } => self.opened(cfg, h, g, &op, incarnation, reply),
            Stmt::Renew { .. } => self.renewed(cfg, h, g, &op, reply),
            Stmt::Poll { address } => self.polled(cfg, h, g, &op, address, reply),
            Stmt::Close { .. } => {
                self.agent(h, g).session = None;
                self.hosts[h].warden = self.hosts[h].warden.filter(|w| !w.tree_empty());
            }
            Stmt::Claim { .. } => self.claimed(cfg, h, g, &op, reply),
            Stmt::Finish { held } => {
                if reply != Reply::NoRow || !cfg.has(Guard::ZeroRowFinishIsRead) {
                    let run = &self.db.runs[usize::from(held.run)];
                    let own = (run.attempt, run.fence) == (held.attempt, held.fence);
                    let true_report = run.state == RunState::Final && own;
                    self.broken.false_report |= !true_report && !cfg.features.lossy;
                }
                self.forget(h, held);
            }
            Stmt::Retry { held } => self.forget(h, held),
            Stmt::Release { held } => {
                let pending = &mut self.agent(h, g).release[usize::from(held.run)];
                if *pending == Some(held) {
                    *pending = None;
                }
            }
            Stmt::Expire { .. } => self.agent(h, g).watch = None,
            Stmt::OpenEpoch { .. } => self.agent(h, g).server_watch = None,
            Stmt::Sweep => {}
        }
    }

    fn opened(&mut self, cfg: &Config, h: usize, g: usize, op: &Op, incarnation: u8, reply: Reply) {
        let Reply::Opened { session, server } = reply else {
            return;
        };
        let agent = self.agent(h, g);
        let longer = agent.longer;
        let late = op.age >= cfg.lease_ticks + longer && cfg.has(Guard::LateOpenClosed);
        agent.opening = 0;
        agent.session = Some((session, incarnation));
        agent.server = server;
        if !late {
            let from_sending = cfg.has(Guard::DeadlineFromSending) && cfg.has(Guard::LateOpenClosed);
            let age = if from_sending { op.age } else { 0 };
            self.hosts[h].warden = Some(Warden::new((session, incarnation), age, longer, generation(g)));
        }
    }

    fn renewed(&mut self, cfg: &Config, h: usize, g: usize, op: &Op, reply: Reply) {
        let Stmt::Renew {
            session,
            incarnation,
            known,
            longer,
        } = op.stmt
        else {
            return;
        };
        if self.agent(h, g).session != Some((session, incarnation)) {
            return;
        }
        let age = if cfg.has(Guard::DeadlineFromSending) {
            op.age
        } else {
            0
        };
        let (held, server, epoch) = match reply {
            Reply::Renewed { held, server, epoch } => (held, server, epoch),
            _ if cfg.has(Guard::ZeroRowRenewalKills) => {
                // One that is stuck is gone only when its guard has acted.
                self.hosts[h].warden = self.hosts[h].warden.filter(|w| w.stuck);
                let agent = self.agent(h, g);
                (agent.session, agent.unconfirmed) = (None, 0);
                return;
            }
            _ => {
                self.hosts[h].extend(session, age, longer);
                return;
            }
        };
        let keeps = cfg.features.keep_session;
        if self.hosts[h].warden.is_none() && keeps && age < cfg.lease_ticks + longer {
            self.hosts[h].warden = Some(Warden::new((session, incarnation), age, longer, generation(g)));
            // An older agent cannot know; it is cut off instead.
            for op in self.agent(h, g).lanes.iter_mut().flatten() {
                op.before_warden |= matches!(op.stmt, Stmt::Claim { .. });
            }
        }
        if self.held_by_a_copy(cfg, h, g, held) {
            return;
        }
        let stuck = self.hosts[h].stuck();
        if !stuck {
            self.reconcile(cfg, h, g, (session, incarnation), held, known);
        }
        let agent = self.agent(h, g);
        // Nothing is claimed before the epoch is open and remembered.
        agent.server = if epoch == 0 { 0 } else { server };
        agent.unconfirmed = if stuck { (agent.unconfirmed + 1).min(2) } else { 0 };
        self.hosts[h].extend(session, age, longer);
        self.hosts[h].memory = self.hosts[h].memory.max(epoch);
    }

    /// Held but not running is given back; running but not held is killed.
    fn reconcile(
        &mut self,
        cfg: &Config,
        h: usize,
        g: usize,
        own: (u8, u8),
        held: [(u8, u8); RUNS],
        known: u8,
    ) {
        for r in 0..RUNS {
            let warden = self.hosts[h].warden.as_mut();
            if let Some(w) = warden {
                let slot = w.slots[r];
                let mut has = match slot {
                    Slot::Empty => (0, 0),
                    Slot::Live(n) | Slot::Exited { attempt: n, .. } => (n, w.fences[r]),
                };
                if w.session != own.0 {
                    continue;
                }
                if has == held[r] {
                    continue;
                }
                let unheld = matches!(slot, Slot::Live(_)) && known & 1 << r != 0;
                if unheld && cfg.has(Guard::UnheldIsKilled) {
                    w.slots[r] = Slot::Empty;
                    self.hosts[h].bar(r, has.0);
                    has = (0, 0);
                }
                // Nothing held; or another attempt of the number that is here, for later.
                if held[r].0 <= has.0 {
                    continue;
                }
            }
            // A second sighting, after the claim's answer, tells whose it is.
            if cfg.faults.clones > 0 && self.agent(h, g).claims() {
                continue;
            }
            if cfg.has(Guard::TombstoneBeforeRelease) {
                self.hosts[h].bar(r, held[r].0);
            }
            if held[r].0 != 0 {
                let address = cfg.addresses[h];
                let run = u8::try_from(r).expect("few runs");
                self.agent(h, g).release[r] = Some(Held {
                    run,
                    attempt: held[r].0,
                    fence: held[r].1,
                    address,
                    session: own.0,
                });
            }
        }
    }

    fn polled(&mut self, cfg: &Config, h: usize, g: usize, op: &Op, address: u8, reply: Reply) {
        let Reply::Polled {
            node,
            server,
            claims_open,
            epoch,
            longest,
        } = reply
        else {
            return;
        };
        let age = if cfg.has(Guard::StopwatchFromReceipt) {
            0
        } else {
            op.age
        };
        let agent = self.agent(h, g);
        let seen = Watch {
            address,
            session: node.session,
            incarnation: node.incarnation,
            renewals: node.renewals,
            longer: node.longer,
            age,
        };
        agent.watch = match agent.watch {
            _ if !node.open => None,
            Some(before)
                if before
                    == (Watch {
                        age: before.age,
                        ..seen
                    }) =>
            {
                Some(before)
            }
            _ => Some(seen),
        };
        let known = if claims_open && epoch > agent.epoch {
            agent.longer
        } else {
            agent.longest
        };
        agent.longest = known.max(longest).max(node.longer);
        agent.epoch = if claims_open {
            epoch.max(agent.epoch)
        } else {
            agent.epoch
        };
        agent.server_watch = match agent.server_watch {
            _ if claims_open => None,
            Some((t, age)) if t == server => Some((t, age)),
            _ => Some((server, 0)),
        };
    }

    fn claimed(&mut self, cfg: &Config, h: usize, g: usize, op: &Op, reply: Reply) {
        let Stmt::Claim {
            session, incarnation, ..
        } = op.stmt
        else {
            return;
        };
        let Reply::Claimed { run, attempt, fence } = reply else {
            return;
        };
        let r = usize::from(run);
        let held = Held {
            run,
            attempt,
            fence,
            address: op.address,
            session,
        };
        let host = &mut self.hosts[h];
        if host.warden.is_none() && !cfg.has(Guard::LateClaimReleased) {
            host.warden = Some(Warden::new(
                (session, incarnation),
                op.age.min(cfg.lease_ticks - 1),
                0,
                generation(g),
            ));
        }
        let serves = |w: &Warden| {
            !w.dead
                && ((w.session == session && w.incarnation == incarnation)
                    || !cfg.has(Guard::WardenServesOneSession))
        };
        let stale = op.before_warden && cfg.has(Guard::FreshWardenDropsClaims);
        let Some(main) = host.warden.filter(|w| serves(w) && !stale) else {
            self.agent(h, g).release[r] = Some(held);
            return;
        };
        let Some(w) = host.warden.as_mut() else { return };
        // One that is here under the same number ends first; then a renewal gives this one back.
        let same_number = cfg.has(Guard::SameNumberEndsFirst)
            && matches!(w.slots[r], Slot::Live(n) | Slot::Exited { attempt: n, .. }
                if n == attempt && w.fences[r] != fence);
        if main.barred[r] < attempt && !same_number && !main.stuck {
            self.broken.two_live |= matches!(w.slots[r], Slot::Live(_));
            (w.slots[r], w.fences[r]) = (Slot::Live(attempt), fence);
        }
    }

    /// The attempt is recorded, or its run moved on; it may never start here again.
    fn forget(&mut self, h: usize, held: Held) {
        let r = usize::from(held.run);
        if let Some(w) = &mut self.hosts[h].warden {
            let same_fence = w.fences[r] == held.fence;
            if matches!(w.slots[r], Slot::Exited { attempt, .. } if attempt == held.attempt && same_fence) {
                w.slots[r] = Slot::Empty;
            }
        }
        self.hosts[h].bar(r, held.attempt);
    }

    /// The process ends; what it sent may still be executed.
    pub fn end_agent(&mut self, h: usize, g: usize) {
        for lane in 0..2 {
            self.cut(h, g, lane);
        }
        let host = &mut self.hosts[h];
        host.agents[g] = None;
        if g == 0 && host.agents[1].is_some() {
            host.agents.swap(0, 1);
            if let Some(w) = &mut host.warden {
                w.obeys = 0;
            }
        }
    }

    /// The connection is gone: no reply will come, but what was sent may be executed at any later time.
    pub fn cut(&mut self, h: usize, g: usize, lane: usize) {
        let Some(op) = self.agent(h, g).lanes[lane].take() else {
            return;
        };
        let lost = matches!(op.phase, Phase::Done(_)) || matches!(op.stmt, Stmt::Poll { .. });
        if !lost && let Some(place) = self.adrift.iter_mut().find(|p| p.is_none()) {
            *place = Some(Op {
                age: 0,
                before_warden: false,
                ..op
            });
        }
    }
}

impl Host {
    /// Attempts of this run up to this one never start here.
    pub fn bar(&mut self, run: usize, attempt: u8) {
        if let Some(w) = &mut self.warden {
            w.barred[run] = w.barred[run].max(attempt);
        }
    }

    pub fn stuck(&self) -> bool {
        self.warden.is_some_and(|w| w.stuck)
    }

    /// A confirmed renewal of `session` that was sent `age` ticks ago. A timer is only ever put off.
    fn extend(&mut self, session: u8, age: u8, longer: u8) {
        let obeys =
            |w: &&mut Warden| w.session == session && !w.dead && !w.stuck && longer + w.age >= w.longer + age;
        if let Some(w) = self.warden.as_mut().filter(obeys) {
            (w.age, w.longer) = (age, longer);
        }
    }
}

fn generation(g: usize) -> u8 {
    u8::try_from(g).expect("two generations")
}
