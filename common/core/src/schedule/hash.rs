//! Stable choices per job: where `H` lands and how far `spread` moves a job.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A source of numbers that depends on the job's name alone, so that every agent and every version agrees.
pub(super) struct JobHash<'a> {
    job: &'a str,
}

impl<'a> JobHash<'a> {
    pub(crate) fn new(job: &'a str) -> Self {
        Self { job }
    }

    /// A number below `limit` for one purpose; XXH3 of the name, seeded with XXH3 of the purpose.
    pub fn below(&self, purpose: &str, limit: u32) -> u32 {
        let seed = xxh3_64_with_seed(purpose.as_bytes(), 0);
        let hash = xxh3_64_with_seed(self.job.as_bytes(), seed);
        // Less than `limit`, so it fits.
        (hash % u64::from(limit.max(1))) as u32
    }
}
