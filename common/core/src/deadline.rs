//! By when a scheduled job must have succeeded again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::due::{DuePolicy, next_run};
use super::schedule::Schedule;

/// For the last instant of a schedule, of a job without a timeout.
const LAST: SignedDuration = SignedDuration::from_hours(1);

/// Excluded stretches that are looked past; a calendar that excludes more has no deadline.
const STRETCHES: usize = 400;

/// The first due instant after `since` that no calendar excludes is to have succeeded by the one after it, and
/// not before its attempt's hard end. `None` when nothing is due any more.
///
/// `since` is the last success, or what came after it: a new definition, a resumption.
pub fn deadline(
    schedule: &Schedule,
    policy: &DuePolicy,
    since: Timestamp,
    hard_end: Option<Duration>,
) -> Option<Timestamp> {
    let owed = next_wanted(schedule, policy, since)?;
    let hard = hard_end.and_then(|hard| owed.checked_add(hard).ok());
    let next = next_wanted(schedule, policy, owed);
    match (next, hard) {
        (Some(next), Some(hard)) => Some(next.max(hard)),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => owed.checked_add(LAST).ok(),
    }
}

/// The next due instant strictly after `after` that is no excluded day's.
fn next_wanted(schedule: &Schedule, policy: &DuePolicy, after: Timestamp) -> Option<Timestamp> {
    let mut after = after;
    for _ in 0..STRETCHES {
        let at = next_run(schedule, policy, after)?;
        let Some(until) = policy.calendar.excluded_until(at) else {
            return Some(at);
        };
        after = until.checked_sub(SignedDuration::from_nanos(1)).ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::definition::JobSpec;
    use super::super::due::compile;
    use super::*;

    fn ts(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn at(spec: JobSpec, since: &str, hard: Option<u64>) -> Option<Timestamp> {
        let (schedule, policy) = compile("j", &spec).unwrap();
        deadline(&schedule, &policy, ts(since), hard.map(Duration::from_secs))
    }

    fn hourly() -> JobSpec {
        JobSpec {
            schedule: vec!["0 * * * *".to_owned()],
            ..JobSpec::default()
        }
    }

    #[test]
    fn what_is_due_next_must_have_succeeded_by_the_instant_after_it() {
        assert_eq!(
            at(hourly(), "2026-11-21T10:05:00Z", None),
            Some(ts("2026-11-21T12:00:00Z"))
        );
    }

    #[test]
    fn an_attempt_that_may_take_longer_has_that_long() {
        assert_eq!(
            at(hourly(), "2026-11-21T10:05:00Z", Some(7200)),
            Some(ts("2026-11-21T13:00:00Z"))
        );
        assert_eq!(
            at(hourly(), "2026-11-21T10:05:00Z", Some(60)),
            Some(ts("2026-11-21T12:00:00Z"))
        );
    }

    #[test]
    fn days_that_a_calendar_excludes_are_not_waited_for() {
        let daily = JobSpec {
            schedule: vec!["0 9 * * *".to_owned()],
            exclude: vec!["2026-12-24..2026-12-26".to_owned()],
            ..JobSpec::default()
        };
        assert_eq!(
            at(daily, "2026-12-22T09:01:00Z", None),
            Some(ts("2026-12-27T09:00:00Z"))
        );
    }

    #[test]
    fn the_last_instant_of_a_schedule_has_an_hour_and_nothing_follows_it() {
        let ending = JobSpec {
            end: Some("2026-11-21T11:30:00Z".to_owned()),
            ..hourly()
        };
        assert_eq!(
            at(ending.clone(), "2026-11-21T10:05:00Z", None),
            Some(ts("2026-11-21T12:00:00Z"))
        );
        assert_eq!(at(ending, "2026-11-21T11:05:00Z", None), None);
    }
}
