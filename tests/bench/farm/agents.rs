//! Simulated agents: what an agent says to PostgreSQL, when it would say it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use farmhand_core::lease::{LeaseTiming, MarksBelow, claim_delay};
use farmhand_core::retry::full_jitter;
use farmhand_store::protocol::{Fire, NodeReport, claim, close, finish, fire_for, poll, renew};
use farmhand_store::{Db, DbConfig, LeaseIdentity, Note};
use farmhand_tests::bench::queue::{end, session};
use farmhand_tests::pg::PrivateServer;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

pub const TTL: Duration = Duration::from_secs(30);
/// Nodes that try a due instant by themselves, as in the agent.
const RANKS: usize = 3;
const EVERY: i64 = 60;
/// Until the first instant: long enough for every agent to know its turns.
const AHEAD: i64 = 5;
const SLOTS: usize = 8;

/// What all agents together did.
#[derive(Default)]
pub struct Counts {
    statements: Arc<AtomicU64>,
    /// Notifications that arrived, at all agents together.
    pub notes: AtomicU64,
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
#[derive(Clone, Copy)]
struct Turn {
    at: Timestamp,
    job: usize,
    rev: i64,
    rank: usize,
}

impl Turn {
    fn taken_at(&self) -> Timestamp {
        self.at + claim_delay(self.rank)
    }
}

/// Each agent's instants, last first.
type Turns = Arc<Vec<Vec<Turn>>>;

struct Agent {
    db: Db,
    me: LeaseIdentity,
    counts: Arc<Counts>,
    notes: mpsc::Receiver<Note>,
    number: usize,
    of: usize,
    /// Empty while no job fires.
    turns: watch::Receiver<Turns>,
    renewed: Arc<AtomicU64>,
    slower: u32,
}

/// How the agents of a fleet come to the server.
#[derive(Clone)]
pub struct Way {
    pub how: &'static str,
    pub config: DbConfig,
    /// All of them use these few connections, which know their statements: what a pooler that keeps them is to the server.
    pub shared: bool,
    /// What an agent does at intervals it does so many times more slowly.
    pub slower: u32,
}

pub struct Fleet {
    tasks: Vec<JoinHandle<()>>,
    sessions: Vec<(Db, LeaseIdentity)>,
    turns: watch::Sender<Turns>,
    renewed: Vec<Arc<AtomicU64>>,
}

impl Fleet {
    pub async fn open(way: &Way, size: usize, counts: &Arc<Counts>) -> Self {
        let (turns, listen) = watch::channel(Turns::default());
        let shared = way.shared.then(|| Db::new(&way.config));
        let mut fleet = Self {
            tasks: Vec::new(),
            sessions: Vec::new(),
            turns,
            renewed: Vec::new(),
        };
        for number in 0..size {
            let said = Arc::clone(&counts.statements);
            let observer = Arc::new(move |_: &'static str, _: Duration, _: Option<&_>| {
                said.fetch_add(1, Ordering::Relaxed);
            });
            let (db, notes) = match &shared {
                Some(db) => (db.clone(), mpsc::channel(1).1),
                None => Db::dedicated(&way.config),
            };
            let db = db.observed_by(observer);
            let me = session(&db, &format!("{}-{number}", uuid::Uuid::new_v4().simple())).await;
            let renewed = Arc::new(AtomicU64::new(0));
            fleet.renewed.push(Arc::clone(&renewed));
            fleet.sessions.push((db.clone(), me.clone()));
            let agent = Agent {
                db,
                me,
                counts: Arc::clone(counts),
                notes,
                number,
                of: size,
                turns: listen.clone(),
                renewed,
                slower: way.slower,
            };
            fleet.tasks.push(tokio::spawn(agent.live()));
        }
        fleet
    }

    /// From some seconds from now on, for `minutes`, each of the first `jobs` jobs fires once a minute, evenly spread.
    /// Returns when the first is due.
    pub async fn schedule(&self, server: &PrivateServer, jobs: usize, minutes: i64) {
        let first = Timestamp::from_second(Timestamp::now().as_second() + AHEAD).expect("soon");
        let sql = server.client().await;
        // What an earlier size left undone is none of this one's lateness.
        sql.execute("DELETE FROM farmhand.run_live", &[])
            .await
            .expect("nothing left");
        let rows = sql
            .query(
                "UPDATE farmhand.job SET scheduled = true,
                     next_run = $1::timestamptz + substr(job_id, 4)::bigint * 60000000 / $2::int * interval '1 microsecond'
                 WHERE job_id LIKE 'job%'
                 RETURNING substr(job_id, 4)::bigint, rev",
                &[&first, &i32::try_from(jobs).expect("a number of jobs")],
            )
            .await
            .expect("a schedule");
        let mut revs = vec![0; jobs];
        for row in rows {
            let job = usize::try_from(row.get::<_, i64>(0)).expect("a number of a job");
            revs[job] = row.get(1);
        }
        self.turns
            .send_replace(Arc::new(turns(self.sessions.len(), &revs, first, minutes)));
        tokio::time::sleep_until(at_clock(first)).await;
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
        }
        self.sessions.iter().for_each(|(db, _)| db.close());
    }
}

impl Agent {
    async fn live(mut self) {
        let timing = LeaseTiming::new(TTL).expect("a lease of 30 s");
        let listens = self.db.config().listen;
        let polls = timing.poll_every(listens) * self.slower;
        let renewals = timing.renew_every() * self.slower;
        // Nobody's first statement is at the same moment as another's.
        let part = self.number as f64 / self.of as f64;
        let mut poll_at = Instant::now() + polls.mul_f64(part);
        let mut renew_at = Instant::now() + renewals.mul_f64(part);
        let mut turns: Vec<Turn> = Vec::new();
        let mut failures = 0_u32;
        loop {
            let turn = turns.last().map(|t| at_clock(t.taken_at()));
            let next = poll_at.min(renew_at).min(turn.unwrap_or(poll_at));
            tokio::select! {
                () = sleep_until(next) => {}
                changed = self.turns.changed() => {
                    if changed.is_err() { return }
                    turns.clone_from(&self.turns.borrow_and_update()[self.number]);
                    continue;
                }
                Some(_) = self.notes.recv() => {
                    self.counts.notes.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            }
            let now = Instant::now();
            if turn.is_some_and(|at| at <= now) {
                let (mut due, wall) = (Vec::new(), Timestamp::now());
                while turns.last().is_some_and(|t| t.taken_at() <= wall) {
                    due.extend(turns.pop());
                }
                self.take(&due).await;
            } else if renew_at <= now {
                let again = match renew(&self.db, &self.me, TTL, &NodeReport::default()).await {
                    Ok(_) => {
                        self.renewed.fetch_add(1, Ordering::Release);
                        failures = 0;
                        renewals
                    }
                    // As the keeper does.
                    Err(_) => {
                        failures += 1;
                        let ceiling = Duration::from_millis(100 << failures.min(6)).min(renewals);
                        let random = uuid::Uuid::new_v4().as_u64_pair().0;
                        Duration::from_millis(20) + full_jitter(ceiling, random)
                    }
                };
                renew_at = Instant::now() + again;
            } else {
                let _ = poll(&self.db, &self.me, &MarksBelow::default()).await;
                poll_at = Instant::now() + polls;
            }
        }
    }

    async fn take(&self, due: &[Turn]) {
        let fires: Vec<Fire> = due
            .iter()
            .map(|turn| Fire {
                job_id: format!("job{}", turn.job),
                rev: turn.rev,
                seen: turn.at,
                following: Some(turn.at + SignedDuration::from_secs(EVERY)),
                due: vec![turn.at],
                late_ms: 0,
                skipped: Vec::new(),
            })
            .collect();
        match fire_for(&self.db, &fires, SLOTS).await {
            Ok(fired) if fired.is_empty() => return,
            Ok(_) => {}
            Err(error) => return self.failed("fire", &error),
        }
        let claimed = match claim(&self.db, &self.me, SLOTS as i64, None).await {
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

    fn failed(&self, what: &str, error: &farmhand_store::StoreError) {
        eprintln!("{what}: {error}");
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each agent's turns: an even draw of three agents for each instant, as the rendezvous hash gives.
fn turns(agents: usize, revs: &[i64], first: Timestamp, minutes: i64) -> Vec<Vec<Turn>> {
    let (jobs, mut turns) = (revs.len(), vec![Vec::new(); agents]);
    for (job, rev) in revs.iter().copied().enumerate() {
        let offset = SignedDuration::from_micros(job as i64 * 60_000_000 / jobs as i64);
        for round in 0..minutes {
            let at = first + offset + SignedDuration::from_secs(round * EVERY);
            let draw = (job as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ (round as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
            for rank in 0..RANKS.min(agents) {
                let chosen = ((draw >> 17) as usize + rank) % agents;
                turns[chosen].push(Turn { at, job, rev, rank });
            }
        }
    }
    for own in &mut turns {
        own.sort_by_key(|t| std::cmp::Reverse((t.taken_at(), t.job)));
    }
    turns
}

/// When the wall clock shows it.
fn at_clock(at: Timestamp) -> Instant {
    let left = at.duration_since(Timestamp::now());
    Instant::now() + Duration::try_from(left).unwrap_or_default()
}
