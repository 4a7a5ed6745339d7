//! Starting a reaper, which starts its warden.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::Command;

use crate::death::PidFd;
use crate::helper;
use crate::paths::{Paths, named};
use crate::privilege::prepare;
use crate::socket::{Notices, WardenClient, WardenError, broken, dial};
use crate::wire::Serving;

const READY_WITHIN: Duration = Duration::from_secs(30);
/// A log longer than this is started anew.
const LOG_MAX: u64 = 1 << 20;

/// What a new warden is told: by its command line, which has the directory by itself and everything else as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// Absolute.
    #[serde(skip)]
    pub state_dir: PathBuf,
    pub serving: Serving,
    /// Of the node whose lease that is: an agent of another one cannot take the warden over.
    pub address: String,
    /// CLOCK_BOOTTIME: when the kernel kills the warden, and when it sends SIGTERM to everything.
    pub deadline_ns: u64,
    pub soft_ns: u64,
    /// The `farmhand` binary; the running one when absent, even after it was replaced on disk.
    #[serde(skip)]
    pub exe: Option<PathBuf>,
    /// Off: follow processes by descent only, as on machines without a writable cgroup v2.
    pub cgroup: bool,
    /// Attempts running or not yet acknowledged.
    pub max_attempts: u32,
}

impl Launch {
    /// A launch without further bounds: no policy, no helper.
    pub fn new(
        state_dir: PathBuf,
        (serving, address): (Serving, String),
        deadline_ns: u64,
        soft_ns: u64,
    ) -> Self {
        Launch {
            state_dir,
            serving,
            address,
            deadline_ns,
            soft_ns,
            exe: None,
            cgroup: true,
            max_attempts: 2048,
        }
    }

    /// Starts reaper and warden and says hello. Fails when one lives already in the directory.
    pub async fn start(&self) -> Result<(WardenClient, Notices), WardenError> {
        if !self.state_dir.is_absolute() {
            return Err(WardenError::NotStarted(format!(
                "{} is not absolute",
                self.state_dir.display()
            )));
        }
        let paths = Paths::new(&self.state_dir);
        let stream = match helper::here() {
            Some(helper) => {
                let (deadline, soft) = (self.deadline_ns, self.soft_ns);
                let lease = (self.serving, self.address.clone());
                helper
                    .start(lease, deadline, soft, self.max_attempts)
                    .await
                    .map_err(|e| WardenError::NotStarted(e.to_string()))?
            }
            None => self.up().await?,
        };
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let peer = pid.and_then(|pid| PidFd::open(pid).ok().flatten());
        let said = WardenClient::hello(stream, &paths, Some(self.serving), &self.address).await;
        // One that does not answer would keep the lock until its lease ends. One that refuses obeys somebody else.
        if let (Err(e), Some(peer)) = (&said, peer)
            && !matches!(e, WardenError::Refused(_))
        {
            let _ = match helper::here() {
                Some(helper) => helper.kill(peer.pid()),
                None => peer.kill(),
            };
        }
        said
    }

    /// Starts reaper and warden and connects to it.
    pub async fn up(&self) -> Result<UnixStream, WardenError> {
        let paths = Paths::new(&self.state_dir);
        prepare(&paths).map_err(|e| broken(&paths, e))?;
        self.spawn_guard(&paths).await?;
        dial(&paths).await.map_err(|e| broken(&paths, e))
    }

    async fn spawn_guard(&self, paths: &Paths) -> Result<(), WardenError> {
        let not_started = |e: io::Error| WardenError::NotStarted(e.to_string());
        let exe = self
            .exe
            .clone()
            .unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        let mut command = Command::new(&exe);
        command
            .arg0("farmhand")
            .args(["reaper", "--state-dir"])
            .arg(&self.state_dir)
            .arg(serde_json::to_string(self).map_err(|e| not_started(e.into()))?);
        // The agent's environment holds credentials; a job's user may read a warden's under ptrace rules.
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.stderr(open_log(paths).map_err(not_started)?);
        let mut reaper = command.spawn().map_err(|e| not_started(named(e, &exe)))?;
        let mut said = String::new();
        let listen = async {
            match reaper.stdout.take() {
                Some(stdout) => stdout.take(4096).read_to_string(&mut said).await.map(|_| ()),
                None => Ok(()),
            }
        };
        let heard = tokio::time::timeout(READY_WITHIN, listen).await;
        if matches!(heard, Ok(Ok(()))) && said.trim() == "ready" {
            // It outlives this agent; while the agent lives it must not stay behind as a zombie.
            tokio::spawn(async move { reaper.wait().await });
            return Ok(());
        }
        let why = match said.trim() {
            "" => format!("it said nothing; see {}", paths.log().display()),
            said => said.to_owned(),
        };
        let _ = reaper.kill().await;
        Err(WardenError::NotStarted(why))
    }
}

fn open_log(paths: &Paths) -> io::Result<std::fs::File> {
    let path = paths.log();
    let long = std::fs::metadata(&path).is_ok_and(|m| m.len() > LOG_MAX);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options.append(!long).write(long).truncate(long);
    options.open(&path).map_err(|e| named(e, &path))
}
