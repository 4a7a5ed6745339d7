//! Between fork and exec: everything that turns a copy of the warden (or a namespace's init) into a command.
//! What goes wrong is written to the start-error pipe; none of this can be mistaken for the command's status.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use farmhand_core::definition::Isolation;

use super::failure::{fail, system};
use super::launch::{Launch, Setting};
use super::plan::Plan;
use super::process::die_with_parent;
use super::{secrets, user};
use farmhand_os::accounts::User;
use farmhand_policy::{Policy, UserRules};
use farmhand_warden_client::wire::{Stage, StartFailure};

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
        user::current_allowed_by(&plan.policy)?;
        user = plan.own.clone().or_else(user::current_user);
        (limits, program) = user::program_of_current(&plan.policy, request, user.as_ref())?;
        secrets = secrets::deliver(plan, &limits, user::current_account())?;
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
    let (limits, program) = user::program_of_current(&plan.policy, request, Some(own)).ok()?;
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
