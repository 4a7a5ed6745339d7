//! Renewing the lease, and comparing what the session holds with what the wardens run.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::StoreError;
use farmhand_store::protocol::{self, Attempt, LostWhy, Release, Renewed, Told};
use futures_util::future::join_all;

use super::{Attempt as Running, Input, Mode, Phase, Session, SessionEnd};
use crate::discard::discard;
use crate::inbox::WardenInput;
use crate::lease::Due;
use crate::outage::Unanswered;
use crate::reporter::Report;
use crate::systemd;
use crate::verdict::Verdict;
use crate::wardens::{self, Whose};
use farmhand_os::clock::{self, boot_now};
use farmhand_os::random::random;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::{AttemptId, Event as WardenEvent, KillReason, Kind};
use farmhand_warden_client::{Gone, Paths, WardenError};

/// While waiting for the wardens' end: how often to ask whether a newer agent has started its own.
const SUPERSEDED_EVERY: Duration = Duration::from_millis(500);

/// A warden that lives answers within milliseconds, and the connection of one that is dead is closed; a stopped one does neither.
const HEARD_OUT_WITHIN: Duration = Duration::from_millis(300);

/// What ending the wardens proved.
pub(super) struct EndedWardens {
    /// Those that left nothing alive.
    pub empty: Vec<Kind>,
    /// Whether all of them did: only then may the session be closed.
    pub all: bool,
}

impl Session {
    pub(super) fn renew_if_due(&mut self, now: BootInstant) {
        let keeper = &self.keeper;
        let confirmed = self.wardens.have_confirmed(|kind| keeper.needed(kind.hold()));
        match self.keeper.take_due(now, confirmed) {
            Due::Later => return,
            Due::Withheld { first } => {
                if first {
                    self.emit(Event::RenewalWithheld {
                        session: self.me.session,
                    });
                }
                return self.tell_deadlines(Whose::Unasked);
            }
            Due::Now => {}
        }
        self.watch_own_clock();
        let (ctx, me) = (self.ctx.clone(), self.me.clone());
        let told = Told {
            clock_offset_ms: self.db_clock.offset_ms(now),
            pulse: ctx.memory.latest().map_or(0, |m| m.pulse),
            cannot_start: self.start_pause.why().map(str::to_owned),
        };
        self.spawn(async move {
            // The holder's rule: read before sending.
            let sent = boot_now();
            let result = protocol::renew(&ctx.keeper_db, &me, ctx.timing.ttl(), &told).await;
            Input::Renewed { sent, result }
        });
    }

    /// A machine that slews its clock beyond ρ/2 holds shorter leases and expires nobody.
    fn watch_own_clock(&mut self) {
        let slewed = clock::slewed_beyond(clock::SLEW_LIMIT);
        if slewed != self.slewed {
            self.slewed = slewed;
            self.keeper.set_slewed(slewed);
            self.watcher.set_slewed(slewed);
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
                beat,
                database,
            }) => {
                self.keeper.renewed(sent);
                self.db_clock.observe(sent, now, db_now);
                self.emit(Event::ClockOffset {
                    seconds: self.db_clock.offset_from_wall(now),
                });
                self.emit(Event::Renewed {
                    remaining: self.keeper.remaining(now),
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
                self.reconcile(sent, &held);
                self.tell_deadlines(Whose::All);
                self.learned(*database, beat);
                None
            }
            Ok(Renewed::Lost) => Some(self.lost().await),
            Err(e) => {
                self.keeper.renewal_failed(now, random());
                self.emit(Event::RenewalFailed { error: e.to_string() });
                None
            }
        }
    }

    /// Not of a warden that still runs something which the database does not show as ours.
    pub(super) fn tell_deadlines(&mut self, whose: Whose) {
        let (keeper, attempts) = (&self.keeper, &self.attempts);
        let unheld = |kind| {
            let mut of = attempts.values().filter(|a| a.warden == kind);
            of.any(|a| a.fenced && a.phase.may_live())
        };
        self.wardens.set_deadlines(whose, |kind| {
            (!unheld(kind)).then(|| keeper.deadlines(kind.hold()))
        });
    }

    /// Held but not running becomes due again; running but not held is killed.
    ///
    /// By number and fence: when a failover lost a claim, what is held may be another attempt of that number.
    fn reconcile(&mut self, sent: BootInstant, held: &[Attempt]) {
        self.forget_left_behind(held);
        let (claims_sent, claims_answered) = self.claimer.serials();
        let attempts = &self.attempts;
        let known = |of: Attempt| {
            let here = attempts.get(&of.into());
            here.is_some_and(|a| a.assignment.fence == of.fence)
        };
        let orphans = self.keeper.orphans(held, known, claims_sent, claims_answered);
        // While a warden's death is being proven nothing can be said about what it started.
        if !orphans.is_empty() && !self.wardens.uncertain() {
            self.wardens
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
    }

    /// Ends an attempt that is not ours to run any more.
    pub(super) fn fence_off(&mut self, id: AttemptId, why: &'static str) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            return;
        };
        attempt.fenced = true;
        self.wardens
            .kill(attempt.warden, id, Duration::ZERO, KillReason::Fenced);
        self.emit(Event::FenceKill {
            run_id: id.run_id,
            attempt: id.attempt,
            why,
        });
    }

    /// The wardens have recorded that these never start here.
    pub(super) fn on_forbidden(&mut self, ids: &[AttemptId]) {
        let unknown = self.keeper.still_unknown(ids);
        let (begun, never) = self.begun_before(unknown);
        self.lose_left_behind(&begun);
        self.give_back(never, "a claim's reply was lost");
        self.give_back(self.refused_of(ids), "the machine would not start them");
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
                Err(e) => ctx.events.emit(Event::DatabaseDown {
                    op: "release",
                    class: e.class(),
                    error: e.to_string(),
                }),
            }
        });
    }

    /// Another agent expired the session: everything here must be dead before anything else is done.
    async fn lost(&mut self) -> SessionEnd {
        self.emit(Event::SessionLost {
            session: self.me.session,
        });
        let (ctx, serving) = (self.ctx.clone(), self.serving());
        let settled = self.hear_out().await;
        for (id, attempt) in &self.attempts {
            if attempt.phase.may_live() {
                self.emit(Event::FenceKill {
                    run_id: id.run_id,
                    attempt: id.attempt,
                    why: "the session was expired",
                });
            }
        }
        let gone = {
            let mut ending = std::pin::pin!(self.end_wardens(Duration::ZERO));
            loop {
                tokio::select! {
                    gone = &mut ending => break gone,
                    () = tokio::time::sleep(SUPERSEDED_EVERY) => {}
                }
                systemd::alive(boot_now(), || {
                    "the session is lost; ending what it ran".to_owned()
                });
                // Ours are gone, and the proof waits for one that is not ours.
                if wardens::superseded(&ctx.config.state_dir, serving).await {
                    ctx.events.emit(Event::Superseded);
                    return SessionEnd::Superseded;
                }
            }
        };
        self.discard_rest(&gone.empty, settled).await;
        // Nobody may take what has a hold until that is over, unless told that it is dead.
        for kind in gone.empty.iter().filter(|k| **k != Kind::Main) {
            self.lose_all_of(*kind, LostWhy::Lease);
        }
        SessionEnd::Lost
    }

    /// Removes the files of attempts that ended: the answer to their end was `settled` when nobody listened any more, or none
    /// comes, because they were killed and their runs were freed with the session.
    async fn discard_rest(&mut self, gone: &[Kind], mut settled: Vec<(AttemptId, Kind)>) {
        // Answers that come later find nobody, and the reporter removes the files itself.
        self.inputs.close();
        while let Ok(input) = self.inputs.try_recv() {
            settled.extend(settled_by(input));
        }
        if gone.contains(&Kind::Main) {
            let killed = |(_, a): &(&AttemptId, &Running)| a.warden == Kind::Main && a.phase != Phase::Ended;
            settled.extend(self.attempts.iter().filter(killed).map(|(id, a)| (*id, a.warden)));
        }
        for (id, kind) in settled {
            let paths = Paths::new(&self.ctx.config.state_dir, kind);
            discard(paths, id, &self.ctx.events).await;
        }
    }

    /// Has every warden kill what it runs, at once, and hears what had ended by itself before: its end goes to the database,
    /// which refuses it where the run has moved on, and says so. A dead warden's connection is read to its end. Returns the
    /// attempts whose end was written down meanwhile.
    async fn hear_out(&mut self) -> Vec<(AttemptId, Kind)> {
        let connections = self.wardens.connections();
        let mut open: HashSet<Kind> = connections.iter().map(|(kind, _)| *kind).collect();
        let asked = connections.iter().map(|(kind, client)| async move {
            client.kill_all(Duration::ZERO, KillReason::Fenced).await?;
            Ok::<_, WardenError>((*kind, client.list().await?))
        });
        let give_up = boot_now() + HEARD_OUT_WITHIN;
        let listings = tokio::select! {
            listings = join_all(asked) => listings,
            () = clock::sleep_until(give_up) => Vec::new(),
        };
        let (mut ended, mut settled) = (Vec::new(), Vec::new());
        for (kind, listing) in listings.into_iter().flatten() {
            open.remove(&kind);
            ended.extend(listing.attempts.into_iter().map(|report| (kind, report)));
        }
        while !open.is_empty() {
            let input = tokio::select! {
                input = self.inputs.recv() => input,
                () = clock::sleep_until(give_up) => None,
            };
            match input {
                Some(Input::Warden(WardenInput::Event(kind, WardenEvent::Exited(report)))) => {
                    ended.push((kind, *report));
                }
                Some(Input::Warden(WardenInput::Disconnected(kind))) => {
                    open.remove(&kind);
                }
                Some(input) => settled.extend(settled_by(input)),
                None => break,
            }
        }
        for (kind, report) in ended {
            if report
                .result
                .as_ref()
                .is_some_and(|result| result.killed.is_none())
            {
                self.on_exited(kind, report);
            }
        }
        settled
    }

    /// Ends every warden and waits for the proof, whatever it takes: the kernel's timer bounds it.
    pub(super) async fn end_wardens(&mut self, grace: Duration) -> EndedWardens {
        self.mode = Mode::Killing { give_up: boot_now() };
        let mut ended = EndedWardens {
            empty: Vec::new(),
            all: true,
        };
        for (kind, gone) in self.wardens.end_all(grace).await {
            match gone {
                Ok(Gone::Empty { .. }) => ended.empty.push(kind),
                _ => ended.all = false,
            }
            self.note_gone(kind, &gone);
        }
        ended
    }

    /// Attempts whose warden is proven dead, whatever they were doing: as `on_lost` says. Not those that
    /// wait for its successor: they have not been started.
    pub(super) fn lose_all_of(&mut self, kind: Kind, why: LostWhy) -> usize {
        let waiting = self.wardens.waiting(kind);
        let mut lost = 0;
        for (id, attempt) in &mut self.attempts {
            if attempt.warden != kind || !attempt.phase.may_live() || waiting.contains(id) {
                continue;
            }
            attempt.phase = Phase::Ended;
            self.free_slots
                .extend(attempt.slot.take().filter(|slot| *slot <= self.slots));
            lost += 1;
            let report = Report::ended(
                &self.me,
                &attempt.assignment,
                attempt.warden,
                None,
                Verdict::Lost { why },
            );
            // The reporter lives as long as the agent.
            let _ = self.ctx.reports.send(report);
        }
        lost
    }
}

fn settled_by(input: Input) -> Vec<(AttemptId, Kind)> {
    match input {
        Input::Settled(settled) => settled.into_iter().map(|(id, kind, _)| (id, kind)).collect(),
        _ => Vec::new(),
    }
}
