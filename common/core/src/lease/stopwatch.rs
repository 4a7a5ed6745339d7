//! The challenger's stopwatches. Each starts at the instant at which a reply was *received* and is never
//! carried over a reconnect: the next server may be an older copy of the last.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::timing::BootInstant;

/// One renewal of one lease. A new renewal is another key, so it starts anew by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    pub address: String,
    pub session: i64,
    /// Of the agent that has it.
    pub incarnation: Uuid,
    /// Grows with each renewal.
    pub renewals: i64,
}

/// A named lease that holds what runs wait for, as it shows itself; another after each renewal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedKey {
    pub name: String,
    /// What changes with each renewal.
    pub shown: String,
}

/// Since when each key has been seen without a break, and for how long it must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stopwatch<K: Ord> {
    seen: BTreeMap<K, Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    since: BootInstant,
    wait: Duration,
}

impl<K: Ord> Default for Stopwatch<K> {
    fn default() -> Self {
        Self {
            seen: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Stopwatch<K> {
    /// `rows` is everything the reply showed; what it no longer shows is forgotten. `received` was read
    /// after the reply arrived. `wait` is [`challenge_after`](super::LeaseTiming::challenge_after) or
    /// another length of the *watched* lease; when it changes, the longer one holds.
    pub fn observe(&mut self, received: BootInstant, rows: impl IntoIterator<Item = (K, Duration)>) {
        self.observe_since(rows.into_iter().map(|(key, wait)| (key, received, wait)));
    }

    /// The same where each row says since when it stands; what has been seen before keeps its instant.
    pub fn observe_since(&mut self, rows: impl IntoIterator<Item = (K, BootInstant, Duration)>) {
        let mut before = std::mem::take(&mut self.seen);
        for (key, since, wait) in rows {
            let seen = before.remove(&key).map_or(Seen { since, wait }, |s| Seen {
                since: s.since,
                wait: s.wait.max(wait),
            });
            self.seen.insert(key, seen);
        }
    }

    /// After a reconnect, on another server, or while the own clock is slewed by more than ρ/2.
    pub fn reset(&mut self) {
        self.seen.clear();
    }

    /// The keys whose wait is over. They stay until a reply no longer shows them.
    pub fn ripe(&self, now: BootInstant) -> Vec<K> {
        let ripe = |(k, s): (&K, &Seen)| (s.since + s.wait <= now).then(|| k.clone());
        self.seen.iter().filter_map(ripe).collect()
    }

    /// When the next key that is not ripe yet becomes so.
    pub fn next_wakeup(&self, now: BootInstant) -> Option<BootInstant> {
        self.seen
            .values()
            .map(|s| s.since + s.wait)
            .filter(|&at| at > now)
            .min()
    }

    /// For how long `key` has been seen.
    pub fn age(&self, key: &K, now: BootInstant) -> Option<Duration> {
        self.seen.get(key).map(|s| now.saturating_since(s.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Duration = Duration::from_secs(10);

    fn at(s: u64) -> BootInstant {
        BootInstant(s * 1_000_000_000)
    }

    fn row(renewals: i64) -> (NodeKey, Duration) {
        (
            NodeKey {
                address: "a".into(),
                session: 1,
                incarnation: Uuid::nil(),
                renewals,
            },
            W,
        )
    }

    #[test]
    fn a_session_is_expirable_w_after_its_last_beat_was_first_received() {
        let mut s = Stopwatch::default();
        s.observe(at(1), [row(7)]);
        s.observe(at(6), [row(7)]);
        assert_eq!(s.next_wakeup(at(6)), Some(at(11)));
        assert!(s.ripe(at(10)).is_empty());
        assert_eq!(s.ripe(at(11)), [row(7).0]);
        assert_eq!(s.next_wakeup(at(11)), None);
    }

    #[test]
    fn a_new_beat_starts_the_stopwatch_anew() {
        let mut s = Stopwatch::default();
        s.observe(at(1), [row(7)]);
        s.observe(at(9), [row(8)]);
        assert!(s.ripe(at(18)).is_empty());
        assert_eq!(s.ripe(at(19)), [row(8).0]);
    }

    #[test]
    fn what_vanished_for_one_reply_starts_anew() {
        let mut s = Stopwatch::default();
        s.observe(at(1), [row(7)]);
        s.observe(at(5), []);
        s.observe(at(6), [row(7)]);
        assert!(s.ripe(at(15)).is_empty());
    }

    #[test]
    fn a_longer_wait_replaces_a_shorter_one_but_not_the_reverse() {
        let mut s = Stopwatch::default();
        s.observe(at(0), [(1, W * 2)]);
        s.observe(at(1), [(1, W)]);
        assert_eq!(s.next_wakeup(at(1)), Some(at(20)));
    }
}
