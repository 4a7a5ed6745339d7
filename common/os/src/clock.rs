//! The two clocks: CLOCK_BOOTTIME, which decides, runs through suspend and never steps; and the wall clock, for people.

use std::time::Duration;

use farmhand_core::lease::{BootInstant, CLOCK_RATE_TOLERANCE_PPM};
use rustix::time::{ClockId, clock_gettime};

/// In nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// In nanoseconds.
pub const SECOND: u64 = 1_000 * MILLISECOND;

/// Now, in nanoseconds since boot. No administrator can set it: every deadline in this product is a value of this clock.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The same.
pub fn boot_now() -> BootInstant {
    BootInstant(boottime_ns())
}

/// Wall clock, milliseconds since the epoch. For people to read; nothing is decided with it.
pub fn wall_ms() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
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
