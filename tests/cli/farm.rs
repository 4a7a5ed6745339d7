//! One database, one directory, and the binary.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::pg::TestDb;
use farmhand_tests::wait::eventually;
use serde_json::Value;
use tempfile::TempDir;

pub struct Farm {
    pub db: TestDb,
    pub dir: TempDir,
    // Ended before the directory and the database go.
    agents: Vec<Agent>,
}

/// What a command left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // SIGQUIT: kill what runs and leave.
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGQUIT) };
        let _ = self.0.wait();
    }
}

impl Farm {
    pub async fn new() -> Self {
        Self::of(TestDb::new().await)
    }

    pub fn of(db: TestDb) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("fh-cli-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        Self {
            db,
            dir,
            agents: Vec::new(),
        }
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("a directory");
        std::fs::write(&path, text).expect("a written file");
        path
    }

    pub fn command(&self) -> Command {
        command(&self.db.url(), self.dir.path())
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.command().args(args))
    }

    /// Applies a job file's text.
    pub fn apply(&self, text: &str) {
        let file = self.file("jobs.toml", text);
        self.run(&["job", "apply", file.to_str().unwrap()]).ok();
    }

    /// Ends every agent, and what it runs.
    pub fn stop_agents(&mut self) {
        self.agents.clear();
    }

    /// An agent that is ready to claim.
    pub fn agent(&mut self, name: &str) {
        let state = self.dir.path().join(name);
        let log = std::fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        let child = self
            .command()
            .args([
                "agent",
                "--node-name",
                name,
                "--listen",
                "off",
                "--lease-ttl",
                "5s",
                "--slots",
                "8",
            ])
            .arg("--state-dir")
            .arg(state)
            .stderr(log)
            .spawn()
            .expect("an agent");
        self.agents.push(Agent(child));
        eventually("the agent is ready", Duration::from_secs(20), || {
            let nodes = self.run(&["node", "ls", "--json"]).json()["items"].clone();
            let ready = nodes
                .as_array()
                .unwrap()
                .iter()
                .any(|n| n["address"] == name && n["state"] == "ready");
            if ready { Ok(()) } else { Err(nodes.to_string()) }
        });
    }
}

/// The binary with nothing of this process's environment that would change its words.
pub fn command(url: &str, home: &Path) -> Command {
    let mut command = Command::new(farmhand());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("USER", "tester")
        .env("FARMHAND_DATABASE_URL", url)
        .stdin(Stdio::null());
    command
}

pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary runs");
    Ran {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

impl Ran {
    /// It went well.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:#?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// It failed with this code, said these things on stderr, and nothing on stdout.
    #[track_caller]
    pub fn refused(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, code, "{self:#?}");
        assert_eq!(self.out, "", "{self:#?}");
        for part in said {
            assert!(self.err.contains(part), "{part:?} is missing: {self:#?}");
        }
    }
}
