//! What goes wrong between fork and exec, in words, and how the warden is told.

use std::io;

use farmhand_warden_client::wire::{SpawnRequest, Stage, StartFailure};

use super::plan::fd;

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

/// What is refused by a rule of this node, and not by a system call.
pub(crate) fn refused(stage: Stage, subject: &str, why: &str) -> StartFailure {
    let mut failure = system(stage, subject, &io::Error::other(""));
    failure.message = format!("{}: {why}", failure.message);
    failure
}

/// Where a command without a slash is looked for.
pub(crate) fn search_path(request: &SpawnRequest) -> &str {
    request
        .env
        .get("PATH")
        .map_or("/usr/local/bin:/usr/bin:/bin", String::as_str)
}
