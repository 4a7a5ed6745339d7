//! Sends renewals, and tells what became of the lease.

use farmhand_core::lease::BootInstant;
use farmhand_os::clock::{self, boot_now};
use farmhand_store::protocol::{self, NodeReport};
use farmhand_telemetry::events::Event;

use super::holder::Lease;
use crate::inbox::Input;
use crate::session::io::Io;

impl Lease {
    /// A machine that slews its clock beyond ρ/2 holds shorter leases and expires nobody. Whether it does, when that has changed.
    pub(crate) fn slewed_anew(&mut self, io: &Io) -> Option<bool> {
        let slewed = clock::slewed_beyond(clock::SLEW_LIMIT);
        let changed = self.set_slewed(slewed);
        changed.then(|| {
            io.emit(Event::ClockSlewed { slewed });
            slewed
        })
    }

    /// `cannot_start`: why nothing is claimed, if so.
    pub(crate) fn renew(&mut self, io: &Io, clock_offset_ms: Option<i64>, cannot_start: Option<String>) {
        self.copies.sends();
        let (ctx, me) = (io.ctx.clone(), io.me.clone());
        let report = NodeReport {
            clock_offset_ms,
            pulse: ctx.memory.latest().map_or(0, |m| m.pulse),
            cannot_start,
        };
        io.spawn(async move {
            // The holder's rule: read before sending.
            let sent = boot_now();
            let result = protocol::renew(&ctx.lease_db, &me, ctx.timing.ttl(), &report).await;
            Input::Renewed { sent, result }
        });
    }

    /// Says that the lease is renewed, and what the warden, which lives on, had ended before because it was not.
    pub(crate) fn tell_renewal(&mut self, io: &Io, now: BootInstant) {
        if self.ended > 0 {
            self.tell_lapse(io);
        }
        io.emit(Event::Renewed {
            remaining: self.remaining(now),
            ttl: io.ctx.timing.ttl(),
        });
    }

    /// One event for all that the lease's end ended, by whomever it was ended.
    pub(crate) fn tell_lapse(&mut self, io: &Io) {
        io.emit(Event::LeaseLapsed {
            session: io.me.session,
            attempts: std::mem::take(&mut self.ended),
        });
    }
}
