//! Who watches whom, and who tries first. Both keep the farm's work from growing with its square.

use std::collections::BTreeSet;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

/// How many unsuspected neighbours each agent watches.
pub const WATCHED_NEIGHBOURS: usize = 3;

/// How many open nodes after its own address an agent asks for: a neighbour that seems dead watches
/// nobody, so one more is watched in its place.
pub fn watch_count(suspects: usize) -> usize {
    WATCHED_NEIGHBOURS + suspects
}

/// The nodes that `own` watches among the open ones: in address order after its own, wrapping around,
/// until `WATCHED_NEIGHBOURS` of them are not suspects. A farm of up to four is watched by everybody.
pub fn neighbours<'a>(own: &str, open: &BTreeSet<&'a str>, suspects: &BTreeSet<&str>) -> Vec<&'a str> {
    let after = open.iter().filter(|a| **a > own);
    let before = open.iter().filter(|a| **a < own);
    let mut unsuspected = 0;
    after
        .chain(before)
        .take_while(|a| {
            let wanted = unsuspected < WATCHED_NEIGHBOURS;
            unsuspected += usize::from(!suspects.contains(**a));
            wanted
        })
        .copied()
        .collect()
}

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
    fn neighbours_follow_in_address_order_and_wrap_around() {
        let open = BTreeSet::from(["a", "b", "c", "d", "e"]);
        assert_eq!(neighbours("d", &open, &BTreeSet::new()), ["e", "a", "b"]);
        assert_eq!(neighbours("dd", &open, &BTreeSet::new()), ["e", "a", "b"]);
    }

    #[test]
    fn a_suspect_is_watched_together_with_one_more() {
        let open = BTreeSet::from(["a", "b", "c", "d", "e"]);
        assert_eq!(
            neighbours("a", &open, &BTreeSet::from(["c"])),
            ["b", "c", "d", "e"]
        );
    }

    #[test]
    fn a_small_farm_is_watched_whole() {
        let open = BTreeSet::from(["a", "b", "c", "d"]);
        assert_eq!(neighbours("c", &open, &BTreeSet::from(["a"])), ["d", "a", "b"]);
        assert!(neighbours("a", &BTreeSet::from(["a"]), &BTreeSet::new()).is_empty());
    }

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
