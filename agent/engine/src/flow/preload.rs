//! A shell that has loaded a library once and forks a subshell for each script.
//!
//! The shell is spoken to line by line, one question and its answer at a time: `r ID` runs the text in the file
//! ID and is answered by `s ID PID`, `w PID` asks for the exit code of one that has ended. Only a shell with job
//! control gives each of them a process group, and dash wants a terminal for that: it gets one for as long as it
//! takes to turn job control on.

use std::ffi::{CStr, CString, OsStr};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use farmhand_core::definition::Command;
use farmhand_core::flow::{Action, Direction};
use farmhand_core::text::shell_word;
use farmhand_os::process;
use farmhand_os::readable::is_readable;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::spawn::Spawner;

/// For a library to be loaded.
const LOADS_WITHIN: Duration = Duration::from_secs(60);
/// For a shell that has nothing else to do to fork.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// Shells in one flow: a library that keeps killing them is no library.
const MAX_SHELLS: u32 = 4;

const LOOP: &str = r#"_farmhand_d=$2
. "$1"
trap '' HUP
set -m
case $- in *m*) ;; *) echo "this shell has no job control"; exit 1 ;; esac
exec 2>/dev/null 5<&-
echo ready >&4
read -r _farmhand_c <&3
trap - HUP
# A warden asks all processes of an attempt to end. Those forked here have their grace only while this shell lives.
trap '_farmhand_t=1' TERM
while _farmhand_t=; _farmhand_c=; read -r _farmhand_c _farmhand_i <&3 || [ "$_farmhand_t" ]; do
  case $_farmhand_c in
  r) ( . "$_farmhand_d/$_farmhand_i" ) 3<&- 4>&- & echo "s $_farmhand_i $!" >&4 ;;
  w) _farmhand_r=0; wait "$_farmhand_i" || _farmhand_r=$?
    # The signal may have ended the wait, and not the task.
    if [ "$_farmhand_t" ]; then
      _farmhand_q=0; wait "$_farmhand_i" || _farmhand_q=$?
      [ "$_farmhand_q" = 127 ] || _farmhand_r=$_farmhand_q
    fi
    echo "e $_farmhand_i $_farmhand_r" >&4 ;;
  esac
done"#;

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be preloaded", library.display())]
pub struct PreloadError {
    pub library: PathBuf,
    pub why: String,
}

/// A shell that has loaded a library once and forks for every task.
#[derive(Debug)]
pub struct Preload {
    library: PathBuf,
    /// For the texts that are to be run, and what the library says.
    dir: PathBuf,
    shell: Option<Shell>,
    shells: u32,
    next: u64,
}

#[derive(Debug)]
struct Shell {
    pid: i32,
    requests: File,
    replies: File,
    pending: Vec<u8>,
}

impl Preload {
    /// Loads the library.
    pub fn start(library: &Path, dir: PathBuf, spawner: &Spawner) -> Result<Self, PreloadError> {
        let failed = |why: String| PreloadError {
            library: library.to_owned(),
            why,
        };
        let path = fs::canonicalize(library).map_err(|e| failed(e.to_string()))?;
        if path.is_dir() {
            return Err(failed("it is a directory".to_owned()));
        }
        File::open(&path).map_err(|e| failed(e.to_string()))?;
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).map_err(|e| failed(format!("{}: {e}", dir.display())))?;
        let mut preload = Self {
            library: path,
            dir,
            shell: None,
            shells: 0,
            next: 0,
        };
        preload.load(spawner).map_err(failed)?;
        Ok(preload)
    }

    /// The shell's process; None before its first task and after its end.
    pub fn pid(&self) -> Option<i32> {
        self.shell.as_ref().map(|s| s.pid)
    }

    /// What tasks are told that ended with their shell.
    pub fn loss(&self) -> String {
        format!("the shell that had loaded {} ended", self.library.display())
    }

    fn load(&mut self, spawner: &Spawner) -> Result<(), String> {
        self.shells += 1;
        if self.shells > MAX_SHELLS {
            return Err(format!("{MAX_SHELLS} shells that had loaded it have ended"));
        }
        let log = self.dir.join("log");
        let (shell, loaded) =
            Shell::spawn(&self.library, &self.dir, &log, spawner).map_err(|e| e.to_string())?;
        match loaded {
            Ok(line) if line == "ready" => {}
            Ok(line) => return Err(shell.end(format!("it says `{line}` to who loads it"))),
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                return Err(shell.end(format!("it is not loaded after {} s", LOADS_WITHIN.as_secs())));
            }
            Err(_) => {
                let said = fs::read(&log).unwrap_or_default();
                let said = String::from_utf8_lossy(&said[said.len().saturating_sub(1_000)..]);
                return Err(shell.end(format!("the shell ends in it: {}", said.trim())));
            }
        }
        self.shell = Some(shell);
        Ok(())
    }

    /// Runs a text in a subshell with a process group of its own; its number.
    /// Errors: When the shell does not answer; it is gone then, see [`Self::lose`].
    pub fn run(&mut self, text: &str, spawner: &Spawner) -> io::Result<i32> {
        if self.shell.is_none() {
            self.load(spawner).map_err(io::Error::other)?;
        }
        self.next += 1;
        fs::write(self.dir.join(self.next.to_string()), text)?;
        self.ask(&format!("r {}", self.next), &format!("s {}", self.next))
    }

    /// The exit code of one that has ended, as a shell says it.
    /// Errors: As [`Self::run`].
    pub fn exit_code(&mut self, pid: i32) -> io::Result<i32> {
        self.ask(&format!("w {pid}"), &format!("e {pid}"))
    }

    fn ask(&mut self, request: &str, answer: &str) -> io::Result<i32> {
        let shell = self.shell.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        shell.requests.write_all(format!("{request}\n").as_bytes())?;
        loop {
            let line = shell.reply(ANSWERS_WITHIN)?;
            let number = line.strip_prefix(answer).and_then(|n| n.trim().parse().ok());
            if let Some(number) = number {
                return Ok(number);
            }
        }
    }

    /// Nothing more is asked of the shell, which ends by itself: waits for it.
    pub fn finish(mut self) {
        let Some(Shell { pid, requests, .. }) = self.shell.take() else {
            return;
        };
        drop(requests);
        let pidfd = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        if !matches!(pidfd, Some(Ok(fd)) if is_readable(&fd, ANSWERS_WITHIN)) {
            kill_session(pid);
        }
        reap(pid);
    }

    /// The shell is gone, or of no use any more: what it started is ended with it, since nobody would learn how
    /// it ended. The next [`Self::run`] loads the library anew.
    pub fn lose(&mut self) {
        if let Some(shell) = self.shell.take() {
            kill_session(shell.pid);
        }
    }
}

impl Shell {
    /// The shell, and its first word.
    fn spawn(
        library: &Path,
        dir: &Path,
        log: &Path,
        spawner: &Spawner,
    ) -> io::Result<(Self, io::Result<String>)> {
        let (terminal, name) = terminal()?;
        let (request_read, request_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (reply_read, reply_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let log = File::options().create(true).append(true).open(log)?;
        // Out of the way of the numbers that they get there.
        let high = |fd: &OwnedFd| Ok::<_, io::Error>(fcntl_dupfd_cloexec(fd, 20)?);
        let (three, four) = (high(&request_read)?, high(&reply_write)?);
        let words: [&OsStr; 6] = [
            OsStr::new("/bin/sh"),
            OsStr::new("-c"),
            OsStr::new(LOOP),
            OsStr::new("farmhand"),
            library.as_os_str(),
            dir.as_os_str(),
        ];
        let argv = words.map(|w| CString::new(w.as_bytes()).unwrap_or_default());
        let pid = spawner.spawn_leader(&argv, &name, &[(&three, 3), (&four, 4)], log.as_fd())?;
        drop((request_read, reply_write, three, four));
        let mut shell = Self {
            pid,
            requests: request_write.into(),
            replies: reply_read.into(),
            pending: Vec::new(),
        };
        // The terminal must live until job control is on; afterwards nothing is left of it.
        let loaded = shell.reply(LOADS_WITHIN);
        drop(terminal);
        if loaded.is_ok() {
            shell.requests.write_all(b"go\n")?;
        }
        Ok((shell, loaded))
    }

    fn reply(&mut self, within: Duration) -> io::Result<String> {
        let end = Instant::now() + within;
        loop {
            if let Some(at) = self.pending.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            let left = end.saturating_duration_since(Instant::now());
            if !is_readable(&self.replies, left) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut chunk = [0; 512];
            match self.replies.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.pending.extend_from_slice(&chunk[..count]),
            }
        }
    }

    /// Ends one that never got to work.
    fn end(self, why: String) -> String {
        kill_session(self.pid);
        reap(self.pid);
        why
    }
}

/// Waits for a shell that has ended or is about to.
fn reap(pid: i32) {
    // SAFETY: an own child; nobody else waits for it.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// A pseudo-terminal, and the path of its other end.
fn terminal() -> io::Result<(OwnedFd, CString)> {
    let none = || {
        let error = io::Error::last_os_error();
        io::Error::new(
            error.kind(),
            format!("there is no pseudo-terminal for its shell: {error}"),
        )
    };
    // SAFETY: makes a descriptor, owned from here on; the buffer is as long as said.
    unsafe {
        let fd = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(none());
        }
        let terminal = OwnedFd::from_raw_fd(fd);
        let mut name = [0; 64];
        if libc::grantpt(fd) != 0
            || libc::unlockpt(fd) != 0
            || libc::ptsname_r(terminal.as_raw_fd(), name.as_mut_ptr(), name.len()) != 0
        {
            return Err(none());
        }
        Ok((terminal, CStr::from_ptr(name.as_ptr()).to_owned()))
    }
}

/// Kills all that a shell started and that has not made itself a session of its own, until nothing is left.
fn kill_session(session: i32) {
    for _ in 0..10 {
        let mut found = false;
        for stat in process::all() {
            if stat.session == session && !stat.is_zombie() {
                found = true;
                let _ = process::signal(&stat, rustix::process::Signal::KILL);
            }
        }
        if !found {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a subshell is to run for a task, if that is anything for a shell: other programs gain nothing.
pub fn text(
    action: &Action,
    direction: Direction,
    variables: &[(String, String)],
    log: &Path,
) -> Option<String> {
    let plain = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let log = log.to_str()?;
    if !variables.iter().all(|(name, _)| plain(name)) {
        return None;
    }
    let mut text = format!("exec >>{} 2>&1 </dev/null\n", shell_word(log));
    for (name, value) in variables {
        let _ = writeln!(text, "{name}={}; export {name}", shell_word(value));
    }
    let word = direction.as_str();
    let _ = match action {
        Action::Script { path } if is_for_sh(path) => {
            writeln!(text, "set -- {word}\n. {}", shell_word(path))
        }
        Action::Function { file, name } => writeln!(text, "set --\n. {} && {name} {word}", shell_word(file)),
        Action::Command(Command::Shell(command)) => writeln!(text, "set --\n{command}"),
        _ => return None,
    };
    Some(text)
}

/// Whether /bin/sh is what runs it, without an option.
fn is_for_sh(path: &str) -> bool {
    let mut head = [0; 128];
    let Ok(count) = File::open(path).and_then(|mut f| f.read(&mut head)) else {
        return false;
    };
    let head = &head[..count];
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    match line.strip_prefix(b"#!") {
        Some(interpreter) => matches!(interpreter.trim_ascii(), b"/bin/sh" | b"/usr/bin/sh"),
        None => !head.contains(&0),
    }
}
