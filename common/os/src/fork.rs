//! Forking a process that has one thread.

use std::io;

/// Runs a question in a child that must not change this process. For start-up, before anything is polled.
pub fn in_child(question: impl FnOnce() -> bool) -> io::Result<bool> {
    // SAFETY: as in `start`; the child leaves by _exit.
    match unsafe { fork()? } {
        0 => {
            let answer = question();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!answer)) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for the child just made.
            while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            Ok(status == 0)
        }
    }
}

/// # Safety
/// The process must have one thread.
pub unsafe fn fork() -> io::Result<i32> {
    // SAFETY: promised by the caller.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}
