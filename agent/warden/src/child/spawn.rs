//! The one place where processes are made.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use farmhand_core::definition::Isolation;
use rustix::pipe::{PipeFlags, pipe_with};

use super::failure::{fail, system};
use super::launch::{Failed, Launch, Setting};
use super::memory::HeapWithheld;
use super::plan::{Plan, fd};
use super::{command, process};
use farmhand_warden_client::death::cgroup::Entry;
use farmhand_warden_client::wire::Stage;

/// The warden's ends of a started attempt. All but `stdin` are readable, none blocks.
#[derive(Debug)]
pub(crate) struct Started {
    pub pid: i32,
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub progress: OwnedFd,
    /// Ends without a byte once the command is executing, else holds a start failure.
    pub start_error: OwnedFd,
    /// With PID isolation: how the command ended, told by its init.
    pub status: Option<OwnedFd>,
    /// For a command with secrets: what to hide in its output, complete before its first byte.
    pub secrets: Option<File>,
}

/// Readable by every child; ends when the warden is gone. Closes the gap between clone and PDEATHSIG in a
/// PID namespace, where getppid says nothing.
#[derive(Debug)]
pub(crate) struct Liveness {
    read: OwnedFd,
    _write: OwnedFd,
    warden: i32,
    identity: (u32, u32),
}

impl Liveness {
    pub(crate) fn new() -> io::Result<Liveness> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Liveness {
            read,
            _write: write,
            warden: std::process::id().cast_signed(),
            identity: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        })
    }
}

#[derive(Debug)]
pub(crate) enum NotMade {
    /// No descriptor or memory for what it needs.
    Needs(io::Error),
    Fork(io::Error),
}

impl From<io::Error> for NotMade {
    fn from(error: io::Error) -> Self {
        Self::Needs(error)
    }
}

/// Forks the command of a plan. Returns without waiting for its exec, which a dead file server can delay for
/// as long as it likes.
pub(crate) fn start(plan: &Plan, cgroup: Option<&Entry>, liveness: &Liveness) -> Result<Started, NotMade> {
    let isolated = plan.request.isolation == Isolation::Pid;
    let (stdin_read, stdin) = match &plan.request.stdin {
        Some(_) => pipe().map(|(read, write)| (read, Some(write)))?,
        None => (OwnedFd::from(File::open("/dev/null")?), None),
    };
    let (stdout, stdout_write) = pipe()?;
    let (stderr, stderr_write) = pipe()?;
    let (progress, progress_write) = pipe()?;
    let (start_error, start_error_write) = pipe()?;
    let status = match isolated {
        true => Some(pipe()?),
        false => None,
    };
    let plan_file = if isolated { Some(plan_file(plan)?) } else { None };
    let secrets = match plan.request.secrets.is_empty() {
        true => None,
        false => Some(File::from(
            rustix::fs::memfd_create("farmhand-secrets", rustix::fs::MemfdFlags::CLOEXEC)
                .map_err(io::Error::from)?,
        )),
    };
    // Those that are not there are not numbered in the child.
    let or_stdin = |fd: Option<&dyn AsRawFd>| fd.unwrap_or(&stdin_read).as_raw_fd();
    let status_write = status.as_ref().map(|(_, write)| write as &dyn AsRawFd);
    let for_child = ForChild {
        numbered: [
            (stdin_read.as_raw_fd(), 0),
            (stdout_write.as_raw_fd(), 1),
            (stderr_write.as_raw_fd(), 2),
            (progress_write.as_raw_fd(), fd::PROGRESS),
            (start_error_write.as_raw_fd(), fd::START_ERROR),
            (or_stdin(status_write), fd::STATUS),
            (or_stdin(plan_file.as_ref().map(|f| f as _)), fd::PLAN),
            (or_stdin(secrets.as_ref().map(|f| f as _)), fd::SECRETS),
        ],
        secrets: secrets.is_some(),
        warden: liveness.warden,
        identity: liveness.identity,
    };
    // Nothing may fail behind the fork: an error says that no process was made.
    let ends = [&stdout, &stderr, &progress, &start_error];
    let status_end = status.as_ref().map(|(read, _)| read);
    for end in ends.into_iter().chain(status_end).chain(&stdin) {
        rustix::io::ioctl_fionbio(end, true).map_err(io::Error::from)?;
    }
    let namespaces = if isolated { isolation() } else { 0 };
    let prepared = command::prepared(plan);
    let _without_heap = prepared.as_ref().map(|_| HeapWithheld::now());
    // SAFETY: this process has one thread, so every lock and allocation is consistent in the child, which calls no code
    // that needs glibc's idea of its id, and execs or exits.
    let (pid, moves) = unsafe { born(namespaces, cgroup) }.map_err(NotMade::Fork)?;
    if pid == 0 {
        let moves = cgroup.filter(|_| moves);
        if let Some((setting, launch)) = &prepared {
            for_child.become_prepared(setting, launch, moves)
        }
        for_child.become_child(plan, isolated, liveness, moves)
    }
    Ok(Started {
        pid,
        stdin,
        stdout,
        stderr,
        progress,
        start_error,
        status: status.map(|(read, _)| read),
        secrets,
    })
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// The namespaces of an attempt with `isolation = "pid"`. Others than root need one more to make the two.
pub(crate) fn isolation() -> i32 {
    let both = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    if rustix::process::geteuid().is_root() {
        both
    } else {
        both | libc::CLONE_NEWUSER
    }
}

/// The child in its cgroup from its first moment; or, where the kernel cannot do that (before 5.7, or a filter that
/// does not know the call), a child that is to move there. Answers like fork, and whether it is to move.
///
/// # Safety
/// The process must have one thread; the child must exec or exit.
unsafe fn born(namespaces: i32, cgroup: Option<&Entry>) -> io::Result<(i32, bool)> {
    if let Some(cgroup) = cgroup {
        // SAFETY: promised by the caller.
        match unsafe { clone_into(namespaces, &cgroup.dir) } {
            Ok(pid) => return Ok((pid, false)),
            // What the move will not get better, it says better.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM)) => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    // SAFETY: promised by the caller.
    let pid = unsafe { clone(namespaces)? };
    Ok((pid, cgroup.is_some()))
}

/// What clone3(2) takes, as of Linux 5.7.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Beyond what fits an int, which is how libc has it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// # Safety
/// The process must have one thread; the child must exec or exit.
unsafe fn clone_into(namespaces: i32, cgroup: &File) -> io::Result<i32> {
    let args = CloneArgs {
        flags: u64::from(namespaces.cast_unsigned()) | CLONE_INTO_CGROUP,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        cgroup: u64::from(cgroup.as_raw_fd().cast_unsigned()),
        ..CloneArgs::default()
    };
    // SAFETY: without CLONE_VM and with no stack given this is a fork; the arguments outlive the call.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid as i32),
    }
}

/// # Safety
/// The process must have one thread; the child must exec or exit.
unsafe fn clone(flags: i32) -> io::Result<i32> {
    let flags = i64::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack given this is a fork.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid as i32),
    }
}

fn plan_file(plan: &Plan) -> io::Result<File> {
    let fd = rustix::fs::memfd_create("farmhand-plan", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(&serde_json::to_vec(plan)?)?;
    Ok(file)
}

struct ForChild {
    numbered: [(RawFd, RawFd); 8],
    /// Whether the last of them is there.
    secrets: bool,
    warden: i32,
    identity: (u32, u32),
}

impl ForChild {
    /// Without a byte of the heap, which this child may not have.
    fn become_prepared(&self, setting: &Setting, launch: &Launch, moves: Option<&Entry>) -> ! {
        process::die_with_parent();
        process::exit_if_orphaned(self.warden);
        let moved = moves.map_or(Ok(()), Entry::enter);
        self.number_descriptors(false);
        let failed = match moved.map_err(|error| Failed::cgroup(&error)) {
            Ok(()) => setting.apply(),
            failed => failed,
        };
        match failed {
            Ok(()) => launch.go(Some(self.warden)).leave(),
            Err(failed) => failed.leave(),
        }
    }

    fn become_child(&self, plan: &Plan, isolated: bool, liveness: &Liveness, moves: Option<&Entry>) -> ! {
        process::die_with_parent();
        if isolated {
            exit_if_orphaned_in_namespace(liveness);
        } else {
            process::exit_if_orphaned(self.warden);
        }
        if let Some(error) = moves.and_then(|cgroup| cgroup.enter().err()) {
            self.number_descriptors(false);
            fail(system(Stage::Cgroup, "cgroup.procs", &error));
        }
        let namespaced = if isolated {
            command::settle_in_namespace(self.identity)
        } else {
            Ok(())
        };
        self.number_descriptors(isolated);
        if let Err(failure) = namespaced {
            fail(failure);
        }
        if isolated {
            exec_init(plan);
        }
        command::become_command(plan, Some(self.warden))
    }

    /// Puts the descriptors where the child expects them and closes every other one.
    fn number_descriptors(&self, isolated: bool) {
        let count = match (self.secrets, isolated) {
            (true, _) => 8,
            (false, true) => 7,
            (false, false) => 5,
        };
        // First out of the way of the low numbers, where they are in it, then to them.
        let mut wanted = self.numbered;
        for (from, _) in wanted
            .iter_mut()
            .take(count)
            .filter(|(from, _)| *from < fd::FIRST_FREE)
        {
            // SAFETY: duplicates an open descriptor.
            *from = unsafe { libc::fcntl(*from, libc::F_DUPFD_CLOEXEC, fd::FIRST_FREE) };
        }
        for (from, to) in wanted.into_iter().take(count) {
            // SAFETY: overwrites descriptors that only this child has.
            unsafe { libc::dup2(from, to) };
        }
        // SAFETY: closes descriptors of this child only.
        unsafe {
            if !isolated {
                libc::syscall(libc::SYS_close_range, fd::STATUS, fd::PLAN, 0);
            }
            let first = if self.secrets { fd::FIRST_FREE } else { fd::SECRETS };
            libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
        }
        if self.secrets {
            process::close_on_exec(fd::SECRETS, !isolated);
        }
        process::close_on_exec(fd::START_ERROR, !isolated);
    }
}

fn exit_if_orphaned_in_namespace(liveness: &Liveness) {
    let mut poll = libc::pollfd {
        fd: liveness.read.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // The child's own copy of the writing end would keep the pipe alive.
    // SAFETY: closes this child's copy; polls one valid entry without waiting.
    unsafe {
        libc::close(liveness._write.as_raw_fd());
        if libc::poll(&mut poll, 1, 0) != 0 {
            libc::_exit(1);
        }
    }
}

fn exec_init(plan: &Plan) -> ! {
    let id = plan.request.id.to_string();
    let args = ["farmhand", "init", "--attempt", &id].map(|a| CString::new(a).unwrap_or_default());
    let error = process::exec(c"/proc/self/exe", &args, &[]);
    process::close_on_exec(fd::START_ERROR, true);
    fail(system(Stage::Isolation, "/proc/self/exe", &error))
}
