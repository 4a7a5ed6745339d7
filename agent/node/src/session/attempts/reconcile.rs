//! What the database shows as held against what is here. Held but not running becomes due again; running but not held is killed.
//!
//! By number and fence: when a failover lost a claim, what is held may be another attempt of that number. What a warden had begun that
//! was dead when this agent adopted the session has no end that anybody knows of. That does not make it a claim whose reply was lost: it
//! ran, and `on_lost` has a say in what becomes of its run.

use std::collections::HashSet;

use farmhand_core::lease::BootInstant;
use farmhand_store::protocol::{self, Attempt as Fenced, Lose, LostWhy, Release};
use farmhand_telemetry::events::Event;
use farmhand_warden_client::death::census;
use farmhand_warden_client::wire::AttemptId;
use tokio::task::JoinHandle;

use super::held::{Attempts, Phase};
use crate::discard::discard;
use crate::inbox::Input;
use crate::session::io::Io;

impl Attempts {
    /// Whether this very attempt is here.
    pub(crate) fn knows(&self, of: Fenced) -> bool {
        let here = self.by_id.get(&of.into());
        here.is_some_and(|a| a.assignment.fence == of.fence)
    }

    /// What is held and unknown is recorded as never to start here, so that it can be given back: unless `ours` says that this agent
    /// cannot have asked for it. False when there is such a one.
    pub(crate) fn forbid_orphans(&self, mut orphans: Vec<Fenced>, may_be_ours: bool) -> bool {
        let seen = orphans.len();
        if !may_be_ours {
            orphans.retain(|of| self.left_behind.contains(&AttemptId::from(*of)));
        }
        let own = orphans.len() == seen;
        // While a warden's death is being proven nothing can be said about what it started.
        if !orphans.is_empty() && !self.warden.uncertain() {
            self.warden
                .forbid(orphans.into_iter().map(AttemptId::from).collect());
        }
        own
    }

    /// Ends what runs and is not held. Whether anything was given back that others may want.
    pub(crate) fn end_what_moved_on(&mut self, io: &Io, sent: BootInstant, held: &[Fenced]) -> bool {
        let moved_on: Vec<AttemptId> = (self.by_id.iter())
            // Claimed before the renewal was sent, so its answer must show them; what is being written down
            // may be gone from it already.
            .filter(|(id, a)| {
                let shown = held.contains(&id.fenced(a.assignment.fence));
                a.phase != Phase::Ended && a.since < sent && !shown
            })
            .map(|(id, _)| *id)
            .collect();
        let mut settled = false;
        for id in moved_on {
            if self.settle_refused(io, id) {
                settled = true;
            } else {
                self.fence_off(io, id, "the run is no longer held by this session");
            }
        }
        // What is still shown as held: a warden or the database did not answer.
        let refused = held.iter().map(|of| AttemptId::from(*of)).filter(|id| {
            let here = self.by_id.get(id);
            here.is_some_and(|a| a.phase == Phase::Refused)
        });
        self.to_forbid.extend(refused);
        settled
    }

    /// Its run is not held here any more. False for what was not refused.
    fn settle_refused(&mut self, io: &Io, id: AttemptId) -> bool {
        let refused = self.by_id.get(&id).is_some_and(|a| a.phase == Phase::Refused);
        if refused {
            self.warden.ack(id);
            self.forget(io, id);
        }
        refused
    }

    /// No warden may start them when the runs go back: a tombstone comes first.
    pub(crate) fn forbid_refused(&mut self) {
        if !self.to_forbid.is_empty() {
            let ids = std::mem::take(&mut self.to_forbid);
            self.warden.forbid(ids.into_iter().collect());
        }
    }

    /// The warden has recorded that these never start here. `unknown`: those of them that are held and not known.
    pub(crate) fn forbidden(&self, io: &Io, ids: &[AttemptId], unknown: Vec<Fenced>) {
        let begun = |of: &Fenced| self.left_behind.contains(&AttemptId::from(*of));
        let (begun, never): (Vec<Fenced>, Vec<Fenced>) = unknown.into_iter().partition(begun);
        self.lose_left_behind(io, begun);
        give_back(
            io,
            never,
            "a claim's reply was lost, or a warden refused to start them",
        );
        let refused = |id: &AttemptId| {
            let here = self.by_id.get(id).filter(|a| a.phase == Phase::Refused);
            here.map(|a| id.fenced(a.assignment.fence))
        };
        let refused = ids.iter().filter_map(refused).collect();
        give_back(io, refused, "they were not started here");
    }

    /// Whether any was refused here, whose run others may want.
    pub(crate) fn given_back(&mut self, io: &Io, ids: &[AttemptId]) -> bool {
        let mut any = false;
        for id in ids {
            any |= self.settle_refused(io, *id);
        }
        any
    }

    /// The directory of what is no longer held is needed by nobody. Until then it stays, so that an agent that comes after this one knows
    /// of it too.
    pub(crate) fn forget_left_behind(&mut self, io: &Io, held: &[Fenced]) {
        self.left_behind.retain(|id| {
            let is_held = held.iter().any(|of| AttemptId::from(*of) == *id);
            if !is_held {
                let (ctx, id) = (io.ctx.clone(), *id);
                tokio::spawn(async move { discard(&ctx.config.state_dir, id, &ctx.events).await });
            }
            is_held
        });
    }

    /// Of which of them something lives, though their warden is dead.
    pub(crate) fn alive_of_left_behind(&self, io: &Io) -> JoinHandle<HashSet<AttemptId>> {
        let dir = io.ctx.config.state_dir.clone();
        let left: Vec<AttemptId> = self.left_behind.iter().copied().collect();
        tokio::task::spawn_blocking(move || census::alive(&dir, &left))
    }

    /// Whether something of what this session had is held because its processes may live.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// The warden has recorded that they never start here again, and their own is dead.
    fn lose_left_behind(&self, io: &Io, mut begun: Vec<Fenced>) {
        if begun.is_empty() {
            return;
        }
        let (ctx, me, look) = (io.ctx.clone(), io.me.clone(), self.alive_of_left_behind(io));
        tokio::spawn(async move {
            // What the kernel does not end stays held: the next renewal shows it again.
            let Ok(alive) = look.await else { return };
            begun.retain(|of| !alive.contains(&AttemptId::from(*of)));
            let lose = |of: &Fenced| Lose {
                run_id: of.run_id,
                attempt: of.attempt,
                fence: of.fence,
                address: me.address.clone(),
                session: me.session,
                why: LostWhy::Warden,
            };
            let lost: Vec<Lose> = begun.iter().map(lose).collect();
            if lost.is_empty() {
                return;
            }
            match protocol::lose(&ctx.db, &lost).await {
                Ok(written) => tracing::warn!(
                    "{} attempts are lost: their warden was dead when this agent took the session over",
                    written.len()
                ),
                // The next renewal shows them again.
                Err(e) => ctx.events.emit(Event::database_down("lose", &e)),
            }
        });
    }
}

/// No warden can start these any more: the runs go back.
fn give_back(io: &Io, never: Vec<Fenced>, why: &'static str) {
    if never.is_empty() {
        return;
    }
    let (ctx, me) = (io.ctx.clone(), io.me.clone());
    io.spawn(async move {
        match protocol::release(&ctx.db, &me, &never, Release::NeverStarted).await {
            Ok(freed) => {
                if !freed.is_empty() {
                    ctx.events.emit(Event::Released {
                        session: me.session,
                        runs: freed.len(),
                        why,
                    });
                }
                Some(Input::GivenBack(never.into_iter().map(AttemptId::from).collect()))
            }
            // The next renewal shows them again.
            Err(e) => {
                ctx.events.emit(Event::database_down("release", &e));
                None
            }
        }
    });
}
