//! From root to a user of the agent's own, before there is a thread or a connection.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};
use rustix::net::SendFlags;

use super::protocol::Setup;
use super::{STEWARD, Steward, rights, wire};
use crate::accounts;
use crate::config::AgentConfig;
use crate::policy::Policy;
use crate::trust::Trust;
use crate::warden::protocol::Kind;
use crate::warden::{Bounds, Paths};

/// Leaves root to a steward and makes this process the user's. Does nothing in one that is the user's already.
///
/// # Errors
/// What is missing, for people. The process may have lost some of its rights then, and must end.
pub fn begin(config: &AgentConfig, name: &str, files: Vec<PathBuf>) -> Result<(), String> {
    let policy = config.policy.clone().ok_or("it needs a policy")?;
    Policy::read(&policy)?;
    if let Some(keys) = &config.trusted_keys {
        Trust::read(keys)?;
    }
    let user = accounts::find(name).map_err(|e| format!("looking for the user {name}: {e}"))?;
    let account = user.ok_or_else(|| format!("there is no user {name}"))?.account;
    let own = rustix::process::geteuid().as_raw();
    if own == account.uid && own != 0 {
        return Ok(());
    }
    if own != 0 {
        return Err("only root can become another user; start it as root".to_owned());
    }
    if account.uid == 0 || account.gid == 0 {
        return Err(format!(
            "{name} is root, or of root's group; name a user of the agent's own"
        ));
    }
    let place = |e: io::Error| format!("state directory {}: {e}", config.state_dir.display());
    let bounds = Bounds {
        agent: account,
        policy,
        trusted_keys: config.trusted_keys.clone(),
        secrets_dir: config.outside.secrets_dir.clone(),
    };
    let paths = Paths::new(&config.state_dir, Kind::Main);
    paths.prepare().map_err(place)?;
    bounds.write(&paths).map_err(place)?;
    // Once more: now that there are bounds, it lets the user in where that must read.
    paths.prepare().map_err(place)?;
    show_what_is_there(&config.state_dir).map_err(place)?;
    let steward = start(config, files).map_err(|e| format!("its steward does not start: {e}"))?;
    rights::give_up(account).map_err(|e| format!("the rights of root cannot be given up: {e}"))?;
    // As the kernel will look at it: with the rights that are left.
    access(paths.runs(), Access::READ_OK | Access::EXEC_OK).map_err(|e| {
        format!(
            "{} must be readable for {name}: {e} (every directory above it must let others pass: mode 0711)",
            paths.runs().display()
        )
    })?;
    let _ = STEWARD.set(steward);
    Ok(())
}

/// An agent that keeps its rights: what an earlier one without them was held to no longer counts.
///
/// # Errors
/// When that cannot be taken back.
pub fn without(state_dir: &Path) -> io::Result<()> {
    Bounds::remove(&Paths::new(state_dir, Kind::Main))
}

/// Its memory and its environment are new: it knows nothing of what this process has read.
fn start(config: &AgentConfig, files: Vec<PathBuf>) -> io::Result<Steward> {
    let (socket, theirs): (OwnedFd, OwnedFd) = wire::pair()?;
    let setup = Setup {
        state_dir: config.state_dir.clone(),
        files: files.clone(),
    };
    // Before there is anybody else who could be the first to say something.
    wire::send(&socket, &setup, None, SendFlags::empty())?;
    Command::new("/proc/self/exe")
        .arg0("farmhand")
        .arg("steward")
        .arg("--state-dir")
        .arg(&config.state_dir)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    Ok(Steward { socket, files })
}

/// What attempts of an agent with rights have written, and go on writing, is for the one without them to read.
fn show_what_is_there(state_dir: &Path) -> io::Result<()> {
    for kind in Paths::kinds(state_dir)? {
        let paths = Paths::new(state_dir, kind);
        paths.prepare()?;
        let Some(gid) = fs::metadata(paths.runs()).map(|m| m.gid()).ok() else {
            continue;
        };
        for id in paths.attempts_on_disk()? {
            let dir = paths.attempt_dir(id);
            show(&dir, gid, 0o751)?;
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    show(&entry.path(), gid, 0o640)?;
                }
            }
        }
    }
    Ok(())
}

fn show(path: &Path, gid: u32, mode: u32) -> io::Result<()> {
    chown(path, None, Some(gid))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
