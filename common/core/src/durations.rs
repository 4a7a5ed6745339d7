//! How long runs usually take, and whether one takes longer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text::span;

/// Fewer than these say nothing about what is usual.
const LEAST: usize = 5;
/// A run is longer than usual above this many times the p95. One run in twenty is above the p95 itself.
const FACTOR: u32 = 2;
/// A run shorter than this never counts as longer than usual: it ends before anybody could look at it.
pub const SHORT: Duration = Duration::from_secs(10);

/// How long runs that succeeded took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usual {
    /// Half of them took no longer.
    #[serde(rename = "p50_ms", with = "crate::serde_time::millis")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub p50: Duration,
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ms", with = "crate::serde_time::millis")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub p95: Duration,
    /// The longest of them.
    #[serde(rename = "longest_ms", with = "crate::serde_time::millis")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
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
        lasted > self.p95 * FACTOR
    }

    /// Whether a run that has taken so long takes longer than usual.
    pub fn is_exceeded_by(&self, lasted: Duration) -> bool {
        lasted >= SHORT && self.has_outlier(lasted)
    }
}

/// What a run that takes longer than usual is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Exceeded {
    /// 95 of 100 took no longer.
    #[serde(rename = "p95_ms", with = "crate::serde_time::millis")]
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub p95: Duration,
    /// How many runs of its job that is of: the last that succeeded.
    pub runs: usize,
}

impl Exceeded {
    /// By one that has taken so long; None while that is as usual.
    pub fn by(usual: &Usual, lasted: Duration) -> Option<Self> {
        usual.is_exceeded_by(lasted).then_some(Self {
            p95: usual.p95,
            runs: usual.count,
        })
    }
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let p95 = span(Duration::from_secs(self.p95.as_secs().max(1)));
        write!(
            f,
            "longer than usual: 95 of 100 of its last {} successes took at most {p95}",
            self.runs
        )
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
    fn longer_than_usual_is_more_than_twice_the_p95_and_at_least_ten_seconds() {
        let usual = |secs: u64| seconds((0..99).map(|_| secs).chain([600])).unwrap();
        let exceeds = |secs: u64, lasted: u64| usual(secs).is_exceeded_by(Duration::from_secs(lasted));
        for (p95, lasted, longer) in [
            (10, 10, false),
            (10, 20, false),
            (10, 21, true),
            // One that took as long before does not make it usual.
            (10, 600, true),
            (1, 3, false),
            (1, 9, false),
            (1, 10, true),
            (0, 10, true),
        ] {
            assert_eq!(exceeds(p95, lasted), longer, "{p95} s, {lasted} s");
        }
        let usual = usual(60);
        assert_eq!(Exceeded::by(&usual, Duration::from_secs(120)), None);
        assert_eq!(
            Exceeded::by(&usual, Duration::from_secs(121))
                .map(|e| e.to_string())
                .as_deref(),
            Some("longer than usual: 95 of 100 of its last 100 successes took at most 1m")
        );
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
