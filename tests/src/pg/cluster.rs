//! One cluster: where it lies, how it is made, what the server is started with.

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::ADMIN;

/// A data directory and how its server is reached.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Holds `data`, the socket and `log`; belongs to the server's user.
    pub dir: PathBuf,
    pub port: u16,
    bin: PathBuf,
    user: Option<(u32, u32)>,
}

impl Cluster {
    /// The cluster that lies, or is to lie, in `dir`.
    pub fn at(dir: &Path, port: u16) -> Self {
        Self {
            dir: dir.to_path_buf(),
            port,
            bin: programs(),
            user: server_user(),
        }
    }

    pub fn url(&self, database: &str, user: &str) -> String {
        let (dir, port) = (self.dir.display(), self.port);
        format!("postgresql:///{database}?host={dir}&port={port}&user={user}")
    }

    pub fn tcp_url(&self, database: &str, user: &str) -> String {
        format!("postgresql://{user}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Makes the directory and an empty cluster in it.
    pub fn init(&self) {
        self.make_dir();
        let out = self
            .command(&self.bin.join("initdb"))
            .args([
                "-U",
                ADMIN,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "-D",
            ])
            .arg(self.data())
            .output()
            .expect("initdb starts");
        assert!(
            out.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// Fills the directory with a copy of a running server, to be started as its standby under `name`.
    pub fn copy_of(&self, primary: &Self, name: &str) {
        self.make_dir();
        let (dir, port) = (primary.dir.display(), primary.port);
        let out = self
            .command(&self.client("pg_basebackup"))
            .args([
                "--write-recovery-conf",
                "--wal-method=stream",
                "--checkpoint=fast",
                "--no-sync",
            ])
            .args([
                "--dbname",
                &format!("host={dir} port={port} user={ADMIN} application_name={name}"),
            ])
            .arg("--pgdata")
            .arg(self.data())
            .output()
            .expect("these tests need pg_basebackup: apt-get install postgresql-client");
        assert!(
            out.status.success(),
            "pg_basebackup: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// A program that comes with the clients: beside the server's, where that is a link to, or on PATH.
    pub fn client(&self, name: &str) -> PathBuf {
        let own = fs::canonicalize(self.bin.join("initdb")).ok();
        let linked = own.as_deref().and_then(Path::parent).map(|bin| bin.join(name));
        [Some(self.bin.join(name)), linked]
            .into_iter()
            .flatten()
            .find(|program| program.is_file())
            .unwrap_or_else(|| PathBuf::from(name))
    }

    fn make_dir(&self) {
        fs::create_dir_all(&self.dir).expect("a directory for the cluster");
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o755)).expect("its mode");
        if let Some((uid, gid)) = self.user {
            chown(&self.dir, Some(uid), Some(gid)).expect("its owner");
        }
    }

    /// Gives a file to the server's user, closed to others.
    pub fn own(&self, file: &Path) {
        if let Some((uid, gid)) = self.user {
            chown(file, Some(uid), Some(gid)).expect("a file of ours");
        }
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    }

    /// The server program with its arguments, to be run by the server's user.
    pub fn arguments(&self, settings: &[(&str, &str)]) -> Vec<String> {
        let mut arguments = vec![
            self.bin.join("postgres").display().to_string(),
            "-D".to_owned(),
            self.data().display().to_string(),
        ];
        let (port, dir) = (self.port.to_string(), self.dir.display().to_string());
        let basic = [
            ("port", port.as_str()),
            ("unix_socket_directories", dir.as_str()),
            ("listen_addresses", "127.0.0.1"),
            ("max_connections", "300"),
            ("shared_buffers", "64MB"),
            ("max_wal_size", "512MB"),
            ("timezone", "UTC"),
            ("log_line_prefix", "%m [%p] %q%d %a "),
        ];
        for (name, value) in basic.iter().chain(settings) {
            arguments.push("-c".to_owned());
            arguments.push(format!("{name}={value}"));
        }
        arguments
    }

    /// A command that runs as the server's user, its output going to the log.
    pub fn logged(&self, arguments: &[String]) -> Command {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .expect("the log");
        let mut command = self.command(Path::new(&arguments[0]));
        command.args(&arguments[1..]);
        command.stderr(log.try_clone().expect("the log")).stdout(log);
        command
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .stdin(Stdio::null())
            .current_dir("/")
            .env("LC_ALL", "C.UTF-8");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Whether the server is ready, by the line it writes for `pg_ctl`.
    pub fn is_ready(&self) -> bool {
        let Ok(text) = fs::read_to_string(self.data().join("postmaster.pid")) else {
            return false;
        };
        let mut lines = text.lines();
        let alive = lines
            .next()
            .is_some_and(|pid| Path::new("/proc").join(pid.trim()).exists());
        alive && (lines.nth(6)).is_some_and(|state| matches!(state.trim(), "ready" | "standby"))
    }

    /// The end of the server's log, for panics.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Names the directory of the server programs to use, instead of those that are installed.
const PROGRAMS: &str = "FARMHAND_TEST_POSTGRES";

/// The server programs that the environment names, else the newest on PATH or where Debian puts them.
pub fn programs() -> PathBuf {
    if let Some(bin) = std::env::var_os(PROGRAMS).map(PathBuf::from) {
        let there = bin.join("initdb").is_file() && bin.join("postgres").is_file();
        assert!(there, "{PROGRAMS}: {} has no initdb and postgres", bin.display());
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|v| v.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    places.extend(debian.into_iter().rev());
    places
        .into_iter()
        .find(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
        .expect("these tests need a real PostgreSQL server: apt-get install postgresql")
}

/// Where those of the same version lie that are not in every PATH.
pub fn all_programs() -> PathBuf {
    let own = fs::canonicalize(programs().join("initdb")).expect("a program");
    own.parent().expect("a program lies in a directory").to_path_buf()
}

/// Has a program that refuses to run as root run as the server's user.
pub fn as_server_user(command: &mut Command) {
    if let Some((uid, gid)) = server_user() {
        command.uid(uid).gid(gid);
    }
}

/// Gives a directory and the files right in it to the server's user.
pub fn give_to_server_user(dir: &Path) {
    let Some((uid, gid)) = server_user() else { return };
    chown(dir, Some(uid), Some(gid)).expect("a directory of ours");
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        chown(entry.path(), Some(uid), Some(gid)).expect("a file of ours");
    }
}

/// PostgreSQL refuses to run as root.
pub fn server_user() -> Option<(u32, u32)> {
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let name: &CStr = c"postgres";
    // SAFETY: the name is a C string; the answer is read before anything else could overwrite it.
    let entry = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }
        .expect("root runs PostgreSQL as the user postgres: apt-get install postgresql");
    Some((entry.pw_uid, entry.pw_gid))
}
