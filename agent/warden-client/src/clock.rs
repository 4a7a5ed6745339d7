//! The two clocks: one that decides, one for people.

/// CLOCK_BOOTTIME in nanoseconds. It goes on through suspend and no administrator can set it: every deadline
/// in this product is a value of this clock.
pub fn boottime_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Wall clock, milliseconds since the epoch. For people to read; nothing is decided with it.
pub fn wall_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// In nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// In nanoseconds.
pub const SECOND: u64 = 1_000 * MILLISECOND;
