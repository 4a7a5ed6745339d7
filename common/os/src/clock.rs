//! The one clock that lease decisions use: CLOCK_BOOTTIME, which runs through suspend and never steps.

use std::time::Duration;

use farmhand_core::lease::{BootInstant, CLOCK_RATE_TOLERANCE_PPM};
use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds since boot.
pub fn boot_now() -> BootInstant {
    let t = clock_gettime(ClockId::Boottime);
    BootInstant(u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0))
}

/// Half of the clock rate tolerance (ρ/2): a machine slewed by more expires nobody and holds shorter leases.
pub const SLEW_LIMIT: f64 = CLOCK_RATE_TOLERANCE_PPM as f64 / 2e6;

/// Whether the kernel is slewing this machine's clock by more than `limit` (a fraction, e.g. 5e-4).
///
/// `adjtimex` reports the frequency correction in units of 2⁻¹⁶ ppm and the tick length in µs.
pub fn slewed_beyond(limit: f64) -> bool {
    // SAFETY: adjtimex with modes = 0 only reads into the zeroed struct.
    let tx = unsafe {
        let mut tx: libc::timex = std::mem::zeroed();
        if libc::adjtimex(&raw mut tx) < 0 {
            return false;
        }
        tx
    };
    let frequency = tx.freq as f64 / 65_536.0 / 1e6;
    let tick = (tx.tick as f64 - 10_000.0) / 10_000.0;
    (frequency + tick).abs() > limit
}

/// Sleeps until a boot instant; tokio's own clock stops during suspend, so it looks again at least every second.
pub async fn sleep_until(at: BootInstant) {
    loop {
        let left = at.saturating_since(boot_now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(Duration::from_secs(1))).await;
    }
}
