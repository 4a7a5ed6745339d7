//! A farm of real agents against a real PostgreSQL, for one test.
//!
//! Every process of it carries the farm's directory in its command line or its environment, so that the end
//! of a test can prove that nothing is left. Agents log in with the rights of `farmhand_agent` and commands with those
//! of `farmhand_operator`, so that each test also shows that these are enough.

mod agent;
mod builder;
mod database;
mod rows;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::pg::Client;
use tempfile::TempDir;

pub(crate) use agent::spawn_for_good;
pub use agent::{Agent, send, stop};
pub use builder::FarmBuilder;
pub use database::Database;
pub use rows::{Attempt, Run};

use crate::bin::{beside, farmhand};
use crate::pg::TestDb;
use crate::processes;
use crate::witness::Witness;

/// For what normally takes moments, on a machine busy with other things.
pub const SOON: Duration = Duration::from_secs(20);
/// The shortest lease there is: tests are short with it.
pub const TTL: Duration = Duration::from_secs(3);
/// A lease for tests that wait for no end of one: longer than an agent or its database takes to start again.
pub const CALM: Duration = Duration::from_secs(30);
/// Promise 4: when a node dies its runs are elsewhere within this.
pub const TAKEOVER: Duration = takeover(TTL);

/// The same, of a node whose lease is this long.
pub const fn takeover(lease: Duration) -> Duration {
    Duration::from_millis(lease.as_millis() as u64 * 11 / 10 + 2_000)
}

/// A running farm; everything it started ends with it.
pub struct Farm {
    pub agents: Vec<Agent>,
    /// A plain connection of the test's own, past every proxy.
    pub sql: Client,
    pub witness: Witness,
    dir: TempDir,
    // Dropped after `drop` has ended the agents.
    pub database: Database,
}

impl Farm {
    #[expect(clippy::new_ret_no_self, reason = "a farm begins with how it shall be")]
    pub fn new() -> FarmBuilder {
        FarmBuilder::default()
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The agent under this address.
    ///
    /// # Panics
    /// When there is none.
    pub fn agent(&mut self, address: &str) -> &mut Agent {
        let found = self.agents.iter_mut().find(|a| a.address == address);
        found.unwrap_or_else(|| panic!("no agent {address}"))
    }

    /// Another agent than the one under this address.
    pub fn other_than(&self, address: &str) -> &Agent {
        self.agents
            .iter()
            .find(|a| a.address != address)
            .expect("two agents")
    }

    /// Stores job definitions as a user does: with `farmhand job apply`. `WITNESS` in the text becomes the
    /// beginning of a command list, as in `command = [WITNESS, "500"]`; `@DIR@` is the farm's directory.
    pub fn apply(&self, jobs: &str) {
        let file = self.dir.path().join("jobs.toml");
        let mut text = jobs.replace("@DIR@", &self.dir.path().display().to_string());
        if text.contains("WITNESS") {
            let witness = format!("{:?}, {:?}", witness_program(), self.witness.path());
            text = text.replace("WITNESS", &witness);
        }
        std::fs::write(&file, text).expect("the job file");
        self.ok(&["job", "apply", &file.display().to_string()]);
    }

    /// Runs a `farmhand` command against this farm's database, as an operator.
    pub fn farmhand(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("farmhand starts")
    }

    /// The same, not yet started.
    pub fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(farmhand());
        command
            .args(arguments)
            .env("FARMHAND_DATABASE_URL", self.database.operator_url())
            .env("NO_COLOR", "1")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command
    }

    /// The same, for its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.farmhand(arguments);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success(),
            "farmhand {arguments:?}: {}\n{out}{err}",
            output.status
        );
        out.into_owned()
    }

    /// Starts the agents of a prepared farm; each of them has its session when this returns.
    pub async fn start_agents(&mut self) {
        for agent in &mut self.agents {
            agent.spawn();
        }
        for agent in &mut self.agents {
            agent.ready().await;
        }
    }

    /// Starts one more agent with the same settings as the first, under its own address.
    pub async fn add_agent(&mut self, address: &str) {
        let like = self.agents.first().expect("an agent");
        let agent = like.another(self.dir.path(), address);
        self.agents.push(agent);
        self.agent(address).start().await;
    }

    /// Processes that belong to this farm, by their command line or environment.
    pub fn processes(&self) -> Vec<processes::Process> {
        processes_of(self.dir.path())
    }

    /// Living processes of a run, whatever they did to get away.
    pub fn processes_of_run(&self, run_id: i64) -> Vec<processes::Process> {
        let mark = format!("FARMHAND_RUN={run_id}");
        let mut found = self.processes();
        found.retain(|p| p.environment.contains(&mark));
        found
    }

    /// Checks what must hold whatever happened: no two lives of one run, one outcome per due instant, no
    /// end by a stale attempt.
    ///
    /// # Panics
    /// With what contradicts it.
    pub async fn check(&self) {
        self.witness.check();
        let twice: i64 = self
            .value(
                "SELECT count(*) FROM (SELECT job_id, due_at, instance, node FROM farmhand.run
                 WHERE kind = 'scheduled' AND count = 1
                 GROUP BY job_id, due_at, instance, node HAVING count(*) > 1) d",
            )
            .await;
        assert_eq!(twice, 0, "due instants with two records");
        let rows = self
            .sql
            .query(
                "SELECT run_id, attempt, fence FROM farmhand.run_history WHERE state = 'succeeded'
                 AND run_id = ANY($1)",
                &[&self.witnessed()],
            )
            .await
            .expect("the history");
        for row in rows {
            let (run, attempt, fence): (i64, i32, i64) = (row.get(0), row.get(1), row.get(2));
            let lives = self.witness.lives(run);
            let life = lives
                .get(&attempt)
                .unwrap_or_else(|| panic!("run {run} attempt {attempt} never lived"));
            assert!(
                life.ended && life.fence == fence,
                "run {run} succeeded by {attempt} ({fence}): {lives:?}"
            );
            let last = lives.keys().last();
            assert_eq!(
                last,
                Some(&attempt),
                "run {run} was ended by a stale attempt: {lives:?}"
            );
        }
    }

    fn witnessed(&self) -> Vec<i64> {
        let mut runs: Vec<i64> = self.witness.lines().iter().map(|l| l.run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    /// Waits until a metric of an agent says so: what is written down is counted a moment later.
    ///
    /// # Panics
    /// When it goes on saying something else.
    pub async fn counts(&self, agent: &Agent, name: &str, labels: &[&str], wanted: f64) {
        self.eventually(name, SOON, async || match agent.metric(name, labels).await {
            now if (now - wanted).abs() < 0.1 => Ok(()),
            now => Err(format!("{now} is not {wanted}")),
        })
        .await;
    }

    /// Looks until `look` finds something, at most for `bound`.
    ///
    /// # Panics
    /// When the time is over, with what the agents said.
    pub async fn eventually<T>(
        &self,
        what: &str,
        bound: Duration,
        mut look: impl AsyncFnMut() -> Result<T, String>,
    ) -> T {
        let deadline = Instant::now() + bound;
        loop {
            match look().await {
                Ok(found) => return found,
                Err(why) if Instant::now() >= deadline => {
                    panic!("not within {bound:?}: {what}: {why}")
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for agent in &self.agents {
                eprintln!("--- {}:\n{}", agent.address, agent.log_tail(60));
            }
        }
        for agent in &mut self.agents {
            agent.destroy();
        }
        let left = left_after(self.dir.path(), Duration::from_secs(15));
        for process in &left {
            // SAFETY: a plain system call; the process carries this farm's directory.
            unsafe { libc::kill(process.pid, libc::SIGKILL) };
        }
        if !left.is_empty() && !std::thread::panicking() {
            panic!("the farm left processes behind: {left:#?}");
        }
    }
}

fn left_after(dir: &Path, bound: Duration) -> Vec<processes::Process> {
    let deadline = Instant::now() + bound;
    loop {
        let left = processes_of(dir);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Living processes that name `dir` in their command line or environment; not this one.
pub(crate) fn processes_of(dir: &Path) -> Vec<processes::Process> {
    let mark = dir.display().to_string();
    let own = std::process::id().cast_signed();
    processes::all()
        .into_iter()
        .filter(|p| p.pid != own && p.state != 'Z')
        .filter(|p| p.command.contains(&mark) || p.environment.iter().any(|e| e.contains(&mark)))
        .collect()
}

/// The program that test jobs run, built beside the tests and the measurements.
pub(crate) fn witness_program() -> PathBuf {
    beside("farmhand-witness")
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl From<TestDb> for Database {
    fn from(db: TestDb) -> Self {
        Self::Shared(db)
    }
}
