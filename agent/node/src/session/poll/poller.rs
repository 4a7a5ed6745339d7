//! Looking at the farm: silent nodes, work that nobody took up, epochs that nobody opens.

use std::sync::atomic::Ordering;
use std::time::Duration;

use farmhand_core::lease::{BootInstant, NamedKey, NodeKey};
use farmhand_os::clock::boot_now;
use farmhand_store::StoreError;
use farmhand_store::leases;
use farmhand_store::protocol::{self, Expired};
use farmhand_telemetry::events::Event;

use super::failure_detector::{EPOCH, FailureDetector, UNFREED, named_token, node_token};
use crate::inbox::Input;
use crate::session::io::Io;

/// How long a due job is left to the agents whose turn it is.
pub(crate) const OVERDUE_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_millis(700);

/// By so much the database's clock may be behind what it is taken to be.
const A_LITTLE: Duration = Duration::from_millis(20);

impl FailureDetector {
    /// Whether a poll was sent.
    pub(crate) fn poll_if_due(&mut self, io: &Io, now: BootInstant) -> bool {
        if !self.take_due(now) {
            return false;
        }
        let (ctx, me, below) = (io.ctx.clone(), io.me.clone(), self.ask(now));
        io.spawn(async move {
            let sent = boot_now();
            let result = protocol::poll(&ctx.db, &me, &below).await;
            // The challenger's rule: read after the reply was received.
            Input::Polled {
                sent,
                received: boot_now(),
                result,
            }
        });
        true
    }

    /// Polls once a job that is due now would count as overdue; an earlier poll would not show it. A job that was due before waits as long:
    /// one that cannot be fired, because its row is locked say, would be tried without a pause.
    pub(crate) fn look_for_overdue(&mut self, now: BootInstant) {
        self.poll_at(now + OVERDUE_AFTER.unsigned_abs() + A_LITTLE);
    }

    pub(crate) fn act_on_ripe(&mut self, io: &Io, now: BootInstant) {
        if io.ctx.unfreed.swap(false, Ordering::Relaxed) {
            free_ended(io);
        }
        let ripe = self.take_ripe(now);
        for (key, silent) in ripe.expire {
            expire(io, key, silent);
        }
        for key in ripe.free {
            free_lease(io, key);
        }
        if let Some(watched) = ripe.open_epoch {
            let (ctx, me) = (io.ctx.clone(), io.me.clone());
            act_on(io, "open_epoch", EPOCH.to_owned(), async move {
                let memory = ctx.memory.latest();
                let opened = protocol::open_epoch(&ctx.db, &watched, &me.address, memory.as_ref()).await?;
                Ok(opened.map(Event::from))
            });
        }
    }

    /// A statement about what had been watched was answered. Whether runs may have become claimable.
    pub(crate) fn acted(&mut self, io: &Io, token: &str, answered: bool) -> bool {
        self.done(token, answered);
        if answered {
            // Some of it may have ended runs of rows.
            io.ctx.row_bell.ring();
        }
        answered
    }
}

fn expire(io: &Io, key: NodeKey, silent: Duration) {
    let ctx = io.ctx.clone();
    act_on(io, "expire", node_token(&key), async move {
        let expired =
            protocol::expire(&ctx.db, &key.address, key.session, key.incarnation, key.renewals).await?;
        Ok(match expired {
            Expired::Done { freed } => {
                ctx.unfreed.store(true, Ordering::Relaxed);
                Some(Event::Expired {
                    address: key.address,
                    session: key.session,
                    silent,
                    freed: freed.len(),
                })
            }
            Expired::Changed => None,
        })
    });
}

/// What somebody had locked when its session ended. The sweep of any agent finds it, too, should this one end.
fn free_ended(io: &Io) {
    let ctx = io.ctx.clone();
    io.spawn(async move {
        let result = protocol::free_ended(&ctx.db).await;
        let left = result.as_ref().map_or(true, |ended| ended.left);
        ctx.unfreed.fetch_or(left, Ordering::Relaxed);
        let freed = result.as_ref().map_or(0, |ended| ended.freed.len());
        match result {
            Ok(_) if freed == 0 => {}
            Ok(_) => ctx.events.emit(Event::Swept { freed }),
            Err(e) => ctx.events.emit(Event::database_down("free_ended", &e)),
        }
        Input::Watched {
            token: UNFREED.to_owned(),
            // Then the next poll comes at once. It would find the same lock.
            answered: freed > 0 && !left,
        }
    });
}

fn free_lease(io: &Io, key: NamedKey) {
    let ctx = io.ctx.clone();
    act_on(io, "free_lease", named_token(&key), async move {
        let freed = leases::free(&ctx.db, &key.name, &key.shown).await?;
        Ok(freed.map(|left| Event::LeaseFreed {
            name: key.name,
            client: left.client,
            login: left.login,
        }))
    });
}

/// Sends a statement about what has been watched for long enough, and says what it changed.
fn act_on(
    io: &Io,
    op: &'static str,
    token: String,
    statement: impl Future<Output = Result<Option<Event>, StoreError>> + Send + 'static,
) {
    let events = io.ctx.events.clone();
    io.spawn(async move {
        let result = statement.await;
        let answered = result.is_ok();
        if let Some(event) = result.unwrap_or_else(|e| Some(Event::database_down(op, &e))) {
            events.emit(event);
        }
        Input::Watched { token, answered }
    });
}

#[cfg(test)]
mod tests {
    use farmhand_core::lease::LeaseTiming;

    use super::*;
    use crate::session::poll::failure_detector::tests::poll;

    #[test]
    fn a_poll_that_is_asked_for_while_one_is_under_way_comes_after_it() {
        let timing = LeaseTiming::new(Duration::from_secs(30)).expect("long enough");
        let mut detector = FailureDetector::new(timing, false, (0, Duration::ZERO));
        let (now, reply) = (BootInstant(1_000_000_000), poll(1, 1, true, 30_000));
        assert!(detector.take_due(now));
        // A run is to be cancelled, say, and the poll has looked already.
        detector.poll_now();
        assert!(!detector.take_due(now), "one at a time");
        detector.polled("me", now, &reply);
        assert!(detector.take_due(now));
        detector.polled("me", now, &reply);
        assert!(!detector.take_due(now), "once");
        let later = now + Duration::from_millis(700);
        detector.poll_at(later);
        assert_eq!(detector.next_wakeup(), Some(later));
        detector.poll_now();
        assert!(detector.take_due(now));
        detector.polled("me", now, &reply);
        assert_eq!(
            detector.next_wakeup(),
            Some(later),
            "an earlier poll does not say"
        );
    }
}
