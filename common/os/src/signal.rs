//! Signals that nothing here has a use for.

/// What ends a process by default, is no fault of its own and has no meaning for any of ours. `pkill -ALRM farmhand`
/// wakes agents; it reaches every process of that name.
pub fn stray() -> impl Iterator<Item = i32> {
    let named = [
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGSTKFLT,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
    ];
    named.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// For good. A child of ours inherits it; a command gets the defaults back.
pub fn ignore_stray() {
    for signal in stray() {
        // SAFETY: sets a disposition of this process.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
