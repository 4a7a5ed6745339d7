//! The warden's parent. It does nothing but wait, so nothing can go wrong with it; and when the warden is
//! gone, for whatever reason, it ends everything the warden ran. So it does when the fence has been reached that the warden
//! last set: a warden in uninterruptible sleep is not ended by its own timer.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::args::{Args, Parent};
use super::child::process::close_on_exec;
use super::log::log;
use super::machine::protect_from_oom;
use farmhand_core::lease::BootInstant;
use farmhand_os::alarm::Alarm;
use farmhand_os::clock::{SECOND, boottime_ns};
use farmhand_warden_client::Gone;
use farmhand_warden_client::death::{cgroup, lock, sweep};
use farmhand_warden_client::paths::Paths;

/// Another reaper may still be ending its processes.
const LOCK_WITHIN: u64 = sweep::GIVE_UP_AFTER + 5 * SECOND;

/// Never returns.
pub(crate) fn run(args: &Args) -> ! {
    farmhand_os::signal::ignore_stray();
    farmhand_os::process::name_process(c"farmhand-reaper");
    let code = match reaper(args) {
        Ok(()) => 0,
        Err(error) => {
            // The agent reads this until the warden says that it is ready.
            let _ = writeln!(io::stdout(), "{error}");
            log(format_args!("reaper: {error}"));
            1
        }
    };
    std::process::exit(code)
}

fn reaper(args: &Args) -> io::Result<()> {
    let paths = Paths::new(&args.launch.state_dir);
    // Fails only for a group leader, which then has its own session already or was started by hand.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let oom_score_adj = protect_from_oom();
    let lock = take_lock(args, &paths)?;
    let left = sweep::leftovers(&paths)?;
    if left != (Gone::Empty { swept: 0 }) {
        log(format_args!(
            "reaper: the one before left processes behind: {left:?}"
        ));
    }
    let cgroup = make_cgroup(args, &paths);
    let fence = Alarm::new()?;
    fence.set(BootInstant(args.launch.deadline_ns))?;
    let mut warden = start_warden(args, oom_score_adj, &lock, &fence, cgroup.as_deref())?;
    let pid = warden.id().cast_signed();
    lock::hold_for(&lock, &[std::process::id().cast_signed(), pid])?;
    ignore_signals();
    // The agent waits for the end of it.
    rustix::stdio::dup2_stdout(File::open("/dev/null")?)?;
    match wait_for(&mut warden, &fence) {
        Ok(Some(status)) => log(format_args!(
            "reaper: warden {pid} ended ({}); ending its processes",
            status.into_raw()
        )),
        Ok(None) => log(format_args!(
            "reaper: the end of warden {pid} has come; ending its processes and it"
        )),
        Err(error) => log(format_args!(
            "reaper: waiting for warden {pid} failed ({error}); ending its processes and it"
        )),
    }
    let stuck = sweep::own_children(cgroup.as_deref());
    sweep::secrets(&paths);
    if !stuck.is_empty() {
        log(format_args!(
            "reaper: the kernel cannot end {stuck:?}; leaving them"
        ));
    }
    if let Some(cgroup) = &cgroup {
        let _ = cgroup::remove_soon(cgroup);
    }
    log(format_args!("reaper: done"));
    Ok(())
}

fn take_lock(args: &Args, paths: &Paths) -> io::Result<File> {
    let give_up = boottime_ns() + LOCK_WITHIN;
    loop {
        if let Some(lock) = lock::acquire(&paths.lock())? {
            return Ok(lock);
        }
        if boottime_ns() > give_up {
            let dir = args.launch.state_dir.display();
            return Err(io::Error::other(format!(
                "another warden or its reaper lives in {dir}"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn make_cgroup(args: &Args, paths: &Paths) -> Option<PathBuf> {
    let _ = std::fs::remove_file(paths.cgroup_note());
    if !args.launch.cgroup {
        return None;
    }
    let made = cgroup::make_parent(paths).and_then(|cgroup| {
        let text = cgroup
            .to_str()
            .ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
        std::fs::write(paths.cgroup_note(), text)?;
        Ok(cgroup)
    });
    made.inspect_err(|error| {
        log(format_args!(
            "reaper: no cgroup for attempts ({error}): following them by descent"
        ));
    })
    .ok()
}

fn start_warden(
    args: &Args,
    oom_score_adj: i32,
    lock: &File,
    fence: &Alarm,
    cgroup: Option<&Path>,
) -> io::Result<Child> {
    let args = Args {
        parent: Parent {
            pid: std::process::id().cast_signed(),
            oom_score_adj,
            lock_fd: lock.as_raw_fd(),
            fence_fd: fence.as_raw_fd(),
            cgroup: cgroup.map(Path::to_owned),
        },
        ..args.clone()
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("farmhand")
        .args(["warden", "--state-dir"])
        .arg(&args.launch.state_dir)
        .arg(serde_json::to_string(&args)?);
    // Both must have them; the warden makes them its own again.
    close_on_exec(lock.as_raw_fd(), false);
    close_on_exec(fence.as_raw_fd(), false);
    command.stdin(Stdio::null());
    command.spawn()
}

/// An end must come through the warden: a reaper that leaves alone takes the warden's backstop with it.
fn ignore_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: sets a disposition of this process.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// How the warden ended; or `None` when the fence that it set last has been reached. While it lives it is the only child.
fn wait_for(warden: &mut Child, fence: &Alarm) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(warden);
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut polled = [
            PollFd::new(&process, PollFlags::IN),
            PollFd::new(fence, PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if let Some(status) = warden.try_wait()? {
            return Ok(Some(status));
        }
        // The warden may have moved it just now.
        if fence.rang() {
            return Ok(None);
        }
    }
}
