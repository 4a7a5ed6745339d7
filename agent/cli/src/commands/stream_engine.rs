//! `farmhand stream-engine`: called by an agent, as the command of a stream's attempt.

use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use super::{Exit, Failure, Outcome};
use farmhand_core::input::stream::{ITEMS_FAILED, StreamInput};
use farmhand_core::stream::PROGRESS_FD;
use farmhand_engine::stream::engine::{EngineError, StreamEngine};

pub(super) fn run() -> Outcome {
    let handed: StreamInput = serde_json::from_reader(std::io::stdin().lock()).map_err(|e| {
        Failure::usage("there is no stream on stdin")
            .why(e)
            .next("this command is the agents' own: write [job.NAME.stream] into a job file")
    })?;
    let run_dir =
        std::env::var_os("FARMHAND_RUN_DIR").ok_or_else(|| Failure::usage("FARMHAND_RUN_DIR is not set"))?;
    let end = StreamEngine::new(handed, &PathBuf::from(run_dir), progress())?.run();
    debug_assert_eq!(Exit::RunFailed as i32, ITEMS_FAILED);
    match (end.interrupted, end.trouble) {
        // Said already.
        (false, Some(_)) => Ok(Exit::Error),
        (true, _) => Ok(Exit::Interrupted),
        (false, None) if end.failed > 0 => Ok(Exit::RunFailed),
        (false, None) => Ok(Exit::Ok),
    }
}

/// Where the warden listens; not for the commands of lines.
fn progress() -> Option<OwnedFd> {
    std::env::var_os("FARMHAND_PROGRESS_FD")?;
    // SAFETY: F_SETFD changes a flag, if the descriptor is open.
    let open = unsafe { libc::fcntl(PROGRESS_FD, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    // SAFETY: the warden opened it for this process, which has not touched it yet.
    open.then(|| unsafe { OwnedFd::from_raw_fd(PROGRESS_FD) })
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::broken(error.to_string())
    }
}
