//! Becoming a job's user. Runs in the forked child: a directory service that does not answer delays one
//! attempt, and its timeout ends it, instead of the warden.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use super::failure::{refused, search_path, system};
use farmhand_os::accounts::{self, Account, User};
use farmhand_policy::{Policy, SECURE_PATH, UserRules};
use farmhand_warden_client::wire::{SpawnRequest, Stage, StartFailure};

/// As cron has it: a login shell may be one that lets nobody in.
const SHELL: &str = "/bin/sh";

pub(crate) fn find(name: &str) -> Result<User, StartFailure> {
    match accounts::find(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(system(Stage::NoSuchUser, name, &io::Error::other(""))),
        Err(error) => Err(system(Stage::User, name, &error)),
    }
}

/// Who this process is; a user without an entry, as in a container, is nobody to be told of.
pub(crate) fn current_user() -> Option<User> {
    accounts::of(rustix::process::geteuid().as_raw()).ok().flatten()
}

pub(crate) fn current_account() -> Account {
    Account {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

/// Errors: When the node's policy does not let jobs run as this process's own user.
pub(crate) fn current_allowed_by(policy: &Policy) -> Result<(), StartFailure> {
    if *policy == Policy::OwnUser {
        return Ok(());
    }
    let uid = rustix::process::geteuid().as_raw();
    let name = current_user().map_or_else(
        || format!("user {uid}"),
        |user| user.name.to_string_lossy().into_owned(),
    );
    policy.check(&name, uid, uid).map_err(|why| {
        let default = format!("{why}; the job may name another `user`, the policy a `default_user`");
        refused(Stage::Policy, &name, &default)
    })
}

/// The program that a command is, where the policy decides by paths.
pub(crate) fn program(
    limits: &UserRules,
    name: &str,
    request: &SpawnRequest,
) -> Result<Option<PathBuf>, StartFailure> {
    let path = match limits.commands {
        Some(_) => SECURE_PATH,
        None => search_path(request),
    };
    let found = limits.program(&request.command, path).and_then(|found| {
        if found.is_some() {
            limits.environment(&request.env)?;
        }
        Ok(found)
    });
    found.map_err(|why| {
        let mut failure = system(Stage::Policy, name, &io::Error::other(""));
        failure.message = format!("this node does not let {name} run this: {why}");
        failure
    })
}

/// As [`program`], for this process's own user.
pub(crate) fn program_of_current(
    policy: &Policy,
    request: &SpawnRequest,
    own: Option<&User>,
) -> Result<(UserRules, Option<PathBuf>), StartFailure> {
    let name = own.map_or_else(String::new, |user| user.name.to_string_lossy().into_owned());
    let limits = policy.limits(&[&name]);
    let program = program(&limits, &name, request)?;
    Ok((limits, program))
}

/// What the policy says about this user, by the name that its number has first: another name does not get around it.
pub(crate) fn limits(user: &User, policy: &Policy, name: &str) -> UserRules {
    let known = accounts::of(user.account.uid).ok().flatten();
    let known = known.map_or_else(String::new, |known| known.name.to_string_lossy().into_owned());
    policy.limits(&[&known, name])
}

/// Errors: When the node's policy does not let jobs run as this user.
pub(crate) fn allowed_by(user: &User, policy: &Policy, name: &str) -> Result<(), StartFailure> {
    let own = rustix::process::geteuid().as_raw();
    policy
        .check(name, user.account.uid, own)
        .map_err(|why| refused(Stage::Policy, name, &why))
}

pub(crate) fn give(user: &User, dir: &Path, name: &str) -> Result<(), StartFailure> {
    let (uid, gid) = (user.account.uid, user.account.gid);
    std::os::unix::fs::chown(dir, Some(uid), Some(gid)).map_err(|e| match e.raw_os_error() {
        // Whoever may not give files away may not become the user either; that says it better.
        Some(libc::EPERM) => system(Stage::User, name, &e),
        _ => system(Stage::RunDir, &dir.display().to_string(), &e),
    })
}

/// User, group and supplementary groups, for good.
pub(crate) fn become_it(user: &User, name: &str) -> Result<(), StartFailure> {
    let us = rustix::process::geteuid().as_raw();
    let (uid, gid) = (user.account.uid, user.account.gid);
    if us != 0 && us == uid {
        return Ok(());
    }
    // SAFETY: changes this process's own credentials; the name is a valid string.
    let done = unsafe {
        libc::initgroups(user.name.as_ptr(), gid) == 0
            && libc::setresgid(gid, gid, gid) == 0
            && libc::setresuid(uid, uid, uid) == 0
    };
    if done {
        Ok(())
    } else {
        Err(system(Stage::User, name, &io::Error::last_os_error()))
    }
}

/// `NAME=value` of what a login sets, but for what the job names itself.
pub(crate) fn environment(user: &User, named: impl Fn(&str) -> bool) -> Vec<CString> {
    let shell = CString::new(SHELL).unwrap_or_default();
    let values = [
        ("HOME", &user.home),
        ("LOGNAME", &user.name),
        ("SHELL", &shell),
        ("USER", &user.name),
    ];
    let entry = |(name, value): (&str, &CString)| {
        let mut text = format!("{name}=").into_bytes();
        text.extend_from_slice(value.as_bytes());
        // A CString's bytes have no zero among them.
        CString::new(text).unwrap_or_default()
    };
    values
        .into_iter()
        .filter(|(name, _)| !named(name))
        .map(entry)
        .collect()
}
