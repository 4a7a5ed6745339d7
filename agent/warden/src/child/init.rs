//! Process 1 of an attempt's PID namespace: starts the command, reaps, passes SIGTERM on, tells the warden
//! how the command ended. When it goes, the kernel ends everything else in the namespace; and it goes with
//! the warden, whose death signal nothing in the namespace can clear.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::time::Duration;

use super::command::become_command;
use super::failure::{fail, system};
use super::plan::{InitReport, Plan, fd};
use super::process::close_on_exec;
use farmhand_os::reap::{self, Reaped};
use farmhand_warden_client::wire::Stage;

/// Never returns.
pub(crate) fn run() -> ! {
    farmhand_os::process::name_process(c"farmhand-init");
    close_on_exec(fd::START_ERROR, true);
    close_on_exec(fd::STATUS, true);
    close_on_exec(fd::SECRETS, true);
    // SAFETY: these numbers were set up by the warden for this process alone.
    let (plan, mut status) = unsafe { (File::from_raw_fd(fd::PLAN), File::from_raw_fd(fd::STATUS)) };
    let plan: Plan = match whole(plan).and_then(|text| serde_json::from_slice(&text).map_err(Into::into)) {
        Ok(plan) => plan,
        Err(error) => fail(system(Stage::Isolation, "plan", &error)),
    };
    // Blocked before the fork, so that no exit and no SIGTERM is missed.
    let signals = match farmhand_os::signal::block([libc::SIGCHLD, libc::SIGTERM]) {
        Ok(signals) => signals,
        Err(error) => fail(system(Stage::Isolation, "signals", &error)),
    };
    // SAFETY: one thread.
    let command = match unsafe { farmhand_os::fork::fork() } {
        Ok(0) => become_command(&plan, None),
        Ok(pid) => pid,
        Err(error) => fail(system(Stage::Isolation, "fork", &error)),
    };
    for descriptor in [0, 1, 2, fd::PROGRESS, fd::START_ERROR, fd::SECRETS] {
        // SAFETY: the command has its own copies; ours would keep its pipes open.
        unsafe { libc::close(descriptor) };
    }
    loop {
        if wait_for(&signals) == libc::SIGTERM {
            // SAFETY: from process 1 this reaches everything in the namespace, and nothing outside.
            unsafe {
                libc::kill(-1, libc::SIGTERM);
                libc::kill(-1, libc::SIGCONT);
            }
        }
        while let Some(Reaped {
            pid,
            status: raw,
            usage,
        }) = reap::any()
        {
            if pid == command {
                let report = InitReport {
                    status: raw,
                    usage,
                    left: others_live(),
                };
                // A warden that is gone takes this process with it.
                let _ = serde_json::to_writer(&mut status, &report);
                std::process::exit(0);
            }
        }
    }
}

/// Whether anything but this process is in the namespace.
fn others_live() -> bool {
    // What has ended is no longer there when it is reaped.
    while reap::any().is_some() {}
    // SAFETY: sends nothing; from process 1 it asks for everything else in the namespace.
    unsafe { libc::kill(-1, 0) == 0 }
}

/// At once: a reader of JSON asks a file for each byte by itself.
fn whole(mut file: File) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::io::Seek::rewind(&mut file)?;
    std::io::Read::read_to_end(&mut file, &mut text)?;
    Ok(text)
}

/// The next of `signals`, or 0 after a second: a SIGCHLD that merged with another is then caught up with.
fn wait_for(signals: &libc::sigset_t) -> i32 {
    let second = Duration::from_secs(1);
    let timeout = libc::timespec {
        tv_sec: second.as_secs() as libc::time_t,
        tv_nsec: 0,
    };
    // SAFETY: valid pointers; no information about the signal is asked for.
    unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &timeout) }.max(0)
}
