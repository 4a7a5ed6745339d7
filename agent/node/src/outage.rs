//! What counts as an outage of the database, and since when one lasts. After one every stopwatch begins anew, so that
//! no node is expired because the database was away.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::StoreError;

/// Since when the database does not answer this agent. It may last longer than a session.
#[derive(Debug, Default)]
pub(crate) struct Outage(Mutex<Option<BootInstant>>);

impl Outage {
    pub(crate) fn lasts(&self) -> bool {
        self.since().is_some()
    }

    /// The database did not answer at `now`. Whether the outage begins with that.
    pub(crate) fn begin(&self, now: BootInstant) -> bool {
        let mut since = self.since();
        let begins = since.is_none();
        since.get_or_insert(now);
        begins
    }

    /// The database answered at `now`: how long it had not, if there was an outage.
    pub(crate) fn end(&self, now: BootInstant) -> Option<Duration> {
        self.since().take().map(|since| now.saturating_since(since))
    }

    fn since(&self) -> std::sync::MutexGuard<'_, Option<BootInstant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What it means when a statement is not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// A small statement, which a database that is there answers in time.
    Outage,
    /// It may merely take long, on a user's table perhaps. As an outage it would keep dead nodes from being expired for as
    /// long as it does.
    Slow,
}

impl Unanswered {
    /// Whether this failure says that the database is away.
    pub(crate) fn is_outage(self, error: &StoreError) -> bool {
        match error {
            StoreError::TimedOut { .. } => self == Self::Outage,
            error => error.is_away(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_its_first_failure_to_the_first_answer() {
        let at = |ms: u64| BootInstant(ms * 1_000_000);
        let outage = Outage::default();
        assert_eq!(outage.end(at(1)), None);
        assert!(outage.begin(at(10)));
        assert!(!outage.begin(at(20)));
        assert!(outage.lasts());
        assert_eq!(outage.end(at(35)), Some(Duration::from_millis(25)));
        assert!(!outage.lasts());
    }

    #[test]
    fn silence_of_a_small_statement_is_an_outage_and_a_slow_table_is_none() {
        for (unanswered, outage) in [(Unanswered::Outage, true), (Unanswered::Slow, false)] {
            assert_eq!(
                unanswered.is_outage(&StoreError::TimedOut { op: "", unsure: true }),
                outage,
                "{unanswered:?}"
            );
            assert!(
                unanswered.is_outage(&StoreError::Unreachable(String::new())),
                "{unanswered:?}"
            );
            assert!(
                !unanswered.is_outage(&StoreError::SchemaMissing),
                "{unanswered:?}"
            );
        }
    }
}
