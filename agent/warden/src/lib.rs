//! Who owns the processes. The reaper waits; its child, the warden, forks commands, keeps their deadlines and
//! dies by the kernel's hand when the lease ends; nothing else in this product touches a process of a job.
//! The argument and its windows: `docs/internals/warden.md`.

#![warn(unreachable_pub)]

mod args;
mod attempt;
mod capabilities;
mod child;
mod child_limits;
mod conversation;
#[doc(hidden)]
pub mod fuzzing;
mod init;
mod launch;
mod lifecycle;
mod limits;
mod listing;
mod memory;
mod plan;
mod poller;
#[doc(hidden)]
pub mod privsep;
mod progress;
mod reaper;
mod reaping;
mod redact;
mod requests;
mod secrets;
mod server;
mod spawn;
mod timer;
mod tombstones;
mod tree;
mod user;
mod verify;
mod warden;

pub use capabilities::{Capabilities, capabilities};

/// Runs a hidden subcommand (`reaper`, `warden`, `init`, `helper`) and never returns from it; returns when the command
/// line is none of these. Must be called first in `main`, while the process has one thread.
pub fn dispatch() {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    let run = match first.as_ref().and_then(|w| w.to_str()) {
        Some("init") => init::run(),
        Some("helper") => privsep::run(),
        Some("reaper") => |args: args::Args| reaper::run(&args),
        Some("warden") => |args: args::Args| warden::run(args),
        _ => return,
    };
    match args::Args::parse(words) {
        Ok(args) => run(args),
        Err(why) => {
            log(format_args!("{why}"));
            std::process::exit(2)
        }
    }
}

/// One line on standard error, the log file of reaper and warden. A full disk must not stop either.
fn log(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let (now, text) = (
        jiff::Timestamp::now(),
        farmhand_core::sanitize::one_line(&text.to_string()),
    );
    let _ = writeln!(std::io::stderr(), "{now:.3} [{}] {text}", std::process::id());
}

/// The out-of-memory killer would end every job at once by choosing one of these two. Needs privilege. Answers what a command gets
/// back: of an agent's own protection it has nothing.
fn protect_from_oom() -> i32 {
    const FILE: &str = "/proc/self/oom_score_adj";
    const PROTECTED: i32 = -900;
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let before = text.trim().parse().unwrap_or(0);
    if before > PROTECTED {
        let _ = std::fs::write(FILE, PROTECTED.to_string());
    }
    before.max(0)
}

/// Room for the pipes of many attempts; answers what a command gets back.
fn raise_limits(oom_score_adj: i32) -> plan::Restore {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let open_files = (before.current, before.maximum);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        },
    );
    plan::Restore {
        open_files,
        oom_score_adj,
        ignored: child::ignored_signals(),
    }
}

/// An attempt has up to eight descriptors open; without this bound the warden could not accept its agent.
fn room_for_attempts() -> u32 {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let room = most.unwrap_or(u64::from(u32::MAX)).saturating_sub(64) / 8;
    u32::try_from(room).unwrap_or(u32::MAX)
}
