//! Steps of a child on itself. None but `exec` asks for memory.

use std::ffi::{CStr, CString};
use std::io;

pub(crate) fn die_with_parent() {
    // SAFETY: changes an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) };
}

/// The parent may have died before [`die_with_parent`].
pub(crate) fn exit_if_orphaned(parent: i32) {
    // SAFETY: asks for the parent; ends this child only.
    unsafe {
        if libc::getppid() != parent {
            libc::_exit(1);
        }
    }
}

pub(crate) fn close_on_exec(descriptor: i32, close: bool) {
    // SAFETY: sets a flag of this process's descriptor.
    unsafe {
        libc::fcntl(
            descriptor,
            libc::F_SETFD,
            if close { libc::FD_CLOEXEC } else { 0 },
        )
    };
}

/// Which signals this process ignores, SIGPIPE by Rust among them, as bits: an exec resets what is handled, but not
/// what is ignored.
pub(crate) fn ignored_signals() -> u64 {
    (1..=64)
        .filter(|signal| {
            // SAFETY: asks for this process's own disposition; all zeroes is a valid value.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
            }
        })
        .fold(0, |all, signal| all | (1 << (signal - 1)))
}

pub(crate) fn reset_signals(ignored: u64) {
    for signal in (1..=64).filter(|signal| ignored & (1 << (signal - 1)) != 0) {
        // SAFETY: back to the default of a fresh process; the warden ignores what it was started with.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let _ = farmhand_os::signal::unblock_all();
}

/// Returns only if it fails.
pub(crate) fn exec(program: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect::<Vec<*const libc::c_char>>()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: null-terminated arrays of strings that live until the call returns.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
