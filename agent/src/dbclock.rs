//! The database's wall clock, told by this machine's stopwatch.

use farmhand_common::core::lease::BootInstant;
use jiff::Timestamp;

/// Says when jobs are due; never whether a lease is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct DbClock {
    /// Database microseconds since the epoch minus boot microseconds.
    offset_us: Option<i64>,
}

impl DbClock {
    /// The database said `db_now` somewhere between `sent` and `received`; the middle is the best guess.
    pub fn observe(&mut self, sent: BootInstant, received: BootInstant, db_now: Timestamp) {
        let middle = (sent.0 / 2 + received.0 / 2) / 1_000;
        self.offset_us = Some(db_now.as_microsecond() - i64::try_from(middle).unwrap_or(i64::MAX));
    }

    pub fn known(&self) -> bool {
        self.offset_us.is_some()
    }

    /// What the database's clock shows at `at`; the epoch while it has never answered.
    pub fn at(&self, at: BootInstant) -> Timestamp {
        let boot = i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX);
        self.offset_us
            .and_then(|offset| Timestamp::from_microsecond(boot.saturating_add(offset)).ok())
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// When, by this machine's stopwatch, the database's clock shows `when`; `now` if that is past.
    pub fn boot_at(&self, when: Timestamp, now: BootInstant) -> BootInstant {
        let offset = self.offset_us.unwrap_or(0);
        let boot = when.as_microsecond().saturating_sub(offset);
        BootInstant(u64::try_from(boot).unwrap_or(0).saturating_mul(1_000)).max(now)
    }

    /// The database's wall clock minus this machine's, in seconds.
    pub fn offset_from_wall(&self, at: BootInstant) -> f64 {
        let wall = Timestamp::now().as_microsecond();
        (self.at(at).as_microsecond() - wall) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stopwatch_and_the_database_convert_both_ways() {
        let mut clock = DbClock::default();
        let noon: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        clock.observe(BootInstant(1_000_000_000), BootInstant(3_000_000_000), noon);
        let at = BootInstant(2_000_000_000);
        assert_eq!(clock.at(at), noon);
        let later: Timestamp = "2026-11-21T12:00:05Z".parse().unwrap();
        assert_eq!(clock.boot_at(later, at), BootInstant(7_000_000_000));
        assert_eq!(
            clock.boot_at(noon, BootInstant(9_000_000_000)),
            BootInstant(9_000_000_000)
        );
    }
}
