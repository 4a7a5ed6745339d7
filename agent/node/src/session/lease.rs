//! Renewing the lease, and comparing what the session holds with what the warden runs.

use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::StoreError;
use farmhand_store::protocol::{self, Attempt, Release, Renewed, Told};

use super::{Input, Phase, Session, SessionEnd};
use crate::lease::Due;
use crate::outage::Unanswered;
use farmhand_os::clock::{self, boot_now};
use farmhand_os::random::random;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, KillReason};

impl Session {
    pub(super) fn renew_if_due(&mut self, now: BootInstant) {
        let confirmed = self.warden.has_confirmed(self.lease.needed());
        match self.lease.take_due(now, confirmed) {
            Due::Later => return,
            Due::Withheld { first } => {
                if first {
                    self.emit(Event::RenewalWithheld {
                        session: self.me.session,
                    });
                }
                if !self.warden.is_asked() {
                    self.tell_deadlines();
                }
                return;
            }
            Due::Now => {}
        }
        self.alone.sends();
        self.watch_own_clock();
        let (ctx, me) = (self.ctx.clone(), self.me.clone());
        let told = Told {
            clock_offset_ms: self.db_clock.offset_ms(now),
            pulse: ctx.memory.latest().map_or(0, |m| m.pulse),
            cannot_start: self.ctx.start_pause().why().map(str::to_owned),
        };
        self.spawn(async move {
            // The holder's rule: read before sending.
            let sent = boot_now();
            let result = protocol::renew(&ctx.lease_db, &me, ctx.timing.ttl(), &told).await;
            Input::Renewed { sent, result }
        });
    }

    /// A machine that slews its clock beyond ρ/2 holds shorter leases and expires nobody.
    fn watch_own_clock(&mut self) {
        let slewed = clock::slewed_beyond(clock::SLEW_LIMIT);
        if slewed != self.slewed {
            self.slewed = slewed;
            self.lease.set_slewed(slewed);
            self.detector.set_slewed(slewed);
            self.emit(Event::ClockSlewed { slewed });
        }
    }

    pub(super) async fn on_renewed(
        &mut self,
        sent: BootInstant,
        result: Result<Renewed, StoreError>,
    ) -> Option<SessionEnd> {
        self.note_db("renew", Unanswered::Outage, &result);
        let now = boot_now();
        match result {
            Ok(Renewed::Alive {
                held,
                cordoned,
                draining,
                drain_until,
                db_now,
                renewals,
                database,
            }) => {
                self.lease.renewed(sent);
                // The warden ended what ran and lives on.
                if self.ended_by_lease > 0 {
                    self.tell_lapse();
                }
                self.db_clock.observe(sent, now, db_now);
                self.emit(Event::ClockOffset {
                    seconds: self.db_clock.offset_from_wall(now),
                });
                self.emit(Event::Renewed {
                    remaining: self.lease.remaining(now),
                    ttl: self.ctx.timing.ttl(),
                });
                self.ordered(cordoned, draining.then_some(drain_until), db_now, now);
                for wanted in held.iter().filter(|h| h.cancel) {
                    self.cancel(AttemptId {
                        run_id: wanted.run_id,
                        attempt: wanted.attempt,
                    });
                }
                let held: Vec<Attempt> = held
                    .iter()
                    .map(|h| Attempt {
                        run_id: h.run_id,
                        attempt: h.attempt,
                        fence: h.fence,
                    })
                    .collect();
                // What is not held dies before anything may live longer: this agent may be stopped in between.
                let alone = self.alone.answered(now, database.key(), renewals);
                if !(self.reconcile(sent, &held, now) && alone)
                    && let Some(end) = self.shared().await
                {
                    return Some(end);
                }
                self.tell_deadlines();
                self.learned(*database, renewals);
                None
            }
            Ok(Renewed::Lost) => Some(self.lost().await),
            Err(e) => {
                self.lease.renewal_failed(now, random());
                self.emit(Event::RenewalFailed { error: e.to_string() });
                None
            }
        }
    }

    /// Not while the warden still runs something which the database does not show as ours.
    pub(super) fn tell_deadlines(&mut self) {
        if !self.attempts.values().any(|a| a.fenced && a.phase.may_live()) {
            self.warden.tell_deadlines(self.lease.deadlines());
        }
    }

    /// Held but not running becomes due again; running but not held is killed.
    ///
    /// By number and fence: when a failover lost a claim, what is held may be another attempt of that number. False when
    /// something is held that this agent cannot have asked for.
    fn reconcile(&mut self, sent: BootInstant, held: &[Attempt], now: BootInstant) -> bool {
        self.forget_left_behind(held);
        let (claims_sent, claims_answered) = self.scheduler.serials();
        let attempts = &self.attempts;
        let known = |of: Attempt| {
            let here = attempts.get(&of.into());
            here.is_some_and(|a| a.assignment.fence == of.fence)
        };
        let mut orphans = self.lease.orphans(held, known, claims_sent, claims_answered);
        let seen = orphans.len();
        if !self.alone.may_have_claimed(now) {
            orphans.retain(|of| self.left_behind.contains(&AttemptId::from(*of)));
        }
        let own = orphans.len() == seen;
        // While a warden's death is being proven nothing can be said about what it started.
        if !orphans.is_empty() && !self.warden.uncertain() {
            self.warden
                .forbid(orphans.into_iter().map(AttemptId::from).collect());
        }
        let moved_on: Vec<AttemptId> = self
            .attempts
            .iter()
            // Claimed before the renewal was sent, so its answer must show them; what is being written down
            // may be gone from it already.
            .filter(|(id, a)| {
                let shown = held.contains(&id.fenced(a.assignment.fence));
                a.phase != Phase::Ended && a.since < sent && !shown
            })
            .map(|(id, _)| *id)
            .collect();
        for id in moved_on {
            if !self.settle_refused(id) {
                self.fence_off(id, "the run is no longer held by this session");
            }
        }
        self.forbid_again(held);
        own
    }

    /// Ends an attempt that is not ours to run any more.
    pub(super) fn fence_off(&mut self, id: AttemptId, why: &'static str) {
        if self.take_back(id) {
            tracing::warn!("run {} attempt {} was not started: {why}", id.run_id, id.attempt);
            return;
        }
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return;
        };
        let told = std::mem::replace(&mut attempt.fenced, true);
        self.warden.kill(id, Duration::ZERO, KillReason::Fenced);
        // The order is repeated with each renewal until it has ended.
        if !told {
            self.emit(Event::FenceKill {
                run_id: id.run_id,
                attempt: id.attempt,
                why,
            });
        }
    }

    /// The warden has recorded that these never start here.
    pub(super) fn on_forbidden(&mut self, ids: &[AttemptId]) {
        let unknown = self.lease.still_unknown(ids);
        let (begun, never) = self.begun_before(unknown);
        self.lose_left_behind(&begun);
        self.give_back(
            never,
            "a claim's reply was lost, or a warden refused to start them",
        );
        self.give_back(self.refused_of(ids), "they were not started here");
    }

    /// No warden can start these any more: the runs go back.
    pub(super) fn give_back(&mut self, never: Vec<Attempt>, why: &'static str) {
        if never.is_empty() {
            return;
        }
        let (ctx, me, tx) = (self.ctx.clone(), self.me.clone(), self.tx.clone());
        tokio::spawn(async move {
            match protocol::release(&ctx.db, &me, &never, Release::NeverStarted).await {
                Ok(freed) => {
                    if !freed.is_empty() {
                        ctx.events.emit(Event::Released {
                            session: me.session,
                            runs: freed.len(),
                            why,
                        });
                    }
                    let ids = never.into_iter().map(AttemptId::from).collect();
                    let _ = tx.send(Input::GivenBack(ids)).await;
                }
                // The next renewal shows them again.
                Err(e) => ctx.events.emit(Event::database_down("release", &e)),
            }
        });
    }
}
