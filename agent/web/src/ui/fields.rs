//! What the fields of a page's address are made of.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use crate::Problem;

/// The number of a run.
/// Errors: 400 for what is none.
pub fn run_number(text: &str) -> Result<i64, Problem> {
    text.parse()
        .map_err(|_| Problem::bad_request(format!("{text} is not a valid run number")))
}

/// A field of a form, which may be empty.
pub fn maybe<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    let word = Some(text.trim()).filter(|word| !word.is_empty());
    word.map(|word| word.parse().map_err(de::Error::custom))
        .transpose()
}

/// The line of a table of choices that begins with this word.
/// Errors: 400 for a word that is no choice.
pub fn choice<'a, T>(
    name: &str,
    word: &str,
    table: &'a [T],
    first: fn(&T) -> &str,
) -> Result<&'a T, Problem> {
    let known = table.iter().find(|line| first(line) == word);
    known.ok_or_else(|| {
        let words: Vec<&str> = table.iter().map(first).filter(|word| !word.is_empty()).collect();
        let words = words.join(", ");
        Problem::bad_request(format!("{name}: invalid value {word:?}; expected {words}"))
    })
}
