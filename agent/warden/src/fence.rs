//! The kernel's hand: a timer that SIGKILLs this process and tells its reaper. It counts CLOCK_BOOTTIME, so neither a stepped wall
//! clock nor suspend moves it.

use std::io;

use farmhand_core::lease::BootInstant;
use farmhand_os::alarm::Alarm;

/// Kills this process at an instant, however stopped or hung it is, and tells the reaper of that instant: what is in
/// uninterruptible sleep is not killed by anybody. Dies with the process and at fork.
#[derive(Debug)]
pub(crate) struct KernelFence {
    timer: libc::timer_t,
    reaper_alarm: Alarm,
    at_ns: u64,
}

impl KernelFence {
    /// `reaper_alarm`: what the reaper waits for.
    pub(crate) fn arm(at_ns: u64, reaper_alarm: Alarm) -> io::Result<KernelFence> {
        // SAFETY: sigevent is plain data for which all zeroes is a valid value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        if unsafe { libc::timer_create(libc::CLOCK_BOOTTIME, &mut event, &mut timer) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut fence = KernelFence {
            timer,
            reaper_alarm,
            at_ns: 0,
        };
        fence.set(at_ns)?;
        Ok(fence)
    }

    /// An instant in the past kills at once.
    pub(crate) fn set(&mut self, at_ns: u64) -> io::Result<()> {
        if self.at_ns == at_ns {
            return Ok(());
        }
        // SAFETY: itimerspec is plain data for which all zeroes is a valid value.
        let mut value: libc::itimerspec = unsafe { std::mem::zeroed() };
        // Zero would disarm it.
        let at = at_ns.max(1);
        value.it_value.tv_sec = (at / 1_000_000_000) as libc::time_t;
        value.it_value.tv_nsec = (at % 1_000_000_000) as libc::c_long;
        // SAFETY: the timer was created by `arm` and is never deleted.
        let set =
            unsafe { libc::timer_settime(self.timer, libc::TIMER_ABSTIME, &value, std::ptr::null_mut()) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        // Were this process to stop just here, the reaper would act at the older instant: that of a lease which it knows of.
        self.reaper_alarm.set(BootInstant(at_ns))?;
        self.at_ns = at_ns;
        Ok(())
    }
}
