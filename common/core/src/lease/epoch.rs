//! Whether the database is the one that an agent left: it may have been restored, upgraded, moved or failed over.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Of a fence, below its epoch.
pub const FENCE_BITS: u32 = 40;

/// So many epochs may have been opened that an agent without a memory cannot know of.
const UNKNOWN_EPOCHS: i64 = 64;

/// The highest epoch that is remembered, or asked for by hand: epochs end at twice this number, and a farm that used them up could
/// never be replaced again.
pub const MAX_REMEMBERED_EPOCH: i64 = (1 << 21) - 1;

/// What a database says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Database {
    /// Made with the farm; another one is another farm.
    pub farm_id: Uuid,
    /// Grows with every replacement that was noticed; the high bits of each fence.
    pub epoch: i64,
    /// Two databases that were one may open the same number.
    pub id: Uuid,
    /// The start of the server that answered, and its place.
    pub server: String,
    /// Claims are open: the epoch names this server.
    pub open: bool,
    /// Grows while agents renew.
    pub pulse: i64,
    /// The latest fence within its epoch, and the latest number of a run.
    pub fence: i64,
    /// The latest number of a run.
    pub run: i64,
    /// The longest lease that any node has.
    pub longest_lease_ms: i64,
}

impl Database {
    /// What is watched before it is opened, and compared with before runs are claimed.
    pub fn key(&self) -> EpochKey {
        EpochKey {
            id: self.id,
            server: self.server.clone(),
        }
    }
}

/// An epoch as one server shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochKey {
    /// Of the epoch that was open.
    pub id: Uuid,
    /// Of the server that answers now.
    pub server: String,
}

/// What an agent remembers of the database, from its latest confirmed renewal and its claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// As [`Database::farm_id`].
    pub farm_id: Uuid,
    /// As [`Database::epoch`].
    pub epoch: i64,
    /// As [`Database::id`].
    pub id: Uuid,
    /// The highest that was seen.
    pub pulse: i64,
    /// The highest of the epoch that was seen.
    pub fence: i64,
    /// The highest that was seen.
    pub run: i64,
    /// As [`Database::longest_lease_ms`].
    pub longest_lease_ms: i64,
    pub address: String,
    /// The last session that it had.
    pub session: i64,
    /// Of the agent that had it.
    pub incarnation: Uuid,
    /// The last renewal that was confirmed.
    pub renewals: i64,
    /// The boot of the machine in which it was learned; None when that is not the one of now. A backup of a machine has the
    /// memory of the day on which it was made.
    pub boot: Option<String>,
}

impl Remembered {
    /// A claim was confirmed with this fence, of this run.
    pub fn claimed(&mut self, fence: i64, run: i64) {
        if fence >> FENCE_BITS == self.epoch {
            self.fence = self.fence.max(fence & ((1 << FENCE_BITS) - 1));
            self.run = self.run.max(run);
        }
    }

    /// A poll showed this.
    pub fn saw(&mut self, shown: &Database) {
        if shown.open && shown.id == self.id {
            self.pulse = self.pulse.max(shown.pulse);
            self.fence = self.fence.max(shown.fence);
            self.run = self.run.max(shown.run);
        }
    }

    /// A renewal was confirmed. In one epoch nothing is forgotten: replies may overtake each other. Numbers of runs go on over
    /// epochs.
    pub fn learn(&mut self, now: Self) {
        let before = std::mem::replace(self, now);
        if before.id == self.id {
            self.pulse = self.pulse.max(before.pulse);
            self.fence = self.fence.max(before.fence);
        }
        if before.farm_id == self.farm_id {
            self.run = self.run.max(before.run);
        }
    }

    /// Whether this database has less than was seen of it, or its epoch is another of the same number. A higher epoch is
    /// not less: whoever opened it has made sure.
    pub fn contradicts(&self, shown: &Database) -> bool {
        self.farm_id == shown.farm_id
            && (shown.epoch < self.epoch
                || shown.epoch == self.epoch && (shown.id != self.id || shown.pulse < self.pulse))
    }

    /// What this database must not give again: its farm's highest epoch, and the highest number of a run; and by how much
    /// the next epoch is higher. Who has not been there since this boot leaves room for what it cannot know of.
    pub fn floor(memory: Option<&Self>, shown: &Database) -> (i64, i64, i64) {
        match memory.filter(|m| m.farm_id == shown.farm_id) {
            Some(m) => (m.epoch, m.run, if m.boot.is_some() { 1 } else { UNKNOWN_EPOCHS }),
            None => (0, 0, UNKNOWN_EPOCHS),
        }
    }

    /// Whether the database has numbers of runs to learn of: another agent opened its epoch without having seen them.
    pub fn knows_more_runs(&self, shown: &Database) -> bool {
        self.farm_id == shown.farm_id && self.run > shown.run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remembered() -> Remembered {
        Remembered {
            farm_id: Uuid::from_u128(1),
            epoch: 5,
            id: Uuid::from_u128(50),
            pulse: 100,
            fence: 1_000,
            run: 77,
            longest_lease_ms: 10_000,
            address: "a".into(),
            session: 1,
            incarnation: Uuid::nil(),
            renewals: 1,
            boot: Some("b".into()),
        }
    }

    fn shown(epoch: i64, id: u128, pulse: i64) -> Database {
        Database {
            farm_id: Uuid::from_u128(1),
            epoch,
            id: Uuid::from_u128(id),
            server: "s".into(),
            open: false,
            pulse,
            fence: 1_000,
            run: 0,
            longest_lease_ms: 0,
        }
    }

    #[test]
    fn less_than_was_seen_or_another_epoch_of_the_same_number_is_a_contradiction() {
        for (epoch, id, pulse, contradiction) in [
            (5, 50, 100, false),
            (5, 50, 103, false),
            (5, 50, 99, true),
            (5, 51, 200, true),
            (4, 40, 200, true),
            (6, 60, 1, false),
        ] {
            let shown = shown(epoch, id, pulse);
            assert_eq!(remembered().contradicts(&shown), contradiction, "{shown:?}");
        }
    }

    #[test]
    fn what_was_claimed_since_is_not_forgotten_by_a_renewal_that_was_answered_before() {
        let mut memory = remembered();
        memory.claimed((5 << FENCE_BITS) + 1_001, 80);
        memory.claimed((5 << FENCE_BITS) + 900, 79);
        memory.claimed((6 << FENCE_BITS) + 2_000, 90);
        assert_eq!((memory.fence, memory.run), (1_001, 80));
        memory.learn(Remembered {
            pulse: 101,
            ..remembered()
        });
        assert_eq!((memory.pulse, memory.fence, memory.run), (101, 1_001, 80));
        let next = Remembered {
            id: Uuid::from_u128(60),
            epoch: 6,
            ..remembered()
        };
        memory.learn(next.clone());
        assert_eq!(
            memory,
            Remembered {
                run: 80,
                ..next.clone()
            },
            "numbers of runs go on"
        );
        let other = Remembered {
            farm_id: Uuid::from_u128(2),
            ..next
        };
        memory.learn(other.clone());
        assert_eq!(memory, other, "another farm counts for itself");
    }

    #[test]
    fn another_farm_is_nothing_to_compare_with() {
        let mut other = shown(1, 10, 1);
        other.farm_id = Uuid::from_u128(2);
        let mine = remembered();
        assert!(!mine.contradicts(&other));
        assert!(!mine.knows_more_runs(&other) && mine.knows_more_runs(&shown(6, 60, 1)));
        assert_eq!(Remembered::floor(Some(&mine), &other), (0, 0, 64));
        assert_eq!(Remembered::floor(Some(&mine), &shown(1, 10, 1)), (5, 77, 1));
        assert_eq!(Remembered::floor(None, &shown(1, 10, 1)), (0, 0, 64));
        let of_another_boot = Remembered { boot: None, ..mine };
        assert_eq!(
            Remembered::floor(Some(&of_another_boot), &shown(1, 10, 1)),
            (5, 77, 64)
        );
    }
}
