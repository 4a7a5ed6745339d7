//! What the query of a route that reads is made of.

use std::fmt::Display;
use std::str::FromStr;

use farmhand_store::reading::{MOST, Paging};
use serde::{Deserialize, Deserializer, de};
use utoipa::IntoParams;

use crate::Problem;

/// Which page of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Rows wanted; 50 when it is left out.
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl PageQuery {
    pub fn paging(self) -> Result<Paging, Problem> {
        paging(self.cursor, self.limit)
    }
}

/// Errors: 400 for a limit out of its range.
pub fn paging(cursor: Option<String>, limit: Option<i64>) -> Result<Paging, Problem> {
    Ok(Paging {
        cursor,
        limit: within("limit", limit, 1, MOST)?,
    })
}

/// Errors: 400 for a number out of its range.
pub fn within(name: &str, value: Option<i64>, least: i64, most: i64) -> Result<Option<i64>, Problem> {
    match value {
        Some(n) if !(least..=most).contains(&n) => Err(Problem::bad_request(format!(
            "{name} is {n}, and may be {least} to {most}"
        ))),
        value => Ok(value),
    }
}

/// The number of a run.
/// Errors: 400 for what is none.
pub fn run_number(text: &str) -> Result<i64, Problem> {
    text.parse()
        .map_err(|_| Problem::bad_request(format!("{text} is not a valid run number")))
}

/// `name=value`; None of an empty text.
/// Errors: 400 for a text without a name or a `=`.
pub fn pair(what: &str, text: &str) -> Result<Option<(String, String)>, Problem> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok(Some((name.trim().to_owned(), value.trim().to_owned())))
        }
        _ => Err(Problem::bad_request(format!(
            "{what}: expected name=value, found {text:?}"
        ))),
    }
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

/// Words with commas between them.
pub fn words<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    (text.split(',').filter(|word| !word.is_empty()))
        .map(|word| word.parse().map_err(de::Error::custom))
        .collect()
}
