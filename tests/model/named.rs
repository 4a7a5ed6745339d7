//! Named leases (`farmhand lock NAME -- CMD`), apart from nodes: two clients and one name; and an agent with a run of a job
//! that has this name among its locks.
//!
//! A client asks for the name again and again. Its command runs under a warden of its own, which the kernel ends, and which
//! outlives a client that is killed. Time is counted in ticks; every other step may come arbitrarily late.
//!
//! The interleavings that worry:
//! - A asks, is granted, and hears of it late; B has watched the grant meanwhile and takes the name.
//! - A renews; its renewal commits after B last looked and before B takes.
//! - A is killed; its last renewal, or its release, commits after B took the name.
//! - A's command ends, A releases, and what the command left behind still runs.
//! - A and B take what stood still; A wins, and B's transaction, which waits on, has A's row locked when A renews.
//! - An agent has seen A's lease stand still and frees the name for its run; A's renewal has committed meanwhile, or the
//!   statement comes late, when B has the name.
//! - A looks for a run that has the name while an agent looks for a lease, and neither sees the other yet. Both lock the name
//!   first; the store's tests have that race, here both are one step.
//! - The database is replaced by an older copy: it lacks A's grant, or has a heartbeat that B saw on the old one.

pub const CLIENTS: usize = 2;
/// The place of the agent beside them.
pub const AGENT: usize = CLIENTS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The warden is ended at its deadline.
    KernelTimer,
    /// The deadline counts from the instant before the request was sent.
    DeadlineFromSending,
    /// The waiter's stopwatch counts from the instant after the reply was received.
    StopwatchFromReceipt,
    /// Who takes a name names the heartbeat that stood still.
    RenewalsInTake,
    /// What was granted and heard of after its own deadline is not started.
    LateGrantIsReleased,
    /// A renewal that finds nothing ends the command.
    LostEndsTheCommand,
    /// Released only when nothing of the command lives.
    TreeGoneBeforeRelease,
    FenceInRelease,
    FenceInRenew,
    /// While claims are closed nothing is taken.
    ClosedTakesNothing,
    /// The next epoch is opened by who has watched the server for W.
    ServerWatchedForW,
    /// What was seen on one server says nothing on another.
    SeenNamesTheServer,
    EpochInFence,
    /// Who finds the row changed when it would take it unlocks the row, and waits on in the same transaction.
    LoserUnlocksTheRow,
    /// A name that a run of a job has as its lock is not taken.
    AcquireSeesRuns,
    /// A run is not claimed while a lease has one of its locks.
    ClaimSeesLeases,
    /// An agent frees a name only after it has seen its lease stand still for W,
    FreeAfterW,
    /// and only if it still does.
    FreeNamesTheRenewals,
}

/// Epoch and number.
pub type Fence = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub fence: Fence,
    pub renewals: u8,
}

/// The row and the number of the next fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    pub row: Option<Row>,
    /// A run that has the name as its lock.
    pub run: bool,
    pub next: u8,
}

/// A row, and the server that showed it.
pub type Key = (Row, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// Takes the name when it is free, or when the row is still the one that was seen.
    Acquire(Option<Key>),
    Renew(Fence),
    Release(Fence),
    /// An agent's, for its run.
    Poll,
    Free(Key),
    Claim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    Granted(Fence),
    HeldBy(Key),
    HeldByRun,
    Closed,
    Renewed,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub stmt: Stmt,
    /// Since it was sent.
    pub age: u8,
    pub reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Knows {
    Gone,
    Waits(Option<(Key, u8)>),
    Holds(Fence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub knows: Knows,
    pub op: Option<Op>,
    /// Sent by one that is gone, or on a connection that was lost.
    pub adrift: Option<Stmt>,
    /// The warden's age: since the last confirmed request was sent.
    pub command: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub db: Database,
    /// What a replacement would show.
    pub copy: Option<Database>,
    pub server: u8,
    pub epoch: u8,
    /// Since when the new server is watched, while claims are closed.
    pub closed: Option<u8>,
    /// The agent is the last.
    pub clients: [Client; CLIENTS + 1],
    /// Whose open transaction has the row locked.
    pub locked: Option<usize>,
    pub highest: Fence,
    pub fell: bool,
    pub taken_over: bool,
    /// A name was freed for the run.
    pub freed: bool,
    pub starts: u8,
    pub renewals: u8,
    pub kills: u8,
    pub lost: u8,
    pub copies: u8,
}

#[derive(Clone)]
pub struct Named {
    pub removed: Vec<Guard>,
    pub copies: u8,
    /// Whether an agent has a run that waits for the name.
    pub run: bool,
    pub lease: u8,
    pub wait: u8,
}

impl Named {
    pub fn has(&self, guard: Guard) -> bool {
        !self.removed.contains(&guard)
    }

    /// Nobody holds the name, and nobody asks for it.
    pub fn start(&self) -> World {
        let client = Client {
            knows: Knows::Gone,
            op: None,
            adrift: None,
            command: None,
        };
        let agent = Client {
            knows: if self.run { Knows::Waits(None) } else { Knows::Gone },
            ..client
        };
        let db = Database {
            row: None,
            run: false,
            next: 1,
        };
        World {
            db,
            copy: None,
            server: 0,
            epoch: 1,
            closed: None,
            clients: [client, client, agent],
            locked: None,
            highest: (0, 0),
            fell: false,
            taken_over: false,
            freed: false,
            starts: if self.copies > 0 || self.run { 2 } else { 3 },
            renewals: if self.run { 1 } else { 2 },
            kills: 1,
            lost: 1,
            copies: self.copies,
        }
    }

    /// The statement waits for another client's transaction.
    pub fn blocked(&self, s: &World, i: usize, stmt: Stmt) -> bool {
        s.locked.is_some_and(|by| by != i) && !matches!(stmt, Stmt::Acquire(None) | Stmt::Poll | Stmt::Claim)
    }

    pub fn serve(&self, s: &mut World, stmt: Stmt) -> Reply {
        let fits = |guard, a: Fence, b: Fence| a == b || !self.has(guard);
        let server = s.server;
        let same = |guard, row: Row, (then, on): Key| {
            (then == row || !self.has(guard) && then.fence == row.fence)
                && (on == server || !self.has(Guard::SeenNamesTheServer))
        };
        match (stmt, s.db.row) {
            (Stmt::Acquire(seen), row) => {
                let unlike = |row: &Row| !seen.is_some_and(|key| same(Guard::RenewalsInTake, *row, key));
                if let Some(row) = row.filter(unlike) {
                    return Reply::HeldBy((row, server));
                }
                if s.db.run && self.has(Guard::AcquireSeesRuns) {
                    return Reply::HeldByRun;
                }
                if s.closed.is_some() && self.has(Guard::ClosedTakesNothing) {
                    return Reply::Closed;
                }
                s.taken_over |= row.is_some();
                self.grant(s)
            }
            (Stmt::Renew(fence), Some(row)) if fits(Guard::FenceInRenew, row.fence, fence) => {
                s.db.row = Some(Row {
                    renewals: row.renewals + 1,
                    ..row
                });
                Reply::Renewed
            }
            (Stmt::Release(fence), Some(row)) if fits(Guard::FenceInRelease, row.fence, fence) => {
                s.db.row = None;
                Reply::Nothing
            }
            (Stmt::Poll, Some(row)) => Reply::HeldBy((row, server)),
            (Stmt::Free(key), Some(row))
                if same(Guard::FreeNamesTheRenewals, row, key) && s.closed.is_none() =>
            {
                s.db.row = None;
                s.freed = true;
                Reply::Nothing
            }
            (Stmt::Claim, row) => {
                let free = row.is_none() || !self.has(Guard::ClaimSeesLeases);
                if free && !s.db.run && s.closed.is_none() {
                    s.db.run = true;
                    s.clients[AGENT].command = Some(0);
                }
                Reply::Nothing
            }
            (Stmt::Renew(_) | Stmt::Release(_) | Stmt::Poll | Stmt::Free(_), _) => Reply::Nothing,
        }
    }

    fn grant(&self, s: &mut World) -> Reply {
        let epoch = if self.has(Guard::EpochInFence) { s.epoch } else { 0 };
        let fence = (epoch, s.db.next);
        s.db.next += 1;
        s.db.row = Some(Row { fence, renewals: 0 });
        s.fell |= fence <= s.highest;
        s.highest = s.highest.max(fence);
        Reply::Granted(fence)
    }

    pub fn deliver(&self, c: &mut Client, op: Op, reply: Reply) {
        match (reply, c.knows) {
            (Reply::HeldBy(key), Knows::Waits(seen)) => {
                let same = |then: &(Key, u8)| {
                    then.0 == key || !self.has(Guard::SeenNamesTheServer) && then.0.0 == key.0
                };
                let since = if self.has(Guard::StopwatchFromReceipt) {
                    0
                } else {
                    op.age
                };
                c.knows = Knows::Waits(Some((key, seen.filter(same).map_or(since, |(_, age)| age))));
            }
            (Reply::HeldByRun, Knows::Waits(_)) => c.knows = Knows::Waits(None),
            (Reply::Nothing, Knows::Waits(_)) if op.stmt == Stmt::Poll => c.knows = Knows::Waits(None),
            (Reply::Granted(fence), Knows::Waits(_)) => {
                c.knows = Knows::Holds(fence);
                let age = if self.has(Guard::DeadlineFromSending) {
                    op.age
                } else {
                    0
                };
                let late = age >= self.lease && self.has(Guard::LateGrantIsReleased);
                c.command = (!late).then_some(age);
            }
            (Reply::Renewed, Knows::Holds(_)) => {
                let age = if self.has(Guard::DeadlineFromSending) {
                    op.age
                } else {
                    0
                };
                c.command = c.command.map(|before| before.min(age));
            }
            (Reply::Nothing, Knows::Holds(_)) => {
                let renewal = matches!(op.stmt, Stmt::Renew(_));
                if renewal && !self.has(Guard::LostEndsTheCommand) {
                    return;
                }
                if renewal {
                    c.command = None;
                }
                c.knows = Knows::Gone;
            }
            _ => {}
        }
    }
}
