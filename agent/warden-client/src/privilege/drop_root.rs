//! From root to a user of the agent's own, before there is a thread or a connection.

use std::fs;
use std::io;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};

use super::bounds::Bounds;
use super::{access, ownership, rights};
use crate::helper::{Files, Helper, here};
use crate::paths::Paths;
use farmhand_os::accounts::{self, Account};
use farmhand_policy::Policy;
use farmhand_policy::trust::Trust;

/// What an agent is to be held to when it has given its rights up.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub state_dir: PathBuf,
    /// The policy file; none when the node has none.
    pub policy: Option<PathBuf>,
    /// The list of trusted keys; none when no signature is asked for.
    pub trusted_keys: Option<PathBuf>,
    /// The node's store of secrets, where the policy names no other.
    pub secrets_dir: PathBuf,
}

/// Leaves root to a helper and makes this process the user's. Does nothing in one that is the user's already.
/// Errors: What is missing, for people. The process may have lost some of its rights then, and must end.
pub fn begin(wanted: &Wanted, name: &str, files: Files) -> Result<(), String> {
    let policy = wanted.policy.clone().ok_or("it needs a policy")?;
    Policy::read(&policy)?;
    if let Some(keys) = &wanted.trusted_keys {
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
    let in_place = |e: io::Error| format!("state directory {}: {e}", wanted.state_dir.display());
    let bounds = Bounds {
        agent: account,
        policy,
        trusted_keys: wanted.trusted_keys.clone(),
        secrets_dir: wanted.secrets_dir.clone(),
    };
    let paths = Paths::new(&wanted.state_dir);
    ownership::check(&wanted.state_dir)?;
    access::prepare(&paths).map_err(in_place)?;
    // Once more: what was missing was made with whatever mask this process has.
    ownership::check(&wanted.state_dir)?;
    bounds.write(&paths).map_err(in_place)?;
    give(&paths.memory(), account).map_err(in_place)?;
    // What attempts of an agent with rights left is for the one without them to read.
    access::give_to_group(&wanted.state_dir, Some(account.gid)).map_err(in_place)?;
    let helper = Helper::start_process(&wanted.state_dir, files, wanted.trusted_keys.clone())
        .map_err(|e| format!("its helper does not start: {e}"))?;
    rights::give_up(account).map_err(|e| format!("the rights of root cannot be given up: {e}"))?;
    // As the kernel will look at it: with the rights that are left.
    rustix::fs::access(paths.runs(), Access::READ_OK | Access::EXEC_OK).map_err(|e| {
        format!(
            "{} must be readable for {name}: {e} (every directory above it must let others pass: mode 0711)",
            paths.runs().display()
        )
    })?;
    helper.serve_this_process();
    Ok(())
}

/// An agent that keeps its rights: what an earlier one without them was held to no longer counts, and its group no longer
/// reads. Only for one that has the node: another that still lives would be held to nothing.
pub fn without(state_dir: &Path) -> io::Result<()> {
    let paths = Paths::new(state_dir);
    if here().is_some() || !paths.bounds().try_exists()? {
        return Ok(());
    }
    // The bounds last: as long as they are there, this is done again.
    access::give_to_group(state_dir, None)?;
    Bounds::remove(&paths)
}

fn give(dir: &Path, to: Account) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = fs::File::from(rustix::fs::open(dir, flags, Mode::empty())?);
    fchown(dir, Some(to.uid), Some(to.gid))
}
