//! The sign of life that the service manager waits for.

use farmhand_core::lease::BootInstant;

use super::{Mode, Session};
use crate::systemd;

impl Session {
    /// Once per turn of the loop: it sends nothing when it is not due.
    pub(super) fn beat(&self, now: BootInstant) {
        systemd::alive(now, || self.status());
    }

    /// One line for `systemctl status`.
    pub(crate) fn status(&self) -> String {
        let what = match (self.mode, !self.ctx.outage.lasts()) {
            (_, false) => "the database is out of reach; ",
            (Mode::Working, true) if self.withheld => "withheld by an operator; ",
            (Mode::Working, true) => "",
            (_, true) => "leaving; ",
        };
        let running = self.attempts.len();
        format!(
            "{what}session {}, {running} running in {} slots",
            self.me.session, self.slots
        )
    }
}
