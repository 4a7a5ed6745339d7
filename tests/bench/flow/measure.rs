//! One run of a program: how long it took and what it and its children used.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A runner that takes longer hangs: for the simple FIFO protocol that means a lost wake-up.
const HANGS: Duration = Duration::from_secs(60);

pub struct Run {
    pub wall: Duration,
    pub cpu: Duration,
    /// Of the wall time, as a part of the durations along the critical path; where the runner knows them.
    pub over_critical_path: Option<f64>,
    pub stderr: String,
}

/// Runs it to its end; nothing, and a line that says so, when it hangs or fails.
#[expect(
    clippy::zombie_processes,
    reason = "wait4 waits for it, and says what it used"
)]
pub fn run(command: &mut Command, stderr: &Path) -> Option<Run> {
    let said = std::fs::File::create(stderr).expect("a file can be made");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .process_group(0);
    let before = Instant::now();
    let child = command
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", command.get_program().display()));
    let pid = child.id().cast_signed();
    let group = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let watch = {
        let group = group.clone();
        std::thread::spawn(move || {
            std::thread::park_timeout(HANGS);
            if group.load(std::sync::atomic::Ordering::SeqCst) {
                // SAFETY: the group of a child that has not been waited for.
                unsafe { libc::kill(-pid, libc::SIGKILL) };
            }
        })
    };
    let mut status = 0;
    // SAFETY: waits for an own child, into initialised plain data.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let id = pid.cast_unsigned();
        libc::waitid(libc::P_PID, id, &raw mut info, libc::WEXITED | libc::WNOWAIT);
        group.store(false, std::sync::atomic::Ordering::SeqCst);
        libc::wait4(pid, &raw mut status, 0, &raw mut usage);
        usage
    };
    let wall = before.elapsed();
    watch.thread().unpark();
    let stderr = std::fs::read_to_string(stderr).unwrap_or_default();
    if status != 0 {
        let how = if wall >= HANGS {
            "hung, and was ended".to_owned()
        } else {
            format!("failed ({status}): {}", stderr.trim())
        };
        println!("{} {how}", command.get_program().display());
        return None;
    }
    Some(Run {
        wall,
        cpu: cpu(&usage),
        over_critical_path: None,
        stderr,
    })
}

/// Runs each to its end before the next.
pub fn one_by_one(commands: impl Iterator<Item = Command>) -> Run {
    let (began, before) = (Instant::now(), children());
    for mut command in commands {
        let done = command.status().expect("a script runs");
        assert!(done.success(), "{done}");
    }
    Run {
        wall: began.elapsed(),
        cpu: children() - before,
        over_critical_path: None,
        stderr: String::new(),
    }
}

/// Used by all children that were waited for.
fn children() -> Duration {
    // SAFETY: fills initialised plain data.
    cpu(&unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    })
}

fn cpu(usage: &libc::rusage) -> Duration {
    let time = |t: libc::timeval| {
        let micros = t.tv_sec * 1_000_000 + t.tv_usec;
        Duration::from_micros(micros.cast_unsigned())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Whether the process or thread whose directory in `/proc` this is waits in the kernel.
pub fn is_asleep(proc: impl AsRef<Path>) -> bool {
    let stat = std::fs::read_to_string(proc.as_ref().join("stat")).unwrap_or_default();
    // The name, in parentheses, may contain anything.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('S'))
}
