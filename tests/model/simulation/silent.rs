//! Large farms whose nodes die at once: the shipped lease and failure detector, in simulated time.
//!
//! Each agent has a clock of its own, renews by `Lease` and polls by `Silence`. Between them lies a database in
//! which statements arrive, draw their number, commit and answer at their own times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::Duration;

use farmhand_core::lease::{BootInstant, LeaseTiming, MarksBelow, NodeKey, Silence, SilentNode, Stopwatch};
use farmhand_model::Chance;
use farmhand_node::lease::{Due, Lease};
use uuid::Uuid;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// When the farm has settled.
const DEATH: u64 = 70 * SECOND;
/// Of an expiry: the claim and the start that follow it.
const CLAIM: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Renew(usize),
    /// Sent at this local time, with this number.
    Commit(usize, BootInstant, i64),
    Renewed(usize, BootInstant),
    Poll(usize),
    Snapshot(usize),
    Polled(usize, usize),
    Expire(usize, i64),
    Die,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watching {
    /// As shipped.
    Marks,
    /// As it was: the three nodes after the own address, and more of them while some seem dead.
    ThreeNeighbours,
}

struct Agent {
    timing: LeaseTiming,
    lease: Lease,
    silence: Silence,
    neighbours: Stopwatch<NodeKey>,
    seen: Vec<(NodeKey, u64)>,
    address: String,
    /// Its clock, in parts per million of the true one's rate.
    fast: i64,
    dead: bool,
}

struct Row {
    renewals: i64,
    mark: i64,
    open: bool,
}

struct Farm {
    chance: Chance,
    watching: Watching,
    agents: Vec<Agent>,
    rows: Vec<Row>,
    /// The next number, and the one after the highest that has committed.
    next: i64,
    committed: i64,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    scheduled: u64,
    replies: Vec<Option<(i64, Vec<SilentNode>)>>,
    doomed: Vec<usize>,
    /// After the death, and of whom.
    taken: Vec<(usize, Duration)>,
    polls: u64,
}

impl Farm {
    fn new(seed: u64, nodes: usize, ttls: &[u64], watching: Watching) -> Self {
        let mut chance = Chance::new(seed);
        let agents: Vec<Agent> = (0..nodes)
            .map(|n| {
                let ttl = Duration::from_millis(ttls[n % ttls.len()]);
                let timing = LeaseTiming::new(ttl).expect("a lease");
                Agent {
                    timing,
                    lease: Lease::new(timing, Duration::from_secs(5), BootInstant(0)),
                    silence: Silence::default(),
                    neighbours: Stopwatch::default(),
                    seen: Vec::new(),
                    address: format!("n{n:05}"),
                    fast: chance.between(0, 1_000).cast_signed() - 500,
                    dead: false,
                }
            })
            .collect();
        let row = |_| Row {
            renewals: 1,
            mark: 0,
            open: true,
        };
        let mut farm = Self {
            watching,
            rows: (0..nodes).map(row).collect(),
            next: 1,
            committed: 1,
            steps: BinaryHeap::new(),
            scheduled: 0,
            replies: Vec::new(),
            doomed: Vec::new(),
            taken: Vec::new(),
            polls: 0,
            agents,
            chance,
        };
        for n in 0..nodes {
            // All within a second of each other in one farm, spread in the next.
            let at = farm.chance.below(if seed.is_multiple_of(2) {
                SECOND
            } else {
                5 * SECOND
            });
            farm.at(at, Step::Poll(n));
            let renewal = farm.agents[n].timing.renew_every().as_nanos();
            let renewal = u64::try_from(renewal).expect("a few seconds");
            farm.agents[n].lease.renew_now();
            let at = farm.chance.below(renewal);
            farm.at(at, Step::Renew(n));
        }
        farm
    }

    fn at(&mut self, time: u64, step: Step) {
        self.scheduled += 1;
        self.steps.push(Reverse((time, self.scheduled, step)));
    }

    /// What an agent's clock shows at a true time.
    fn local(&self, n: usize, time: u64) -> BootInstant {
        let off = i128::from(time) * i128::from(self.agents[n].fast) / 1_000_000;
        BootInstant(u64::try_from(i128::from(time) + off).expect("after the boot"))
    }

    /// The true time at which an agent's clock shows this.
    fn true_time(&self, n: usize, local: BootInstant) -> u64 {
        local.0 * 1_000_000 / (1_000_000 + self.agents[n].fast).cast_unsigned() + 1
    }

    fn delay(&mut self) -> u64 {
        // Mostly a quick network and server; now and then a lock, a checkpoint, a retransmission.
        match self.chance.below(200) {
            0 => self.chance.between(MS, 90 * MS),
            _ => self.chance.between(MS / 10, 4 * MS),
        }
    }

    fn kill(&mut self, doomed: impl IntoIterator<Item = usize>) {
        self.doomed = doomed.into_iter().collect();
        self.at(DEATH, Step::Die);
    }

    /// Until every dead node is taken over.
    fn run(&mut self) {
        while self.taken.len() < self.doomed.len() {
            let Reverse((now, _, step)) = self.steps.pop().expect("somebody polls");
            assert!(now < DEATH + 300 * SECOND, "{} of them", self.taken.len());
            self.step(now, step);
        }
    }

    fn step(&mut self, now: u64, step: Step) {
        match step {
            Step::Die => {
                for n in self.doomed.clone() {
                    self.agents[n].dead = true;
                }
            }
            Step::Renew(n) if !self.agents[n].dead => {
                let sent = self.local(n, now);
                if self.agents[n].lease.take_due(sent, true) == Due::Now {
                    let drawn = now + self.delay();
                    let number = self.next;
                    self.next += 1;
                    let committed = drawn + self.delay();
                    self.at(committed, Step::Commit(n, sent, number));
                } else if let Some(due) = self.agents[n].lease.next_wakeup() {
                    self.at(self.true_time(n, due).max(now + 1), Step::Renew(n));
                }
            }
            Step::Commit(n, sent, number) => {
                self.committed = self.committed.max(number + 1);
                let row = &mut self.rows[n];
                assert!(row.open, "a renewal finds the session of {n} expired");
                (row.renewals, row.mark) = (row.renewals + 1, row.mark.max(number));
                let answered = now + self.delay();
                self.at(answered, Step::Renewed(n, sent));
            }
            Step::Renewed(n, sent) => {
                self.agents[n].lease.renewed(sent);
                let due = self.agents[n].lease.next_wakeup().expect("none is in flight");
                self.at(self.true_time(n, due), Step::Renew(n));
            }
            Step::Poll(n) if !self.agents[n].dead => {
                self.polls += 1;
                let arrives = now + self.delay();
                self.at(arrives, Step::Snapshot(n));
            }
            Step::Snapshot(n) => {
                let reply = self.poll(n, now);
                self.replies.push(Some(reply));
                let answered = now + self.delay();
                self.at(answered, Step::Polled(n, self.replies.len() - 1));
            }
            Step::Polled(n, reply) if !self.agents[n].dead => self.polled(n, now, reply),
            Step::Expire(n, renewals) => self.expire(n, renewals, now),
            _ => {}
        }
    }

    fn node(&self, n: usize) -> SilentNode {
        SilentNode {
            key: NodeKey {
                address: self.agents[n].address.clone(),
                session: 1,
                incarnation: Uuid::nil(),
                renewals: self.rows[n].renewals,
            },
            mark: self.rows[n].mark,
            lease: self.agents[n].timing,
        }
    }

    /// As `poll.sql` answers.
    fn poll(&self, own: usize, now: u64) -> (i64, Vec<SilentNode>) {
        let open = || (0..self.rows.len()).filter(|n| self.rows[*n].open);
        let newest = open().map(|n| self.rows[n].mark).max().expect("an open node");
        let above = self.committed.min(newest + 1);
        let shown: Vec<SilentNode> = match self.watching {
            Watching::Marks => {
                let ask = self.agents[own].silence.ask(self.local(own, now));
                let late = |n: &usize| *n != own && self.is_below(&ask, *n);
                open().filter(late).map(|n| self.node(n)).collect()
            }
            Watching::ThreeNeighbours => {
                let local = self.local(own, now);
                let half = self.agents[own].timing.ttl() / 2;
                let old = |(key, _): &&(NodeKey, u64)| {
                    let age = self.agents[own].neighbours.age(key, local);
                    age.is_some_and(|age| age >= half)
                };
                let suspects = self.agents[own].seen.iter().filter(old).count();
                let after = open().filter(|n| *n > own).chain(open().filter(|n| *n < own));
                after.take(3 + 2 * suspects).map(|n| self.node(n)).collect()
            }
        };
        (above, shown)
    }

    fn is_below(&self, ask: &MarksBelow, n: usize) -> bool {
        let ttl = i64::try_from(self.agents[n].timing.ttl().as_millis()).expect("a lease");
        let class = ask.ttls.iter().position(|t| ttl < *t);
        class.is_some_and(|class| self.rows[n].mark < ask.marks[class]) || self.rows[n].mark >= self.committed
    }

    fn polled(&mut self, n: usize, now: u64, reply: usize) {
        let (above, silent) = self.replies[reply].take().expect("one answer");
        let received = self.local(n, now);
        let open = (0..self.rows.len()).filter(|n| self.rows[*n].open);
        let shortest = open.map(|n| self.agents[n].timing).min_by_key(LeaseTiming::ttl);
        let agent = &mut self.agents[n];
        let (ripe, next) = match self.watching {
            Watching::Marks => {
                let silence = &mut agent.silence;
                silence.heard(&agent.address, received, above, shortest, silent);
                let ripe: Vec<NodeKey> = silence.ripe(received).into_iter().map(|(key, _)| key).collect();
                (ripe, silence.next_poll(received, agent.timing, true))
            }
            Watching::ThreeNeighbours => {
                agent.seen = silent.iter().map(|s| (s.key.clone(), 0)).collect();
                let rows = silent.into_iter().map(|s| (s.key, s.lease.challenge_after()));
                agent.neighbours.observe(received, rows);
                let regular = received + agent.timing.poll_every(true);
                let ripens = agent.neighbours.next_wakeup(received);
                (
                    agent.neighbours.ripe(received),
                    ripens.map_or(regular, |at| at.min(regular)),
                )
            }
        };
        for key in ripe {
            let of = key.address[1..].parse().expect("a number");
            let arrives = now + self.delay() + self.delay();
            self.at(arrives, Step::Expire(of, key.renewals));
        }
        self.at(self.true_time(n, next).max(now + 1), Step::Poll(n));
    }

    fn expire(&mut self, n: usize, renewals: i64, now: u64) {
        if !self.rows[n].open || self.rows[n].renewals != renewals {
            return;
        }
        assert!(self.agents[n].dead, "node {n} lives and was expired");
        // What its warden was told at most: the kernel's timer has rung, and all that ran is gone.
        let gone = self.agents[n].lease.deadline() + self.agents[n].timing.kill_allowance();
        assert!(
            self.local(n, now) >= gone,
            "node {n} was expired before its processes were gone"
        );
        self.rows[n].open = false;
        self.taken.push((n, Duration::from_nanos(now - DEATH) + CLAIM));
    }

    /// Those taken over later than promised, by how much.
    fn late(&self) -> Vec<(usize, Duration)> {
        let over = |(n, delay): &(usize, Duration)| {
            let promise = self.agents[*n].timing.ttl() * 11 / 10 + Duration::from_secs(2);
            (*delay > promise).then(|| (*n, *delay - promise))
        };
        self.taken.iter().filter_map(over).collect()
    }

    fn longest(&self) -> Duration {
        self.taken
            .iter()
            .map(|(_, delay)| *delay)
            .max()
            .unwrap_or_default()
    }
}

/// Every node of these is dead at once.
fn deaths(seed: u64, nodes: usize) -> Vec<(&'static str, Vec<usize>)> {
    let mut chance = Chance::new(seed);
    let mut any: HashSet<usize> = HashSet::new();
    while any.len() < nodes / 2 {
        any.insert(usize::try_from(chance.below(nodes as u64)).expect("a node"));
    }
    let mut any: Vec<usize> = any.into_iter().collect();
    any.sort_unstable();
    let first = nodes / 3;
    vec![
        ("a rack of 40", (first..first + 40).collect()),
        ("half of the farm", any),
        ("one", vec![nodes - 1]),
    ]
}

const MIXED: [u64; 5] = [30_000, 3_000, 60_000, 10_000, 30_000];

#[test]
fn whoever_dies_is_taken_over_within_the_promise() {
    for ttls in [&[30_000][..], &MIXED] {
        for (seed, (who, doomed)) in (1..).zip(deaths(7, 1_000)) {
            let mut farm = Farm::new(seed, 1_000, ttls, Watching::Marks);
            farm.kill(doomed);
            farm.run();
            let (longest, polls) = (farm.longest(), farm.polls);
            println!("{ttls:?}, {who}: all within {longest:?}, {polls} polls");
            assert_eq!(farm.late(), [], "{ttls:?}, {who}");
        }
    }
}

#[test]
fn one_survivor_takes_all_over() {
    for seed in 0..20 {
        for ttls in [&[3_000][..], &[10_000], &[38_000], &MIXED] {
            let mut farm = Farm::new(seed, 60, ttls, Watching::Marks);
            farm.kill((0..60).filter(|n| *n as u64 != seed * 3));
            farm.run();
            assert_eq!(farm.late(), [], "{ttls:?}, seed {seed}");
        }
    }
}

/// What it replaced, so that the simulation is seen to find what it looks for.
#[test]
fn three_neighbours_in_address_order_are_too_few() {
    let mut farm = Farm::new(1, 10, &[10_000], Watching::ThreeNeighbours);
    farm.kill(4..10);
    farm.run();
    println!("six of ten: {:?} after a lease of 10 s", farm.longest());
    assert!(!farm.late().is_empty(), "{:?}", farm.taken);
    let mut farm = Farm::new(1, 10, &[10_000], Watching::Marks);
    farm.kill(4..10);
    farm.run();
    assert_eq!(farm.late(), []);
}
