//! How long to wait before the next try.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::defaults::with_defaults;
use super::serde_time::millis;

with_defaults! {
    /// `max` counts retries, not attempts.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Retry {
        /// How often a run is tried again.
        pub max: u32,
        pub backoff: Backoff,
        /// The bound of the first pause.
        #[serde(with = "millis")]
        pub base: Duration = Duration::from_secs(10),
        #[serde(with = "millis")]
        pub cap: Duration = Duration::from_secs(300),
    }
}

/// How the pause between tries grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The same each time.
    Constant,
    /// By `base` with each try.
    Linear,
    /// Twice as long with each try.
    #[default]
    Exponential,
}

/// The delay before retry number `retry` (from 1). `random` is uniform over all of `u64`; constant
/// back-off ignores it. The others use full jitter (Brooker, "Exponential Backoff And Jitter", 2015).
pub fn delay(policy: &Retry, retry: u32, random: u64) -> Duration {
    let ceiling = ceiling(policy, retry);
    match policy.backoff {
        Backoff::Constant => ceiling,
        Backoff::Linear | Backoff::Exponential => full_jitter(ceiling, random),
    }
}

/// The longest delay before retry number `retry` (from 1).
pub fn ceiling(policy: &Retry, retry: u32) -> Duration {
    let factor = match policy.backoff {
        Backoff::Constant => 1,
        Backoff::Linear => retry.max(1),
        Backoff::Exponential => 1_u32.checked_shl(retry.saturating_sub(1)).unwrap_or(u32::MAX),
    };
    policy
        .base
        .saturating_mul(factor)
        .min(policy.cap.max(policy.base))
}

/// Uniform in `[0, ceiling]`.
pub fn full_jitter(ceiling: Duration, random: u64) -> Duration {
    let ns = (ceiling.as_nanos() * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(backoff: Backoff) -> Retry {
        Retry {
            max: 9,
            backoff,
            base: Duration::from_secs(10),
            cap: Duration::from_secs(60),
        }
    }

    fn ceilings(backoff: Backoff) -> Vec<u64> {
        (1..=5).map(|n| ceiling(&policy(backoff), n).as_secs()).collect()
    }

    #[test]
    fn ceilings_grow_as_named_up_to_the_cap() {
        assert_eq!(ceilings(Backoff::Constant), [10, 10, 10, 10, 10]);
        assert_eq!(ceilings(Backoff::Linear), [10, 20, 30, 40, 50]);
        assert_eq!(ceilings(Backoff::Exponential), [10, 20, 40, 60, 60]);
    }

    #[test]
    fn a_thousandth_retry_waits_for_the_cap() {
        for backoff in [Backoff::Linear, Backoff::Exponential] {
            assert_eq!(ceiling(&policy(backoff), 1000), Duration::from_secs(60));
            assert_eq!(ceiling(&policy(backoff), u32::MAX), Duration::from_secs(60));
        }
    }

    #[test]
    fn a_cap_below_the_base_does_not_shorten_the_first_wait() {
        let p = Retry {
            cap: Duration::from_secs(1),
            ..policy(Backoff::Constant)
        };
        assert_eq!(delay(&p, 1, 0), Duration::from_secs(10));
    }

    #[test]
    fn jitter_spreads_over_the_whole_ceiling() {
        let p = policy(Backoff::Exponential);
        assert_eq!(delay(&p, 2, 0), Duration::ZERO);
        assert_eq!(delay(&p, 2, 1 << 63), Duration::from_secs(10));
        assert!(delay(&p, 2, u64::MAX) <= Duration::from_secs(20));
        assert_eq!(delay(&policy(Backoff::Constant), 2, 5), Duration::from_secs(10));
    }
}
