//! How much a node claims whose machine refuses to start processes.
//!
//! Pure bookkeeping: after a refusal nothing is claimed for a while, then one run, and one more for each that starts.

use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_core::retry::full_jitter;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// A node with fewer slots is not trusted sooner.
const TRUSTED_AFTER: u32 = 8;

/// Nothing to hold back, unless something was refused.
#[derive(Debug, Default)]
pub(crate) struct StartBackoff(Option<Refusals>);

#[derive(Debug)]
struct Refusals {
    /// The latest; `None` once something has started after it.
    why: Option<String>,
    since: BootInstant,
    pauses: u32,
    until: BootInstant,
    /// Claimed at once when the pause is over.
    at_once: u32,
}

impl StartBackoff {
    /// True if the node could start runs until now. `random` is uniform over all of `u64`.
    pub(crate) fn refused(&mut self, now: BootInstant, random: u64, why: &str) -> bool {
        let refusals = self.0.get_or_insert(Refusals {
            why: None,
            since: now,
            pauses: 0,
            until: now,
            at_once: 1,
        });
        let first = refusals.why.is_none();
        if first {
            refusals.since = now;
        }
        refusals.why = Some(why.to_owned());
        // The others of the same claim.
        if now < refusals.until {
            return first;
        }
        let half = FIRST.saturating_mul(1 << refusals.pauses.min(6)).min(LONGEST) / 2;
        refusals.pauses = refusals.pauses.saturating_add(1);
        refusals.until = now + half + full_jitter(half, random);
        refusals.at_once = 1;
        first
    }

    /// For how long it could not start any, if it can again.
    pub(crate) fn started(&mut self, now: BootInstant, slots: u32) -> Option<Duration> {
        // Of the claim that met the refusal.
        let refusals = self.0.as_mut().filter(|r| now >= r.until)?;
        refusals.at_once = refusals.at_once.saturating_add(1);
        let after = refusals.why.take().map(|_| now.saturating_since(refusals.since));
        if refusals.at_once > slots.max(TRUSTED_AFTER) {
            self.0 = None;
        }
        after
    }

    /// When the pause is over, while it lasts.
    pub(crate) fn ends_after(&self, now: BootInstant) -> Option<BootInstant> {
        self.0.as_ref().map(|r| r.until).filter(|until| now < *until)
    }

    /// How many of `free` slots to claim for.
    pub(crate) fn bounds(&self, free: usize) -> usize {
        let at_once = self.0.as_ref().map(|r| r.at_once);
        at_once.map_or(free, |n| free.min(usize::try_from(n).unwrap_or(usize::MAX)))
    }

    pub(crate) fn why(&self) -> Option<&str> {
        self.0.as_ref()?.why.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant(seconds * 1_000_000_000)
    }

    #[test]
    fn a_claim_whose_starts_are_all_refused_makes_one_pause() {
        let mut pause = StartBackoff::default();
        assert_eq!(pause.bounds(40), 40);
        assert!(pause.refused(at(10), u64::MAX, "fork"));
        assert!(!pause.refused(at(10), u64::MAX, "fork"));
        let until = pause.ends_after(at(10)).unwrap();
        assert!(until > at(10) && until <= at(11), "{until:?}");
        assert_eq!(pause.started(at(10), 40), None);
        assert_eq!(pause.why(), Some("fork"));
        assert_eq!(pause.ends_after(at(11)), None);
        assert_eq!(pause.bounds(40), 1);
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut pause = StartBackoff::default();
        let mut now = at(0);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            pause.refused(now, u64::MAX, "fork");
            let lasts = pause.ends_after(now).unwrap().saturating_since(now);
            assert!(
                lasts > Duration::from_secs(seconds) / 2 && lasts <= Duration::from_secs(seconds),
                "{lasts:?}, not {seconds} s"
            );
            now = now + lasts;
        }
    }

    #[test]
    fn each_start_lets_one_more_be_claimed_until_the_node_is_trusted_again() {
        let mut pause = StartBackoff::default();
        pause.refused(at(0), 0, "fork");
        assert_eq!(pause.started(at(5), 10), Some(Duration::from_secs(5)));
        assert_eq!((pause.why(), pause.bounds(40)), (None, 2));
        for more in 3..=10 {
            assert_eq!(pause.started(at(5), 10), None);
            assert_eq!(pause.bounds(40), more);
        }
        pause.started(at(5), 10);
        assert_eq!(pause.bounds(40), 40);
    }

    #[test]
    fn a_refusal_soon_after_a_start_pauses_for_longer() {
        let mut pause = StartBackoff::default();
        pause.refused(at(0), u64::MAX, "fork");
        pause.started(at(5), 10);
        assert!(pause.refused(at(6), u64::MAX, "fork"));
        let until = pause.ends_after(at(6)).unwrap();
        assert!(until > at(7), "{until:?}");
        assert_eq!(pause.bounds(40), 1);
    }
}
