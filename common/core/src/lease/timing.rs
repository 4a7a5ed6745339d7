//! The two sides of one inequality: the holder is gone before the challenger may act.
//!
//! With TTL the lease, ρ the largest difference between two machines' clock rates, K the time the kernel
//! may take to end the processes and g a margin:
//!
//! * the holder's processes live until `s + D` on its clock, `D = TTL(1−ρ) − K`, where `s` was read
//!   *before* the renewal was sent;
//! * a challenger acts at `o + W` on its clock, `W = TTL + g`, where `o` was read *after* the reply that
//!   shows that renewal's count was received.
//!
//! `s` precedes the commit and the commit precedes `o`, so no wait for a lock, no slow commit and no slow
//! reply can turn the order round, and `W/(1+ρ) ≥ D + K` keeps the lengths apart.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Two machines' clocks tick at rates that differ by at most this much, in parts per million (ρ = 10⁻³).
pub const CLOCK_RATE_TOLERANCE_PPM: u32 = 1000;
/// What a challenger waits beyond the TTL (g).
pub const TAKEOVER_MARGIN: Duration = Duration::from_millis(200);
/// The shortest lease an agent accepts.
pub const MIN_TTL: Duration = Duration::from_secs(3);

/// A reading of one machine's CLOCK_BOOTTIME, in nanoseconds. It never goes back, counts suspended time,
/// and means nothing on another machine or after a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(pub u64);

impl BootInstant {
    /// Zero when `earlier` is later.
    pub fn saturating_since(self, earlier: BootInstant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for BootInstant {
    type Output = BootInstant;

    /// Saturates; 2⁶⁴ ns are 584 years of uptime.
    fn add(self, d: Duration) -> BootInstant {
        BootInstant(self.0.saturating_add(nanos(d)))
    }
}

impl Sub<Duration> for BootInstant {
    type Output = BootInstant;

    /// Saturates at the boot.
    fn sub(self, d: Duration) -> BootInstant {
        BootInstant(self.0.saturating_sub(nanos(d)))
    }
}

/// The lengths that follow from one lease TTL. A challenger must use the TTL of the lease it watches,
/// never its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTiming {
    ttl: Duration,
    slewed: bool,
}

/// A lease that is shorter than the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {0:?} is shorter than {MIN_TTL:?}")]
pub struct TtlTooShort(pub Duration);

impl LeaseTiming {
    /// Errors: When `ttl` is below [`MIN_TTL`].
    pub fn new(ttl: Duration) -> Result<Self, TtlTooShort> {
        if ttl < MIN_TTL {
            Err(TtlTooShort(ttl))
        } else {
            Ok(Self { ttl, slewed: false })
        }
    }

    /// Of a row that states this TTL; one that no agent may have counts as the shortest.
    #[must_use]
    pub fn at_least(ttl: Duration) -> Self {
        Self {
            ttl: ttl.max(MIN_TTL),
            slewed: false,
        }
    }

    /// The same lease on a machine whose own clock is (or is not) being slewed by more than ρ/2.
    /// Such a machine gives its processes a tenth less and must expire nobody.
    #[must_use]
    pub fn with_slewed_clock(self, slewed: bool) -> Self {
        Self { slewed, ..self }
    }

    /// How long a lease is.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// What the kernel may take from the timer's expiry until the last process is gone (K).
    pub fn kill_allowance(&self) -> Duration {
        (self.ttl / 6).min(Duration::from_secs(1))
    }

    /// D: how long the processes may live after the instant at which the confirmed renewal was sent.
    pub fn lifetime(&self) -> Duration {
        let d = slowed(self.ttl) - self.kill_allowance();
        if self.slewed { d / 10 * 9 } else { d }
    }

    /// The kernel timer's setting. `sent` is CLOCK_BOOTTIME read *before* the confirmed renewal, open or
    /// re-adoption was sent.
    pub fn holder_deadline(&self, sent: BootInstant) -> BootInstant {
        sent + self.lifetime()
    }

    /// When SIGTERM goes out: a grace before the deadline, but never in the first two thirds of the lease,
    /// in which a renewal may merely be late.
    pub fn soft_deadline(&self, sent: BootInstant, grace: Duration) -> BootInstant {
        self.holder_deadline(sent) - grace.min(self.lifetime() / 3)
    }

    /// Between two renewals: three may fail before the lease ends.
    pub fn renew_every(&self) -> Duration {
        (self.lifetime() / 4).min(Duration::from_secs(10))
    }

    /// Between two polls of the farm, of which this is the shortest lease. A poll, then W, then 0.6 s for the expiry and the claim stay
    /// within the promised TTL·1.1 + 2 s; the agent wakes for the end of W by itself. `told`: PostgreSQL says by itself
    /// what else a poll would find, so that polls need not be more frequent than the promise wants.
    pub fn poll_every(&self, told: bool) -> Duration {
        let most = Duration::from_millis(if told { 5_000 } else { 2_500 });
        (self.ttl / 10 + Duration::from_millis(1200)).min(most)
    }

    /// W: how long a challenger sees the count of renewals unchanged, on its own clock, before it may expire the session.
    pub fn challenge_after(&self) -> Duration {
        self.ttl + TAKEOVER_MARGIN
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// `d·(1−ρ)`, rounded down.
fn slowed(d: Duration) -> Duration {
    let ns = nanos(d);
    let rho = ns.div_ceil(1_000_000 / u64::from(CLOCK_RATE_TOLERANCE_PPM));
    Duration::from_nanos(ns - rho)
}

#[cfg(test)]
mod tests {
    use super::super::silence::{EXPIRE_SPREAD, POLLS_APART};
    use super::*;

    fn ttls() -> impl Iterator<Item = LeaseTiming> {
        let ms = (3_000..60_000)
            .step_by(7)
            .chain((60_000..=3_600_000).step_by(997));
        ms.map(|ms| LeaseTiming::new(Duration::from_millis(ms)).unwrap())
    }

    /// W/(1+ρ) ≥ D + K, without fractions.
    fn challenger_is_later(wait: Duration, life: Duration, kill: Duration) -> bool {
        let million = 1_000_000_u128;
        wait.as_nanos() * million
            >= (life + kill).as_nanos() * (million + u128::from(CLOCK_RATE_TOLERANCE_PPM))
    }

    #[test]
    fn the_holder_is_gone_before_a_challenger_with_the_fastest_clock_may_act() {
        for t in ttls() {
            for t in [t, t.with_slewed_clock(true)] {
                assert!(
                    challenger_is_later(t.challenge_after(), t.lifetime(), t.kill_allowance()),
                    "{t:?}"
                );
            }
        }
    }

    #[test]
    fn a_takeover_stays_within_the_promise_with_room_for_the_statements() {
        for t in ttls() {
            let slow_clock = t.challenge_after() + t.challenge_after() / 1000;
            let promise = t.ttl() / 10 * 11 + Duration::from_secs(2);
            let acting = EXPIRE_SPREAD + POLLS_APART + Duration::from_millis(300);
            assert!(t.poll_every(true) + slow_clock + acting <= promise, "{t:?}");
        }
    }

    #[test]
    fn three_renewals_fit_before_the_lease_ends_and_one_before_sigterm() {
        for t in ttls() {
            assert!(t.renew_every() * 3 < t.lifetime());
            let sent = BootInstant(0);
            assert!(sent + t.renew_every() * 2 < t.soft_deadline(sent, Duration::from_secs(3600)));
            assert!(t.soft_deadline(sent, Duration::from_secs(1)) < t.holder_deadline(sent));
        }
    }

    #[test]
    fn a_lease_below_three_seconds_is_refused() {
        let short = Duration::from_millis(2999);
        assert_eq!(LeaseTiming::new(short), Err(TtlTooShort(short)));
        assert!(LeaseTiming::new(MIN_TTL).is_ok());
    }
}
