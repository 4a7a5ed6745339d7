//! What the agent tells its service manager, through a socket that the test made.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use farmhand_tests::farm::{Farm, FarmBuilder, SOON};

const JOBS: &str = "[job.long]\ncommand = [WITNESS, '7000']\n";

/// Stands for systemd: hears what is said, and in a watchdog's words.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("fh-notify-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Self {
            socket,
            path,
            _dir: dir,
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// The next message, unless nothing is said for as long as that.
    fn hear(&self, within: Duration) -> Option<String> {
        self.socket
            .set_read_timeout(Some(within.max(Duration::from_millis(1))))
            .expect("a bound");
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// Everything up to the first message with this line, that one included.
    fn until(&self, line: &str) -> Vec<String> {
        let deadline = Instant::now() + SOON;
        let mut heard = Vec::new();
        while let Some(message) = self.hear(deadline.saturating_duration_since(Instant::now())) {
            let found = message.lines().any(|l| l == line);
            heard.push(message);
            if found {
                return heard;
            }
        }
        panic!("{line} was not said; heard {heard:?}");
    }

    fn forget(&self) {
        while self.hear(Duration::from_millis(1)).is_some() {}
    }
}

/// As `WatchdogSec=2s` would start it.
fn watched(manager: &Manager) -> FarmBuilder {
    Farm::new()
        .env("NOTIFY_SOCKET", manager.path().display().to_string())
        .env("INVOCATION_ID", "0123456789abcdef0123456789abcdef")
        .env("WATCHDOG_USEC", "2000000")
        .ttl(Duration::from_secs(12))
        .jobs(JOBS)
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_signs_of_life_and_the_end_are_told_and_an_agent_that_hangs_is_silent() {
    let manager = Manager::new();
    let mut farm = watched(&manager).start().await;
    let ready = manager.until("READY=1");
    assert!(
        ready
            .last()
            .is_some_and(|m| m.contains("STATUS=session 1, 0 running")),
        "{ready:?}"
    );
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    // Each before the watchdog would have waited long enough.
    manager.forget();
    for _ in 0..4 {
        let sign = manager.hear(Duration::from_secs(2)).expect("a sign of life");
        assert!(
            sign.contains("WATCHDOG=1\nSTATUS=session 1, 1 running in 4 slots"),
            "{sign}"
        );
    }
    farm.agents[0].stop();
    manager.forget();
    assert_eq!(manager.hear(Duration::from_millis(2500)), None);
    // What systemd does then; the jobs do not notice.
    farm.agents[0].kill();
    farm.agents[0].start().await;
    manager.until("READY=1");
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
    farm.agents[0].signal(libc::SIGTERM);
    let end = manager.until("STOPPING=1");
    assert!(
        end.last().is_some_and(|m| m.contains("to the next agent")),
        "{end:?}"
    );
    assert!(farm.agents[0].exit(SOON).await.success());
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_the_database_is_over_at_once_and_says_so() {
    let manager = Manager::new();
    let mut farm = watched(&manager).proxied().prepare().await;
    farm.agents[0].proxy().cut();
    farm.agents[0].spawn();
    let ready = manager.until("READY=1");
    assert!(
        ready.last().is_some_and(|m| m.contains("out of reach")),
        "{ready:?}"
    );
    manager.until("WATCHDOG=1");
    farm.agents[0].proxy().heal();
    farm.agents[0].ready().await;
    let session = manager.until("READY=1");
    assert!(!session.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_machine_goes_down_the_jobs_are_not_left_to_an_agent_that_never_comes() {
    use std::os::unix::fs::PermissionsExt;
    let programs = tempfile::tempdir().expect("a temporary directory");
    let systemctl = programs.path().join("systemctl");
    std::fs::write(&systemctl, "#!/bin/sh\necho stopping\nexit 1\n").expect("a program");
    std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let path = format!(
        "{}:{}",
        programs.path().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let manager = Manager::new();
    let mut farm = watched(&manager)
        .env("PATH", path)
        .arguments(&["--stop-timeout", "1s"])
        .start()
        .await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    manager.forget();
    farm.agents[0].signal(libc::SIGTERM);
    manager.until("EXTEND_TIMEOUT_USEC=30000000");
    assert!(farm.agents[0].exit(SOON).await.success());
    assert!(farm.agents[0].wardens().is_empty());
    let run = farm.run(long).await;
    assert_eq!((run.state.as_str(), run.takeovers), ("due", 0), "{run:?}");
    farm.check().await;
}
