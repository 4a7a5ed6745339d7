//! What may happen to named leases next, and what must not.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::config::tight_ticks;
use crate::named::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
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
    /// The agent's: what matters of a poll is when its reply was received, of a claim when it was committed.
    Poll,
    Claim,
    /// Committed at any time after.
    Free(Key),
}

impl Model for Named {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![self.start()]
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
                (None, Knows::Gone) if s.starts > 0 && c.command.is_none() && i != AGENT => {
                    out.push(Step::Start(i))
                }
                (None, Knows::Gone) => {}
                (None, Knows::Waits(seen)) if i == AGENT => {
                    let ripe = |age: &u8| *age >= self.wait || !self.has(Guard::FreeAfterW);
                    if c.command.is_none() {
                        out.extend([Step::Poll, Step::Claim]);
                        let ripe = seen.filter(|(_, age)| ripe(age) && c.adrift.is_none());
                        out.extend(ripe.map(|(key, _)| Step::Free(key)));
                    }
                }
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
            if s.kills > 0 && i != AGENT && c.knows != Knows::Gone && c.adrift.is_none() {
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
                for (i, c) in s.clients.iter_mut().enumerate() {
                    // A run has its node's lease, which other models explore.
                    c.command = c.command.map(|age| if i == AGENT { 0 } else { older(age) });
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
                if self.blocked(&s, i, op.stmt) {
                    return None;
                }
                let reply = self.serve(&mut s, op.stmt);
                // The row changed after it was looked at: the statement that would have taken it locked it.
                let lost = matches!((op.stmt, reply), (Stmt::Acquire(Some(_)), Reply::HeldBy(_)));
                if lost && !self.has(Guard::LoserUnlocksTheRow) {
                    s.locked = Some(i);
                } else if matches!(reply, Reply::Granted(_)) {
                    s.locked = None;
                }
                s.clients[i].op = Some(Op {
                    reply: Some(reply),
                    ..op
                });
            }
            Step::ServeAdrift(i) => {
                let stmt = s.clients[i].adrift.take()?;
                if self.blocked(&s, i, stmt) {
                    return None;
                }
                self.serve(&mut s, stmt);
            }
            Step::Deliver(i) => {
                let op = s.clients[i].op.take()?;
                self.deliver(&mut s.clients[i], op, op.reply?);
            }
            Step::LoseConnection(i) => {
                s.lost -= 1;
                s.locked = s.locked.filter(|by| *by != i);
                let c = &mut s.clients[i];
                let op = c.op.take()?;
                c.adrift = op.reply.is_none().then_some(op.stmt);
                if let Knows::Waits(seen) = &mut c.knows {
                    *seen = None;
                }
            }
            Step::KillClient(i) => {
                s.kills -= 1;
                s.locked = s.locked.filter(|by| *by != i);
                let c = &mut s.clients[i];
                c.adrift = c.op.take().filter(|op| op.reply.is_none()).map(|op| op.stmt);
                c.knows = Knows::Gone;
            }
            Step::CommandEnds(i) => {
                s.clients[i].command = None;
                s.db.run &= i != AGENT;
            }
            Step::Copy => s.copy = Some(s.db),
            Step::Replace => {
                s.copies -= 1;
                s.db = s.copy.take()?;
                s.server += 1;
                s.locked = None;
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
            Step::Poll => {
                let reply = self.serve(&mut s, Stmt::Poll);
                let op = Op {
                    stmt: Stmt::Poll,
                    age: 0,
                    reply: None,
                };
                self.deliver(&mut s.clients[AGENT], op, reply);
            }
            Step::Claim => _ = self.serve(&mut s, Stmt::Claim),
            Step::Free(key) => s.clients[AGENT].adrift = Some(Stmt::Free(key)),
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
            Property::always("no renewal waits for a waiter", |model: &Self, s: &World| {
                !s.clients.iter().enumerate().any(|(i, c)| {
                    c.op.is_some_and(|op| {
                        matches!(op.stmt, Stmt::Renew(_))
                            && op.reply.is_none()
                            && model.blocked(s, i, op.stmt)
                    })
                })
            }),
            Property::sometimes("a name is taken over", |_, s: &World| {
                s.taken_over && s.clients.iter().any(|c| c.command.is_some())
            }),
            Property::sometimes("a run gets what was left behind", |model: &Self, s: &World| {
                !model.run || s.freed && s.db.run
            }),
        ]
    }
}

/// What can happen without these guards, with so many replacements of the database, or with a run.
#[derive(Clone, Copy)]
enum Beside {
    Copies(u8),
    Run,
}

use Beside::{Copies, Run};

fn explore(removed: &[Guard], beside: Beside) -> Option<(&'static str, usize)> {
    let (lease, wait) = tight_ticks(2);
    let model = Named {
        removed: removed.to_vec(),
        copies: if let Beside::Copies(n) = beside { n } else { 0 },
        run: matches!(beside, Beside::Run),
        lease,
        wait,
    };
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let (reached, broken): (Vec<_>, Vec<_>) = checker
        .discoveries()
        .into_iter()
        .partition(|f| f.0.starts_with("a "));
    assert!(
        !removed.is_empty() || reached.len() == 2,
        "{:?}",
        reached.iter().map(|f| f.0).collect::<Vec<_>>()
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
    assert_eq!(explore(&[], Copies(0)), None);
}

#[test]
fn commands_of_one_name_never_overlap_when_an_older_copy_replaces_the_database() {
    assert_eq!(explore(&[], Copies(1)), None);
}

#[test]
fn commands_never_overlap_with_a_run_whose_lock_has_their_name() {
    assert_eq!(explore(&[], Run), None);
}

macro_rules! missed {
    ($($test:ident: $guard:ident, $beside:expr => $property:literal;)*) => {
        $(#[test] fn $test() {
            assert_eq!(explore(&[Guard::$guard], $beside).map(|f| f.0), Some($property));
        })*
    };
}

missed! {
    kernel_timer: KernelTimer, Copies(0) => "commands never overlap";
    deadline_from_sending: DeadlineFromSending, Copies(0) => "commands never overlap";
    stopwatch_from_receipt: StopwatchFromReceipt, Copies(0) => "commands never overlap";
    renewals_in_take: RenewalsInTake, Copies(0) => "commands never overlap";
    late_grant_is_released: LateGrantIsReleased, Copies(0) => "commands never overlap";
    tree_gone_before_release: TreeGoneBeforeRelease, Copies(0) => "commands never overlap";
    fence_in_release: FenceInRelease, Copies(0) => "commands never overlap";
    closed_takes_nothing: ClosedTakesNothing, Copies(1) => "fences grow";
    server_watched_for_w: ServerWatchedForW, Copies(1) => "commands never overlap";
    seen_names_the_server: SeenNamesTheServer, Copies(1) => "commands never overlap";
    epoch_in_fence: EpochInFence, Copies(1) => "fences grow";
    loser_unlocks_the_row: LoserUnlocksTheRow, Copies(0) => "no renewal waits for a waiter";
    acquire_sees_runs: AcquireSeesRuns, Run => "commands never overlap";
    claim_sees_leases: ClaimSeesLeases, Run => "commands never overlap";
    free_after_w: FreeAfterW, Run => "commands never overlap";
    free_names_the_renewals: FreeNamesTheRenewals, Run => "commands never overlap";
}

/// Where the command has the lease's deadline, these are missed by nobody; where a program holds the lease, the fence is all
/// that there is.
#[test]
fn the_kernels_timer_makes_up_for_renewals_that_name_no_fence_or_end_nothing() {
    assert_eq!(explore(&[Guard::FenceInRenew], Copies(0)), None);
    assert_eq!(explore(&[Guard::LostEndsTheCommand], Copies(1)), None);
}
