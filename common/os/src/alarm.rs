//! A timer of the kernel's that is waited for like a file. It counts CLOCK_BOOTTIME, so neither a stepped wall clock nor suspend
//! moves it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use farmhand_core::lease::BootInstant;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock::sleep_until;

/// Becomes readable at an instant. A process that inherits it may move it.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    /// One that is not set.
    pub fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm {
            fd: timerfd_create(TimerfdClockId::Boottime, flags)?,
        })
    }

    /// Made by the parent, which passed it on.
    pub fn inherited(fd: OwnedFd) -> Alarm {
        Alarm { fd }
    }

    /// Whether its instant has passed since it was last set or asked.
    pub fn rang(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0; 8]).is_ok()
    }

    /// An instant in the past rings at once.
    pub fn set(&self, at: BootInstant) -> io::Result<()> {
        // Zero would disarm it.
        let at = at.0.max(1);
        let value = Timespec {
            tv_sec: (at / 1_000_000_000) as i64,
            tv_nsec: (at % 1_000_000_000) as i64,
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Waits for one instant after another, to some ten microseconds: tokio's timers are one or two milliseconds late.
#[derive(Debug)]
pub struct Sleeper {
    /// `None`: no descriptor was free.
    alarm: Option<AsyncFd<Alarm>>,
    set: Option<BootInstant>,
}

impl Sleeper {
    /// Within a tokio runtime.
    pub fn new() -> Sleeper {
        let alarm = Alarm::new().and_then(|alarm| {
            // SAFETY: the descriptor is owned by the AsyncFd and stays open and the same for its life.
            unsafe { AsyncFd::register_with_interest(alarm, Interest::READABLE).map_err(io::Error::from) }
        });
        Sleeper {
            alarm: alarm.ok(),
            set: None,
        }
    }

    /// Returns at `at`. May be given up and called again.
    pub async fn until(&mut self, at: BootInstant) {
        if self.ring(at).await.is_err() {
            sleep_until(at).await;
        }
    }

    async fn ring(&mut self, at: BootInstant) -> io::Result<()> {
        let alarm = self.alarm.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        if self.set != Some(at) {
            alarm.get_ref().set(at)?;
            self.set = Some(at);
        }
        loop {
            let mut ready = alarm.readable().await?;
            if alarm.get_ref().rang() {
                self.set = None;
                return Ok(());
            }
            // It was set anew since it was readable.
            ready.clear_ready();
        }
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::boot_now;

    #[tokio::test]
    async fn a_sleeper_wakes_at_each_instant_and_never_before() {
        let mut sleeper = Sleeper::new();
        for ms in [3, 0, 5] {
            let at = boot_now() + Duration::from_millis(ms);
            sleeper.until(at).await;
            assert!(boot_now() >= at);
        }
    }

    #[tokio::test]
    async fn what_is_given_up_for_an_earlier_instant_is_waited_for_after_it() {
        let mut sleeper = Sleeper::new();
        let (soon, later) = (
            boot_now() + Duration::from_millis(2),
            boot_now() + Duration::from_millis(20),
        );
        let never = sleeper.until(boot_now() + Duration::from_secs(3600));
        assert!(
            tokio::time::timeout(Duration::from_millis(1), never)
                .await
                .is_err()
        );
        let woken = tokio::time::timeout(Duration::from_secs(60), sleeper.until(soon)).await;
        assert!(woken.is_ok() && boot_now() >= soon);
        sleeper.until(later).await;
        assert!(boot_now() >= later);
    }

    #[tokio::test]
    async fn without_a_descriptor_it_sleeps_all_the_same() {
        let mut sleeper = Sleeper {
            alarm: None,
            set: None,
        };
        let at = boot_now() + Duration::from_millis(2);
        sleeper.until(at).await;
        assert!(boot_now() >= at);
    }
}
