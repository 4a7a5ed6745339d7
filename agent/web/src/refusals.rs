//! Requests that were turned away, written down without letting those who send them fill the table.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use farmhand_telemetry::events::{Event, Events};

/// The first of a kind is written at once, those like it after this long, as one.
const FOLD: Duration = Duration::from_secs(60);
/// Kinds of one stretch that are told apart; what comes beyond them is one kind.
const KINDS: usize = 30;

/// Longest path that is written down, in characters.
const PATH: usize = 200;

/// One refusal, or several of one kind.
#[derive(Clone, Debug)]
pub struct Refused {
    /// One of a closed set; see `docs/reference/metrics.md`.
    pub reason: &'static str,
    /// The token's name, when it is known.
    pub token: Option<String>,
    /// None for those of many addresses.
    pub remote: Option<IpAddr>,
    /// The HTTP method of the latest.
    pub method: String,
    /// Of the latest.
    pub path: String,
    pub times: u64,
}

/// Of a reason and an address; `None` stands for all others.
type Kind = Option<(&'static str, IpAddr)>;

/// Counts each refusal and writes down a bounded number of rows.
pub struct Refusals {
    events: Events,
    folds: Mutex<Folds>,
}

#[derive(Default)]
struct Folds {
    kinds: HashMap<Kind, Option<Refused>>,
    since: Option<Instant>,
}

impl Folds {
    fn note(&mut self, refused: Refused, now: Instant) -> Vec<Refused> {
        let mut told = self.over(now);
        self.since.get_or_insert(now);
        let kind = refused.remote.map(|remote| (refused.reason, remote));
        let kind = if self.kinds.contains_key(&kind) || self.kinds.len() < KINDS {
            kind
        } else {
            None
        };
        match self.kinds.get_mut(&kind) {
            None => {
                self.kinds.insert(kind, None);
                told.push(refused);
            }
            Some(Some(before)) => {
                let times = before.times + refused.times;
                *before = Refused { times, ..refused };
            }
            Some(waiting) => *waiting = Some(refused),
        }
        told
    }

    /// What has waited long enough.
    fn over(&mut self, now: Instant) -> Vec<Refused> {
        if self.since.is_none_or(|since| now < since + FOLD) {
            return Vec::new();
        }
        self.since = None;
        let kinds = std::mem::take(&mut self.kinds);
        kinds
            .into_iter()
            .filter_map(|(kind, waiting)| {
                let remote = kind.map(|(_, remote)| remote);
                waiting.map(|refused| Refused { remote, ..refused })
            })
            .collect()
    }
}

impl Refusals {
    pub fn new(events: Events) -> Self {
        Self {
            events,
            folds: Mutex::default(),
        }
    }

    /// One more.
    pub fn note(&self, refused: Refused) {
        self.events.emit(Event::TurnedAway {
            reason: refused.reason,
        });
        let told = self.folds().note(refused, Instant::now());
        self.tell(told);
    }

    /// Writes down what waits, when it has waited for long enough.
    pub fn look(&self) {
        let told = self.folds().over(Instant::now());
        self.tell(told);
    }

    fn folds(&self) -> std::sync::MutexGuard<'_, Folds> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, told: Vec<Refused>) {
        for refused in told {
            // What others sent must neither steer a terminal nor look like a line of ours.
            let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
            self.events.emit(Event::Refused {
                reason: refused.reason,
                token: refused.token,
                remote: refused.remote,
                method: refused.method,
                path: refused.path.chars().take(PATH).map(plain).collect(),
                times: refused.times,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: &'static str, last: u8) -> Refused {
        Refused {
            reason,
            token: None,
            remote: Some(IpAddr::from([10, 0, 0, last])),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            times: 1,
        }
    }

    #[test]
    fn the_first_of_a_kind_is_told_at_once_and_the_rest_once_a_minute() {
        let (mut folds, now) = (Folds::default(), Instant::now());
        assert_eq!(folds.note(refused("role", 1), now).len(), 1);
        for _ in 0..99 {
            assert!(folds.note(refused("role", 1), now).is_empty());
        }
        assert_eq!(folds.note(refused("no_token", 1), now).len(), 1, "another kind");
        let told = folds.over(now + FOLD);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].times, 99);
        assert!(folds.over(now + FOLD * 2).is_empty());
    }

    #[test]
    fn a_flood_from_everywhere_makes_a_bounded_number_of_rows() {
        let (mut folds, now) = (Folds::default(), Instant::now());
        let rows: usize = (0..=255)
            .map(|last| folds.note(refused("role", last), now).len())
            .sum();
        assert_eq!(rows, KINDS + 1);
        let later = folds.over(now + FOLD);
        assert_eq!(later.iter().map(|r| r.times).sum::<u64>(), 255 - KINDS as u64);
        assert!(later.len() <= KINDS + 1);
    }
}
