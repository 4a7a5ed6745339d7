//! The database's wall clock, told by this machine's stopwatch.

use farmhand_core::lease::BootInstant;
use jiff::Timestamp;

/// How fast two clocks may drift apart, for widening what is known: 200 ppm.
const DRIFT_PER_MS_US: u64 = 5_000;

/// Says when jobs are due; never whether a lease is over.
///
/// Every answer bounds the offset between the two clocks: the database read its clock after the statement
/// was sent and before the answer was received. Bounds that agree are narrowed to what they share; bounds
/// that contradict (a clock stepped) replace what was known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DbClock {
    known: Option<Bounds>,
}

/// Database microseconds since the epoch minus boot microseconds, between `low` and `high` at `at`.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i64,
    high: i64,
    at: BootInstant,
}

impl DbClock {
    /// The database said `db_now` somewhere between `sent` and `received`.
    pub(crate) fn observe(&mut self, sent: BootInstant, received: BootInstant, db_now: Timestamp) {
        let now = db_now.as_microsecond();
        let new = Bounds {
            low: now - micros(received),
            high: now - micros(sent),
            at: received,
        };
        let shared = self.known.map(|known| known.widened(received).intersect(new));
        self.known = Some(shared.filter(|s| s.low <= s.high).unwrap_or(new));
    }

    pub(crate) fn known(&self) -> bool {
        self.known.is_some()
    }

    /// What the database's clock shows at least at `at`; the epoch while it has never answered.
    pub(crate) fn at(&self, at: BootInstant) -> Timestamp {
        self.known
            .and_then(|b| Timestamp::from_microsecond(micros(at).saturating_add(b.low)).ok())
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// When, by this machine's stopwatch, the database's clock has surely reached `when`; `now` if that is past.
    pub(crate) fn boot_at(&self, when: Timestamp, now: BootInstant) -> BootInstant {
        let offset = self.known.map_or(0, |b| b.low);
        let boot = when.as_microsecond().saturating_sub(offset);
        BootInstant(u64::try_from(boot).unwrap_or(0).saturating_mul(1_000)).max(now)
    }

    /// The database's wall clock minus this machine's, in milliseconds; None while the database has never answered.
    pub(crate) fn offset_ms(&self, at: BootInstant) -> Option<i64> {
        self.known?;
        let wall = Timestamp::now().as_microsecond();
        Some(self.at(at).as_microsecond().saturating_sub(wall) / 1_000)
    }

    /// The database's wall clock minus this machine's, in seconds.
    pub(crate) fn offset_from_wall(&self, at: BootInstant) -> f64 {
        let wall = Timestamp::now().as_microsecond();
        (self.at(at).as_microsecond() - wall) as f64 / 1e6
    }
}

impl Bounds {
    /// What is still certain at `now`, for clocks that drift.
    fn widened(self, now: BootInstant) -> Self {
        let elapsed_us = now.saturating_since(self.at).as_micros();
        let drift = i64::try_from(elapsed_us / u128::from(DRIFT_PER_MS_US)).unwrap_or(i64::MAX);
        Self {
            low: self.low.saturating_sub(drift),
            high: self.high.saturating_add(drift),
            at: now,
        }
    }

    fn intersect(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
            at: other.at,
        }
    }
}

fn micros(at: BootInstant) -> i64 {
    i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: &str = "2026-11-21T12:00:00Z";

    fn at(ms: u64) -> BootInstant {
        BootInstant(ms * 1_000_000)
    }

    fn db(ms: i64) -> Timestamp {
        let noon: Timestamp = NOON.parse().unwrap();
        noon + jiff::SignedDuration::from_millis(ms)
    }

    #[test]
    fn the_stopwatch_and_the_database_convert_both_ways() {
        let mut clock = DbClock::default();
        clock.observe(at(1_000), at(1_000), db(0));
        assert_eq!(clock.at(at(3_000)), db(2_000));
        assert_eq!(clock.boot_at(db(5_000), at(0)), at(6_000));
        assert_eq!(clock.boot_at(db(0), at(9_000)), at(9_000));
    }

    #[test]
    fn a_slow_answer_does_not_spoil_a_quick_one_and_nothing_is_ever_early() {
        let mut clock = DbClock::default();
        clock.observe(at(1_000), at(1_001), db(1));
        clock.observe(at(2_000), at(2_800), db(1_700));
        let shown = clock.at(at(3_000));
        assert!(shown <= db(2_001) && shown >= db(1_998), "{shown}");
    }

    #[test]
    fn a_step_of_the_databases_clock_is_believed_at_once() {
        let mut clock = DbClock::default();
        clock.observe(at(1_000), at(1_001), db(0));
        clock.observe(at(2_000), at(2_001), db(3_600_000));
        assert_eq!(clock.at(at(2_001)), db(3_600_000));
        clock.observe(at(3_000), at(3_001), db(-3_600_000));
        assert_eq!(clock.at(at(3_001)), db(-3_600_000));
    }
}
