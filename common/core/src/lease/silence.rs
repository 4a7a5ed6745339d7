//! Which nodes are silent, and since when: one poll sees them all.
//!
//! Each renewal leaves its transaction's number in the node's row, the *mark*. A poll returns a number X that is above
//! every number that its snapshot shows as committed. Numbers are drawn in order, after the statement that draws them has
//! arrived, so a mark below X says: that renewal was *sent* before X was *received*. The poll therefore has to
//! return only nodes whose mark lies below an X that is older than a renewal is ever late, and their stopwatch
//! starts at the receipt of the oldest X above the mark.

use std::collections::VecDeque;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::stopwatch::{NodeKey, Stopwatch};
use super::timing::{BootInstant, LeaseTiming};

/// Older ones say no more about any lease: a node is returned after 15 s at the latest, and the poll after it.
const KEPT: Duration = Duration::from_secs(30);
/// Polls that follow each other faster count as one, so that their number is bounded.
const APART: Duration = Duration::from_millis(200);
/// What the agents that see a node silent wait beyond W, each its own part of it.
pub const EXPIRE_SPREAD: Duration = Duration::from_millis(100);
/// Between two polls for ends of stopwatches: of half a farm that dies, each agent polls for many at once.
pub const POLLS_APART: Duration = Duration::from_millis(150);

/// An open node as a poll returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentNode {
    /// The session, and its last renewal.
    pub key: NodeKey,
    /// Grows with each renewal.
    pub mark: i64,
    pub lease: LeaseTiming,
}

/// What a poll asks for: nodes with a lease below `ttls[0]` whose mark is below `marks[0]`, those below `ttls[1]`
/// whose mark is below `marks[1]`, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarksBelow {
    /// In milliseconds, ascending.
    pub ttls: Vec<i64>,
    /// Descending: the longer the lease, the older the mark that is late.
    pub marks: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Received {
    above: i64,
    at: BootInstant,
}

/// One agent's view of who is silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Silence {
    /// Ascending in both.
    received: VecDeque<Received>,
    nodes: Stopwatch<NodeKey>,
    /// The shortest lease of an open node.
    shortest: Option<LeaseTiming>,
}

impl Silence {
    /// For the next poll. A node whose renewal is late by half an interval is returned; a longer lease renews more seldom.
    pub fn ask(&self, now: BootInstant) -> MarksBelow {
        let mut ask = MarksBelow::default();
        for r in self.received.iter().rev() {
            let ttl = longest_late_by(now.saturating_since(r.at));
            if ask.ttls.last().is_none_or(|last| *last < ttl) {
                ask.ttls.push(ttl);
                ask.marks.push(r.above);
            }
        }
        ask
    }

    /// A poll was answered. `above` is its X, `shortest` the farm's shortest lease, and `silent` all that it returned;
    /// `received` was read after the reply arrived.
    pub fn heard(
        &mut self,
        own: &str,
        received: BootInstant,
        above: i64,
        shortest: Option<LeaseTiming>,
        silent: impl IntoIterator<Item = SilentNode>,
    ) {
        self.shortest = shortest;
        self.note(above, received);
        let ring = &self.received;
        let rows = silent.into_iter().map(|node| {
            let since = ring.iter().find(|r| r.above > node.mark);
            let wait = node.lease.challenge_after() + spread(own, &node.key);
            // A mark above every X is another server's: from this reply on it is watched by its count of renewals alone.
            (node.key, since.map_or(received, |r| r.at), wait)
        });
        self.nodes.observe_since(rows);
    }

    /// After an outage, on another server, or while the own clock is slewed by more than ρ/2: numbers may be given anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The sessions that may be expired, and for how long each has been silent.
    pub fn ripe(&self, now: BootInstant) -> Vec<(NodeKey, Duration)> {
        let aged = |key: NodeKey| {
            let age = self.nodes.age(&key, now).unwrap_or_default();
            (key, age)
        };
        self.nodes.ripe(now).into_iter().map(aged).collect()
    }

    /// When the first stopwatch ends that may make a session ripe.
    pub fn next_wakeup(&self, now: BootInstant) -> Option<BootInstant> {
        self.nodes.next_wakeup(now)
    }

    /// When to poll next, after an answer received at `received`: often enough for the farm's shortest lease, and when the
    /// next stopwatch ends.
    pub fn next_poll(&self, received: BootInstant, own: LeaseTiming, told: bool) -> BootInstant {
        let shortest = self
            .shortest
            .map_or(own, |other| if other.ttl() < own.ttl() { other } else { own });
        let regular = received + shortest.poll_every(told);
        let ripens = self.next_wakeup(received);
        ripens.map_or(regular, |at| regular.min(at.max(received + POLLS_APART)))
    }

    fn note(&mut self, above: i64, at: BootInstant) {
        // What an older one says already, from earlier on.
        if self.received.back().is_some_and(|last| last.above >= above) {
            return;
        }
        if let [.., before, _] = self.received.make_contiguous()
            && at.saturating_since(before.at) < APART
        {
            self.received.pop_back();
        }
        self.received.push_back(Received { above, at });
        while self
            .received
            .get(1)
            .is_some_and(|next| at.saturating_since(next.at) > KEPT)
        {
            self.received.pop_front();
        }
    }
}

/// The TTL, in milliseconds, of the longest lease for which `age` is 1.5 renewal intervals. A renewal comes after a quarter of
/// the lease at the latest, and after ten seconds.
fn longest_late_by(age: Duration) -> i64 {
    if age >= Duration::from_secs(15) {
        return i64::MAX;
    }
    i64::try_from(age.as_millis() * 8 / 3).unwrap_or(i64::MAX)
}

/// This agent's part of [`EXPIRE_SPREAD`] for this silence.
fn spread(own: &str, key: &NodeKey) -> Duration {
    let mut h = Xxh3::new();
    h.update(own.as_bytes());
    h.update(&[0]);
    h.update(key.address.as_bytes());
    h.update(&key.session.to_le_bytes());
    h.update(&key.renewals.to_le_bytes());
    let most = u64::try_from(EXPIRE_SPREAD.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(h.digest() % most)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant(ms * 1_000_000)
    }

    fn node(mark: i64, renewals: i64) -> SilentNode {
        SilentNode {
            key: NodeKey {
                address: "b".into(),
                session: 1,
                incarnation: Uuid::nil(),
                renewals,
            },
            mark,
            lease: LeaseTiming::new(Duration::from_secs(10)).unwrap(),
        }
    }

    /// When the node of the last reply may be expired, without the spread.
    fn ripens(polls: &[(u64, i64)], last: SilentNode) -> u64 {
        let mut silence = Silence::default();
        for (ms, above) in polls {
            silence.heard("a", at(*ms), *above, None, []);
        }
        let (ms, above) = *polls.last().unwrap();
        let spread = spread("a", &last.key);
        silence.heard("a", at(ms), above, None, [last]);
        let wakeup = silence.next_wakeup(at(ms)).unwrap();
        (wakeup - spread).0 / 1_000_000
    }

    #[test]
    fn a_stopwatch_starts_at_the_oldest_receipt_above_the_mark() {
        let polls = [(1_000, 10), (3_000, 20), (5_000, 30), (7_000, 40)];
        for (mark, since) in [(9, 1_000), (10, 3_000), (19, 3_000), (20, 5_000), (39, 7_000)] {
            assert_eq!(ripens(&polls, node(mark, 1)), since + 10_200, "{mark}");
        }
    }

    #[test]
    fn a_mark_of_another_server_is_watched_from_the_reply_that_shows_it() {
        let polls = [(1_000, 10), (3_000, 20)];
        assert_eq!(ripens(&polls, node(20, 1)), 13_200);
        assert_eq!(ripens(&polls, node(1_000_000, 1)), 13_200);
    }

    #[test]
    fn a_quiet_database_draws_no_numbers_and_is_no_reason_to_wait() {
        let polls = [(1_000, 10), (3_000, 10), (5_000, 10), (9_000, 10)];
        assert_eq!(ripens(&polls, node(9, 1)), 11_200);
    }

    #[test]
    fn the_stopwatch_of_a_new_beat_is_another_one() {
        let mut silence = Silence::default();
        silence.heard("a", at(1_000), 10, None, []);
        silence.heard("a", at(5_000), 20, None, [node(5, 1)]);
        silence.heard("a", at(9_000), 30, None, [node(22, 2)]);
        assert!(silence.ripe(at(19_000)).is_empty());
        let (ripe, silent) = silence.ripe(at(19_500)).pop().unwrap();
        assert_eq!((ripe.renewals, silent), (2, Duration::from_millis(10_500)));
    }

    #[test]
    fn after_a_reset_nothing_older_counts() {
        let mut silence = Silence::default();
        silence.heard("a", at(1_000), 10, None, [node(5, 1)]);
        silence.reset();
        assert_eq!(silence.ask(at(30_000)), MarksBelow::default());
        silence.heard("a", at(9_000), 10, None, [node(5, 1)]);
        assert!(silence.ripe(at(19_000)).is_empty());
    }

    #[test]
    fn a_poll_asks_for_marks_older_than_a_renewal_is_ever_late() {
        let mut silence = Silence::default();
        for s in 0..12 {
            silence.heard("a", at(s * 2_000), i64::try_from(s).unwrap() * 10, None, []);
        }
        let ask = silence.ask(at(22_000));
        assert!(ask.ttls.is_sorted() && ask.marks.iter().rev().is_sorted());
        let below = |ttl: i64| {
            let class = ask.ttls.iter().position(|t| ttl < *t);
            class.map(|class| ask.marks[class])
        };
        for ms in (8_000..120_000).step_by(100) {
            let lease = LeaseTiming::new(Duration::from_millis(ms)).unwrap();
            let mark = below(i64::try_from(ms).unwrap()).unwrap();
            let age = Duration::from_millis(22_000 - u64::try_from(mark).unwrap() * 200);
            assert!(age * 2 >= lease.renew_every() * 3, "{lease:?}: {age:?}");
            assert!(
                age + lease.poll_every(true) < lease.challenge_after(),
                "{lease:?}: {age:?}"
            );
        }
    }

    #[test]
    fn polls_in_quick_succession_are_bounded_and_start_no_stopwatch_earlier() {
        let mut silence = Silence::default();
        for ms in 0..100_000_u64 {
            silence.heard("a", at(ms), i64::try_from(ms).unwrap(), None, []);
        }
        assert!(silence.received.len() <= 310, "{}", silence.received.len());
        for mark in (75_000..99_000).step_by(37) {
            let since = silence.received.iter().find(|r| r.above > mark).unwrap().at;
            let exact = at(u64::try_from(mark).unwrap() + 1);
            assert!(since >= exact && since <= exact + APART, "{mark}");
        }
    }

    #[test]
    fn agents_act_one_after_the_other() {
        let key = node(1, 1).key;
        let mut parts: Vec<_> = (0..200).map(|n| spread(&format!("n{n}"), &key)).collect();
        parts.sort_unstable();
        assert!(parts[0] < Duration::from_millis(10) && parts[199] < EXPIRE_SPREAD);
        assert!(parts[199] > Duration::from_millis(90));
    }
}
