//! Randomness for jitter. Nothing secret hangs on it.

use uuid::Uuid;

/// Uniform over all of `u64`, from the operating system.
pub fn random() -> u64 {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    // A version-4 UUID fixes four bits in the middle of the first half and two at the start of the second.
    (high & 0xffff_ffff_ffff_0000) | (low & 0xffff)
}
