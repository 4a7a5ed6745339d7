//! A warden within another process, which can start nothing: its whole conversation, for tests that say anything to it.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use uuid::Uuid;

use super::args::{Args, Parent};
use super::attempts::Attempts;
use super::child::Restore;
use super::fence::KernelFence;
use super::warden::Warden;
use farmhand_os::alarm::Alarm;
use farmhand_os::clock::{SECOND, boottime_ns};
use farmhand_warden_client::Launch;
use farmhand_warden_client::paths::Paths;
use farmhand_warden_client::wire::{AttemptId, Serving, SpawnRequest, Stage, StartFailure};

/// The session that it serves.
const SERVING: Serving = Serving {
    session: 1,
    incarnation: Uuid::nil(),
};
/// It ends this process, too: far away.
const DAY: u64 = 86_400 * SECOND;

pub struct Captive {
    pub(super) warden: Warden,
}

impl Captive {
    /// `dir` is its state directory, which must exist.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let deadline_ns = boottime_ns() + DAY;
        let lease = (SERVING, String::new());
        let mut launch = Launch::new(dir.to_owned(), lease, deadline_ns, deadline_ns);
        // Every start is refused.
        launch.max_attempts = 0;
        let args = Args {
            launch,
            parent: Parent::default(),
        };
        let paths = Paths::new(dir);
        std::fs::create_dir_all(paths.private_dir())?;
        let restore = Restore {
            open_files: (None, None),
            oom_score_adj: 0,
            ignored: 0,
        };
        let fence = KernelFence::arm(deadline_ns, Alarm::new()?)?;
        let lock = File::open("/dev/null")?.into();
        let warden = Warden::with(args, paths, restore, fence, lock)?;
        Ok(Self { warden })
    }

    /// Forgets everybody and everything that was said; two attempts have ended and were not acknowledged.
    pub fn again(&mut self) {
        let warden = &mut self.warden;
        warden.peers.forget_all(&warden.poller);
        warden.attempts = Attempts::default();
        warden.leaving = false;
        let deadline_ns = boottime_ns() + DAY;
        warden.ends.begin(deadline_ns, deadline_ns);
        for run_id in [1, 2] {
            let command = farmhand_core::definition::Command::Shell("true".to_owned());
            let request = SpawnRequest::new(AttemptId { run_id, attempt: 1 }, run_id, command);
            let failure = StartFailure {
                stage: Stage::Exec,
                subject: String::new(),
                errno: 0,
                message: "it was never started".to_owned(),
                exit_code: 127,
            };
            warden.attempts.never_started(request, failure);
        }
    }

    /// The other end of a new connection.
    pub fn connect(&mut self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.warden.peers.add(theirs, &self.warden.poller)?;
        Ok(ours)
    }

    /// One turn of its loop, which waits for something to do.
    pub fn turn(&mut self) -> io::Result<()> {
        self.warden.run_once()
    }

    /// Attempts that live; there can be none.
    pub fn living(&self) -> usize {
        self.warden.attempts.living_count()
    }
}
