//! What a warden had begun that was dead when this agent adopted the session from another one.
//!
//! Nobody has its end any more, and no warden knows it. That does not make it a claim whose reply was lost: it ran,
//! and `on_lost` has a say in what becomes of its run.

use std::collections::HashSet;

use farmhand_store::protocol::{self, Attempt, Lose, LostWhy};
use tokio::task::JoinHandle;

use super::Session;
use crate::discard::discard;
use farmhand_os::clock::boot_now;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::Paths;
use farmhand_warden_client::death::census;
use farmhand_warden_client::wire::AttemptId;

impl Session {
    /// Their directories stay until the database shows that they are not held any more, so that an agent that comes after
    /// this one knows of them too.
    pub(crate) fn with_left_behind(mut self, left: HashSet<AttemptId>) -> Self {
        self.left_behind.extend(left);
        // What the agent before this one claimed last.
        self.alone.unsure(boot_now());
        self
    }

    /// The directory of what is no longer held is needed by nobody.
    pub(super) fn forget_left_behind(&mut self, held: &[Attempt]) {
        let dir = &self.ctx.config.state_dir;
        self.left_behind.retain(|id| {
            let is_held = held.iter().any(|of| AttemptId::from(*of) == *id);
            if !is_held {
                let (paths, id, events) = (Paths::new(dir), *id, self.ctx.events.clone());
                tokio::spawn(async move { discard(paths, id, &events).await });
            }
            is_held
        });
    }

    /// Those that a dead warden had begun, and those that nobody ever did.
    pub(super) fn begun_before(&self, unknown: Vec<Attempt>) -> (Vec<Attempt>, Vec<Attempt>) {
        let begun = |of: &Attempt| self.left_behind.contains(&AttemptId::from(*of));
        unknown.into_iter().partition(begun)
    }

    /// Of which of them something lives, though their warden is dead.
    pub(super) fn alive_of_left_behind(&self) -> JoinHandle<HashSet<AttemptId>> {
        let dir = self.ctx.config.state_dir.clone();
        let left: Vec<AttemptId> = self.left_behind.iter().copied().collect();
        tokio::task::spawn_blocking(move || census::alive(&dir, &left))
    }

    /// The warden has recorded that they never start here again, and their own is dead.
    pub(super) fn lose_left_behind(&self, begun: &[Attempt]) {
        if begun.is_empty() {
            return;
        }
        let lose = |of: &Attempt| Lose {
            run_id: of.run_id,
            attempt: of.attempt,
            fence: of.fence,
            address: self.me.address.clone(),
            session: self.me.session,
            why: LostWhy::Warden,
        };
        let lost: Vec<Lose> = begun.iter().map(lose).collect();
        let (ctx, look) = (self.ctx.clone(), self.alive_of_left_behind());
        tokio::spawn(async move {
            // What the kernel does not end stays held: the next renewal shows it again.
            let Ok(alive) = look.await else { return };
            let of = |lose: &Lose| AttemptId {
                run_id: lose.run_id,
                attempt: lose.attempt,
            };
            let lost: Vec<Lose> = lost
                .into_iter()
                .filter(|lose| !alive.contains(&of(lose)))
                .collect();
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
