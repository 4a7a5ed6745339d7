//! A warden of its own for each test, and words to talk about what it runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use farmhand_core::definition::Command;
use farmhand_os::clock::{MILLISECOND, boottime_ns};
use farmhand_tests::processes;
use farmhand_warden_client::wire::*;
use farmhand_warden_client::{
    Gone, Item, Launch, Notice, Notices, OutputReader, Paths, Stream, WardenClient,
};
use tempfile::TempDir;
use uuid::Uuid;

/// Nothing here takes longer, on a slow machine either.
pub const BOUND: Duration = Duration::from_secs(20);

/// # Panics
/// When the test is not run by root.
pub fn needs_root() {
    // SAFETY: only asks.
    assert_eq!(
        unsafe { libc::geteuid() },
        0,
        "this test needs root: run it as root or in a container"
    );
}

pub struct Farmer {
    pub dir: TempDir,
    state_dir: PathBuf,
    pub client: WardenClient,
    pub notices: Notices,
}

pub fn launch(dir: &Path) -> Launch {
    // Building it may take longer than the first lease.
    let exe = farmhand_tests::bin::farmhand();
    let now = boottime_ns();
    let serving = Serving {
        session: 7,
        incarnation: Uuid::new_v4(),
    };
    let mut launch = Launch::new(
        dir.to_path_buf(),
        (serving, "n1".to_owned()),
        now + 120_000 * MILLISECOND,
        now + 110_000 * MILLISECOND,
    );
    launch.exe = Some(exe.to_path_buf());
    launch
}

pub fn state_dir() -> TempDir {
    let dir = tempfile::Builder::new()
        .prefix("farmhand-warden-")
        .tempdir()
        .unwrap();
    // A job's user must be able to pass through.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    dir
}

/// A policy that lets jobs run as these users.
pub fn policy(dir: &Path, rules: &str) -> Option<PathBuf> {
    let path = dir.join("policy.toml");
    std::fs::write(&path, rules).unwrap();
    Some(path)
}

impl Farmer {
    pub async fn new() -> Farmer {
        Farmer::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Launch)) -> Farmer {
        let dir = state_dir();
        let mut launch = launch(dir.path());
        change(&mut launch);
        Farmer::start(dir, &launch).await
    }

    /// `launch.state_dir` is `dir` or in it.
    pub async fn start(dir: TempDir, launch: &Launch) -> Farmer {
        let started = launch.start().await;
        let state_dir = launch.state_dir.clone();
        let (client, notices) = started.unwrap_or_else(|e| panic!("{e}\n{}", log(&Paths::new(&state_dir))));
        Farmer {
            dir,
            state_dir,
            client,
            notices,
        }
    }

    pub fn paths(&self) -> Paths {
        Paths::new(&self.state_dir)
    }

    pub async fn spawn(&self, request: SpawnRequest) -> i32 {
        self.client.spawn(request).await.unwrap().0
    }

    /// Runs it to its end, acknowledges it, and answers what became of it and what it wrote.
    pub async fn run(&mut self, request: SpawnRequest) -> (AttemptResult, Output) {
        let id = request.id;
        self.spawn(request).await;
        self.ended(id).await
    }

    pub async fn ended(&mut self, id: AttemptId) -> (AttemptResult, Output) {
        let result = self.exited(id).await;
        (result, self.output(id))
    }

    pub async fn exited(&mut self, id: AttemptId) -> AttemptResult {
        loop {
            match self.notice().await {
                Notice::Event(Event::Exited(report)) if report.id == id => return report.result.unwrap(),
                Notice::Gone => panic!(
                    "the warden is gone while {id} was awaited\n{}",
                    log(&self.paths())
                ),
                _ => {}
            }
        }
    }

    pub async fn notice(&mut self) -> Notice {
        tokio::time::timeout(BOUND, self.notices.recv())
            .await
            .expect("the warden says something in time")
            .unwrap_or(Notice::Gone)
    }

    pub fn output(&self, id: AttemptId) -> Output {
        read_output(self.paths().attempt_dir(id))
    }

    /// The run directory, once the command has written `name` into it.
    pub async fn file(&self, id: AttemptId, name: &str) -> String {
        let path = self.paths().run_dir(id).join(name);
        eventually(&format!("{name} in the run directory"), || {
            std::fs::read_to_string(&path).ok().filter(|t| t.ends_with('\n'))
        })
        .await
        .trim()
        .to_owned()
    }

    /// Kills the warden, waits for the proof that all is gone.
    pub async fn kill_warden(&self) -> Gone {
        self.client.proof().kill_warden().unwrap();
        self.gone().await
    }

    pub async fn gone(&self) -> Gone {
        tokio::time::timeout(BOUND, self.client.proof().tree_gone())
            .await
            .expect("everything ends in time")
            .unwrap()
    }
}

impl Drop for Farmer {
    fn drop(&mut self) {
        // A failed test leaves nothing behind either.
        let _ = self.client.proof().kill_warden();
        let deadline = Instant::now() + BOUND;
        let reaper = self.client.proof().reaper_pid().unwrap_or(0);
        while alive(reaper) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[derive(Debug, Default)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub dropped: u64,
}

pub fn read_output(dir: PathBuf) -> Output {
    let mut reader = OutputReader::new(dir, 0);
    let (mut stdout, mut stderr, mut dropped) = (Vec::new(), Vec::new(), 0);
    while let Some(item) = reader.next().unwrap() {
        match item {
            Item::Chunk {
                stream: Stream::Stdout,
                bytes,
                ..
            } => stdout.extend(bytes),
            Item::Chunk { bytes, .. } => stderr.extend(bytes),
            Item::Dropped { bytes, .. } => dropped += bytes,
        }
    }
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Output {
        stdout: text(stdout),
        stderr: text(stderr),
        dropped,
    }
}

pub fn id(run_id: i64, attempt: i32) -> AttemptId {
    AttemptId { run_id, attempt }
}

/// A shell script with the usual PATH.
pub fn sh(id: AttemptId, script: &str) -> SpawnRequest {
    command(id, Command::Shell(script.into()))
}

pub fn argv(id: AttemptId, argv: &[&str]) -> SpawnRequest {
    command(id, Command::Argv(argv.iter().map(|a| (*a).to_owned()).collect()))
}

fn command(id: AttemptId, command: Command) -> SpawnRequest {
    let mut request = SpawnRequest::new(id, 1000 + id.run_id, command);
    request.env.insert(
        "PATH".into(),
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
    );
    request
}

/// Alive means: exists and is no zombie.
pub fn alive(pid: i32) -> bool {
    pid > 0 && processes::one(pid).is_some_and(|p| p.state != 'Z')
}

/// Processes that carry a mark of their own in their environment or command line.
pub fn marked(mark: &str) -> Vec<i32> {
    processes::all()
        .into_iter()
        .filter(|p| {
            p.state != 'Z' && (p.environment.iter().any(|e| e.contains(mark)) || p.command.contains(mark))
        })
        .map(|p| p.pid)
        .collect()
}

pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + BOUND;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {BOUND:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn log(paths: &Paths) -> String {
    std::fs::read_to_string(paths.log()).unwrap_or_default()
}
