//! How long runs usually take, and whether one takes longer.

use std::time::Duration;

use serde::Serialize;

/// Fewer than these say nothing about what is usual.
const LEAST: usize = 5;

/// Of runs that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usual {
    /// Half of them took no longer.
    #[serde(rename = "p50_ms", with = "crate::serde_time::millis")]
    pub p50: Duration,
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ms", with = "crate::serde_time::millis")]
    pub p95: Duration,
    #[serde(rename = "longest_ms", with = "crate::serde_time::millis")]
    pub longest: Duration,
    /// How many there were.
    pub count: usize,
}

impl Usual {
    /// None of fewer than five.
    pub fn of(durations: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut sorted: Vec<Duration> = durations.into_iter().collect();
        sorted.sort_unstable();
        if sorted.len() < LEAST {
            return None;
        }
        Some(Self {
            p50: percentile(&sorted, 50)?,
            p95: percentile(&sorted, 95)?,
            longest: *sorted.last()?,
            count: sorted.len(),
        })
    }

    /// Of percentiles that were found elsewhere; none of fewer than five.
    pub fn known(p50: Duration, p95: Duration, longest: Duration, count: usize) -> Option<Self> {
        (count >= LEAST).then_some(Self {
            p50,
            p95,
            longest,
            count,
        })
    }

    /// Whether one that took so long is an outlier: more than twice the p95.
    pub fn has_outlier(&self, lasted: Duration) -> bool {
        lasted > self.p95 * 2
    }

    /// Whether a run that has taken so long takes longer than usual.
    pub fn is_exceeded_by(&self, lasted: Duration) -> bool {
        lasted > self.p95
    }
}

/// The smallest that at least `percent` of 100 do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// How many of 1,000 runs succeeded, of those that succeeded or did not; None of none.
pub fn success_permille(succeeded: usize, failed: usize) -> Option<usize> {
    let all = succeeded + failed;
    // A rate of 1,000 is that of no failure at all.
    (all > 0).then(|| succeeded * 1_000 / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(of: impl IntoIterator<Item = u64>) -> Option<Usual> {
        Usual::of(of.into_iter().map(Duration::from_secs))
    }

    #[test]
    fn percentiles_are_durations_that_were_measured() {
        let usual = seconds((1..=100).rev()).unwrap();
        let secs = [usual.p50, usual.p95, usual.longest].map(|d| d.as_secs());
        assert_eq!((secs, usual.count), ([50, 95, 100], 100));
        let usual = seconds([9, 1, 3, 5, 7]).unwrap();
        let secs = [usual.p50, usual.p95, usual.longest].map(|d| d.as_secs());
        assert_eq!(secs, [5, 9, 9]);
        let usual = seconds([4; 20]).unwrap();
        assert_eq!((usual.p50, usual.p95), (usual.longest, usual.longest));
    }

    #[test]
    fn a_few_runs_say_nothing_about_what_is_usual() {
        assert_eq!(seconds([]), None);
        assert_eq!(seconds([1, 2, 3, 4]), None);
        assert!(seconds([1, 2, 3, 4, 5]).is_some());
    }

    #[test]
    fn one_outlier_of_a_hundred_is_longer_than_usual_and_the_next_of_its_length_too() {
        let usual = seconds((0..99).map(|_| 10).chain([600])).unwrap();
        assert!(!usual.is_exceeded_by(Duration::from_secs(10)));
        assert!(usual.is_exceeded_by(Duration::from_secs(11)));
        assert!(usual.is_exceeded_by(usual.longest));
    }

    #[test]
    fn an_outlier_takes_more_than_twice_as_long_as_95_of_100() {
        let usual = seconds((1..=99).chain([600])).unwrap();
        assert!(usual.has_outlier(Duration::from_secs(191)));
        assert!(!usual.has_outlier(Duration::from_secs(190)));
        assert_eq!(Usual::known(usual.p50, usual.p95, usual.longest, 4), None);
    }

    #[test]
    fn a_rate_is_of_those_that_ended_well_or_badly_and_never_rounded_up_to_all() {
        assert_eq!(success_permille(0, 0), None);
        assert_eq!(success_permille(3, 1), Some(750));
        assert_eq!(success_permille(9_999, 1), Some(999));
        assert_eq!(success_permille(7, 0), Some(1_000));
        assert_eq!(success_permille(0, 7), Some(0));
    }
}
