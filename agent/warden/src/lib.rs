//! Who owns the processes. The reaper waits; its child, the warden, forks commands, keeps their deadlines and
//! dies by the kernel's hand when the lease ends; nothing else in this product touches a process of a job.
//! The argument and its windows: `docs/internals/warden.md`.

#![warn(unreachable_pub)]

mod args;
mod attempt;
mod attempts;
mod capabilities;
mod child;
mod children;
mod connection;
mod ends;
mod fence;
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod helper;
mod hidden;
mod lifecycle;
mod log;
mod machine;
mod peers;
mod poller;
mod progress;
mod reaper;
mod requests;
mod tombstones;
mod tree;
mod trees;
mod verify;
mod warden;

pub use capabilities::{Capabilities, capabilities};

/// Runs a hidden subcommand (`reaper`, `warden`, `init`, `helper`) and never returns from it; returns when the command
/// line is none of these. Must be called first in `main`, while the process has one thread.
pub fn dispatch() {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    let run = match first.as_ref().and_then(|w| w.to_str()) {
        Some("init") => child::init::run(),
        Some("helper") => helper::run(),
        Some("reaper") => |args: args::Args| reaper::run(&args),
        Some("warden") => |args: args::Args| warden::run(args),
        _ => return,
    };
    match args::Args::parse(words) {
        Ok(args) => run(args),
        Err(why) => {
            log::log(format_args!("{why}"));
            std::process::exit(2)
        }
    }
}
