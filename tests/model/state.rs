//! One state: the database as committed, the statements in flight, the agents, the wardens.
//!
//! Time is not a number here. Every timer is an age in ticks since the event that it counts from, as real
//! time has it; the clocks' different rates are in the ages at which the timers end (`config`).

pub use crate::size::{ADDRESSES, HOSTS, RUNS};

/// An older and a newer agent on one host.
pub const GENERATIONS: usize = 2;
/// Statements whose client is gone and that the server may still execute.
pub const ADRIFT: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub session: u8,
    pub incarnation: u8,
    pub open: bool,
    pub renewals: u8,
    /// Ticks by which its lease is longer than the shortest: its TTL.
    pub longer: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    Due,
    Running,
    Final,
}

/// `address` and `session` stay as they were when the run is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub state: RunState,
    pub address: u8,
    pub session: u8,
    pub attempt: u8,
    /// The epoch of its claim: as good as the fence, for within one epoch no number is given twice.
    pub fence: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Db {
    /// The server run that answers.
    pub server: u8,
    /// Of the newest row that says so; the high part of fences.
    pub epoch: u8,
    pub claims_open: bool,
    /// The longest lease that was recorded in this epoch and in the one before, in ticks beyond the shortest.
    pub longest: [u8; 2],
    pub nodes: [Node; ADDRESSES],
    pub runs: [Run; RUNS],
    /// The fence sequence; stays 0 where no failover can turn it back.
    pub sequence: u8,
}

/// Who wrote an attempt: the words of every fenced write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    pub run: u8,
    pub attempt: u8,
    pub fence: u8,
    pub address: u8,
    pub session: u8,
}

/// Of a close: whatever attempt of a run is held.
pub const ANY: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    Open {
        incarnation: u8,
        longer: u8,
    },
    /// `known`: the attempts that the warden had when this was sent, one bit per run.
    Renew {
        session: u8,
        incarnation: u8,
        known: u8,
        longer: u8,
    },
    Poll {
        address: u8,
    },
    /// `known`: the attempt of each run that its agent knows to be its own.
    Close {
        session: u8,
        incarnation: u8,
        known: [u8; RUNS],
    },
    Claim {
        session: u8,
        incarnation: u8,
        server: u8,
    },
    Finish {
        held: Held,
    },
    Retry {
        held: Held,
    },
    Release {
        held: Held,
    },
    Expire {
        address: u8,
        session: u8,
        incarnation: u8,
        renewals: u8,
    },
    Sweep,
    OpenEpoch {
        server: u8,
        memory: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Sent,
    /// A snapshot is taken, nothing is locked. Per run, what a sweep or a one-statement expire saw:
    /// the node's session, or 0 for a row that did not match.
    Snapshot([u8; RUNS]),
    /// Row locks are held, nothing is committed. For a claim the run it picked.
    Locked {
        pick: u8,
        seen: [u8; RUNS],
    },
    Done(Reply),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    Opened {
        session: u8,
        server: u8,
    },
    Taken,
    /// Per run the attempt that the session holds, and its fence; (0, 0) for none.
    Renewed {
        held: [(u8, u8); RUNS],
        server: u8,
        /// 0 while claims are closed.
        epoch: u8,
    },
    Polled {
        node: Node,
        server: u8,
        claims_open: bool,
        epoch: u8,
        longest: u8,
    },
    Claimed {
        run: u8,
        attempt: u8,
        fence: u8,
    },
    /// One row updated.
    Updated,
    /// No row; for a finish: nor was it this attempt that ended the run.
    NoRow,
    /// A finish found its run ended by its own attempt.
    AlreadyOwn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub stmt: Stmt,
    pub phase: Phase,
    /// Whose statement it is, after the client is gone too.
    pub address: u8,
    /// Since it was sent.
    pub age: u8,
    /// Sent before the host's present warden was started; see `FreshWardenDropsClaims`.
    pub before_warden: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    Empty,
    Live(u8),
    /// Kept until the agent has recorded it.
    Exited {
        attempt: u8,
        ok: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Warden {
    /// Killed, its guard has not yet ended what is left: live slots are orphans.
    pub dead: bool,
    pub session: u8,
    pub incarnation: u8,
    /// Since the confirmed renewal that its timer counts from was sent.
    pub age: u8,
    /// Of the lease whose renewal that was.
    pub longer: u8,
    /// The generation whose orders it takes.
    pub obeys: u8,
    pub slots: [Slot; RUNS],
    /// Of what is in the slots; 0 for an empty one.
    pub fences: [u8; RUNS],
    /// Attempts of each run up to this one never start here (again).
    pub barred: [u8; RUNS],
    /// Attempts that it could not start and may still be asked for once more, with their fences; (0, 0) for none.
    pub late: [(u8, u8); RUNS],
    /// In uninterruptible sleep: it does nothing any more, and the kernel cannot end it.
    pub stuck: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    pub address: u8,
    pub session: u8,
    pub incarnation: u8,
    pub renewals: u8,
    pub longer: u8,
    pub age: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    /// Of its leases.
    pub longer: u8,
    /// The longest of any lease that it knows of, and the newest open epoch that it has seen.
    pub longest: u8,
    pub epoch: u8,
    pub session: Option<(u8, u8)>,
    /// The incarnation of an open whose outcome is not known yet, 0 for none.
    pub opening: u8,
    /// The server for which it has compared its attempts with the database, in an open epoch.
    pub server: u8,
    /// Attempts to give back.
    pub release: [Option<Held>; RUNS],
    pub lanes: [Option<Op>; 2],
    pub watch: Option<Watch>,
    /// Since a reply first showed the server that is not open.
    pub server_watch: Option<(u8, u8)>,
    /// Renewals whose deadline the warden has not confirmed; 2 stands for more.
    pub unconfirmed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    pub agents: [Option<Agent>; GENERATIONS],
    pub warden: Option<Warden>,
    pub incarnations: u8,
    /// The highest epoch that its agents remember, on its disk.
    pub memory: u8,
}

/// What a path may still do to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crashes: u8,
    pub second_agents: u8,
    pub lost_replies: u8,
    pub warden_kills: u8,
    pub restarts: u8,
    pub failovers: u8,
    pub wall_steps: u8,
    pub hangs: u8,
    pub refused_starts: u8,
    pub clones: u8,
    pub row_locks: u8,
}

/// What happened on the way here and must never happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    pub two_live: bool,
    pub stale_write: bool,
    pub final_changed: bool,
    pub attempt_not_growing: bool,
    pub fence_not_growing: bool,
    pub false_report: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub db: Db,
    pub standby: Option<Db>,
    /// Commits that the standby lacks.
    pub unreplicated: u8,
    pub hosts: [Host; HOSTS],
    pub adrift: [Option<Op>; ADRIFT],
    /// Rows that a third party has locked.
    pub locked: [bool; RUNS],
    pub budget: Budget,
    pub last_attempt: [u8; RUNS],
    pub last_fence: [(u8, u8); RUNS],
    pub wall_stepped: bool,
    pub broken: Broken,
}

pub const NO_NODE: Node = Node {
    session: 0,
    incarnation: 0,
    open: false,
    renewals: 0,
    longer: 0,
};

impl Agent {
    pub fn new(longer: u8) -> Self {
        Agent {
            longer,
            longest: longer,
            epoch: 1,
            session: None,
            opening: 0,
            server: 0,
            release: [None; RUNS],
            lanes: [None; 2],
            watch: None,
            server_watch: None,
            unconfirmed: 0,
        }
    }
}

impl Warden {
    pub fn new((session, incarnation): (u8, u8), age: u8, longer: u8, obeys: u8) -> Self {
        Warden {
            dead: false,
            session,
            incarnation,
            age,
            longer,
            obeys,
            slots: [Slot::Empty; RUNS],
            late: [(0, 0); RUNS],
            fences: [0; RUNS],
            barred: [0; RUNS],
            stuck: false,
        }
    }

    pub fn tree_empty(&self) -> bool {
        !self.slots.iter().any(|s| matches!(s, Slot::Live(_)))
    }
}

impl Host {
    pub fn live(&self, run: usize) -> usize {
        usize::from(self.warden.is_some_and(|w| matches!(w.slots[run], Slot::Live(_))))
    }
}

/// Lives are never equal, on whatever host they begin.
pub fn incarnation(host: usize, n: u8) -> u8 {
    u8::try_from(host).expect("few hosts") * 16 + n
}
