//! Everything that can happen next, and what it does.

use stateright::{Model, Property};

use crate::config::{Config, Guard};
use crate::properties;
use crate::state::{
    ADDRESSES, Agent, Db, GENERATIONS, HOSTS, Held, Host, Op, Phase, RUNS, Reply, RunState, Slot, State,
    Stmt, life,
};

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
        s.number_beats_anew();
        (s != *self).then_some(s)
    }

    fn agent_actions(&self, cfg: &Config, host: usize, agent: usize, a: &Agent, out: &mut Vec<Action>) {
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
                    if !a.hung {
                        a.release
                            .iter()
                            .flatten()
                            .for_each(|held| send(Stmt::Release { held: *held }));
                    }
                }
                Some(op) => {
                    if matches!(op.phase, Phase::Done(_)) {
                        out.push(Action::Deliver { host, agent, lane });
                    }
                    self.server_actions(cfg, op, At::Lane { host, agent, lane }, out);
                    let room = self.adrift.iter().any(Option::is_none);
                    if self.budget.lost_replies > 0 && room {
                        out.push(Action::LoseConnection { host, agent, lane });
                    }
                }
            }
        }
        let newest = agent == 1 || self.hosts[host].agents[1].is_none();
        if a.session.is_none() && newest && self.hosts[host].warden.is_some_and(|w| !w.dead) {
            out.push(Action::Adopt { host, agent });
        }
        if self.budget.crashes > 0 && self.adrift.iter().all(Option::is_none) {
            out.push(Action::CrashAgent { host, agent });
        }
    }

    fn renewal_lane(&self, cfg: &Config, h: usize, g: usize, a: &Agent, send: &mut impl FnMut(Stmt)) {
        let host = &self.hosts[h];
        let own = cfg.addresses[h];
        if let Some((session, life)) = a.session {
            match host.warden {
                // A renewal at age 0 changes nothing that a later one would not.
                Some(w) if !w.dead => {
                    if w.session == session && w.age > 0 {
                        send(Stmt::Renew {
                            session,
                            life,
                            known: host.known(),
                        });
                    }
                }
                Some(w) if !w.tree_empty() && cfg.has(Guard::TreeEmptyBeforeClose) => {}
                None if cfg.features.keep_session || host.holds() => {
                    send(Stmt::Renew {
                        session,
                        life,
                        known: host.known(),
                    });
                }
                _ => send(Stmt::Close { session, life }),
            }
        } else if host.warden.is_none_or(|w| w.dead && w.tree_empty()) && !self.superseded(cfg, h, g) {
            let again = a.opening != 0;
            let node = self.db.nodes[usize::from(own)];
            let life = if again { a.opening } else { life(h, host.lives + 1) };
            let bounded =
                (again || host.lives < cfg.max_lives) && node.session < cfg.max_session[usize::from(own)];
            // One that finds the address taken changes nothing.
            let taken = node.open && node.life != life && cfg.has(Guard::LifeInOpen)
                || !self.db.timeline_open && cfg.has(Guard::TimelineOpenInOpen);
            if bounded && !taken {
                send(Stmt::Open { life });
            }
        }
        if a.hung {
            return;
        }
        let address = if a.session.is_some() && cfg.hosts > 1 {
            cfg.addresses[1 - h]
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
        let over = watcher
            && (0..RUNS).any(|r| {
                let seen = |o: crate::state::HeldOver| o.held.session == self.db.runs[r].session;
                cfg.hold[r] > 0 && !a.held_over[r].is_some_and(seen) && self.db.is_held_over(r)
            });
        let timeline = watcher && !self.db.timeline_open && a.timeline_watch.is_none();
        if (watches && new) || over || timeline {
            send(Stmt::Look { address });
        }
    }

    fn work_lane(&self, cfg: &Config, h: usize, g: usize, a: &Agent, send: &mut impl FnMut(Stmt)) {
        let host = &self.hosts[h];
        if a.hung {
            return;
        }
        if let (Some((session, life)), Some(w)) = (a.session, host.warden)
            && !w.dead
            && w.session == session
            && self.db.runs.iter().any(|r| r.claimable(cfg))
        {
            send(Stmt::Claim {
                session,
                life,
                timeline: a.timeline,
            });
        }
        if !self.superseded(cfg, h, g) {
            self.endings(cfg, h, send);
        }
        if let Some(w) = a.watch {
            let wall = !cfg.has(Guard::NoWallClock) && self.wall_stepped;
            if w.age >= cfg.wait_ticks || wall {
                send(Stmt::Expire {
                    address: w.address,
                    session: w.session,
                    life: w.life,
                    beat: w.beat,
                });
            }
        }
        for (r, over) in a.held_over.iter().enumerate() {
            if let Some(o) = over.filter(|o| o.age >= cfg.release_ticks(r)) {
                send(Stmt::ReleaseHeldOver { held: o.held });
            }
        }
        if let (Some((session, life)), Some(w)) = (a.session, host.hold_warden) {
            for held in w
                .attempts(cfg.addresses[h])
                .filter(|held| held.session != session)
            {
                send(Stmt::Rehold { held, session, life });
            }
        }
        if let Some((timeline, age)) = a.timeline_watch
            && (age >= cfg.wait_ticks || !cfg.has(Guard::TimelineWatchedForW))
        {
            send(Stmt::OpenTimeline { timeline });
        }
        if cfg.features.sweeps && cfg.has(Guard::Sweep) && self.db.has_orphan(cfg) {
            send(Stmt::Sweep);
        }
        if cfg.hosts > 1 && cfg.faults.hangs > self.budget.hangs {
            let address = cfg.addresses[1 - h];
            let node = self.db.nodes[usize::from(address)];
            if node.open && !node.condemned {
                send(Stmt::Condemn {
                    address,
                    session: node.session,
                    life: node.life,
                });
            }
        }
    }

    /// What ended in a warden and is not recorded yet.
    fn endings(&self, cfg: &Config, h: usize, send: &mut impl FnMut(Stmt)) {
        for w in [self.hosts[h].warden, self.hosts[h].hold_warden]
            .into_iter()
            .flatten()
            .filter(|w| !w.dead)
        {
            for held in w.attempts(cfg.addresses[h]) {
                match w.slots[usize::from(held.run)] {
                    Slot::Exited { ok: true, .. } => send(Stmt::Finish { held }),
                    Slot::Exited { ok: false, .. } => send(Stmt::Retry { held }),
                    Slot::Live(_) | Slot::Empty => {}
                }
            }
        }
    }

    fn server_actions(&self, cfg: &Config, op: &Op, at: At, out: &mut Vec<Action>) {
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

    fn host_actions(&self, cfg: &Config, h: usize, out: &mut Vec<Action>) {
        let host = &self.hosts[h];
        for w in [host.warden, host.hold_warden]
            .into_iter()
            .flatten()
            .filter(|w| !w.dead)
        {
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
        match host.warden {
            Some(w) if w.dead => out.push(Action::GuardKills { host: h }),
            Some(_) if self.budget.warden_kills > 0 => out.push(Action::KillWarden { host: h }),
            _ => {}
        }
        let second = host.agents[1].is_none() && self.budget.second_agents > 0;
        if host.agents[0].is_none() || second {
            out.push(Action::StartAgent { host: h });
        }
        let idle = host.agents[0].is_some_and(|a| !a.hung && a.session.is_some());
        if h == 0 && self.budget.hangs > 0 && idle {
            out.push(Action::Hang { host: h });
        }
    }

    fn world_actions(&self, cfg: &Config, out: &mut Vec<Action>) {
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
    }

    fn apply(&mut self, cfg: &Config, action: Action) -> Option<()> {
        match action {
            Action::Tick => self.tick(cfg),
            Action::Send {
                host,
                agent,
                lane,
                stmt,
                pick,
            } => {
                if let Stmt::Open { life: l } = stmt {
                    let host_lives = &mut self.hosts[host].lives;
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
            Action::Exit { host, run, ok } => {
                let w = self.hosts[host].warden_of(cfg, run)?;
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
                let timeline = if cfg.faults.failovers > 0 { 0 } else { 1 };
                let place = usize::from(self.hosts[host].agents[0].is_some());
                self.budget.second_agents -= u8::from(place == 1);
                self.hosts[host].agents[place] = Some(Agent {
                    timeline,
                    ..Agent::new()
                });
            }
            Action::Adopt { host, agent } => self.adopt(host, agent),
            Action::Hang { host } => {
                self.budget.hangs -= 1;
                self.agent(host, 0).hung = true;
            }
            Action::RestartDatabase => {
                self.budget.restarts -= 1;
                self.drop_connections(cfg, true);
            }
            Action::Replicate => self.standby = Some(self.db),
            Action::Failover => {
                self.budget.failovers -= 1;
                let timeline = self.db.timeline + 1;
                self.unreplicated = 0;
                let db = if cfg.features.lossy {
                    self.standby.take()?
                } else {
                    self.db
                };
                self.db = Db {
                    timeline,
                    timeline_open: false,
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

    fn server_lane(&mut self, cfg: &Config, host: usize, agent: usize, lane: usize, pick: u8) -> Option<()> {
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

    /// What a failover may lose is bounded.
    fn count_unreplicated(&mut self, cfg: &Config, op: &Op, phase: Phase) -> Option<()> {
        let read = matches!(op.stmt, Stmt::Look { .. }) || matches!(phase, Phase::Done(Reply::NoRow));
        if self.standby.is_some() && matches!(phase, Phase::Done(_)) && !read {
            self.unreplicated += 1;
        }
        (self.unreplicated <= cfg.max_lost_commits).then_some(())
    }

    fn adopt(&mut self, host: usize, agent: usize) {
        let h = &mut self.hosts[host];
        let mut session = None;
        for w in [&mut h.hold_warden, &mut h.warden].into_iter().flatten() {
            w.obeys = u8::from(agent == 1);
            session = Some((w.session, w.life));
        }
        self.agent(host, agent).session = session;
    }

    fn forget_watches(&mut self, host: usize, agent: usize) {
        let a = self.agent(host, agent);
        a.watch = None;
        a.held_over = [None; RUNS];
        a.timeline_watch = None;
    }

    fn drop_connections(&mut self, _cfg: &Config, watches_too: bool) {
        self.adrift = [None; 2];
        for host in 0..HOSTS {
            for agent in 0..GENERATIONS {
                if let Some(a) = &mut self.hosts[host].agents[agent] {
                    a.lanes = [None; 2];
                    a.timeline_watch = None;
                    if watches_too {
                        self.forget_watches(host, agent);
                    }
                }
            }
        }
    }

    fn tick(&mut self, cfg: &Config) {
        let end = cfg.horizon();
        let older = |age: u8| (age + 1).min(end);
        for host in &mut self.hosts {
            for a in host.agents.iter_mut().flatten() {
                for op in a.lanes.iter_mut().flatten().filter(|op| cfg.age_matters(op)) {
                    op.age = older(op.age);
                }
                a.watch
                    .iter_mut()
                    .for_each(|w| w.age = older(w.age).min(cfg.wait_ticks));
                a.held_over
                    .iter_mut()
                    .flatten()
                    .for_each(|o| o.age = older(o.age));
                a.timeline_watch
                    .iter_mut()
                    .for_each(|t| t.1 = older(t.1).min(cfg.wait_ticks));
            }
            for w in [&mut host.warden, &mut host.hold_warden].into_iter().flatten() {
                w.age = older(w.age);
            }
            if cfg.has(Guard::KernelTimer) {
                host.warden = host.warden.filter(|w| w.age < cfg.lease_ticks);
                let held = (0..RUNS).map(|r| cfg.held_ticks(r)).max().unwrap_or(0);
                host.hold_warden = host.hold_warden.filter(|w| w.age < held);
            }
        }
    }

    /// Only whether beats are equal matters; counting on would make the same state look new.
    fn number_beats_anew(&mut self) {
        let mut s = *self;
        for address in 0..ADDRESSES {
            let mut used: [u8; 16] = [0; 16];
            let mut n = 0;
            s.beats(address, |beat| {
                if !used[..n].contains(beat) {
                    used[n] = *beat;
                    n += 1;
                }
            });
            used[..n].sort_unstable();
            self.beats(address, |beat| {
                let rank = used[..n].iter().position(|u| u == beat).unwrap_or(0);
                *beat = rank as u8;
            });
        }
    }

    fn beats(&mut self, address: usize, mut each: impl FnMut(&mut u8)) {
        each(&mut self.db.nodes[address].beat);
        if let Some(db) = &mut self.standby {
            each(&mut db.nodes[address].beat);
        }
        let agents = self.hosts.iter_mut().flat_map(|h| h.agents.iter_mut().flatten());
        for a in agents {
            a.watch
                .iter_mut()
                .filter(|w| usize::from(w.address) == address)
                .for_each(|w| each(&mut w.beat));
            for op in a.lanes.iter_mut().flatten() {
                op.beats(address, &mut each);
            }
        }
        for op in self.adrift.iter_mut().flatten() {
            op.beats(address, &mut each);
        }
    }
}

impl Op {
    fn beats(&mut self, address: usize, each: &mut impl FnMut(&mut u8)) {
        match &mut self.stmt {
            Stmt::Expire { address: a, beat, .. } if usize::from(*a) == address => each(beat),
            Stmt::Look { address: a } if usize::from(*a) == address => {
                if let Phase::Done(Reply::Looked { node, .. }) = &mut self.phase {
                    each(&mut node.beat);
                }
            }
            _ => {}
        }
    }
}

impl Stmt {
    /// A reply whose delay could only keep its lane busy is delivered with the commit. That it may be lost
    /// instead is a step of its own, before the commit.
    fn reply_at_once(&self, reply: Reply) -> bool {
        match self {
            Stmt::Open { .. } | Stmt::Renew { .. } | Stmt::Rehold { .. } => false,
            Stmt::Claim { .. } => reply == Reply::NoRow,
            _ => true,
        }
    }
}

impl crate::state::Run {
    fn claimable(&self, cfg: &Config) -> bool {
        self.state == RunState::Due && self.attempt < cfg.max_attempts
    }
}

impl Config {
    /// A statement whose late arrival is the same as its being sent later is executed when it is sent.
    fn at_once(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Look { .. } => self.has(Guard::StopwatchFromReceipt),
            Stmt::Sweep => true,
            Stmt::Expire { .. } | Stmt::Close { .. } | Stmt::Claim { .. } => !self.features.delays,
            _ => false,
        }
    }

    /// Ages that nobody asks for would only multiply states.
    fn age_matters(&self, op: &Op) -> bool {
        match op.stmt {
            Stmt::Open { .. } | Stmt::Renew { .. } | Stmt::Rehold { .. } => true,
            Stmt::Look { .. } => !self.has(Guard::StopwatchFromReceipt),
            Stmt::Claim { .. } => !self.has(Guard::LateClaimReleased),
            _ => false,
        }
    }
}

impl crate::state::Node {
    fn ended(&self, session: u8) -> bool {
        session < self.session || (session == self.session && !self.open)
    }
}

impl Db {
    fn is_held_over(&self, r: usize) -> bool {
        let run = &self.runs[r];
        run.state == RunState::Running && run.session < self.nodes[usize::from(run.address)].session
    }

    pub fn has_orphan(&self, cfg: &Config) -> bool {
        (0..RUNS).any(|r| {
            let run = &self.runs[r];
            run.state == RunState::Running
                && cfg.hold[r] == 0
                && self.nodes[usize::from(run.address)].ended(run.session)
        })
    }
}

impl Host {
    /// An attempt lives on under the second warden. Closing could free its run: whatever session the
    /// warden knows it by, a re-adoption may be on its way.
    fn holds(&self) -> bool {
        self.hold_warden.is_some_and(|w| !w.tree_empty())
    }

    fn known(&self) -> u8 {
        let live = |r: &usize| self.live(*r) > 0;
        (0..RUNS).filter(live).map(|r| 1 << r).sum()
    }
}

impl crate::state::Warden {
    /// The attempts that it runs or has run and that are not recorded.
    fn attempts(&self, address: u8) -> impl Iterator<Item = Held> {
        let (slots, session) = (self.slots, self.session);
        (0..RUNS).filter_map(move |r| match slots[r] {
            Slot::Empty => None,
            Slot::Live(attempt) | Slot::Exited { attempt, .. } => Some(Held {
                run: u8::try_from(r).expect("few runs"),
                attempt,
                address,
                session,
            }),
        })
    }
}
