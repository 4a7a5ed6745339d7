//! Renewals and polls in any order: does [`Silence`](super::Silence) ever start a stopwatch too early?

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::{BootInstant, LeaseTiming, MarksBelow, NodeKey, Silence, SilentNode};

fn at(ms: u64) -> BootInstant {
    BootInstant(ms * 1_000_000)
}

fn node(address: String, mark: i64, renewals: i64) -> SilentNode {
    SilentNode {
        key: NodeKey {
            address,
            session: 1,
            incarnation: Uuid::nil(),
            renewals,
        },
        mark,
        lease: LeaseTiming::new(Duration::from_secs(10)).unwrap(),
    }
}

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below
}

/// A server whose renewals draw their number, wait and commit in any order; other transactions beside them.
#[derive(Default)]
struct Server {
    next: i64,
    /// Number to node and time of sending.
    under_way: BTreeMap<i64, (usize, u64)>,
    /// Committed: renewals, mark, and when the latest sent of its renewals was sent.
    rows: [(i64, i64, u64); 4],
    /// The last one committed, plus one.
    committed: i64,
}

impl Server {
    fn renew(&mut self, node: usize, now: u64) {
        self.under_way.insert(self.next, (node, now));
        self.next += 1;
    }

    fn commit(&mut self, number: i64, keep_greatest: bool) {
        let (node, sent) = self.under_way.remove(&number).unwrap();
        let (renewals, mark, latest) = &mut self.rows[node];
        *renewals += 1;
        *mark = if keep_greatest { number.max(*mark) } else { number };
        *latest = sent.max(*latest);
        self.committed = self.committed.max(number + 1);
    }

    fn poll(&self, ask: &MarksBelow) -> (i64, Vec<SilentNode>) {
        let largest = self.rows.iter().map(|r| r.1).max().unwrap();
        let below = |mark: i64| {
            let class = ask.ttls.iter().position(|ttl| 10_000 < *ttl);
            class.is_some_and(|class| mark < ask.marks[class]) || mark >= self.committed
        };
        let silent = self.rows.iter().enumerate().filter(|(_, r)| below(r.1));
        let shown = silent.map(|(n, (renewals, mark, _))| node(n.to_string(), *mark, *renewals));
        (self.committed.min(largest + 1), shown.collect())
    }
}

/// How many expiries would come before W after the latest sending that had committed, of how many.
fn too_early(seed: u64, keep_greatest: bool) -> (usize, usize) {
    let (mut random, mut server, mut silence) = (seed, Server::default(), Silence::default());
    let (mut early, mut all) = (0, 0);
    let mut reply: Option<(i64, Vec<SilentNode>)> = None;
    for ms in (0..120_000).step_by(50) {
        for node in 0..4 {
            // Silent for longer and longer, and two renewals at once.
            if draw(&mut random, 60 + ms / 200) == 0 {
                server.renew(node, ms);
            }
        }
        let under_way: Vec<i64> = server.under_way.keys().copied().collect();
        for number in under_way {
            if draw(&mut random, 12) == 0 {
                server.commit(number, keep_greatest);
            }
        }
        if draw(&mut random, 20) == 0 && reply.is_none() {
            reply = Some(server.poll(&silence.ask(at(ms))));
        } else if draw(&mut random, 3) == 0
            && let Some((above, silent)) = reply.take()
        {
            silence.heard("a", at(ms), above, None, silent);
        }
        for (key, _) in silence.ripe(at(ms)) {
            let (renewals, _, sent) = server.rows[key.address.parse::<usize>().unwrap()];
            // The compare-and-swap.
            if key.renewals == renewals {
                all += 1;
                early += usize::from(ms < sent + 10_200);
            }
        }
    }
    (early, all)
}

#[test]
fn whatever_the_order_nobody_is_expired_before_w_after_the_last_sending() {
    let mut all = 0;
    for seed in 0..300 {
        let (early, ripe) = too_early(seed, true);
        assert_eq!(early, 0, "seed {seed}");
        all += ripe;
    }
    assert!(all > 1_000, "{all}");
}

/// A renewal that was overtaken must not take the mark back.
#[test]
fn with_marks_that_go_back_somebody_is() {
    assert!((0..300).any(|seed| too_early(seed, false).0 > 0));
}
