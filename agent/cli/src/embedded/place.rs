use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::server::wait_for_leftovers;
use super::{EmbeddedError, at};
use farmhand_os::accounts::{self, Account};
use farmhand_os::path_hash::path_hash;
use rustix::process::geteuid;

/// Where one embedded PostgreSQL keeps its data and its socket, and whose process it is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The cluster, once it is complete.
    pub data: PathBuf,
    /// Where a new cluster is made; what lies there was interrupted.
    pub(super) unfinished: PathBuf,
    /// Where an earlier cluster was moved, whose farm's directory somebody has removed.
    pub put_aside: Option<PathBuf>,
    pub sockets: PathBuf,
    pub log: PathBuf,
    /// The user to become; `None` when this process is not root and stays who it is.
    pub(super) user: Option<Account>,
}

impl Place {
    /// Makes the data's directory. `dir` exists; the data lies below `dir/postgres`, or behind a link of that name
    /// when the server's user may not pass through the directories above (`/root` for instance).
    /// Errors: No user to run PostgreSQL as; a directory that is not ours where ours should be; I/O.
    pub fn prepare(dir: &Path) -> Result<Self, EmbeddedError> {
        let dir = dir.canonicalize().map_err(at(dir.display().to_string()))?;
        let user = geteuid().is_root().then(postgres_user).transpose()?;
        let name = format!("farmhand-dev-{:016x}", path_hash(&dir));
        let (home, put_aside) = home(&dir, &name, user)?;
        let runtime = match user {
            Some(_) => Some(PathBuf::from("/run")),
            None => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        };
        let sockets = socket_root(runtime, geteuid().as_raw()).join(&name);
        Ok(Self {
            data: home.join("cluster"),
            unfinished: home.join("unfinished"),
            sockets,
            put_aside,
            log: dir.join("postgres.log"),
            user,
        })
    }

    /// All of the database's files.
    pub fn home(&self) -> &Path {
        self.data.parent().unwrap_or(&self.data)
    }

    /// Makes the sockets' directory, which goes away with the server.
    pub(super) fn open_sockets(&self) -> Result<(), EmbeddedError> {
        private_directory(&self.sockets, self.user)
    }

    /// How clients of this machine reach the database `farmhand`.
    pub fn url(&self) -> String {
        format!(
            "postgresql:///farmhand?host={}&user=farmhand",
            self.sockets.display()
        )
    }

    /// `Command` for a program that runs as the server's user with nothing of this process's environment.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("LC_ALL", "C.UTF-8")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.stdin(Stdio::null()).current_dir("/");
        if let Some(user) = self.user {
            command.gid(user.gid).uid(user.uid);
        }
        command
    }
}

fn postgres_user() -> Result<Account, EmbeddedError> {
    let found = accounts::find("postgres").map_err(at("looking for the user postgres"))?;
    found.map(|user| user.account).ok_or(EmbeddedError::NoUser)
}

/// An existing `postgres` entry is used whatever it is, so that data is found again; a new one goes where
/// its user can reach it.
fn home(dir: &Path, name: &str, user: Option<Account>) -> Result<(PathBuf, Option<PathBuf>), EmbeddedError> {
    let entry = dir.join("postgres");
    if let Ok(home) = entry.canonicalize() {
        return Ok((home, None));
    }
    let (home, linked) = match user {
        Some(user) if !passable(dir, user) => (Path::new("/var/lib").join(name), true),
        _ => (entry.clone(), false),
    };
    let put_aside = if linked { put_aside(&home)? } else { None };
    private_directory(&home, user)?;
    if linked {
        // A link whose target was removed is in the way.
        match fs::remove_file(&entry) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(entry.display().to_string())(e)),
            _ => symlink(&home, &entry).map_err(at(entry.display().to_string()))?,
        }
    }
    let home = home.canonicalize().map_err(at(home.display().to_string()))?;
    Ok((home, put_aside))
}

/// Moves data away to which this directory has no link any more: who removes a farm's directory wants a new farm.
fn put_aside(home: &Path) -> Result<Option<PathBuf>, EmbeddedError> {
    // A start that was interrupted has made no data.
    if !home.join("cluster").exists() {
        return Ok(None);
    }
    wait_for_leftovers(&home.join("cluster"))?;
    let before = (1..)
        .map(|n| home.with_extension(format!("before.{n}")))
        .find(|before| !before.exists())
        .unwrap_or_else(|| home.with_extension("before"));
    fs::rename(home, &before).map_err(at(home.display().to_string()))?;
    Ok(Some(before))
}

/// Whether `user` can pass through `dir`, asked of the kernel by going there as that user.
fn passable(dir: &Path, user: Account) -> bool {
    let went = Command::new("/bin/true")
        .gid(user.gid)
        .uid(user.uid)
        .current_dir(dir)
        .status();
    went.is_ok_and(|status| status.success())
}

/// A socket's path may have 107 bytes, fewer than a data directory's: sockets live in a short directory.
fn socket_root(runtime: Option<PathBuf>, owner: u32) -> PathBuf {
    // `su` and `sudo` keep the directory of the user before.
    let ours = |dir: &PathBuf| fs::metadata(dir).is_ok_and(|about| about.is_dir() && about.uid() == owner);
    let short = |dir: &PathBuf| dir.is_absolute() && dir.as_os_str().len() < 48;
    runtime
        .filter(|dir| short(dir) && ours(dir))
        .unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Makes a directory of mode 0700 that belongs to the server's user, or finds that it is one. Anything else
/// of that name, in `/tmp` perhaps put there by somebody, is refused.
fn private_directory(path: &Path, user: Option<Account>) -> Result<(), EmbeddedError> {
    let failed = || at(path.display().to_string());
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            if let Some(user) = user {
                chown(path, Some(user.uid), Some(user.gid)).map_err(failed())?;
            }
            return fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed());
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(failed()(e)),
    }
    let owner = user.map_or_else(|| geteuid().as_raw(), |u| u.uid);
    let there = fs::symlink_metadata(path).map_err(failed())?;
    let ours = there.is_dir() && there.uid() == owner && there.mode() & 0o077 == 0;
    if ours {
        Ok(())
    } else {
        Err(EmbeddedError::Unsafe {
            path: path.to_path_buf(),
            owner,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("farmhand-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        dir
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let dir = scratch("open");
        let open = dir.join("sockets");
        private_directory(&open, None).unwrap();
        private_directory(&open, None).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        let refused = private_directory(&open, None).unwrap_err();
        assert!(matches!(refused, EmbeddedError::Unsafe { .. }), "{refused}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn sockets_are_not_for_the_directory_of_another_user() {
        let dir = PathBuf::from("/usr");
        let owner = fs::metadata(&dir).unwrap().uid();
        assert_eq!(socket_root(Some(dir.clone()), owner), dir);
        assert_eq!(socket_root(Some(dir), owner + 1), Path::new("/tmp"));
        assert_eq!(socket_root(Some("/not/there".into()), owner), Path::new("/tmp"));
    }

    #[test]
    fn a_link_in_the_place_of_a_private_directory_is_refused() {
        let dir = scratch("link");
        private_directory(&dir.join("real"), None).unwrap();
        symlink(dir.join("real"), dir.join("link")).unwrap();
        assert!(private_directory(&dir.join("link"), None).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
