//! What may happen next.

use crate::actions::*;
use crate::config::{Config, Guard};
use crate::state::*;

impl State {
    pub fn agent_actions(&self, cfg: &Config, host: usize, agent: usize, a: &Agent, out: &mut Vec<Action>) {
        for lane in [RENEWALS, WORK] {
            match &a.lanes[lane] {
                None => {
                    let mut send = |stmt| {
                        if matches!(stmt, Stmt::Claim { .. }) && cfg.at_once(&stmt) {
                            let claimable = (0..cfg.runs).filter(|r| self.db.runs[*r].claimable(cfg));
                            out.extend(claimable.map(|r| Action::Send {
                                host,
                                agent,
                                lane,
                                stmt,
                                pick: r as u8,
                            }));
                        } else {
                            out.push(Action::Send {
                                host,
                                agent,
                                lane,
                                stmt,
                                pick: 0,
                            });
                        }
                    };
                    if lane == RENEWALS {
                        self.renewal_lane(cfg, host, agent, a, &mut send);
                    } else {
                        self.work_lane(cfg, host, agent, a, &mut send);
                    }
                    a.release
                        .iter()
                        .flatten()
                        .filter(|held| !self.locked[usize::from(held.run)])
                        .for_each(|held| send(Stmt::Release { held: *held }));
                }
                Some(op) => {
                    if matches!(op.phase, Phase::Done(_)) {
                        out.push(Action::Deliver { host, agent, lane });
                        let claimed = matches!(op.phase, Phase::Done(Reply::Claimed { .. }));
                        if host == 0 && self.budget.refused_starts > 0 && claimed {
                            out.push(Action::RefuseStart { host, agent, lane });
                        }
                    }
                    self.server_actions(cfg, op, At::Lane { host, agent, lane }, out);
                    if self.waits_for_a_row(cfg, op) {
                        out.push(Action::TimeOut { host, agent, lane });
                    }
                    let room = self.adrift.iter().any(Option::is_none);
                    if self.budget.lost_replies > 0 && room {
                        out.push(Action::LoseConnection { host, agent, lane });
                    }
                }
            }
        }
        let newest = agent == 1 || self.hosts[host].agents[1].is_none();
        if a.session.is_none() && newest && self.hosts[host].warden.is_some_and(|w| !w.dead && !w.stuck) {
            out.push(Action::Adopt { host, agent });
        }
        if self.budget.crashes > 0 && self.adrift.iter().all(Option::is_none) {
            out.push(Action::CrashAgent { host, agent });
        }
    }

    /// Whether it waits, and somebody has locked a run.
    pub fn waits_for_a_row(&self, cfg: &Config, op: &Op) -> bool {
        let done = matches!(op.phase, Phase::Done(_));
        !done && self.locked.contains(&true) && { *self }.server_step(cfg, op, 0).is_none()
    }

    pub fn renewal_lane(&self, cfg: &Config, h: usize, g: usize, a: &Agent, send: &mut impl FnMut(Stmt)) {
        let host = &self.hosts[h];
        let own = cfg.addresses[h];
        if let Some((session, incarnation)) = a.session {
            match host.warden {
                // A renewal at age 0 changes nothing that a later one would not, unless the lease has another length.
                Some(w) if !w.dead => {
                    let proven = a.unconfirmed < 2 || !cfg.has(Guard::RenewalProvesTheWarden);
                    if w.session == session && (w.age > 0 || w.longer != a.longer) && proven {
                        send(Stmt::Renew {
                            session,
                            incarnation,
                            known: host.known(),
                            longer: a.longer,
                        });
                    }
                }
                Some(w) if !w.tree_empty() && cfg.has(Guard::TreeEmptyBeforeClose) => {}
                None if cfg.features.keep_session => {
                    send(Stmt::Renew {
                        session,
                        incarnation,
                        known: host.known(),
                        longer: a.longer,
                    });
                }
                _ => send(Stmt::Close {
                    session,
                    incarnation,
                    known: self.may_close(cfg, h, a),
                }),
            }
        } else if host.warden.is_none_or(|w| w.dead && w.tree_empty()) && !self.superseded(cfg, h, g) {
            let again = a.opening != 0;
            let node = self.db.nodes[usize::from(own)];
            let incarnation = if again {
                a.opening
            } else {
                incarnation(h, host.incarnations + 1)
            };
            let bounded = (again || host.incarnations < cfg.max_incarnations)
                && node.session < cfg.max_session[usize::from(own)];
            // One that finds the address taken changes nothing.
            let taken = node.open && node.incarnation != incarnation && cfg.has(Guard::IncarnationInOpen)
                || !self.db.claims_open && cfg.has(Guard::ClaimsOpenInOpen);
            if bounded && !taken {
                send(Stmt::Open {
                    incarnation,
                    longer: a.longer,
                });
            }
        }
        let address = if a.session.is_some() && cfg.hosts > 1 {
            cfg.addresses[cfg.next_host(h)]
        } else {
            own
        };
        let watcher = cfg.features.watchers & (1 << h) != 0;
        // Its own address once it has none, to open it again.
        let again = self.db.nodes[usize::from(own)].session + 1 < cfg.max_session[usize::from(own)];
        let watches = if address == own {
            a.session.is_none() && again
        } else {
            watcher
        };
        let new = self.db.nodes[usize::from(address)].open && a.watch.is_none();
        let server = watcher && !self.db.claims_open && a.server_watch.is_none();
        if (watches && new) || server {
            send(Stmt::Poll { address });
        }
    }

    pub fn work_lane(&self, cfg: &Config, h: usize, g: usize, a: &Agent, send: &mut impl FnMut(Stmt)) {
        let host = &self.hosts[h];
        if let (Some((session, incarnation)), Some(w)) = (a.session, host.warden)
            && !w.dead
            && w.session == session
            && self.db.runs.iter().any(|r| r.claimable(cfg))
        {
            send(Stmt::Claim {
                session,
                incarnation,
                server: a.server,
            });
        }
        if !self.superseded(cfg, h, g) {
            self.endings(cfg, h, send);
        }
        if let Some(w) = a.watch {
            let wall = !cfg.has(Guard::NoWallClock) && self.wall_stepped;
            let watched = cfg.has(Guard::WaitOfWatchedLease);
            if w.age >= cfg.wait_ticks + if watched { w.longer } else { a.longer } || wall {
                send(Stmt::Expire {
                    address: w.address,
                    session: w.session,
                    incarnation: w.incarnation,
                    renewals: w.renewals,
                });
            }
        }
        if let Some((server, age)) = a.server_watch {
            let longest = cfg.has(Guard::LongestLeaseOnNewServer);
            let wait = cfg.wait_ticks + if longest { a.longest } else { a.longer };
            if !self.db.claims_open && (age >= wait || !cfg.has(Guard::ServerWatchedForW)) {
                let memory = host.memory;
                send(Stmt::OpenEpoch { server, memory });
            }
        }
        // One that finds what is locked, and nothing else, changes nothing.
        let free = |r: usize| self.db.is_orphan(r) && !self.locked[r];
        if cfg.features.sweeps && cfg.has(Guard::Sweep) && (0..RUNS).any(free) {
            send(Stmt::Sweep);
        }
    }

    /// What ended in a warden and is not recorded yet.
    pub fn endings(&self, cfg: &Config, h: usize, send: &mut impl FnMut(Stmt)) {
        for w in self.hosts[h].warden.iter().filter(|w| !w.dead) {
            // An end that waits for a lock is sent alone, beside the others.
            for held in (w.attempts(cfg.addresses[h])).filter(|held| !self.locked[usize::from(held.run)]) {
                match w.slots[usize::from(held.run)] {
                    Slot::Exited { ok: true, .. } => send(Stmt::Finish { held }),
                    Slot::Exited { ok: false, .. } => send(Stmt::Retry { held }),
                    Slot::Live(_) | Slot::Empty => {}
                }
            }
        }
    }

    pub fn server_actions(&self, cfg: &Config, op: &Op, at: At, out: &mut Vec<Action>) {
        match (op.stmt, op.phase) {
            (_, Phase::Done(_)) => {}
            (Stmt::Claim { .. }, Phase::Sent) => {
                let before = out.len();
                for r in (0..RUNS).filter(|r| self.db.runs[*r].claimable(cfg)) {
                    out.push(Action::Server {
                        at,
                        pick: u8::try_from(r).expect("few runs"),
                    });
                }
                if out.len() == before {
                    out.push(Action::Server {
                        at,
                        pick: RUNS as u8 - 1,
                    });
                }
            }
            _ => out.push(Action::Server { at, pick: 0 }),
        }
    }

    pub fn host_actions(&self, cfg: &Config, h: usize, out: &mut Vec<Action>) {
        let host = &self.hosts[h];
        for w in host.warden.iter().filter(|w| !w.dead && !w.stuck) {
            for run in (0..cfg.runs).filter(|r| matches!(w.slots[*r], Slot::Live(_))) {
                out.push(Action::Exit {
                    host: h,
                    run,
                    ok: true,
                });
                if cfg.features.failures && self.db.runs[run].attempt < cfg.max_attempts {
                    out.push(Action::Exit {
                        host: h,
                        run,
                        ok: false,
                    });
                }
            }
        }
        if let Some(w) = host.warden.filter(|w| !w.dead && !w.stuck) {
            let late = (0..cfg.runs).filter(|r| w.late[*r] != (0, 0));
            out.extend(late.map(|run| Action::LateStart { host: h, run }));
        }
        match host.warden {
            Some(w) if w.dead => out.push(Action::GuardKills { host: h }),
            Some(w) if self.budget.warden_kills > 0 && !w.stuck => out.push(Action::KillWarden { host: h }),
            _ => {}
        }
        let second = host.agents[1].is_none() && self.budget.second_agents > 0;
        if host.agents[0].is_none() || second {
            out.push(Action::StartAgent { host: h });
        }
        let quiet = |w: &Warden| w.slots.iter().all(|s| *s == Slot::Empty) && !w.dead && !w.stuck;
        let other = &self.hosts[HOSTS - 1];
        let unused =
            other.agents[0].is_some_and(|a| a.session.is_none() && a.opening == 0 && a.lanes == [None; 2]);
        if h == 0 && self.budget.clones > 0 && host.warden.as_ref().is_some_and(quiet) && unused {
            out.push(Action::Clone);
        }
        let acts = host.warden.is_some_and(|w| !w.dead && !w.stuck);
        if h == 0 && self.budget.hangs > 0 && acts {
            out.push(Action::Hang { host: h });
        }
    }

    pub fn world_actions(&self, cfg: &Config, out: &mut Vec<Action>) {
        let b = &self.budget;
        if b.restarts > 0 {
            out.push(Action::RestartDatabase);
        }
        if b.failovers > 0 && (!cfg.features.lossy || self.standby.is_some()) {
            out.push(Action::Failover);
        }
        if b.failovers > 0 && cfg.features.lossy && self.standby.is_none() {
            out.push(Action::Replicate);
        }
        if b.wall_steps > 0 {
            out.push(Action::StepWallClock);
        }
        // A lock on what nobody holds only keeps it from being claimed.
        let held = |r: &usize| self.db.runs[*r].state == RunState::Running;
        if b.row_locks > 0 {
            out.extend((0..RUNS).filter(held).map(Action::LockRun));
        }
        out.extend((0..RUNS).filter(|r| self.locked[*r]).map(Action::UnlockRun));
    }
}
