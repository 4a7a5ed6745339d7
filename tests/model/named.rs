//! Named leases (`farmhand lock NAME -- CMD`), apart from nodes: two clients and one name.
//!
//! A client asks for the name again and again. Its command runs under a warden of its own, which the kernel ends, and which
//! outlives a client that is killed. Time is counted in ticks; every other step may come arbitrarily late.
//!
//! The interleavings that worry:
//! - A asks, is granted, and hears of it late; B has watched the grant meanwhile and takes the name.
//! - A renews; its renewal commits after B last looked and before B takes.
//! - A is killed; its last renewal, or its release, commits after B took the name.
//! - A's command ends, A releases, and what the command left behind still runs.
//! - The database is replaced by an older copy: it lacks A's grant, or has a heartbeat that B saw on the old one.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::config::tight_ticks;

const CLIENTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The warden is ended at its deadline.
    KernelTimer,
    /// The deadline counts from the instant before the request was sent.
    DeadlineFromSending,
    /// The waiter's stopwatch counts from the instant after the reply was received.
    StopwatchFromReceipt,
    /// Who takes a name names the heartbeat that stood still.
    BeatInTake,
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
}

/// Epoch and number.
type Fence = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    fence: Fence,
    beat: u8,
}

/// The row and the number of the next fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Database {
    row: Option<Row>,
    next: u8,
}

/// A row, and the server that showed it.
type Key = (Row, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stmt {
    /// Takes the name when it is free, or when the row is still the one that was seen.
    Acquire(Option<Key>),
    Renew(Fence),
    Release(Fence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reply {
    Granted(Fence),
    HeldBy(Key),
    Closed,
    Renewed,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Op {
    stmt: Stmt,
    /// Since it was sent.
    age: u8,
    reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Knows {
    Gone,
    Waits(Option<(Key, u8)>),
    Holds(Fence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    knows: Knows,
    op: Option<Op>,
    /// Sent by one that is gone, or on a connection that was lost.
    adrift: Option<Stmt>,
    /// The warden's age: since the last confirmed request was sent.
    command: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    db: Database,
    /// What a replacement would show.
    copy: Option<Database>,
    server: u8,
    epoch: u8,
    /// Since when the new server is watched, while claims are closed.
    closed: Option<u8>,
    clients: [Client; CLIENTS],
    highest: Fence,
    fell: bool,
    taken_over: bool,
    starts: u8,
    renewals: u8,
    kills: u8,
    lost: u8,
    copies: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Tick,
    Start(usize),
    Send(usize, Stmt),
    Serve(usize),
    ServeAdrift(usize),
    Deliver(usize),
    LoseConnection(usize),
    KillClient(usize),
    CommandEnds(usize),
    Copy,
    Replace,
    OpenEpoch,
}

#[derive(Clone)]
struct Named {
    removed: Vec<Guard>,
    copies: u8,
    lease: u8,
    wait: u8,
}

impl Named {
    fn has(&self, guard: Guard) -> bool {
        !self.removed.contains(&guard)
    }

    fn serve(&self, s: &mut World, stmt: Stmt) -> Reply {
        let fits = |guard, a: Fence, b: Fence| a == b || !self.has(guard);
        match (stmt, s.db.row) {
            (Stmt::Acquire(_), _) if s.closed.is_some() && self.has(Guard::ClosedTakesNothing) => {
                Reply::Closed
            }
            (Stmt::Acquire(seen), Some(row)) => {
                let same = |(then, server): Key| {
                    (then == row || !self.has(Guard::BeatInTake) && then.fence == row.fence)
                        && (server == s.server || !self.has(Guard::SeenNamesTheServer))
                };
                if seen.is_some_and(same) {
                    s.taken_over = true;
                    self.grant(s)
                } else {
                    Reply::HeldBy((row, s.server))
                }
            }
            (Stmt::Acquire(_), None) => self.grant(s),
            (Stmt::Renew(fence), Some(row)) if fits(Guard::FenceInRenew, row.fence, fence) => {
                s.db.row = Some(Row {
                    beat: row.beat + 1,
                    ..row
                });
                Reply::Renewed
            }
            (Stmt::Release(fence), Some(row)) if fits(Guard::FenceInRelease, row.fence, fence) => {
                s.db.row = None;
                Reply::Nothing
            }
            (Stmt::Renew(_) | Stmt::Release(_), _) => Reply::Nothing,
        }
    }

    fn grant(&self, s: &mut World) -> Reply {
        let epoch = if self.has(Guard::EpochInFence) { s.epoch } else { 0 };
        let fence = (epoch, s.db.next);
        s.db.next += 1;
        s.db.row = Some(Row { fence, beat: 0 });
        s.fell |= fence <= s.highest;
        s.highest = s.highest.max(fence);
        Reply::Granted(fence)
    }

    fn deliver(&self, c: &mut Client, op: Op, reply: Reply) {
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

impl Model for Named {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let client = Client {
            knows: Knows::Gone,
            op: None,
            adrift: None,
            command: None,
        };
        let db = Database { row: None, next: 1 };
        vec![World {
            db,
            copy: None,
            server: 0,
            epoch: 1,
            closed: None,
            clients: [client; CLIENTS],
            highest: (0, 0),
            fell: false,
            taken_over: false,
            starts: if self.copies > 0 { 2 } else { 3 },
            renewals: 2,
            kills: 1,
            lost: 1,
            copies: self.copies,
        }]
    }

    fn actions(&self, s: &World, out: &mut Vec<Step>) {
        out.push(Step::Tick);
        for (i, c) in s.clients.iter().enumerate() {
            match (c.op, c.knows) {
                (Some(op), _) => {
                    out.push(if op.reply.is_some() {
                        Step::Deliver(i)
                    } else {
                        Step::Serve(i)
                    });
                    if s.lost > 0 && c.adrift.is_none() {
                        out.push(Step::LoseConnection(i));
                    }
                }
                // A killed client's command may live on; the next one is another process.
                (None, Knows::Gone) if s.starts > 0 && c.command.is_none() => out.push(Step::Start(i)),
                (None, Knows::Gone) => {}
                (None, Knows::Waits(seen)) => {
                    let ripe = seen.filter(|(_, age)| *age >= self.wait).map(|(key, _)| key);
                    out.push(Step::Send(i, Stmt::Acquire(ripe)));
                }
                (None, Knows::Holds(fence)) => {
                    if c.command.is_some_and(|age| age > 0) && s.renewals > 0 {
                        out.push(Step::Send(i, Stmt::Renew(fence)));
                    }
                    if c.command.is_none() || !self.has(Guard::TreeGoneBeforeRelease) {
                        out.push(Step::Send(i, Stmt::Release(fence)));
                    }
                }
            }
            if s.kills > 0 && c.knows != Knows::Gone && c.adrift.is_none() {
                out.push(Step::KillClient(i));
            }
            out.extend(c.adrift.map(|_| Step::ServeAdrift(i)));
            out.extend(c.command.map(|_| Step::CommandEnds(i)));
        }
        if s.copies > 0 {
            out.push(if s.copy.is_none() {
                Step::Copy
            } else {
                Step::Replace
            });
        }
        let ripe = |age: u8| age >= self.wait || !self.has(Guard::ServerWatchedForW);
        out.extend(s.closed.filter(|age| ripe(*age)).map(|_| Step::OpenEpoch));
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut s = *last;
        match step {
            Step::Tick => {
                let older = |age: u8| (age + 1).min(self.wait);
                s.closed = s.closed.map(older);
                for c in &mut s.clients {
                    c.command = c.command.map(older);
                    c.command = c
                        .command
                        .filter(|age| *age < self.lease || !self.has(Guard::KernelTimer));
                    if let Knows::Waits(Some((_, age))) = &mut c.knows {
                        *age = older(*age);
                    }
                    if let Some(op) = &mut c.op {
                        op.age = older(op.age);
                    }
                }
            }
            Step::Start(i) => {
                s.starts -= 1;
                s.clients[i].knows = Knows::Waits(None);
            }
            Step::Send(i, stmt) => {
                s.renewals -= u8::from(matches!(stmt, Stmt::Renew(_)));
                s.clients[i].op = Some(Op {
                    stmt,
                    age: 0,
                    reply: None,
                });
            }
            Step::Serve(i) => {
                let op = s.clients[i].op?;
                let reply = self.serve(&mut s, op.stmt);
                s.clients[i].op = Some(Op {
                    reply: Some(reply),
                    ..op
                });
            }
            Step::ServeAdrift(i) => {
                let stmt = s.clients[i].adrift.take()?;
                self.serve(&mut s, stmt);
            }
            Step::Deliver(i) => {
                let op = s.clients[i].op.take()?;
                self.deliver(&mut s.clients[i], op, op.reply?);
            }
            Step::LoseConnection(i) => {
                s.lost -= 1;
                let c = &mut s.clients[i];
                let op = c.op.take()?;
                c.adrift = op.reply.is_none().then_some(op.stmt);
                if let Knows::Waits(seen) = &mut c.knows {
                    *seen = None;
                }
            }
            Step::KillClient(i) => {
                s.kills -= 1;
                let c = &mut s.clients[i];
                c.adrift = c.op.take().filter(|op| op.reply.is_none()).map(|op| op.stmt);
                c.knows = Knows::Gone;
            }
            Step::CommandEnds(i) => s.clients[i].command = None,
            Step::Copy => s.copy = Some(s.db),
            Step::Replace => {
                s.copies -= 1;
                s.db = s.copy.take()?;
                s.server += 1;
                s.closed = Some(0);
                // What was under way on the old server is lost, or its reply is.
                for c in &mut s.clients {
                    c.adrift = None;
                    if let Some(op) = &mut c.op
                        && op.reply.is_none()
                    {
                        c.op = None;
                    }
                }
            }
            Step::OpenEpoch => {
                s.epoch += 1;
                s.closed = None;
            }
        }
        (s != *last).then_some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("commands never overlap", |_, s: &World| {
                s.clients.iter().filter(|c| c.command.is_some()).count() < 2
            }),
            Property::always("fences grow", |_, s: &World| !s.fell),
            Property::sometimes("a name is taken over", |_, s: &World| {
                s.taken_over && s.clients.iter().any(|c| c.command.is_some())
            }),
        ]
    }
}

fn explore(removed: &[Guard], copies: u8) -> Option<(&'static str, usize)> {
    let (lease, wait) = tight_ticks(2);
    let model = Named {
        removed: removed.to_vec(),
        copies,
        lease,
        wait,
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let (taken, broken): (Vec<_>, Vec<_>) = checker
        .discoveries()
        .into_iter()
        .partition(|f| f.0 == "a name is taken over");
    assert!(
        !removed.is_empty() || !taken.is_empty(),
        "nobody takes a name over"
    );
    let broken = broken.into_iter().next().map(|(property, path)| {
        let steps = path.into_actions();
        if std::env::var_os("FARMHAND_MODEL_PATHS").is_some() {
            println!("{steps:#?}");
        }
        (property, steps.len())
    });
    println!(
        "named leases without {removed:?}: {broken:?}, {} states, depth {}",
        checker.unique_state_count(),
        checker.max_depth()
    );
    broken
}

#[test]
fn commands_of_one_name_never_overlap() {
    assert_eq!(explore(&[], 0), None);
}

#[test]
fn nor_when_an_older_copy_replaces_the_database() {
    assert_eq!(explore(&[], 1), None);
}

macro_rules! missed {
    ($($test:ident: $guard:ident, $copies:literal => $property:literal;)*) => {
        $(#[test] fn $test() {
            assert_eq!(explore(&[Guard::$guard], $copies).map(|f| f.0), Some($property));
        })*
    };
}

missed! {
    kernel_timer: KernelTimer, 0 => "commands never overlap";
    deadline_from_sending: DeadlineFromSending, 0 => "commands never overlap";
    stopwatch_from_receipt: StopwatchFromReceipt, 0 => "commands never overlap";
    beat_in_take: BeatInTake, 0 => "commands never overlap";
    late_grant_is_released: LateGrantIsReleased, 0 => "commands never overlap";
    tree_gone_before_release: TreeGoneBeforeRelease, 0 => "commands never overlap";
    fence_in_release: FenceInRelease, 0 => "commands never overlap";
    closed_takes_nothing: ClosedTakesNothing, 1 => "fences grow";
    server_watched_for_w: ServerWatchedForW, 1 => "commands never overlap";
    seen_names_the_server: SeenNamesTheServer, 1 => "commands never overlap";
    epoch_in_fence: EpochInFence, 1 => "fences grow";
}

/// Where the command has the lease's deadline, these are missed by nobody; where a program holds the lease, the fence is all
/// that there is.
#[test]
fn the_kernels_timer_makes_up_for_renewals_that_name_no_fence_or_end_nothing() {
    assert_eq!(explore(&[Guard::FenceInRenew], 0), None);
    assert_eq!(explore(&[Guard::LostEndsTheCommand], 1), None);
}
