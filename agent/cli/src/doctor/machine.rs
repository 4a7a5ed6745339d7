//! Looking at this machine, and judging it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, CWD, FileType, Mode, StatVfs};

use super::{Check, Level};
use farmhand_os::clock;
use farmhand_os::process;
use farmhand_warden::{Capabilities, capabilities};

const LITTLE: u64 = 1 << 30;
const TOO_LITTLE: u64 = 64 << 20;
/// pidfds for every process, `close_range` and what the warden builds on them.
const OLDEST_KERNEL: (u32, u32) = (5, 10);

#[derive(Debug)]
pub(crate) struct Machine {
    pub kernel: String,
    pub root: bool,
    /// Agents that talk to networks as root.
    pub(crate) agents_of_root: Vec<i32>,
    pub capabilities: Capabilities,
    pub slewed: bool,
    pub state_dir: StateDir,
}

#[derive(Debug)]
pub(crate) struct StateDir {
    pub path: PathBuf,
    /// Of the directory, or of the nearest one above that exists; else why that cannot be written to.
    pub free_bytes: io::Result<u64>,
    /// Whether it can hold a FIFO.
    pub fifo: io::Result<()>,
}

/// Looks around. The process must have one thread.
pub(crate) fn look(state_dir: &Path) -> Machine {
    Machine {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        root: rustix::process::geteuid().is_root(),
        agents_of_root: agents_of_root(),
        capabilities: capabilities(state_dir),
        slewed: clock::slewed_beyond(clock::SLEW_LIMIT),
        state_dir: look_at(state_dir),
    }
}

fn agents_of_root() -> Vec<i32> {
    let pids = process::all().into_iter().map(|stat| stat.pid);
    pids.filter(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        let ours = words.next().is_some_and(|program| program.ends_with(b"farmhand"));
        ours && words.next() == Some(b"agent") && process::real_user(*pid) == Some(0)
    })
    .collect()
}

fn look_at(path: &Path) -> StateDir {
    let there = path
        .ancestors()
        .find(|dir| dir.is_dir())
        .unwrap_or(Path::new("/"));
    StateDir {
        path: path.to_path_buf(),
        free_bytes: free(there),
        fifo: fifo(there),
    }
}

fn free(dir: &Path) -> io::Result<u64> {
    rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK)?;
    let StatVfs {
        f_bavail, f_frsize, ..
    } = rustix::fs::statvfs(dir)?;
    Ok(f_bavail.saturating_mul(f_frsize))
}

fn fifo(dir: &Path) -> io::Result<()> {
    let path = dir.join(format!(".farmhand-doctor-{}", std::process::id()));
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    fs::remove_file(&path)
}

pub(crate) fn judge(machine: &Machine) -> Vec<Check> {
    let capabilities = &machine.capabilities;
    vec![
        kernel(&machine.kernel),
        fence(capabilities.kernel_fence),
        cgroup(&capabilities.cgroup),
        limits(&capabilities.cgroup),
        pid_namespace(capabilities.pid_namespace),
        user(machine.root),
        apart(&machine.agents_of_root),
        clock_rate(machine.slewed),
        space(&machine.state_dir),
        fifos(&machine.state_dir),
    ]
}

fn kernel(release: &str) -> Check {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let version = (
        numbers.next().and_then(Result::ok),
        numbers.next().and_then(Result::ok),
    );
    let found = format!("Linux {release}");
    match version {
        (Some(major), Some(minor)) if (major, minor) < OLDEST_KERNEL => Check::bad(
            Level::Failure,
            "kernel",
            found,
            "the warden needs system calls that it does not have",
            "run Linux 5.10 or newer",
        ),
        _ => Check::ok("kernel", found),
    }
}

fn fence(works: bool) -> Check {
    if works {
        return Check::ok(
            "kernel fence",
            "a timer on CLOCK_BOOTTIME can end a warden with its lease",
        );
    }
    Check::bad(
        Level::Failure,
        "kernel fence",
        "no timer on CLOCK_BOOTTIME",
        "nothing ends the processes of a node that lost its lease: a run may be alive twice",
        "allow timer_create (a seccomp profile may forbid it)",
    )
}

fn cgroup(found: &io::Result<Vec<String>>) -> Check {
    match found {
        Ok(_) => Check::ok("cgroups", "each attempt gets a cgroup (v2) of its own"),
        Err(error) => Check::bad(
            Level::Warning,
            "cgroups",
            format!("no cgroup v2 to write to: {error}"),
            "attempts are followed by descent: ending a fork bomb takes longer, CPU time counts only waited-for children",
            "mount cgroup v2; under systemd set Delegate=yes",
        ),
    }
}

fn limits(found: &io::Result<Vec<String>>) -> Check {
    let missing: Vec<&str> = ["memory", "pids"]
        .into_iter()
        .filter(|wanted| {
            !found
                .as_ref()
                .is_ok_and(|there| there.iter().any(|c| c == wanted))
        })
        .collect();
    if missing.is_empty() {
        return Check::ok("limits", "the kernel enforces memory and processes");
    }
    Check::bad(
        Level::Note,
        "limits",
        format!(
            "where this command runs there is no cgroup v2 controller for {}; an agent's unit may have it",
            missing.join(" and ")
        ),
        "`limits` are watched once a second instead of enforced: a fast job exceeds them for a moment",
        "under systemd 254 or newer add controllers.conf to the unit; elsewhere boot with cgroup v2 alone",
    )
}

fn pid_namespace(works: bool) -> Check {
    if works {
        return Check::ok("pid namespaces", "isolation = \"pid\" works");
    }
    Check::bad(
        Level::Note,
        "pid namespaces",
        "this user may make none",
        "jobs with isolation = \"pid\" fail to start; without it, killing warden and reaper together leaves a window",
        "run as root, or allow user namespaces",
    )
}

fn user(root: bool) -> Check {
    if root {
        return Check::bad(
            Level::Warning,
            "user",
            "root",
            "unless a policy says otherwise jobs run as root, and whoever may write jobs into the database is root here",
            "run the agent as a user of its own when jobs need no other; else give it a policy with `default_user`, as the package does",
        );
    }
    Check::bad(
        Level::Note,
        "user",
        "not root",
        "jobs run as this user; `user = …` of another fails to start",
        "run the agent as root when jobs need users of their own",
    )
}

fn apart(agents: &[i32]) -> Check {
    let Some(one) = agents.first() else {
        return Check::ok("privileges", "no agent here talks to networks as root");
    };
    Check::bad(
        Level::Warning,
        "privileges",
        format!("an agent talks to networks as root (process {one})"),
        "who takes it over through the network, or through the database's library, is root here, whatever the policy says",
        "give it a user of its own: `user` in its configuration, or --user NAME",
    )
}

fn clock_rate(slewed: bool) -> Check {
    if !slewed {
        return Check::ok("clock rate", "steady");
    }
    Check::bad(
        Level::Warning,
        "clock rate",
        "this clock is being slewed by more than 500 ppm",
        "meanwhile this agent ends nobody's lease and holds its own for a shorter time",
        "wait; let the NTP client step a clock that is far off",
    )
}

fn space(dir: &StateDir) -> Check {
    let path = dir.path.display();
    match &dir.free_bytes {
        Ok(free) if *free >= LITTLE => {
            Check::ok("state directory", format!("{path}: {} MiB free", free >> 20))
        }
        Ok(free) => Check::bad(
            if *free < TOO_LITTLE {
                Level::Failure
            } else {
                Level::Warning
            },
            "state directory",
            format!("{path}: {} MiB free", free >> 20),
            "on a full disk output of jobs is dropped (and counted), and a new warden cannot start",
            "make room, or choose another directory with --state-dir",
        ),
        Err(error) => Check::bad(
            Level::Failure,
            "state directory",
            format!("{path}: {error}"),
            "an agent cannot start here",
            "choose a directory of this user with --state-dir",
        ),
    }
}

fn fifos(dir: &StateDir) -> Check {
    match &dir.fifo {
        Ok(()) => Check::ok("fifos", "the state directory holds them"),
        Err(error) => Check::bad(
            Level::Warning,
            "fifos",
            error.to_string(),
            "dependencies of flows cannot be waited for in the kernel",
            "put the state directory on a local file system",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Machine {
        Machine {
            kernel: "6.1.0-18-amd64".into(),
            root: false,
            agents_of_root: Vec::new(),
            capabilities: Capabilities {
                cgroup: Ok(vec!["memory".into(), "pids".into()]),
                pid_namespace: true,
                kernel_fence: true,
            },
            slewed: false,
            state_dir: StateDir {
                path: "/var/lib/farmhand".into(),
                free_bytes: Ok(10 << 30),
                fifo: Ok(()),
            },
        }
    }

    fn level(check: &str, machine: &Machine) -> Level {
        judge(machine)
            .into_iter()
            .find(|c| c.check == check)
            .unwrap()
            .level
    }

    #[test]
    fn a_good_machine_has_nothing_worse_than_a_note() {
        assert_eq!(super::super::worst(&judge(&good())), Level::Note);
    }

    #[test]
    fn a_machine_that_cannot_end_a_lost_lease_is_refused() {
        let mut machine = good();
        machine.capabilities.kernel_fence = false;
        assert_eq!(level("kernel fence", &machine), Level::Failure);
    }

    #[test]
    fn an_agent_that_keeps_roots_rights_is_warned_of() {
        let mut machine = good();
        assert_eq!(level("privileges", &machine), Level::Ok);
        machine.agents_of_root = vec![4711];
        assert_eq!(level("privileges", &machine), Level::Warning);
    }

    #[test]
    fn controllers_are_told_apart_from_cgroups() {
        let mut machine = good();
        machine.capabilities.cgroup = Ok(vec!["memory".into()]);
        assert_eq!(
            (level("cgroups", &machine), level("limits", &machine)),
            (Level::Ok, Level::Note)
        );
        machine.capabilities.cgroup = Err(io::Error::other("read-only"));
        assert_eq!(
            (level("cgroups", &machine), level("limits", &machine)),
            (Level::Warning, Level::Note)
        );
    }

    #[test]
    fn room_is_judged_in_two_steps() {
        let mut machine = good();
        machine.state_dir.free_bytes = Ok(500 << 20);
        assert_eq!(level("state directory", &machine), Level::Warning);
        machine.state_dir.free_bytes = Ok(10 << 20);
        assert_eq!(level("state directory", &machine), Level::Failure);
    }

    #[test]
    fn an_old_kernel_is_refused_and_a_strange_name_is_not() {
        assert_eq!(kernel("4.19.0-27-amd64").level, Level::Failure);
        assert_eq!(kernel("5.10.0").level, Level::Ok);
        assert_eq!(kernel("weird").level, Level::Ok);
    }
}
