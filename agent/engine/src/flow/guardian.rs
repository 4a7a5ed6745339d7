//! A small process that outlives an engine that is killed: it ends the engine's tasks, then wakes whoever waits for them.
//!
//! It shares the lock of the flow's directory, so that no other engine starts there while a task still lives, and the locks that tasks hold on
//! this node.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use super::fifo::{Directory, Fifos};
use super::rundir::RunDir;
use crate::locks::Locks;
use farmhand_os::fork::fork;
use farmhand_os::process::{self, Stat};

/// Longest a reader can be on its way to a FIFO on a machine that still does anything.
const BOUND: Duration = Duration::from_secs(30);
/// The first part of that, in which no engine may resume the flow.
const ALONE: Duration = Duration::from_secs(1);
/// For who was woken to look at the status.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at what still lives.
const LOOK: Duration = Duration::from_millis(10);
/// How long killed tasks may take to end before the waiters are woken all the same: one may hang in a system call.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks from then on.
const LOOK_LATER: Duration = Duration::from_secs(1);

/// Where the line and the lock are in the guardian; the locks of tasks follow them.
const LINE: i32 = 3;
const LOCK: i32 = 4;

/// Words of the line.
const DISMISSED: u8 = b'd';
const SESSION: u8 = b's';

/// What a guardian leaves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spared {
    /// Daemons that left the sessions in which the engine starts tasks.
    Daemons,
    /// Everything that descends from the engine is ended.
    Nothing,
}

/// Ends when the engine says that it is done.
#[derive(Debug)]
pub struct Guardian {
    pid: i32,
    line: File,
}

impl Guardian {
    /// Forks it. It keeps nothing of the engine's but the line between them and the lock. In the end it deletes the
    /// directory's memory, which nothing else would.
    ///
    /// # Safety
    /// This process must have one thread.
    pub unsafe fn start(dir: &RunDir, spared: Spared, locks: &Locks) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // 0 when the session began outside this PID namespace, as in a container; /proc says 0 then, too. Not rustix's,
        // which takes 0 for impossible.
        // SAFETY: a plain system call.
        let session = unsafe { libc::getsid(0) };
        // SAFETY: promised by the caller.
        match unsafe { fork()? } {
            0 => {
                drop(write);
                guard(read, dir, session, spared, locks);
                // SAFETY: leaves without the engine's exit handlers.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Self {
                pid,
                line: write.into(),
            }),
        }
    }

    /// The guardian's process, the leader of its session.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Tasks are started in this session, too.
    pub fn tell_session(&mut self, leader: i32) {
        let mut word = vec![SESSION];
        word.extend(leader.to_ne_bytes());
        // Should the guardian be gone already, there is nothing to tell it.
        let _ = self.line.write_all(&word);
    }

    /// The flow came to its end. Returns when the guardian is gone, and the lock is the engine's alone.
    pub(crate) fn dismiss(mut self) {
        let _ = self.line.write_all(&[DISMISSED]);
        // SAFETY: waits for a child of this process; a status is not asked for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn guard(line: OwnedFd, dir: &RunDir, session: i32, spared: Spared, locks: &Locks) {
    let (mut line, lock, held) = keep_only(line, dir.lock(), locks);
    let mut sessions = vec![session];
    loop {
        let mut word = [0];
        match line.read_exact(&mut word) {
            Ok(()) if word == [DISMISSED] => return,
            Ok(()) => {
                let mut leader = [0; 4];
                if line.read_exact(&mut leader).is_ok() {
                    sessions.push(i32::from_ne_bytes(leader));
                }
            }
            // The engine is gone, and has not said that it is done.
            Err(_) => break,
        }
    }
    let _ = (&lock).write_all(RunDir::ENDING);
    let sessions = (spared == Spared::Daemons).then_some(&sessions);
    let ended = end_tasks(dir, sessions, LOOK, Some(ENDS_WITHIN));
    let held = (!ended).then_some(held);
    let mut fifos = Directory::open(&dir.deps()).and_then(Fifos::new);
    if let Ok(fifos) = &mut fifos {
        let _ = fifos.recover();
        fifos.settle(ALONE);
    }
    if !ended {
        end_tasks(dir, sessions, LOOK_LATER, None);
    }
    drop(held);
    // An engine that resumes the flow does the same with these FIFOs.
    drop(lock);
    if let Ok(fifos) = &mut fifos {
        fifos.settle(BOUND);
    }
    if let Some(memory) = dir.memory() {
        // Who was woken reads how it ended.
        std::thread::sleep(READ_WITHIN);
        let _ = std::fs::remove_dir_all(memory);
    }
}

/// A session of its own, without the engine's terminal, signals and descriptors.
fn keep_only(line: OwnedFd, lock: BorrowedFd<'_>, locks: &Locks) -> (File, File, Vec<OwnedFd>) {
    let kept = [line.as_raw_fd(), lock.as_raw_fd()].into_iter();
    let kept: Vec<i32> = kept.chain(locks.files().map(|file| file.as_raw_fd())).collect();
    let count = i32::try_from(kept.len()).unwrap_or(i32::MAX - LINE);
    // SAFETY: this process's own session, descriptors and signals; nothing else runs in it. All are moved out of the
    // way first, so that none overwrites another.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
        let up: Vec<i32> = kept
            .iter()
            .map(|fd| libc::fcntl(*fd, libc::F_DUPFD, LINE + count))
            .collect();
        for (fd, to) in up.into_iter().zip(LINE..) {
            libc::dup2(fd, to);
        }
        libc::syscall(libc::SYS_close_range, LINE + count, u32::MAX, 0);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    std::mem::forget(line);
    // SAFETY: all were made above, and nothing else knows them.
    unsafe {
        let held = LOCK + 1..LINE + count;
        (
            File::from_raw_fd(LINE),
            File::from_raw_fd(LOCK),
            held.map(|fd| OwnedFd::from_raw_fd(fd)).collect(),
        )
    }
}

/// Kills the processes of the engine's tasks, of these sessions alone where some are given, for as long as one lives, at most for `within`.
/// Whether none does.
fn end_tasks(dir: &RunDir, sessions: Option<&Vec<i32>>, look: Duration, within: Option<Duration>) -> bool {
    let began = Instant::now();
    let mut mark = b"FARMHAND_RUN_DIR=".to_vec();
    mark.extend(dir.path().as_os_str().as_bytes());
    // Twice: a process that was being started at the first look bears its mark at the second.
    let mut empty = 0;
    while empty < 2 {
        if within.is_some_and(|within| began.elapsed() > within) {
            return false;
        }
        let found = tasks(&mark, sessions);
        for stat in &found {
            let _ = process::signal(stat, rustix::process::Signal::KILL);
        }
        empty = if found.is_empty() { empty + 1 } else { 0 };
        std::thread::sleep(look);
    }
    true
}

/// What bears the mark and, because programs like sudo clear the environment, everything below it.
fn tasks(mark: &[u8], sessions: Option<&Vec<i32>>) -> Vec<Stat> {
    let mut marked = process::all();
    marked.retain(|stat| process::has_variable(stat.pid, mark));
    let below = process::below(marked.iter().map(|stat| stat.pid).collect());
    let mut found: Vec<Stat> = below.into_iter().map(|(stat, _)| stat).collect();
    found
        .retain(|stat| sessions.is_none_or(|sessions| sessions.contains(&stat.session)) && !stat.is_zombie());
    found
}
