//! A command's secrets: files for its user alone, in a directory that is removed when the attempt ends. They are fetched in
//! the forked child, so that a store which hangs delays one attempt, and told to the warden through a memory file, so that
//! it can hide them in what the command writes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use farmhand_core::text::redact::{SHORTEST, Secrets};

use super::failure;
use super::plan::{Plan, fd};
use farmhand_os::accounts::Account;
use farmhand_policy::{Policy, SECURE_PATH, UserRules, matches, trusted};
use farmhand_warden_client::wire::{Stage, StartFailure};

/// Of one secret, in bytes.
const LONGEST: usize = 64 << 10;
/// In an attempt's directory.
pub(crate) const DIRECTORY: &str = farmhand_warden_client::paths::SECRETS;

/// Fetches what the job names and writes it down for the user. Answers with what the command finds in its environment.
/// Errors: A secret that the policy does not give to this user, that is not there, or that others could read.
pub(crate) fn deliver(
    plan: &Plan,
    limits: &UserRules,
    account: Account,
) -> Result<Vec<(String, PathBuf)>, StartFailure> {
    let mut delivered = Vec::new();
    if plan.request.secrets.is_empty() {
        return Ok(delivered);
    }
    let attempt = plan.run_dir.parent();
    let dir = attempt.map(|dir| dir.join(DIRECTORY));
    let dir = dir.ok_or_else(|| refused("", "the attempt has no directory"))?;
    let made = DirBuilder::new().mode(0o711).create(&dir);
    // Past the umask: the user must come through, and see nothing.
    made.and_then(|()| std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o711)))
        .map_err(|e| refused(&dir.display().to_string(), &e.to_string()))?;
    for (name, entry) in &plan.request.secrets {
        let value = fetch(plan, limits, entry).map_err(|why| refused(entry, &why))?;
        let file = dir.join(name);
        write(&file, &value, account).map_err(|e| refused(entry, &e.to_string()))?;
        tell(&value).map_err(|e| refused(entry, &e.to_string()))?;
        delivered.push((format!("FARMHAND_SECRET_{name}_FILE"), file));
    }
    Ok(delivered)
}

fn refused(entry: &str, why: &str) -> StartFailure {
    failure::refused(Stage::Secret, entry, why)
}

fn fetch(plan: &Plan, limits: &UserRules, entry: &str) -> Result<Vec<u8>, String> {
    let allowed = limits
        .secrets
        .iter()
        .flatten()
        .any(|pattern| matches(pattern, entry));
    if !allowed {
        return Err("`secrets` in the node's policy does not give it to this user".to_owned());
    }
    if entry.is_empty() || entry.starts_with(['.', '-']) || entry.contains(['/', '\0']) {
        return Err("it is not a valid secret name".to_owned());
    }
    let (command, dir) = match &plan.policy {
        Policy::Listed { rules, .. } => (rules.secret_command.as_deref(), rules.secrets_dir.as_deref()),
        Policy::OwnUser | Policy::Unusable { .. } => (None, None),
    };
    let mut value = match (command, dir.or(plan.request.secrets_dir.as_deref())) {
        (Some(command), _) => of_command(command, entry)?,
        (None, Some(dir)) => of_file(&dir.join(entry))?,
        (None, None) => return Err("this node has no `secrets_dir`".to_owned()),
    };
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    match value.len() {
        0..SHORTEST => Err(format!(
            "it has fewer than {SHORTEST} bytes and could not be hidden in the output"
        )),
        SHORTEST..=LONGEST => Ok(value),
        _ => Err(format!("it has more than {LONGEST} bytes")),
    }
}

fn of_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut options = OpenOptions::new();
    // A FIFO would be waited for, a link may lead anywhere.
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options
        .open(path)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    let found = file.metadata().map_err(|e| e.to_string())?;
    trusted(&found).map_err(|why| format!("{} {why}", path.display()))?;
    if !found.is_file() || found.mode() & 0o077 != 0 {
        return Err(format!(
            "{} must be a file that its owner alone can read",
            path.display()
        ));
    }
    limited(file)
}

fn of_command(command: &[String], entry: &str) -> Result<Vec<u8>, String> {
    let (program, args) = command.split_first().ok_or("`secret_command` is empty")?;
    let started = Command::new(program)
        .args(args)
        .arg(entry)
        .env_clear()
        .env("PATH", SECURE_PATH)
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|e| format!("{program}: {e}"))?;
    let value = child.stdout.take().map_or(Ok(Vec::new()), limited);
    let status = child.wait().map_err(|e| format!("{program}: {e}"))?;
    if !status.success() {
        return Err(format!("{program}: {status}"));
    }
    value
}

fn limited(from: impl Read) -> Result<Vec<u8>, String> {
    let mut value = Vec::new();
    let most = LONGEST as u64 + 2;
    from.take(most)
        .read_to_end(&mut value)
        .map_err(|e| e.to_string())?;
    Ok(value)
}

fn write(file: &Path, value: &[u8], account: Account) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o400)
        .custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(file)?;
    file.write_all(value)?;
    // Nobody but root may give files away, nor needs to: the user is the same then.
    match fchown(&file, Some(account.uid), Some(account.gid)) {
        Err(e) if account.uid != rustix::process::geteuid().as_raw() => Err(e),
        _ => Ok(()),
    }
}

/// Into the memory file that the warden reads: a length of four bytes, then the value.
fn tell(value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open in this child, and is not closed here.
    let mut file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(fd::SECRETS) });
    let length = u32::try_from(value.len()).map_err(io::Error::other)?;
    file.write_all(&[&length.to_be_bytes(), value].concat())
}

/// What [`deliver`] told. Everything is there before the command can have written anything.
pub(crate) fn told(memory: &File) -> io::Result<Arc<Secrets>> {
    let mut text = vec![0; usize::try_from(memory.metadata()?.len()).unwrap_or(0)];
    memory.read_exact_at(&mut text, 0)?;
    let mut rest = text.as_slice();
    let mut values = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((value, after)) = after.split_at_checked(length) else {
            return Err(io::Error::other("a secret is cut short"));
        };
        values.push(value);
        rest = after;
    }
    Secrets::new(values).map(Arc::new).map_err(io::Error::other)
}
