//! What a stream reports: how far it has come, for the next attempt and for people. One line of JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::tail::fnv1a;
use crate::defaults::with_defaults;

/// So many lines above the lowest unfinished one may be begun: a bound on memory and on the checkpoint.
pub const WINDOW: usize = 4096;

/// The descriptor on which a command reports how far it has come.
pub const PROGRESS_FD: i32 = 3;
/// Bytes of a checkpoint, at most. With its newline it then goes into a pipe in one piece (PIPE_BUF).
pub const MAX_CHECKPOINT: usize = 4095;
/// Bytes of a text in it.
const MAX_TEXT: usize = 200;
/// Lines in `now`.
const MAX_NOW: usize = 16;

with_defaults! {
    /// Where another attempt goes on, and what is shown of this one.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Checkpoint {
        /// The lowest unfinished line, from 1.
        pub line: u64 = 1,
        /// The byte at which it begins.
        pub at: u64,
        /// Of the bytes before that: whether the list is still the same.
        #[serde(with = "hex")]
        pub mark: u64 = fnv1a(b""),
        /// Of the list's name; 0 for what has none.
        #[serde(default, with = "hex")]
        pub list: u64,
        /// Lines from `line` on that are finished, four to a digit, the first in its highest bit.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub(super) done: String,
        /// Failures of lines that are not finished, as distances from `line`.
        #[serde(
            default,
            skip_serializing_if = "BTreeMap::is_empty",
            rename = "tries",
            with = "relative"
        )]
        pub failures: BTreeMap<u64, u32>,
        #[serde(rename = "ok")]
        pub succeeded: u64,
        pub failed: u64,
        /// Lines that are under way, the lowest of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub now: Vec<u64>,
        /// Lines in a second, of late.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub rate: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub waits: Option<String>,
        /// Why it ended before its time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
    }
}

/// It is none of ours.
#[derive(Debug, thiserror::Error)]
#[error("the stream's checkpoint cannot be read: {0}")]
pub struct BadCheckpoint(#[from] serde_json::Error);

impl Checkpoint {
    /// The beginning of the list with this name.
    pub fn of(list: u64) -> Self {
        Self {
            list,
            ..Self::default()
        }
    }

    /// Reads what [`Self::text`] wrote.
    pub fn parse(text: &str) -> Result<Self, BadCheckpoint> {
        let mut read: Self = serde_json::from_str(text)?;
        read.line = read.line.max(1);
        let line = read.line;
        read.failures = read
            .failures
            .into_iter()
            .map(|(n, f)| (line.saturating_add(n), f))
            .collect();
        Ok(read)
    }

    /// One line, short enough to be reported.
    pub fn text(&self) -> String {
        let mut shown = self.clone();
        shown.failures = self
            .failures
            .iter()
            .map(|(n, f)| (n.saturating_sub(self.line), *f))
            .collect();
        shown.now.truncate(MAX_NOW);
        for text in [&mut shown.waits, &mut shown.why].into_iter().flatten() {
            *text = shortened(text);
        }
        // Plain data: nothing of it can fail.
        let text = serde_json::to_string(&shown).unwrap_or_default();
        if text.len() <= MAX_CHECKPOINT {
            return text;
        }
        // What can be lost: some lines get more tries than they should.
        shown.failures.clear();
        serde_json::to_string(&shown).unwrap_or_default()
    }

    pub(super) fn with_finished(mut self, lines: impl Iterator<Item = u64>) -> Self {
        let mut digits = Vec::new();
        for line in lines {
            let Some(distance) = line.checked_sub(self.line).and_then(|d| usize::try_from(d).ok()) else {
                continue;
            };
            if distance < WINDOW {
                if digits.len() <= distance / 4 {
                    digits.resize(distance / 4 + 1, 0u8);
                }
                digits[distance / 4] |= 8 >> (distance % 4);
            }
        }
        self.done = digits
            .iter()
            .map(|d| char::from(b"0123456789abcdef"[usize::from(*d)]))
            .collect();
        self
    }

    /// Every line that is done. For looking at one; a long list has many.
    pub fn finished(&self) -> BTreeSet<u64> {
        (1..self.line).chain(self.finished_above()).collect()
    }

    pub(super) fn finished_above(&self) -> BTreeSet<u64> {
        let digits = self
            .done
            .chars()
            .map(|c| c.to_digit(16).unwrap_or(0))
            .take(WINDOW / 4);
        let bits = digits.flat_map(|digit| (0..4).map(move |bit| digit & (8 >> bit) != 0));
        (self.line..)
            .zip(bits)
            .filter_map(|(line, done)| done.then_some(line))
            .collect()
    }
}

fn is_zero(rate: &f64) -> bool {
    *rate == 0.0
}

fn shortened(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if clean.len() <= MAX_TEXT {
        return clean;
    }
    let end = (0..MAX_TEXT - 3).rev().find(|at| clean.is_char_boundary(*at));
    format!("{}…", &clean[..end.unwrap_or(0)])
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &u64, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{number:x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        u64::from_str_radix(&String::deserialize(d)?, 16).map_err(D::Error::custom)
    }
}

/// `3:1,7:2`.
mod relative {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<u64, u32>, s: S) -> Result<S::Ok, S::Error> {
        let list: Vec<String> = map.iter().map(|(n, f)| format!("{n}:{f}")).collect();
        s.serialize_str(&list.join(","))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<u64, u32>, D::Error> {
        let text = String::deserialize(d)?;
        let pair = |word: &str| {
            let (n, f) = word.split_once(':')?;
            Some((n.parse().ok()?, f.parse().ok()?))
        };
        let read = text
            .split(',')
            .filter(|word| !word.is_empty())
            .map(pair)
            .collect::<Option<_>>();
        read.ok_or_else(|| D::Error::custom("wrong tries"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_written() {
        let mut one = Checkpoint {
            line: 7,
            at: 99,
            mark: u64::MAX,
            failures: BTreeMap::from([(9, 2), (12, 1)]),
            now: vec![7, 9],
            rate: 1.5,
            waits: Some("for /l".to_owned()),
            ..Checkpoint::default()
        };
        one = one.with_finished([8, 10, 11, 7 + 4095].into_iter());
        let read = Checkpoint::parse(&one.text()).unwrap();
        assert_eq!(read, one);
        assert_eq!(read.finished_above(), BTreeSet::from([8, 10, 11, 4102]));
        assert!(Checkpoint::parse("60").is_err() && Checkpoint::parse("{}").is_err());
    }

    #[test]
    fn the_longest_one_can_be_reported() {
        let line = u64::MAX - 1_000_000;
        let far = (0..128).map(|n| (line + 3_900 + n, 100));
        let one = Checkpoint {
            line,
            at: u64::MAX,
            mark: u64::MAX,
            list: u64::MAX,
            failures: far.collect(),
            succeeded: u64::MAX,
            failed: u64::MAX,
            now: vec![u64::MAX; 64],
            rate: 123_456.7,
            waits: Some("\"\\é".repeat(500)),
            why: Some("\u{1}\"\"".repeat(500)),
            ..Checkpoint::default()
        };
        let text = one.with_finished((0..WINDOW as u64).map(|n| line + n)).text();
        assert!(text.len() <= MAX_CHECKPOINT, "{}", text.len());
        assert!(!text.contains('\n'));
        assert!(Checkpoint::parse(&text).is_ok());
    }
}
