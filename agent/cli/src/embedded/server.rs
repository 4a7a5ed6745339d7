use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::programs::{self, Programs};
use super::{EmbeddedError, Place, at};

/// How long a start may take; a crash recovery takes longer than the usual half second.
const START: Duration = Duration::from_secs(60);
/// How long an earlier server that is going down may take before it counts as in the way.
pub(crate) const LEAVE: Duration = Duration::from_secs(15);
/// A log past this size starts anew with the server.
const LOG_MAX: u64 = 8 << 20;
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// A running server. Dropped, it is stopped.
#[derive(Debug)]
pub struct Embedded {
    place: Place,
    pid: i32,
    exit: Receiver<ExitStatus>,
    gone: bool,
}

impl Embedded {
    /// Starts the server in its place, with the data that is there or new data, and waits until it answers.
    ///
    /// It gets SIGINT, its fast shutdown, should this process die without stopping it.
    /// Errors: See [`EmbeddedError`]; nothing is left running.
    pub fn start(place: Place) -> Result<Self, EmbeddedError> {
        let programs = programs::find(&place.data)?;
        wait_for_leftovers(&place.data)?;
        if !place.data.exists() {
            initialise(&place, &programs)?;
        }
        place.open_sockets()?;
        let (pid, exit) = spawn(&place, &programs)?;
        let mut server = Self {
            place,
            pid,
            exit,
            gone: false,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Where the server has its files.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The process to look at; its children are the backends.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// How the server ended, when it ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.exit.try_recv().ok()?;
        self.gone = true;
        Some(status)
    }

    /// Ends the server: fast, and if that takes longer than `patience`, at once, which the next start fixes.
    pub fn stop(mut self, patience: Duration) {
        self.end(patience);
    }

    fn end(&mut self, patience: Duration) {
        for (signal, within) in [
            (libc::SIGINT, patience),
            (libc::SIGQUIT, Duration::from_secs(1)),
            (libc::SIGKILL, START),
        ] {
            if self.gone {
                break;
            }
            // SAFETY: plain system call. The keeper has not sent the exit, so unless it does in this very
            // moment the process is ours and not reaped.
            unsafe { libc::kill(self.pid, signal) };
            self.gone = !matches!(self.exit.recv_timeout(within), Err(RecvTimeoutError::Timeout));
        }
        // A server that was killed left its socket there; the next start makes the directory anew.
        let _ = fs::remove_dir(&self.place.sockets);
    }

    fn wait_until_ready(&mut self) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + START;
        loop {
            match self.exit.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                outcome => {
                    self.gone = !matches!(outcome, Err(RecvTimeoutError::Timeout));
                    let log = self.place.log.clone();
                    return Err(EmbeddedError::NotReady {
                        tail: tail(&log),
                        log,
                    });
                }
            }
            if is_ready(&self.place.data, self.pid) {
                return Ok(());
            }
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.end(Duration::from_secs(4));
    }
}

/// The server writes its state into line 8 of this file, for `pg_ctl` and for us.
fn is_ready(data: &Path, pid: i32) -> bool {
    let Ok(text) = fs::read_to_string(data.join("postmaster.pid")) else {
        return false;
    };
    let mut lines = text.lines();
    let own = lines.next().is_some_and(|first| first.trim() == pid.to_string());
    own && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

/// A server that was killed leaves its pid file, and its backends leave a moment later. PostgreSQL copes with
/// both, except where another process of its user has the old number by now: then the file is removed here,
/// once nothing works in the directory any more.
pub(super) fn wait_for_leftovers(data: &Path) -> Result<(), EmbeddedError> {
    let deadline = Instant::now() + LEAVE;
    while let Some(pid) = works_in(data) {
        if Instant::now() > deadline {
            return Err(EmbeddedError::Busy {
                pid,
                data: data.to_path_buf(),
            });
        }
        std::thread::sleep(LOOK);
    }
    let file = data.join("postmaster.pid");
    let Ok(text) = fs::read_to_string(&file) else {
        return Ok(());
    };
    let old: Option<i32> = text.lines().next().and_then(|pid| pid.trim().parse().ok());
    if old.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists()) {
        fs::remove_file(&file).map_err(at(file.display().to_string()))?;
    }
    Ok(())
}

/// A process whose working directory is `data`, as that of the server and of each backend is.
fn works_in(data: &Path) -> Option<i32> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data))
}

/// Makes the cluster aside and gives it its name at the end: an interrupted start leaves no half of one.
fn initialise(place: &Place, programs: &Programs) -> Result<(), EmbeddedError> {
    let aside = &place.unfinished;
    match fs::remove_dir_all(aside) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(aside.display().to_string())(e)),
        _ => {}
    }
    let mut initdb = place.command(&programs.initdb);
    initdb.arg("-D").arg(aside);
    initdb.args(["-U", "farmhand", "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust"]);
    run("initdb", &mut initdb, None)?;
    let mut single = place.command(&programs.postgres);
    single.args(["--single", "-j", "-D"]).arg(aside).arg("postgres");
    // In single-user mode with -j a command ends at a semicolon and two newlines.
    run(
        "postgres --single",
        &mut single,
        Some("CREATE DATABASE farmhand;\n\n"),
    )?;
    fs::rename(aside, &place.data).map_err(at(place.data.display().to_string()))
}

fn run(program: &'static str, command: &mut Command, input: Option<&str>) -> Result<(), EmbeddedError> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(at(program))?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(text.as_bytes()).map_err(at(program))?;
    }
    let out = child.wait_with_output().map_err(at(program))?;
    let said = [out.stderr, out.stdout].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    // Single-user mode exits with 0 after an error.
    if out.status.success() && !said.contains("ERROR:") && !said.contains("FATAL:") {
        return Ok(());
    }
    Err(EmbeddedError::Program {
        program,
        output: said,
    })
}

/// The death signal follows the thread that spawned, so that thread stays: it waits for the server's end.
fn spawn(place: &Place, programs: &Programs) -> Result<(i32, Receiver<ExitStatus>), EmbeddedError> {
    let log = open_log(&place.log)?;
    let mut command = place.command(&programs.postgres);
    command.arg("-D").arg(&place.data).arg("-k").arg(&place.sockets);
    for setting in [
        "listen_addresses=",
        "unix_socket_permissions=0700",
        "max_connections=200",
        "max_wal_size=256MB",
        "shared_buffers=64MB",
        "log_line_prefix=%m [%p] %q%a ",
        "timezone=UTC",
        // Else what users make is in Farmhand's own schema, which has the login's name.
        "search_path=public",
        "log_timezone=UTC",
    ] {
        command.arg("-c").arg(setting);
    }
    let errors = log.try_clone().map_err(at(place.log.display().to_string()))?;
    command.stdout(log).stderr(errors).process_group(0);
    end_with_parent(&mut command, libc::SIGINT);
    let (started, start) = sync_channel(1);
    let (ended, exit) = sync_channel(1);
    let keeper = move || match command.spawn() {
        Ok(mut child) => {
            let _ = started.send(Ok(child.id().cast_signed()));
            if let Ok(status) = child.wait() {
                let _ = ended.send(status);
            }
        }
        Err(error) => {
            let _ = started.send(Err(error));
        }
    };
    let name = "postgres-keeper".to_owned();
    std::thread::Builder::new()
        .name(name)
        .spawn(keeper)
        .map_err(at("starting a thread"))?;
    let pid = start
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the keeper ended")));
    Ok((pid.map_err(at(programs.postgres.display().to_string()))?, exit))
}

/// Has the kernel send `signal` to the child when the thread that spawns it ends.
pub(crate) fn end_with_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    let arm = move || {
        // SAFETY: prctl and getppid are plain system calls, allowed between fork and exec.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the line above.
            if libc::getppid().cast_unsigned() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and makes system calls only. It runs after the change of the
    // user, which would clear what it sets.
    unsafe { command.pre_exec(arm) };
}

pub(crate) fn private_log(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

fn open_log(path: &Path) -> Result<fs::File, EmbeddedError> {
    let fresh = fs::metadata(path).is_ok_and(|m| m.len() > LOG_MAX);
    let log = private_log(path).map_err(at(path.display().to_string()))?;
    if fresh {
        log.set_len(0).map_err(at(path.display().to_string()))?;
    }
    Ok(log)
}

fn tail(path: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = fs::File::open(path) {
        let from = file.metadata().map_or(0, |m| m.len().saturating_sub(2000));
        let _ = file
            .seek(SeekFrom::Start(from))
            .and_then(|_| file.read_to_end(&mut text));
    }
    String::from_utf8_lossy(&text)
        .lines()
        .rev()
        .take(12)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn logs_are_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let log = open_log(&dir.path().join("postgres.log")).unwrap();
        assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
