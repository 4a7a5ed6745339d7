//! Between fork and exec: everything that turns a copy of the warden (or a namespace's init) into a command.
//! What goes wrong is written to the start-error pipe; none of this can be mistaken for the command's status.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use farmhand_core::definition::Command;

use super::plan::{Plan, fd};
use super::{secrets, user};
use farmhand_policy::SECURE_PATH;
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
    // SAFETY: writes an initialised buffer, shorter than PIPE_BUF; then ends this child only.
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
    own_session();
    reset_signals(plan.restore.ignored);
    restore(plan)?;
    if let Some(nice) = request.nice {
        // SAFETY: changes this process's own priority.
        if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
            return Err(system(
                Stage::Nice,
                &nice.to_string(),
                &io::Error::last_os_error(),
            ));
        }
    }
    // SAFETY: changes this process's own mask.
    unsafe { libc::umask(request.umask.unwrap_or(0o022) as libc::mode_t) };
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
        if let Some(dir) = &plan.run_dir {
            user::give(user, dir, name)?;
        }
        user::become_it(user, name)?;
        // Changing credentials clears it.
        die_with_parent();
    } else {
        user::own_allowed_by(&plan.policy)?;
        user = plan.own.clone().or_else(user::own);
        (limits, program) = user::own_program(&plan.policy, request, user.as_ref())?;
        secrets = secrets::deliver(plan, &limits, user::own_account())?;
    }
    if limits.no_new_privs(rustix::process::geteuid().as_raw()) {
        // SAFETY: changes an attribute of this process, for good.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    }
    if let Some(parent) = parent {
        exit_if_orphaned(parent);
    }
    let default_cwd = plan.run_dir.as_deref().unwrap_or(Path::new("/"));
    let cwd = request.cwd.as_deref().map_or(default_cwd, Path::new);
    std::env::set_current_dir(cwd).map_err(|e| {
        let text = cwd.display().to_string();
        if request.cwd.is_none() {
            let hint = format!("{text} (every directory above it must let the job's user pass: mode 0711)");
            return system(Stage::Cwd, &hint, &e);
        }
        system(Stage::Cwd, &text, &e)
    })?;
    let mut known = user.map_or_else(Vec::new, |user| {
        user::environment(&user, |name| request.env.contains_key(name))
    });
    for (name, file) in secrets {
        let entry = [name.as_bytes(), b"=", file.as_os_str().as_bytes()].concat();
        known.push(CString::new(entry).unwrap_or_default());
    }
    exec_command(plan, known, program)
}

fn own_session() {
    // SAFETY: this child leads no process group, so it cannot fail.
    unsafe { libc::setsid() };
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

fn reset_signals(ignored: u64) {
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

fn restore(plan: &Plan) -> Result<(), StartFailure> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = |error: rustix::io::Errno, what: &str| system(Stage::Limits, what, &error.into());
    let (current, maximum) = plan.restore.open_files;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).map_err(|e| limits(e, "open files"))?;
    // Not permitted to lower it again without privilege: then it was never lowered.
    let _ = std::fs::write("/proc/self/oom_score_adj", plan.restore.oom_score_adj.to_string());
    if let Some(bytes) = plan.request.limits.memory {
        let maximum = getrlimit(Resource::Data).maximum;
        let bytes = maximum.map_or(bytes, |m| m.min(bytes));
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        setrlimit(Resource::Data, limit).map_err(|e| limits(e, "memory"))?;
    }
    Ok(())
}

fn exec_command(
    plan: &Plan,
    mut env: Vec<CString>,
    checked: Option<PathBuf>,
) -> Result<std::convert::Infallible, StartFailure> {
    let text = |s: &str| {
        CString::new(s).map_err(|_| {
            let error = io::Error::from_raw_os_error(libc::EINVAL);
            system(Stage::Exec, &s.replace('\0', "\\0"), &error)
        })
    };
    let args = match &plan.request.command {
        Command::Argv(argv) => argv.iter().map(|a| text(a)).collect::<Result<Vec<_>, _>>()?,
        Command::Shell(script) => vec![c"/bin/sh".into(), c"-c".into(), text(script)?],
    };
    for (name, value) in &plan.request.env {
        let value = match checked {
            Some(_) if name == "PATH" => SECURE_PATH,
            _ => value,
        };
        env.push(text(&format!("{name}={value}"))?);
    }
    env.push(text(&format!("FARMHAND_PROGRESS_FD={}", fd::PROGRESS))?);
    if let Some(dir) = &plan.run_dir {
        let mut entry = b"FARMHAND_RUN_DIR=".to_vec();
        entry.extend_from_slice(dir.as_os_str().as_bytes());
        env.push(CString::new(entry).unwrap_or_default());
    }
    let Some(program) = args.first().filter(|p| !p.is_empty()) else {
        return Err(system(
            Stage::Exec,
            "(empty)",
            &io::Error::from_raw_os_error(libc::ENOENT),
        ));
    };
    if let Some(checked) = checked {
        // What was held against the policy, and no other file that a search might find.
        let path = CString::new(checked.as_os_str().as_bytes()).unwrap_or_default();
        let name = checked.display().to_string();
        return Err(system(Stage::Exec, &name, &exec_or_shell(&path, &args, &env)));
    }
    let name = program.to_string_lossy().into_owned();
    if name.contains('/') {
        return Err(system(Stage::Exec, &name, &exec_or_shell(program, &args, &env)));
    }
    let path = search_path(&plan.request);
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for dir in path.split(':') {
        let dir = if dir.is_empty() { "." } else { dir };
        let error = exec_or_shell(&text(&format!("{dir}/{name}"))?, &args, &env);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            // Found, but not allowed: another directory may have a better one.
            Some(libc::EACCES) => worst = error,
            _ => return Err(system(Stage::Exec, &format!("{dir}/{name}"), &error)),
        }
    }
    Err(system(Stage::Exec, &format!("{name} (PATH={path})"), &worst))
}

/// Where a command without a slash is looked for.
pub(crate) fn search_path(request: &SpawnRequest) -> &str {
    request
        .env
        .get("PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", String::as_str)
}

/// Like execvp: a file the kernel does not recognise is taken for a shell script.
fn exec_or_shell(program: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let error = exec(program, args, env);
    if error.raw_os_error() != Some(libc::ENOEXEC) {
        return error;
    }
    let mut shell: Vec<CString> = vec![c"/bin/sh".into(), program.into()];
    shell.extend_from_slice(args.get(1..).unwrap_or_default());
    exec(c"/bin/sh", &shell, env)
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
