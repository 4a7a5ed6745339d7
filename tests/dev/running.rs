//! A `farmhand dev` that runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use farmhand_tests::bin::farmhand;
use farmhand_tests::pg::{Client, connect};
use farmhand_tests::processes::{self, Process};
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

/// What starting PostgreSQL and three agents may take on a busy machine.
pub const START: Duration = Duration::from_secs(100);
pub const END: Duration = Duration::from_secs(10);

/// A running `farmhand dev`. Dropped without [`Dev::end`], it is killed, and its children end with it.
pub struct Dev {
    pub child: Child,
    pub dir: PathBuf,
    pub port: u16,
    pub said: PathBuf,
}

impl Dev {
    pub fn start(home: &TempDir) -> Self {
        Self::start_with(home, &[])
    }

    pub fn start_with(home: &TempDir, arguments: &[&str]) -> Self {
        let port = farmhand_tests::ports::free_port();
        let said = home.path().join("said");
        let log = fs::File::create(&said).unwrap();
        let mut command = Self::command_for(&home.path().join("farm"), port);
        let child = command
            .args(arguments)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut dev = Self {
            child,
            dir: home.path().canonicalize().unwrap().join("farm"),
            port,
            said,
        };
        eventually("the farm runs", START, || {
            if let Ok(Some(status)) = dev.child.try_wait() {
                panic!("{status}:\n{}", dev.said());
            }
            dev.said()
                .contains("The farm runs.")
                .then_some(())
                .ok_or_else(|| dev.said())
        });
        dev
    }

    pub fn command_for(dir: &Path, port: u16) -> Command {
        let mut command = Command::new(farmhand());
        command
            .args(["dev", "--port", &port.to_string(), "--data"])
            .arg(dir)
            .stdin(Stdio::null());
        command
    }

    pub fn command(&self) -> Command {
        Self::command_for(&self.dir, self.port)
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    pub fn url(&self) -> String {
        fs::read_to_string(self.dir.join("url"))
            .unwrap()
            .trim()
            .to_owned()
    }

    pub async fn sql(&self) -> Client {
        connect(&self.url()).await
    }

    pub fn cli(&self, arguments: &[&str]) -> Output {
        Command::new(farmhand())
            .args(arguments)
            .env("FARMHAND_DATABASE_URL", self.url())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What a command that succeeds prints.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let out = self.cli(arguments);
        assert!(
            out.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    }

    pub fn agent(&self, name: &str) -> Process {
        let state = self.dir.join(name).display().to_string();
        let found = processes::with_command(&state);
        let agent = found
            .into_iter()
            .find(|p| p.command.contains(" agent ") && p.state != 'Z');
        agent.unwrap_or_else(|| panic!("no agent {name}"))
    }

    /// Whatever has to do with this farm: below it, or naming its directory as an argument or a variable.
    pub fn processes(&self) -> Vec<Process> {
        let dir = self.dir.display().to_string();
        let own = std::process::id().cast_signed();
        let mut found = processes::tree(self.pid());
        found.extend(processes::all().into_iter().filter(|p| {
            p.pid != own && (p.command.contains(&dir) || p.environment.iter().any(|v| v.contains(&dir)))
        }));
        found.retain(|p| p.state != 'Z');
        found
    }

    /// Ctrl-C, and how long it took.
    pub fn end(mut self, signal: i32) -> Duration {
        let began = Instant::now();
        kill(self.pid(), signal);
        let status = eventually("the farm ends", END, || {
            self.child.try_wait().unwrap().ok_or_else(|| self.said())
        });
        let took = began.elapsed();
        assert!(status.success(), "{status}:\n{}", self.said());
        assert_eq!(self.processes(), [], "{}", self.said());
        took
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: plain system call on a process of a farm that this test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "pid {pid}");
}

/// Successes of each job that was applied.
pub async fn successes(client: &Client) -> BTreeMap<String, i64> {
    let rows = client
        .query(
            "SELECT j.job_id, count(r.run_id) FROM farmhand.job j
             LEFT JOIN farmhand.run r ON r.job_id = j.job_id AND r.state = 'succeeded' GROUP BY 1",
            &[],
        )
        .await
        .unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
