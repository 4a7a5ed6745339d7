//! What reaper and warden ask of the machine for themselves.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::child::Restore;
use super::child::process::ignored_signals;

/// The out-of-memory killer would end every job at once by choosing one of these two. Needs privilege. Answers what a command gets
/// back: of an agent's own protection it has nothing.
pub(super) fn protect_from_oom() -> i32 {
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
pub(super) fn raise_limits(oom_score_adj: i32) -> Restore {
    let before = getrlimit(Resource::Nofile);
    let open_files = (before.current, before.maximum);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        },
    );
    Restore {
        open_files,
        oom_score_adj,
        ignored: ignored_signals(),
    }
}

/// An attempt has up to eight descriptors open; without this bound the warden could not accept its agent.
pub(super) fn room_for_attempts() -> u32 {
    let most = getrlimit(Resource::Nofile).current;
    let room = most.unwrap_or(u64::from(u32::MAX)).saturating_sub(64) / 8;
    u32::try_from(room).unwrap_or(u32::MAX)
}
