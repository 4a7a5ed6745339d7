//! What each statement means under READ COMMITTED, step by step where steps matter.
//!
//! A statement that updates one row found by its key is one step: it waits for the row's lock, reads the
//! newest version, writes, commits; nothing else looks at what it read. Three statements are more: a
//! claim (locks, then commits), expire and close (two statements in one transaction), and a sweep (its
//! snapshot is older than the rows it locks).

use crate::config::{Config, Guard};
use crate::locks::Locks;
use crate::state::{ANY, Db, Held, Node, Op, Phase, RUNS, Reply, RunState, State, Stmt};

impl State {
    /// The next phase of a statement on the server, or `None` while it waits for a lock. A claim has one
    /// next phase per run that it may pick, hence `pick`.
    pub fn server_step(&mut self, cfg: &Config, op: &Op, pick: u8) -> Option<Phase> {
        let locks = Locks::of(self, cfg);
        let done = |reply| Some(Phase::Done(reply));
        match (op.stmt, op.phase) {
            (Stmt::Open { incarnation, longer }, Phase::Sent) => {
                let free = !locks.exclusive[usize::from(op.address)];
                free.then(|| Phase::Done(self.db.open(cfg, op.address, incarnation, longer)))
            }
            (
                Stmt::Renew {
                    session,
                    incarnation,
                    longer,
                    ..
                },
                Phase::Sent,
            ) => {
                let free = !locks.exclusive[usize::from(op.address)];
                free.then(|| Phase::Done(self.db.renew(cfg, op.address, (session, incarnation), longer)))
            }
            (Stmt::Poll { address }, Phase::Sent) => done(self.db.poll(address)),
            (Stmt::Claim { .. }, _) => self.claim_step(cfg, op, pick, locks),
            (Stmt::Expire { .. } | Stmt::Close { .. }, _) => self.end_session_step(cfg, op, locks),
            (Stmt::Sweep, Phase::Sent) => Some(Phase::Snapshot(self.db.orphans())),
            (Stmt::Sweep, Phase::Snapshot(seen)) => {
                let seen = passed_over(cfg, seen, locks)?;
                self.sweep(cfg, seen);
                done(Reply::Updated)
            }
            (Stmt::Finish { held } | Stmt::Retry { held } | Stmt::Release { held }, Phase::Sent)
                if self.locked[usize::from(held.run)] =>
            {
                None
            }
            (Stmt::Finish { held }, Phase::Sent) => done(self.write_attempt(cfg, held, RunState::Final)),
            (Stmt::Retry { held } | Stmt::Release { held }, Phase::Sent) => {
                done(self.write_attempt(cfg, held, RunState::Due))
            }
            (Stmt::OpenEpoch { server, memory }, Phase::Sent) => {
                if self.db.server == server && !self.db.claims_open {
                    let remembered = if cfg.has(Guard::EpochIsRemembered) {
                        memory
                    } else {
                        0
                    };
                    self.db.epoch = self.db.epoch.max(remembered) + 1;
                    self.db.longest = [0, self.db.longest[0]];
                    self.db.claims_open = true;
                }
                done(Reply::Updated)
            }
            _ => None,
        }
    }

    /// Snapshot, `me` and `pick` in one step, since KEY SHARE keeps `me` as it was and the row lock keeps
    /// `pick`; then the commit.
    fn claim_step(&mut self, cfg: &Config, op: &Op, pick: u8, locks: Locks) -> Option<Phase> {
        let Stmt::Claim {
            session,
            incarnation,
            server,
        } = op.stmt
        else {
            return None;
        };
        let r = usize::from(pick);
        match op.phase {
            Phase::Sent => {
                if locks.exclusive[usize::from(op.address)] && cfg.has(Guard::KeyShareInClaim) {
                    return None;
                }
                let due = self.db.runs[r].state == RunState::Due && !locks.run[r];
                if !due || !self.db.may_claim(cfg, op.address, session, incarnation, server) {
                    return Some(Phase::Done(Reply::NoRow));
                }
                Some(Phase::Locked {
                    pick,
                    seen: [0; RUNS],
                })
            }
            Phase::Locked { pick, .. } => {
                let r = usize::from(pick);
                let run = &mut self.db.runs[r];
                self.broken.final_changed |= run.state == RunState::Final;
                run.state = RunState::Running;
                run.address = op.address;
                run.session = session;
                run.attempt += u8::from(cfg.has(Guard::OneAttemptPerClaim));
                run.fence = self.db.epoch;
                let won = Reply::Claimed {
                    run: pick,
                    attempt: run.attempt,
                    fence: run.fence,
                };
                let attempt = run.attempt;
                self.broken.attempt_not_growing |= attempt <= self.last_attempt[r] && !cfg.features.lossy;
                self.last_attempt[r] = self.last_attempt[r].max(attempt);
                if cfg.faults.failovers > 0 {
                    self.db.sequence += 1;
                    let epoch = if cfg.has(Guard::EpochInFence) {
                        self.db.epoch
                    } else {
                        0
                    };
                    let fence = (epoch, self.db.sequence);
                    self.broken.fence_not_growing |= fence <= self.last_fence[r];
                    self.last_fence[r] = fence;
                }
                Some(Phase::Done(won))
            }
            _ => None,
        }
    }

    /// First the node's row, then, with a snapshot of its own, the runs.
    fn end_session_step(&mut self, cfg: &Config, op: &Op, locks: Locks) -> Option<Phase> {
        let (address, session, incarnation, renewals) = match op.stmt {
            Stmt::Expire {
                address,
                session,
                incarnation,
                renewals,
            } => (address, session, incarnation, Some(renewals)),
            Stmt::Close {
                session, incarnation, ..
            } => (op.address, session, incarnation, None),
            _ => return None,
        };
        let a = usize::from(address);
        match op.phase {
            Phase::Sent if !cfg.has(Guard::TwoSnapshotsInExpire) => {
                Some(Phase::Snapshot(self.db.held_by(address, session)))
            }
            Phase::Sent | Phase::Snapshot(_) => {
                // An update that leaves the key alone does not wait for FOR KEY SHARE.
                if locks.exclusive[a] || (locks.key_share[a] && cfg.has(Guard::SessionGrowsAtEnd)) {
                    return None;
                }
                let node = self.db.nodes[a];
                let same = (node.session == session
                    || (!cfg.has(Guard::SessionInExpire) && renewals.is_some()))
                    && (node.incarnation == incarnation || !cfg.has(Guard::IncarnationInExpire))
                    && (node.open || !cfg.has(Guard::OpenInExpire))
                    && renewals.is_none_or(|b| b == node.renewals || !cfg.has(Guard::RenewalsInExpire))
                    && (self.db.claims_open || renewals.is_none() || !cfg.has(Guard::ClaimsOpenInExpire));
                let seen = if let Phase::Snapshot(seen) = op.phase {
                    seen
                } else {
                    [0; RUNS]
                };
                Some(if same {
                    Phase::Locked { pick: 0, seen }
                } else {
                    Phase::Done(Reply::NoRow)
                })
            }
            Phase::Locked { seen, .. } => {
                let ended = self.db.nodes[a].session;
                let held = match renewals {
                    None => self.db.held_by(address, ended),
                    Some(_) if cfg.has(Guard::TwoSnapshotsInExpire) => self.db.held_up_to(address, ended),
                    Some(_) => seen,
                };
                let held = if renewals.is_some() {
                    passed_over(cfg, held, locks)?
                } else if waits(held, locks) {
                    // It compares all that it frees.
                    return None;
                } else {
                    held
                };
                if let Stmt::Close { known, .. } = op.stmt
                    && (0..RUNS)
                        .any(|r| held[r] != 0 && !(known[r] == ANY || known[r] == self.db.runs[r].attempt))
                {
                    return Some(Phase::Done(Reply::NoRow));
                }
                let node = &mut self.db.nodes[a];
                node.session += u8::from(cfg.has(Guard::SessionGrowsAtEnd));
                node.open = false;
                for (r, run) in self.db.runs.iter_mut().enumerate() {
                    if held[r] != 0 && run.state == RunState::Running && run.address == address {
                        run.state = RunState::Due;
                    }
                }
                Some(Phase::Done(Reply::Updated))
            }
            Phase::Done(_) => None,
        }
    }

    /// finish, retry, release: one fence for all of them.
    fn write_attempt(&mut self, cfg: &Config, held: Held, to: RunState) -> Reply {
        let r = usize::from(held.run);
        let run = &mut self.db.runs[r];
        let attempt = run.attempt == held.attempt;
        let address = run.address == held.address;
        let session = run.session == held.session;
        let fence = run.fence == held.fence;
        let own = attempt && address && session && fence;
        let fits = (attempt || !cfg.has(Guard::AttemptInFinish))
            && (address || !cfg.has(Guard::AddressInFinish))
            && (session || !cfg.has(Guard::SessionInFinish))
            && (fence || !cfg.has(Guard::FenceInFinish));
        let running = run.state == RunState::Running;
        if fits && (running || !cfg.has(Guard::StateInFinish)) {
            self.broken.stale_write |= !own || !running;
            self.broken.final_changed |= run.state == RunState::Final;
            run.state = to;
            return Reply::Updated;
        }
        if own && run.state == RunState::Final {
            Reply::AlreadyOwn
        } else {
            Reply::NoRow
        }
    }

    /// The row lock waits, then the condition is checked again on the run's newest version, but with the
    /// node's row of the snapshot (EvalPlanQual).
    fn sweep(&mut self, cfg: &Config, seen: [u8; RUNS]) {
        for r in 0..RUNS {
            let run = &mut self.db.runs[r];
            let (address, session) = (seen[r] >> 5, seen[r] & 31);
            let again = if cfg.has(Guard::LessInSweep) {
                run.session < session
            } else {
                run.session != session
            };
            if seen[r] != 0 && run.state == RunState::Running && run.address == address && again {
                let live = self.db.nodes[usize::from(run.address)];
                self.broken.stale_write |= live.open && live.session == run.session;
                run.state = RunState::Due;
            }
        }
    }
}

fn waits(held: [u8; RUNS], locks: Locks) -> bool {
    (0..RUNS).any(|r| held[r] != 0 && locks.run[r])
}

/// What is left of them without those that somebody has locked; `None` while it waits for these.
fn passed_over(cfg: &Config, held: [u8; RUNS], locks: Locks) -> Option<[u8; RUNS]> {
    let skips = cfg.has(Guard::ExpirySkipsLocked);
    (skips || !waits(held, locks)).then(|| std::array::from_fn(|r| if locks.run[r] { 0 } else { held[r] }))
}

impl Db {
    pub fn open(&mut self, cfg: &Config, address: u8, incarnation: u8, longer: u8) -> Reply {
        let server = self.server;
        let now = self.nodes[usize::from(address)];
        let grows = now.open && cfg.has(Guard::TtlGrowsInSession);
        if !self.claims_open && cfg.has(Guard::ClaimsOpenInOpen) {
            return Reply::Taken;
        }
        let node = &mut self.nodes[usize::from(address)];
        if node.open && node.incarnation != incarnation && cfg.has(Guard::IncarnationInOpen) {
            return Reply::Taken;
        }
        node.session += u8::from(!node.open);
        node.incarnation = incarnation;
        node.longer = longer.max(if grows { node.longer } else { 0 });
        node.open = true;
        node.renewals += 1;
        self.longest[0] = self.longest[0].max(longer);
        Reply::Opened {
            session: node.session,
            server,
        }
    }

    fn renew(&mut self, cfg: &Config, address: u8, (session, incarnation): (u8, u8), longer: u8) -> Reply {
        let node = &mut self.nodes[usize::from(address)];
        let same = (node.session == session || !cfg.has(Guard::SessionInRenew))
            && (node.incarnation == incarnation || !cfg.has(Guard::IncarnationInRenew));
        if !same || !node.open {
            return Reply::NoRow;
        }
        node.renewals += 1;
        let grows = cfg.has(Guard::TtlGrowsInSession);
        node.longer = longer.max(if grows { node.longer } else { 0 });
        self.longest[0] = self.longest[0].max(longer);
        let held = std::array::from_fn(|r| {
            let run = &self.runs[r];
            let mine = run.state == RunState::Running && run.address == address && run.session == session;
            if mine { (run.attempt, run.fence) } else { (0, 0) }
        });
        Reply::Renewed {
            held,
            server: self.server,
            epoch: if self.claims_open { self.epoch } else { 0 },
        }
    }

    fn poll(&self, address: u8) -> Reply {
        let node = self.nodes[usize::from(address)];
        Reply::Polled {
            node,
            server: self.server,
            claims_open: self.claims_open,
            epoch: self.epoch,
            longest: (self.nodes.iter().filter(|n| n.open).map(|n| n.longer))
                .chain(self.longest)
                .max()
                .unwrap_or(0),
        }
    }

    fn may_claim(&self, cfg: &Config, address: u8, session: u8, incarnation: u8, server: u8) -> bool {
        let Node {
            session: s,
            incarnation: l,
            open,
            ..
        } = self.nodes[usize::from(address)];
        let me = (s == session && l == incarnation) || !cfg.has(Guard::SessionInClaim);
        let allowed = open || !cfg.has(Guard::OpenInClaim);
        let server = (self.claims_open || !cfg.has(Guard::ClaimsOpenInClaim))
            && (self.server == server || !cfg.has(Guard::KillBeforeClaimOnNewServer));
        me && allowed && server
    }

    fn held_by(&self, address: u8, session: u8) -> [u8; RUNS] {
        std::array::from_fn(|r| {
            let run = &self.runs[r];
            let held = run.state == RunState::Running && run.address == address && run.session == session;
            if held { session } else { 0 }
        })
    }

    /// With what an earlier expiry passed over: nothing of those sessions lives either.
    fn held_up_to(&self, address: u8, session: u8) -> [u8; RUNS] {
        std::array::from_fn(|r| {
            let run = &self.runs[r];
            let held = run.state == RunState::Running && run.address == address && run.session <= session;
            if held { session } else { 0 }
        })
    }

    /// What a sweep's snapshot matches: per run the address and the session of the node that holds it no
    /// longer.
    fn orphans(&self) -> [u8; RUNS] {
        std::array::from_fn(|r| {
            let run = &self.runs[r];
            let node = self.nodes[usize::from(run.address)].session;
            let orphan = run.state == RunState::Running && run.session < node;
            if orphan { run.address << 5 | node } else { 0 }
        })
    }
}
