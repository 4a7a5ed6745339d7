//! When everything here ends, and when the loop is to look again.

use std::io;

use super::fence::KernelFence;
use farmhand_core::lease::BootInstant;
use farmhand_os::alarm::Alarm;
use farmhand_os::clock::boottime_ns;

#[derive(Debug)]
pub(super) struct Ends {
    fence: KernelFence,
    wake: Alarm,
    /// What it was last set to.
    wake_at: u64,
    deadline_ns: u64,
    soft_ns: u64,
    soft_done: bool,
}

impl Ends {
    /// `fence` is armed for the deadline already.
    pub(super) fn new(fence: KernelFence, deadline_ns: u64, soft_ns: u64) -> io::Result<Self> {
        Ok(Self {
            fence,
            wake: Alarm::new()?,
            wake_at: 0,
            deadline_ns,
            soft_ns,
            soft_done: false,
        })
    }

    /// Readable when the loop is to look again.
    pub(super) fn wake(&self) -> &Alarm {
        &self.wake
    }

    /// When the kernel ends this process.
    pub(super) fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// When everything is asked to end.
    pub(super) fn soft_ns(&self) -> u64 {
        self.soft_ns
    }

    /// As at the beginning of a lease.
    pub(super) fn begin(&mut self, deadline_ns: u64, soft_ns: u64) {
        (self.deadline_ns, self.soft_ns, self.soft_done) = (deadline_ns, soft_ns, false);
    }

    /// Forward only.
    pub(super) fn extend(&mut self, deadline_ns: u64, soft_ns: u64) {
        if deadline_ns > self.deadline_ns {
            self.begin(deadline_ns, soft_ns.min(deadline_ns));
            // What is being ended for the old deadline still ends: its SIGTERM cannot be taken back.
            self.soft_done = boottime_ns() >= self.soft_ns;
        }
    }

    /// Once: everything is to be asked to end now.
    pub(super) fn soft_end_has_come(&mut self, now: u64) -> bool {
        let due = !self.soft_done && now >= self.soft_ns;
        self.soft_done |= due;
        due
    }

    /// The kernel's timer: the session's deadline or the earliest of these hard ends.
    pub(super) fn arm_fence(&mut self, hard_ends: impl Iterator<Item = u64>) -> io::Result<()> {
        self.fence.set(hard_ends.fold(self.deadline_ns, u64::min))
    }

    /// Looks again at the next end or the earliest of these.
    pub(super) fn arm_wake(&mut self, others: impl Iterator<Item = u64>, now: u64) -> io::Result<()> {
        let next = match self.soft_done {
            true => self.deadline_ns,
            false => self.soft_ns,
        };
        let wake = others.fold(next, u64::min);
        // One that has passed is set again: that is what makes it be quiet.
        if wake != self.wake_at || wake <= now {
            self.wake.set(BootInstant(wake))?;
            self.wake_at = wake;
        }
        Ok(())
    }
}
