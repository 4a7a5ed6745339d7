//! What an agent is told that takes a warden over: every attempt, in answers that fit.

use std::ops::Bound;

use super::attempt::Attempt;
use super::warden::Warden;
use farmhand_warden_client::wire::frame::MAX_FRAME;
use farmhand_warden_client::wire::{AttemptId, Listing};

/// Of the attempts in one answer, in bytes, unless it is one alone. Everything that is forbidden fits beside them.
const PART: usize = MAX_FRAME / 2;

impl Warden {
    /// Those behind `after`, as many as fit. One does: what the agent noted of it came in one frame, with more beside it.
    pub(super) fn list(&self, after: Option<AttemptId>) -> Listing {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = (first, Bound::<AttemptId>::Unbounded);
        let living = self.living.range(behind).map(|(id, _)| *id);
        let ended = self.ended.range(behind).map(|(id, _)| *id);
        let mut ids: Vec<AttemptId> = living.chain(ended).collect();
        ids.sort_unstable();
        let mut listing = Listing::default();
        let mut bytes = 0;
        for id in ids {
            let living = self.living.get(&id).map(Attempt::report);
            let Some(report) = living.or_else(|| self.ended.get(&id).map(|e| e.report.clone())) else {
                continue;
            };
            bytes += serde_json::to_vec(&report).map_or(0, |text| text.len());
            if bytes > PART && !listing.attempts.is_empty() {
                listing.more = true;
                return listing;
            }
            listing.attempts.push(report);
        }
        if bytes > PART {
            listing.more = true;
        } else {
            listing.tombstones = self.tombstones.forbidden();
        }
        listing
    }
}
