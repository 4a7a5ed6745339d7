//! Whether anybody else uses this very session. A machine that was copied while its agent ran has two agents with one session,
//! of which neither knows of the other: each would give back what the other claims.
//!
//! Pure bookkeeping. The heartbeat is the token of a renewal: each that is committed adds one.

use std::time::Duration;

use farmhand_core::lease::{BootInstant, EpochKey};

/// Heartbeats of an agent before this one, or of statements before the database was replaced, that may come late.
const LATE: i64 = 4;

/// After a claim without an answer, what is held and unknown may be what it won, for so long and so many renewals.
const UNSURE: Duration = Duration::from_secs(60);
const UNSURE_RENEWALS: u32 = 8;

#[derive(Debug, Default)]
pub(crate) struct CopyDetector {
    shown: Option<EpochKey>,
    latest: i64,
    /// A later heartbeat is of somebody else.
    ours_until: i64,
    unsure: Option<(BootInstant, u32)>,
}

impl CopyDetector {
    /// A statement that adds to the heartbeat is sent.
    pub(crate) fn sends(&mut self) {
        self.ours_until = self.ours_until.saturating_add(1);
    }

    /// A renewal was answered. False when somebody else has renewed the session, too.
    pub(crate) fn answered(&mut self, now: BootInstant, shown: EpochKey, renewals: i64) -> bool {
        if let Some((_, renewals)) = &mut self.unsure {
            *renewals += 1;
        }
        let first = self.shown.is_none();
        // Another database, or older rows in this one, may show as held what has ended.
        if self.shown.as_ref() != Some(&shown) || renewals <= self.latest {
            self.ours_until = renewals.saturating_add(LATE);
            if !first {
                self.unsure(now);
            }
        }
        (self.shown, self.latest) = (Some(shown), renewals);
        renewals <= self.ours_until
    }

    /// The database may show something as held that this agent asked for and does not know.
    pub(crate) fn unsure(&mut self, now: BootInstant) {
        self.unsure = Some((now, 0));
    }

    /// Whether what is held and unknown may be this agent's own.
    pub(crate) fn may_have_claimed(&self, now: BootInstant) -> bool {
        let lasts = |(since, renewals)| now < since + UNSURE || renewals < UNSURE_RENEWALS;
        self.unsure.is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant(seconds * 1_000_000_000)
    }

    fn key(server: &str) -> EpochKey {
        EpochKey {
            id: uuid::Uuid::nil(),
            server: server.to_owned(),
        }
    }

    #[test]
    fn who_renews_alone_is_alone_whatever_is_lost() {
        let mut copies = CopyDetector::default();
        let mut renewals = 7;
        for n in 0..1_000 {
            copies.sends();
            // Every third is lost, and every other one of these has been committed.
            match n % 6 {
                0 => {}
                3 => renewals += 1,
                _ => {
                    renewals += 1;
                    assert!(copies.answered(at(n), key("a"), renewals), "{n}");
                }
            }
        }
        assert!(!copies.may_have_claimed(at(1_000)));
    }

    #[test]
    fn a_second_one_is_noticed_within_six_renewals() {
        let mut copies = CopyDetector::default();
        let noticed = (1..20).find(|n| {
            copies.sends();
            !copies.answered(at(*n), key("a"), 2 * i64::try_from(*n).unwrap())
        });
        assert_eq!(noticed, Some(6));
    }

    #[test]
    fn another_database_counts_anew_and_makes_unsure() {
        let mut copies = CopyDetector::default();
        assert!(copies.answered(at(1), key("a"), 900));
        assert!(!copies.may_have_claimed(at(1)));
        assert!(copies.answered(at(2), key("b"), 5_000));
        assert!(copies.may_have_claimed(at(2)));
        // Rows of an hour ago, on the same server.
        let mut copies = CopyDetector::default();
        assert!(copies.answered(at(1), key("a"), 900));
        assert!(copies.answered(at(2), key("a"), 100));
        assert!(copies.may_have_claimed(at(2)));
    }

    #[test]
    fn a_claim_without_an_answer_may_show_for_a_minute_and_a_few_renewals() {
        let mut copies = CopyDetector::default();
        copies.answered(at(1), key("a"), 1);
        copies.unsure(at(1));
        assert!(copies.may_have_claimed(at(600)), "no renewal was answered since");
        for n in 2..=9 {
            copies.answered(at(600), key("a"), n);
        }
        assert!(!copies.may_have_claimed(at(600)));
        assert!(copies.may_have_claimed(at(60)));
    }
}
