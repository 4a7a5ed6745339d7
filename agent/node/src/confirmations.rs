//! Which end each warden has confirmed. Pure bookkeeping.

use std::collections::HashMap;

use farmhand_core::lease::BootInstant;
use farmhand_warden_client::wire::Kind;

/// Of wardens that are up, and of those whose death is not proven yet.
#[derive(Debug, Default)]
pub(crate) struct Confirmations(HashMap<Kind, Told>);

#[derive(Debug)]
struct Told {
    confirmed: BootInstant,
    asking: bool,
}

impl Confirmations {
    /// A warden said at its hello when its end is.
    pub(crate) fn insert(&mut self, kind: Kind, confirmed: BootInstant) {
        let asking = false;
        self.0.insert(kind, Told { confirmed, asking });
    }

    /// It is proven dead.
    pub(crate) fn remove(&mut self, kind: Kind) {
        self.0.remove(&kind);
    }

    /// It is being told of a new end.
    pub(crate) fn asking(&mut self, kind: Kind) {
        self.0.entry(kind).and_modify(|told| told.asking = true);
    }

    /// It has answered what it was told, with what holds now; or it has not, in time.
    pub(crate) fn answered(&mut self, kind: Kind, confirmed: Option<BootInstant>) {
        if let Some(told) = self.0.get_mut(&kind) {
            told.asking = false;
            told.confirmed = told.confirmed.max(confirmed.unwrap_or_default());
        }
    }

    /// Those that are not being asked.
    pub(crate) fn unasked(&self) -> Vec<Kind> {
        let unasked = self.0.iter().filter(|(_, told)| !told.asking);
        unasked.map(|(kind, _)| *kind).collect()
    }

    /// Whether every end is at least as late as needed of its kind.
    pub(crate) fn reach(&self, needed: impl Fn(Kind) -> BootInstant) -> bool {
        self.0.iter().all(|(kind, told)| told.confirmed >= needed(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warden_counts_with_its_hold_until_it_is_proven_dead() {
        let (at, hold) = (|ms: u64| BootInstant(ms * 1_000_000), Kind::Hold { ms: 500 });
        let needed = |ms: u64| move |kind: Kind| at(ms) + kind.hold();
        let mut ends = Confirmations::default();
        assert!(ends.reach(needed(1_000)));
        ends.insert(Kind::Main, at(1_000));
        ends.insert(hold, at(1_499));
        assert!(!ends.reach(needed(1_000)));
        ends.asking(hold);
        assert_eq!(ends.unasked(), [Kind::Main]);
        ends.answered(hold, None);
        assert_eq!((ends.unasked().len(), ends.reach(needed(1_000))), (2, false));
        ends.answered(hold, Some(at(1_500)));
        assert!(ends.reach(needed(1_000)));
        // What holds is never earlier than what held.
        ends.answered(hold, Some(at(1_000)));
        assert!(ends.reach(needed(1_000)) && !ends.reach(needed(1_001)));
        ends.remove(Kind::Main);
        assert!(!ends.reach(needed(1_001)));
        ends.remove(hold);
        assert!(ends.reach(needed(1_001)));
    }
}
