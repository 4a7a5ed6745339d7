//! Where everything of one agent lies in its state directory.
//!
//! ```text
//! STATE/                     0711: a job's user must be able to pass through to its run directory
//!   warden/                  0700
//!     main.sock main.lock main.log
//!     seen-serials                      of signed jobs
//!     bounds                            what an agent without rights is held to
//!   runs/                    0711; with an agent without rights, down to the output, readable for its group too
//!     RUN.ATTEMPT/           0711
//!       output.*             0600: see `output`
//!       dir/                 0700, the job's user's: FARMHAND_RUN_DIR
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};

use tokio::sync::Semaphore;

use crate::helper;
use crate::wire::AttemptId;
use farmhand_os::files::if_there;
use farmhand_os::removal;

/// Where a warden and its attempts have their files.
#[derive(Clone, Debug)]
pub struct Paths {
    state_dir: PathBuf,
}

/// Directories that are removed at once: a bound on threads, descriptors and what a helper is asked for.
static DISCARDS: Semaphore = Semaphore::const_new(8);

/// The name of the socket in [`Paths::private_dir`].
pub const SOCKET: &str = "main.sock";
/// In an attempt's directory: its command's secrets.
pub const SECRETS: &str = "secrets";

impl Paths {
    /// `state_dir` must be absolute: reaper and warden leave their working directory.
    pub fn new(state_dir: &Path) -> Paths {
        Paths {
            state_dir: state_dir.to_path_buf(),
        }
    }

    /// The directory that the warden of a node has.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Socket, lock and log of the warden; nobody else may enter it.
    pub fn private_dir(&self) -> PathBuf {
        self.state_dir.join("warden")
    }

    /// Held by the living warden.
    pub fn lock(&self) -> PathBuf {
        self.private_dir().join("main.lock")
    }

    /// What the warden and its reaper write to stderr.
    pub fn log(&self) -> PathBuf {
        self.private_dir().join("main.log")
    }

    /// The highest serial of each signed job; shared by all wardens of the directory.
    pub fn seen(&self) -> PathBuf {
        self.private_dir().join("seen-serials")
    }

    /// See [`crate::Bounds`].
    pub fn bounds(&self) -> PathBuf {
        self.private_dir().join("bounds")
    }

    /// What the agent remembers of the database. It belongs to the agent's user.
    pub fn memory(&self) -> PathBuf {
        self.state_dir.join("memory")
    }

    /// Of this warden alone: also the mark by which its processes are recognised.
    pub fn runs(&self) -> PathBuf {
        self.state_dir.join("runs")
    }

    /// Says where the cgroups of this warden are, for whoever sweeps after it.
    pub fn cgroup_note(&self) -> PathBuf {
        self.private_dir().join("main.cgroup")
    }

    /// Output and marks of one attempt.
    pub fn attempt_dir(&self, id: AttemptId) -> PathBuf {
        self.runs().join(id.to_string())
    }

    /// Attempts that have a directory, in no order. Their output outlives the warden until somebody removes it.
    pub fn attempts_on_disk(&self) -> io::Result<Vec<AttemptId>> {
        let mut found = Vec::new();
        for entry in if_there(fs::read_dir(self.runs()))?.into_iter().flatten() {
            let name = entry?.file_name();
            let parsed = name
                .to_str()
                .and_then(|n| n.split_once('.'))
                .and_then(|(run, attempt)| {
                    Some(AttemptId {
                        run_id: run.parse().ok()?,
                        attempt: attempt.parse().ok()?,
                    })
                });
            found.extend(parsed);
        }
        Ok(found)
    }

    /// Removes an ended attempt's directory: its output and its run directory. What cannot be removed is put aside.
    pub fn remove_attempt(&self, id: AttemptId) -> io::Result<()> {
        if let Some(helper) = helper::here() {
            return helper.remove(id);
        }
        // Most are empty, and to look into them is most of the work.
        let dir = self.attempt_dir(id);
        let _ = fs::remove_dir(self.run_dir(id));
        match fs::remove_dir(&dir) {
            Ok(()) => Ok(()),
            Err(_) => removal::remove(&dir, removal::WITHIN).map_err(io::Error::other),
        }
    }

    /// `remove_attempt` beside everything else: a job can leave a million files behind.
    pub async fn discard(self, id: AttemptId) -> io::Result<()> {
        // It is never closed; a failure to get a turn is no reason to leave files behind.
        let _turn = DISCARDS.acquire().await;
        let removed = tokio::task::spawn_blocking(move || self.remove_attempt(id)).await;
        removed.unwrap_or_else(|e| Err(io::Error::other(e)))
    }

    /// A directory of the attempt alone, which its command finds as `FARMHAND_RUN_DIR`.
    pub fn run_dir(&self, id: AttemptId) -> PathBuf {
        self.attempt_dir(id).join("dir")
    }
}

/// The group that may read what is in a directory, if one may: the agent's, where that has no rights.
fn reader(dir: &Path) -> io::Result<Option<u32>> {
    let found = fs::metadata(dir)?;
    Ok((found.mode() & 0o040 != 0).then_some(found.gid()))
}

/// For what was made in a directory: who may read in there may read in this directory too.
pub fn readable_dir(dir: &Path, made: &Path) -> io::Result<()> {
    let mode = match reader(dir)? {
        Some(gid) => {
            chown(made, None, Some(gid))?;
            0o751
        }
        None => 0o711,
    };
    // Past the umask: the job's user must come through.
    fs::set_permissions(made, fs::Permissions::from_mode(mode))
}

/// As [`readable_dir`], for a file.
pub(crate) fn readable_file(dir: &Path, made: &fs::File) -> io::Result<()> {
    if let Some(gid) = reader(dir)? {
        fchown(made, None, Some(gid))?;
        made.set_permissions(fs::Permissions::from_mode(0o640))?;
    }
    Ok(())
}

/// An error that says which file it is about.
pub fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
