//! Who tries first, so that the farm's work does not grow with its square.

use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

/// How many of the live nodes come before `own` in trying for this due instant: 0 tries at once.
/// Highest random weight (Thaler and Ravishankar, 1998) by XXH3 over `job_id`, 0, the microseconds of the
/// due instant (little endian), `address`. Agents of different versions must agree, so it never changes.
pub fn rank(job_id: &str, due_micros: i64, own: &str, live: &[impl AsRef<str>]) -> usize {
    let mine = (weight(job_id, due_micros, own), own);
    live.iter()
        .map(AsRef::as_ref)
        .filter(|&other| other != own && (weight(job_id, due_micros, other), other) > mine)
        .count()
}

/// How long after the due instant a node of this rank tries. Usually it then finds the run taken.
pub fn claim_delay(rank: usize) -> Duration {
    let ms = match rank {
        0 => 0,
        1 => 200,
        2 => 400,
        r => (400 + 100 * (r.min(100) - 2)).min(2000),
    };
    Duration::from_millis(ms as u64)
}

fn weight(job_id: &str, due_micros: i64, address: &str) -> u64 {
    let mut h = Xxh3::new();
    h.update(job_id.as_bytes());
    h.update(&[0]);
    h.update(&due_micros.to_le_bytes());
    h.update(address.as_bytes());
    h.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_instant_are_a_permutation_and_spread_over_the_farm() {
        let live = ["a", "b", "c", "d"];
        let mut first = [0; 4];
        for due in 0..4000 {
            let mut ranks: Vec<_> = live.iter().map(|own| rank("job", due, own, &live)).collect();
            first[ranks.iter().position(|r| *r == 0).unwrap()] += 1;
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2, 3]);
        }
        assert!(first.iter().all(|n| (850..1150).contains(n)), "{first:?}");
    }

    #[test]
    fn a_node_that_leaves_changes_only_the_ranks_behind_it() {
        for due in 0..100 {
            let before = rank("job", due, "a", &["a", "b", "c"]);
            let after = rank("job", due, "a", &["a", "b"]);
            assert!(after == before || after + 1 == before);
        }
    }

    #[test]
    fn the_weight_is_the_same_in_every_version() {
        assert_eq!(weight("stock-mail", 1_794_000_000_000_000, "node-1"), WEIGHT);
    }

    const WEIGHT: u64 = 8_578_649_550_204_348_818;

    #[test]
    fn later_ranks_wait_longer_up_to_two_seconds() {
        let delays: Vec<_> = (0..30).map(claim_delay).collect();
        assert!(delays.is_sorted());
        assert_eq!(delays[29], Duration::from_secs(2));
    }
}
