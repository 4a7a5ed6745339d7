//! How often somebody may ask: token buckets, bounded in number.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Requests that a token may send at once, and per second after that.
const REQUESTS: (f64, f64) = (400.0, 100.0);
/// Wrong credentials that an address may send at once, and per second after that.
const GUESSES: (f64, f64) = (20.0, 0.2);
/// Sessions of the page that a token may begin at once, and per second after that: each is a row, an event and an entry of the audit.
const SESSIONS: (f64, f64) = (100.0, 0.2);
/// Callers remembered at most. The fullest bucket is forgotten first: it has the least to remember.
const REMEMBERED: usize = 4_096;

/// Of all requests.
#[derive(Default)]
pub struct Limits {
    requests: Buckets<(i64, String)>,
    guesses: Buckets<IpAddr>,
    sessions: Buckets<i64>,
}

impl Limits {
    /// Takes one of the requests of a token and, behind a trusted proxy, a user; false when there is none left.
    pub fn request(&self, caller: (i64, String)) -> bool {
        self.requests.take(caller, REQUESTS, Instant::now())
    }

    /// Takes one of the sessions that a token may begin; false when there is none left.
    pub fn session(&self, token: i64) -> bool {
        self.sessions.take(token, SESSIONS, Instant::now())
    }

    /// Whether an address may show a credential that is not known yet.
    pub fn may_guess(&self, remote: IpAddr) -> bool {
        self.guesses.left(&network(remote), GUESSES, Instant::now()) >= 1.0
    }

    /// It was wrong.
    pub fn guessed(&self, remote: IpAddr) {
        self.guesses.take(network(remote), GUESSES, Instant::now());
    }
}

/// What counts as one address: of IPv6 the first 64 bits, because one machine may have all addresses that begin so.
pub fn network(remote: IpAddr) -> IpAddr {
    match remote.to_canonical() {
        IpAddr::V6(address) => IpAddr::from((address.to_bits() >> 64 << 64).to_be_bytes()),
        v4 => v4,
    }
}

struct Buckets<K>(Mutex<HashMap<K, (f64, Instant)>>);

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn left(&self, key: &K, (size, rate): (f64, f64), now: Instant) -> f64 {
        let buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refilled(buckets.get(key), size, rate, now)
    }

    fn take(&self, key: K, (size, rate): (f64, f64), now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED && !buckets.contains_key(&key) {
            let full = |b: &(f64, Instant)| refilled(Some(b), size, rate, now);
            let fullest = buckets.iter().max_by(|a, b| full(a.1).total_cmp(&full(b.1)));
            if let Some(key) = fullest.map(|(key, _)| key.clone()) {
                buckets.remove(&key);
            }
        }
        let left = refilled(buckets.get(&key), size, rate, now);
        let granted = left >= 1.0;
        buckets.insert(key, (if granted { left - 1.0 } else { left }, now));
        granted
    }
}

fn refilled(bucket: Option<&(f64, Instant)>, size: f64, rate: f64, now: Instant) -> f64 {
    bucket.map_or(size, |(left, at)| {
        (left + now.saturating_duration_since(*at).as_secs_f64() * rate).min(size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_is_emptied_and_fills_again() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        let take = |at| buckets.take(1, (2.0, 1.0), at);
        assert!(take(now) && take(now) && !take(now));
        assert!(take(now + Duration::from_secs(1)));
        assert!(!take(now + Duration::from_secs(1)));
        assert!(buckets.take(2, (2.0, 1.0), now), "others have their own");
    }

    #[test]
    fn addresses_of_one_ipv6_network_guess_as_one() {
        let limits = Limits::default();
        let of = |text: &str| text.parse().unwrap();
        for host in 1..=20 {
            limits.guessed(of(&format!("2001:db8::{host:x}")));
        }
        assert!(!limits.may_guess(of("2001:db8::ffff:0:0:1")));
        assert!(limits.may_guess(of("2001:db8:0:1::1")));
        assert_eq!(network(of("::ffff:10.0.0.1")), of("10.0.0.1"));
        assert_ne!(network(of("::ffff:10.0.0.1")), network(of("::ffff:10.0.0.2")));
    }

    #[test]
    fn no_more_are_remembered_than_the_bound_and_the_emptiest_stays() {
        let (buckets, now) = (Buckets::default(), Instant::now());
        assert!(buckets.take(0, (1.0, 0.001), now));
        for key in 1..=REMEMBERED {
            buckets.take(key, (2.0, 1.0), now + Duration::from_millis(1));
        }
        assert!(buckets.0.lock().unwrap().len() <= REMEMBERED);
        assert!(!buckets.take(0, (1.0, 0.001), now), "it has used up what it had");
    }
}
