//! Simulated agents: what an agent says to PostgreSQL, when it would say it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farmhand_common::core::lease::{LeaseTiming, claim_delay};
use farmhand_common::store::protocol::{Fire, claim, close, finish, fire, look, renew};
use farmhand_common::store::{Db, DbConfig, Me};
use farmhand_tests::bench::queue::{end, session};
use farmhand_tests::pg::PrivateServer;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

pub const TTL: Duration = Duration::from_secs(30);
/// Nodes that try a due instant by themselves, as in the agent.
const RANKS: usize = 3;
const EVERY: i64 = 60;

/// What all agents together did.
#[derive(Default)]
pub struct Counts {
    statements: Arc<AtomicU64>,
    pub errors: AtomicU64,
    late: Mutex<Vec<u64>>,
}

impl Counts {
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    pub fn take_late(&self) -> Vec<u64> {
        std::mem::take(&mut *self.late.lock().expect("no panic holds it"))
    }
}

/// A job's next instant, as every agent's copy of the schedule has it, and the agent whose turn it is.
#[derive(Clone)]
struct Turn {
    at: Timestamp,
    job: String,
    rank: usize,
}

struct Agent {
    db: Db,
    me: Me,
    counts: Arc<Counts>,
    number: usize,
    of: usize,
    /// How many jobs fire; nobody fires while it is 0.
    jobs: watch::Receiver<(usize, Timestamp)>,
    renewed: Arc<AtomicU64>,
}

pub struct Fleet {
    tasks: Vec<JoinHandle<()>>,
    sessions: Vec<(Db, Me)>,
    jobs: watch::Sender<(usize, Timestamp)>,
    renewed: Vec<Arc<AtomicU64>>,
}

impl Fleet {
    pub async fn open(config: &DbConfig, size: usize, counts: &Arc<Counts>) -> Self {
        let (jobs, listen) = watch::channel((0, Timestamp::UNIX_EPOCH));
        let mut fleet = Self {
            tasks: Vec::new(),
            sessions: Vec::new(),
            jobs,
            renewed: Vec::new(),
        };
        for number in 0..size {
            let said = Arc::clone(&counts.statements);
            let observer = Arc::new(move |_: &'static str, _: Duration, _: Option<&_>| {
                said.fetch_add(1, Ordering::Relaxed);
            });
            let config = config.clone().with_max_pool(1).with_listen(false);
            let db = Db::new(&config).observed_by(observer);
            let me = session(&db, &format!("{}-{number}", uuid::Uuid::new_v4().simple())).await;
            let renewed = Arc::new(AtomicU64::new(0));
            fleet.renewed.push(Arc::clone(&renewed));
            fleet.sessions.push((db.clone(), me.clone()));
            let agent = Agent {
                db,
                me,
                counts: Arc::clone(counts),
                number,
                of: size,
                jobs: listen.clone(),
                renewed,
            };
            fleet.tasks.push(tokio::spawn(agent.live()));
        }
        fleet
    }

    /// From two seconds from now on each of the first `jobs` jobs fires once a minute, evenly spread.
    pub async fn schedule(&self, server: &PrivateServer, jobs: usize) {
        let first = Timestamp::from_second(Timestamp::now().as_second() + 2).expect("soon");
        let sql = server.client().await;
        sql.execute(
            "UPDATE farmhand.job SET scheduled = true,
                 next_run = $1::timestamptz + substr(job_id, 4)::bigint * 60000000 / $2::int * interval '1 microsecond'
             WHERE job_id LIKE 'job%'",
            &[&first, &i32::try_from(jobs).expect("a number of jobs")],
        )
        .await
        .expect("a schedule");
        self.jobs.send_replace((jobs, first));
    }

    pub async fn all_renewed(&self, within: Duration) -> bool {
        let before: Vec<u64> = self.renewed.iter().map(|r| r.load(Ordering::Acquire)).collect();
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            let mut each = self.renewed.iter().zip(&before);
            if each.all(|(now, before)| now.load(Ordering::Acquire) > *before) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    pub async fn close(self) {
        for task in &self.tasks {
            task.abort();
        }
        for (db, me) in &self.sessions {
            // A connection that an abort interrupted is replaced.
            let _ = close(db, me).await;
            db.close();
        }
    }
}

impl Agent {
    async fn live(mut self) {
        let timing = LeaseTiming::new(TTL).expect("a lease of 30 s");
        let (looks, renewals) = (timing.look_every(true), timing.renew_every());
        // Nobody's first statement is at the same moment as another's.
        let part = self.number as f64 / self.of as f64;
        let mut look_at = Instant::now() + looks.mul_f64(part);
        let mut renew_at = Instant::now() + renewals.mul_f64(part);
        let mut turns: Vec<Turn> = Vec::new();
        loop {
            let turn = turns.last().map(|t| at_clock(t.at) + claim_delay(t.rank));
            let next = look_at.min(renew_at).min(turn.unwrap_or(look_at));
            tokio::select! {
                () = sleep_until(next) => {}
                changed = self.jobs.changed() => {
                    if changed.is_err() { return }
                    turns = self.turns();
                    continue;
                }
            }
            let now = Instant::now();
            if turn.is_some_and(|at| at <= now) {
                let mut due = Vec::new();
                while turns
                    .last()
                    .is_some_and(|t| at_clock(t.at) + claim_delay(t.rank) <= now)
                {
                    due.extend(turns.pop());
                }
                self.take(&due).await;
            } else if renew_at <= now {
                // Retried soon, as by the keeper.
                let again = match renew(&self.db, &self.me, TTL, None).await {
                    Ok(_) => {
                        self.renewed.fetch_add(1, Ordering::Release);
                        renewals
                    }
                    Err(_) => Duration::from_millis(100 + (self.number as u64 * 7919) % 1500),
                };
                renew_at = now + again;
            } else {
                let _ = look(&self.db, &self.me, 3).await;
                look_at = Instant::now() + looks;
            }
        }
    }

    /// The instants of the coming hour at which this agent tries, last first.
    fn turns(&self) -> Vec<Turn> {
        let (jobs, first) = *self.jobs.borrow();
        let mut turns = Vec::new();
        for n in 0..jobs {
            let offset = SignedDuration::from_micros(n as i64 * 60_000_000 / jobs as i64);
            for round in 0..60 {
                // An even draw of three agents for each instant, as the rendezvous hash gives.
                let draw = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    ^ (round as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
                let chosen = (draw >> 17) as usize % self.of;
                let rank = (self.number + self.of - chosen) % self.of;
                if rank < RANKS {
                    turns.push(Turn {
                        at: first + offset + SignedDuration::from_secs(round * EVERY),
                        job: format!("job{n}"),
                        rank,
                    });
                }
            }
        }
        turns.sort_by_key(|t| std::cmp::Reverse((t.at, t.rank)));
        turns
    }

    async fn take(&self, due: &[Turn]) {
        let fires: Vec<Fire> = due
            .iter()
            .map(|turn| Fire {
                job_id: turn.job.clone(),
                rev: 1,
                seen: turn.at,
                following: Some(turn.at + SignedDuration::from_secs(EVERY)),
                due: vec![turn.at],
                skipped: Vec::new(),
            })
            .collect();
        match fire(&self.db, &fires).await {
            Ok(fired) if fired.is_empty() => return,
            Ok(_) => {}
            Err(error) => return self.failed("fire", &error),
        }
        let claimed = match claim(&self.db, &self.me, 8, None).await {
            Ok(claimed) => claimed,
            Err(error) => return self.failed("claim", &error),
        };
        let now = Timestamp::now();
        let late = claimed.iter().map(|run| {
            let after = now.duration_since(run.due_at).as_nanos();
            u64::try_from(after).unwrap_or(0)
        });
        self.counts.late.lock().expect("no panic holds it").extend(late);
        let ends: Vec<_> = claimed.iter().map(|run| end(&self.me, run)).collect();
        if let Err(error) = finish(&self.db, &ends).await {
            self.failed("finish", &error);
        }
    }

    fn failed(&self, what: &str, error: &farmhand_common::store::StoreError) {
        eprintln!("{what}: {error}");
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// When the wall clock shows it.
fn at_clock(at: Timestamp) -> Instant {
    let left = at.duration_since(Timestamp::now());
    Instant::now() + Duration::try_from(left).unwrap_or_default()
}
