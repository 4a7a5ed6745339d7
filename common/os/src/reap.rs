//! Waiting for children without ever blocking, and without taking the status of one that must stay a zombie:
//! its number is how its process group is addressed, and must not be given to another process meanwhile.

use serde::{Deserialize, Serialize};

/// What a process used until its end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub user_us: u64,
    pub sys_us: u64,
    /// The most resident memory it ever had. 0 when that is not more than this process's own: so much every child is said to have
    /// had, because it began as a copy.
    pub max_rss_bytes: u64,
}

/// A child that was waited for.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// The number that is now free again.
    pub pid: i32,
    /// As wait(2) encodes it.
    pub status: i32,
    /// What it used, with the children that it waited for.
    pub usage: Usage,
}

/// Reaps some zombie child, if there is one.
pub fn any() -> Option<Reaped> {
    wait(-1)
}

/// Reaps this child if it is a zombie.
pub fn one(pid: i32) -> Option<Reaped> {
    wait(pid)
}

fn wait(pid: i32) -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: rusage is plain data; both pointers are valid for the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage);
        (pid > 0).then(|| Reaped {
            pid,
            status,
            usage: beyond_own(usage.into()),
        })
    }
}

fn beyond_own(mut usage: Usage) -> Usage {
    // SAFETY: fills initialised plain data.
    let own: Usage = unsafe {
        let mut own: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut own);
        own.into()
    };
    if usage.max_rss_bytes <= own.max_rss_bytes {
        usage.max_rss_bytes = 0;
    }
    usage
}

impl From<libc::rusage> for Usage {
    fn from(raw: libc::rusage) -> Self {
        let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        Usage {
            user_us: us(raw.ru_utime),
            sys_us: us(raw.ru_stime),
            max_rss_bytes: raw.ru_maxrss as u64 * 1024,
        }
    }
}

/// What a look at the children found, without reaping one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// There is no child at all.
    Childless,
    /// Children, but no zombie.
    Nothing,
    /// A child that can be reaped.
    Zombie(i32),
}

/// Some zombie child, left as it is.
pub fn peek() -> Peek {
    peek_at(libc::P_ALL, 0)
}

/// Whether this child has ended and was not reaped.
pub fn is_zombie(pid: i32) -> bool {
    matches!(peek_at(libc::P_PID, pid as libc::id_t), Peek::Zombie(_))
}

fn peek_at(which: libc::idtype_t, id: libc::id_t) -> Peek {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: siginfo is plain data; after a successful call si_pid is set, 0 when there is no zombie.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        if libc::waitid(which, id, &mut info, flags) != 0 {
            return Peek::Childless;
        }
        match info.si_pid() {
            0 => Peek::Nothing,
            pid => Peek::Zombie(pid),
        }
    }
}
