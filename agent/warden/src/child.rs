//! Between fork and exec: everything that turns a copy of the warden (or a namespace's init) into a command.
//! What goes wrong is written to the start-error pipe; none of this can be mistaken for the command's status.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use farmhand_core::definition::Isolation;

use super::launch::{Launch, Setting};
use super::plan::{Plan, fd};
use super::{secrets, user};
use farmhand_os::accounts::User;
use farmhand_policy::{Policy, UserRules};
use farmhand_warden_client::wire::{SpawnRequest, Stage, StartFailure};

pub(crate) fn system(stage: Stage, subject: &str, error: &io::Error) -> StartFailure {
    let errno = error.raw_os_error().unwrap_or(0);
    let not_found = stage == Stage::Exec && matches!(errno, libc::ENOENT | libc::ENOTDIR);
    let what = match stage {
        Stage::Cgroup => "cannot enter its cgroup",
        Stage::Isolation => "isolation = \"pid\" is not possible here",
        Stage::NoSuchUser => "no such user",
        Stage::User => "this agent may not run commands as that user",
        Stage::Policy => "this node does not let jobs run as",
        Stage::Signature => "this node does not execute the definition",
        Stage::Secret => "cannot have the secret",
        Stage::RunDir => "cannot give the run directory to its user",
        Stage::Cwd => "cannot enter the working directory",
        Stage::Limits => "cannot set the limits",
        Stage::Nice => "cannot set the nice value",
        Stage::Descriptors => "cannot set up descriptors",
        Stage::Exec if not_found => "no such command",
        Stage::Exec => "cannot execute",
    };
    let why = if errno == 0 {
        String::new()
    } else {
        format!(": {error}")
    };
    StartFailure {
        stage,
        subject: subject.chars().take(1024).collect(),
        errno,
        message: format!("{what}: {subject}{why}").chars().take(2048).collect(),
        exit_code: if not_found { 127 } else { 126 },
    }
}

/// Tells the warden and leaves with what a shell would have said.
pub(crate) fn fail(failure: StartFailure) -> ! {
    let text = serde_json::to_vec(&failure).unwrap_or_default();
    // SAFETY: writes an initialised buffer; then ends this child only.
    unsafe {
        libc::write(fd::START_ERROR, text.as_ptr().cast(), text.len());
        libc::_exit(failure.exit_code)
    }
}

pub(crate) fn die_with_parent() {
    // SAFETY: changes an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) };
}

/// The parent may have died before [`die_with_parent`].
pub(crate) fn exit_if_orphaned(parent: i32) {
    // SAFETY: asks for the parent; ends this child only.
    unsafe {
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
}

pub(crate) fn close_on_exec(descriptor: i32, close: bool) {
    // SAFETY: sets a flag of this process's descriptor.
    unsafe {
        libc::fcntl(
            descriptor,
            libc::F_SETFD,
            if close { libc::FD_CLOEXEC } else { 0 },
        )
    };
}

/// First steps inside new PID and mount namespaces (and a user namespace when not root).
pub(crate) fn settle_in_namespace((uid, gid): (u32, u32)) -> Result<(), StartFailure> {
    if uid != 0 {
        let map = |file: &str, text: String| {
            std::fs::write(file, text).map_err(|e| system(Stage::Isolation, file, &e))
        };
        map("/proc/self/setgroups", "deny".into())?;
        map("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        map("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let flags = libc::MS_REC | libc::MS_SLAVE;
    // SAFETY: mounts within this child's own mount namespace, from static strings.
    unsafe {
        let (none, root, null) = (c"none".as_ptr(), c"/".as_ptr(), std::ptr::null());
        if libc::mount(none, root, null, flags, null.cast()) != 0 {
            return Err(system(
                Stage::Isolation,
                "mount namespace",
                &io::Error::last_os_error(),
            ));
        }
        // Refused where parts of /proc are masked (containers). The command then sees the host's numbers.
        let (proc, at) = (c"proc".as_ptr(), c"/proc".as_ptr());
        libc::mount(
            proc,
            at,
            proc,
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            null.cast(),
        );
    }
    Ok(())
}

/// Never returns: executes the plan's command, or tells why not. `parent`: to be dead is to be orphaned.
pub(crate) fn become_command(plan: &Plan, parent: Option<i32>) -> ! {
    let Err(failure) = prepare_and_exec(plan, parent);
    fail(failure)
}

fn prepare_and_exec(plan: &Plan, parent: Option<i32>) -> Result<std::convert::Infallible, StartFailure> {
    let request = &plan.request;
    let run_dir = plan.run_dir.as_path();
    Setting::of(plan)
        .apply()
        .map_err(|failed| failed.explained(request, run_dir, None))?;
    let mut user = None;
    let limits;
    let program;
    let secrets;
    if let Some(name) = request.user.as_deref().or_else(|| plan.policy.default_user()) {
        let user = user.insert(user::find(name)?);
        user::allowed_by(user, &plan.policy, name)?;
        limits = user::limits(user, &plan.policy, name);
        program = user::program(&limits, name, request)?;
        secrets = secrets::deliver(plan, &limits, user.account)?;
        user::give(user, run_dir, name)?;
        user::become_it(user, name)?;
        // Changing credentials clears it.
        die_with_parent();
    } else {
        user::own_allowed_by(&plan.policy)?;
        user = plan.own.clone().or_else(user::own);
        (limits, program) = user::own_program(&plan.policy, request, user.as_ref())?;
        secrets = secrets::deliver(plan, &limits, user::own_account())?;
    }
    let secrets = secrets.into_iter().map(|(name, file)| {
        let entry = [name.as_bytes(), b"=", file.as_os_str().as_bytes()].concat();
        CString::new(entry).unwrap_or_default()
    });
    let launch = launch(plan, user.as_ref(), &limits, secrets, program.as_deref())?;
    Err(launch.go(parent).explained(request, run_dir, program.as_deref()))
}

/// Everything that the child of this plan needs, made before the fork. `None`: it has to ask for something that may take long or fail, such as
/// its user or a secret, and asks by itself.
pub(crate) fn prepared(plan: &Plan) -> Option<(Setting, Launch)> {
    let request = &plan.request;
    let plain = request.isolation != Isolation::Pid
        && request.user.is_none()
        && request.secrets.is_empty()
        && plan.policy == Policy::OwnUser;
    let own = plan.own.as_ref().filter(|_| plain)?;
    // What is wrong, the child says.
    let (limits, program) = user::own_program(&plan.policy, request, Some(own)).ok()?;
    let launch = launch(plan, Some(own), &limits, [], program.as_deref()).ok()?;
    Some((Setting::of(plan), launch))
}

/// The command of whoever this process is by now. `secrets`: where the files of its secrets are, as `NAME=value`.
fn launch(
    plan: &Plan,
    user: Option<&User>,
    limits: &UserRules,
    secrets: impl IntoIterator<Item = CString>,
    program: Option<&Path>,
) -> Result<Launch, StartFailure> {
    let no_new_privs = limits.no_new_privs(rustix::process::geteuid().as_raw());
    let named = |name: &str| plan.request.env.contains_key(name);
    let mut known = user.map_or_else(Vec::new, |user| user::environment(user, named));
    known.extend(secrets);
    Launch::new(plan, no_new_privs, known, program)
}

/// Which signals this process ignores, SIGPIPE by Rust among them, as bits: an exec resets what is handled, but not
/// what is ignored.
pub(crate) fn ignored_signals() -> u64 {
    (1..=64)
        .filter(|signal| {
            // SAFETY: asks for this process's own disposition; all zeroes is a valid value.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
            }
        })
        .fold(0, |all, signal| all | (1 << (signal - 1)))
}

pub(crate) fn reset_signals(ignored: u64) {
    // SAFETY: back to the defaults of a fresh process; the warden blocks some, and ignores what it was started with.
    unsafe {
        for signal in (1..=64).filter(|signal| ignored & (1 << (signal - 1)) != 0) {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Where a command without a slash is looked for.
pub(crate) fn search_path(request: &SpawnRequest) -> &str {
    request
        .env
        .get("PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", String::as_str)
}

/// Returns only if it fails.
pub(crate) fn exec(program: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<*const libc::c_char>>()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: null-terminated arrays of strings that live until the call returns.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
