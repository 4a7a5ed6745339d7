//! The store's statements against the model's meaning of them, on random sequences over real PostgreSQL.
//!
//! The model (`tests/model/db.rs`) says what each statement does to two nodes and two runs; here both do
//! the same, with parameters that are right about half the time, and are compared after each step. Many
//! connections at once are the storm's business (`tests/store/storm.rs`).

#[path = "../model/config.rs"]
#[expect(dead_code, reason = "the model's own tests use the rest")]
mod config;
#[path = "../model/db.rs"]
#[expect(
    clippy::needless_range_loop,
    reason = "a run's number indexes several arrays at once"
)]
mod db;
#[path = "../model/locks.rs"]
mod locks;
#[path = "../model/named.rs"]
#[expect(dead_code, reason = "the model's own tests use the rest")]
mod named;
#[path = "../model/size.rs"]
mod size;
#[path = "../model/start.rs"]
mod start;
#[path = "../model/state.rs"]
#[expect(dead_code, reason = "the model's own tests use the rest")]
mod state;

mod leases;
mod real;

use config::{Config, Faults, Features, Start};
use real::Real;
use state::{ADDRESSES, ANY, Held, NO_NODE, Op, Phase, RUNS, Reply, State, Stmt};

const ROUNDS: u64 = 40;
const STEPS: usize = 40;
/// Below the number at which a takeover ends a run, which the model does not know.
const MAX_TAKEOVERS: u32 = 5;

fn config() -> Config {
    Config {
        name: "store",
        removed: [None; 3],
        addresses: [0, 1],
        hosts: 2,
        runs: RUNS,
        lease_ticks: 2,
        wait_ticks: 2,
        longer: [[0; 2]; 2],
        max_attempts: u8::MAX,
        max_session: [u8::MAX; 2],
        max_incarnations: u8::MAX,
        max_lost_commits: 0,
        faults: Faults::default(),
        features: Features::default(),
        start: Start::Empty,
    }
}

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).expect("below n")
    }

    fn of(&mut self, n: u8) -> u8 {
        u8::try_from(self.below(usize::from(n))).expect("below n")
    }

    /// `right`, or now and then something near it.
    fn near(&mut self, right: u8) -> u8 {
        match self.below(12) {
            0 => right.saturating_sub(1),
            1 => right + 1,
            _ => right,
        }
    }

    fn statement(&mut self, s: &State) -> (u8, Stmt) {
        let address = self.of(2);
        let node = s.db.nodes[usize::from(address)];
        let (session, incarnation) = (self.near(node.session), self.incarnation(node.incarnation));
        let run = self.of(2);
        let row = s.db.runs[usize::from(run)];
        let held = Held {
            run,
            attempt: self.near(row.attempt),
            fence: self.near(row.fence),
            address: if self.below(12) == 0 {
                1 - row.address
            } else {
                row.address
            },
            session: self.near(row.session),
        };
        let stmt = match self.below(20) {
            0..4 => Stmt::Open {
                incarnation: 1 + self.of(3),
                longer: self.of(3),
            },
            4..6 => Stmt::Renew {
                session,
                incarnation,
                known: 0,
                longer: self.of(3),
            },
            6 => Stmt::Close {
                session,
                incarnation,
                known: [[ANY; 2], [ANY; 2], [self.of(3), self.of(3)]][usize::from(self.of(3))],
            },
            7..13 => Stmt::Claim {
                session,
                incarnation,
                server: s.db.server,
            },
            13 => Stmt::Finish { held },
            14 => Stmt::Retry { held },
            15 => Stmt::Release { held },
            16..19 => Stmt::Expire {
                address,
                session,
                incarnation,
                renewals: self.near(node.renewals),
            },
            _ => Stmt::Sweep,
        };
        (address, stmt)
    }

    fn incarnation(&mut self, right: u8) -> u8 {
        if self.below(12) == 0 {
            1 + self.of(3)
        } else {
            right
        }
    }
}

/// What the model makes of a statement that nothing disturbs.
fn meaning(cfg: &Config, s: &mut State, address: u8, stmt: Stmt, pick: u8) -> Reply {
    let mut op = Op {
        stmt,
        phase: Phase::Sent,
        address,
        age: 0,
        before_warden: false,
    };
    loop {
        match s.server_step(cfg, &op, pick) {
            Some(Phase::Done(reply)) => return reply,
            Some(phase) => op.phase = phase,
            None => unreachable!("alone, a statement waits for nothing"),
        }
    }
}

#[tokio::test]
async fn every_statement_means_what_the_model_says() {
    let cfg = config();
    let mut real = Real::new().await;
    let mut seen = std::collections::BTreeMap::<&str, [u32; 2]>::new();
    for round in 0..ROUNDS {
        let mut chance = Chance(round);
        let mut s = State::initial(&cfg);
        assert_eq!(s.db.nodes, [NO_NODE; ADDRESSES]);
        real.begin().await;
        let mut path = Vec::new();
        for _ in 0..STEPS {
            let (address, stmt) = chance.statement(&s);
            let pick = chance.of(2);
            // By somebody else, over these statements: the others would wait.
            let passes = matches!(stmt, Stmt::Expire { .. } | Stmt::Sweep | Stmt::Claim { .. });
            let locked = (passes && chance.of(4) == 0).then(|| usize::from(chance.of(2)));
            path.push(format!("{address} {stmt:?} pick {pick} locked {locked:?}"));
            s.locked = std::array::from_fn(|r| locked == Some(r));
            let expected = meaning(&cfg, &mut s, address, stmt, pick);
            s.locked = [false; RUNS];
            if let Some(run) = locked {
                real.lock(run).await;
            }
            let answer = real::told(&stmt, real.run(address, stmt, pick).await, expected);
            real.unlock().await;
            assert_eq!(
                answer,
                real::told(&stmt, expected, expected),
                "round {round}\n{}",
                path.join("\n")
            );
            assert_eq!(real.db(&s.db).await, s.db, "round {round}\n{}", path.join("\n"));
            seen.entry(real::name(&stmt)).or_default()[usize::from(real::changed(&answer))] += 1;
            if real.takeovers().await >= MAX_TAKEOVERS {
                break;
            }
        }
    }
    println!("statement: [without effect, with effect] {seen:?}");
    for (statement, [without, with]) in seen {
        assert!(
            without > 0 || statement == "sweep",
            "{statement} always had an effect"
        );
        assert!(
            with > 0 || statement == "sweep",
            "{statement} never had an effect"
        );
    }
}
