//! What the fields of a question are made of.

use std::fmt::Display;
use std::str::FromStr;

use farmhand_store::reading::{MOST, Paging};
use serde::{Deserialize, Deserializer, de};

use crate::Refusal;

/// Errors: 2 for a limit out of its range.
pub(super) fn paging(cursor: Option<&String>, limit: Option<i64>) -> Result<Paging, Refusal> {
    Ok(Paging {
        cursor: cursor.cloned(),
        limit: within("limit", limit, 1, MOST)?,
    })
}

/// Errors: 2 for a number out of its range.
pub fn within(name: &str, value: Option<i64>, least: i64, most: i64) -> Result<Option<i64>, Refusal> {
    match value {
        Some(n) if !(least..=most).contains(&n) => Err(Refusal::not_understood(format!(
            "{name} is {n}, and may be {least} to {most}"
        ))),
        value => Ok(value),
    }
}

/// A text that is not empty.
pub(super) fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// `name=value`; None of an empty text.
/// Errors: 2 for a text without a name or a `=`.
pub fn pair(what: &str, text: Option<&str>) -> Result<Option<(String, String)>, Refusal> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok(Some((name.trim().to_owned(), value.trim().to_owned())))
        }
        _ => Err(Refusal::not_understood(format!(
            "{what}: expected name=value, found {text:?}"
        ))),
    }
}

/// Words with commas between them.
pub(crate) fn words<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    (text.split(',').filter(|word| !word.is_empty()))
        .map(|word| word.parse().map_err(de::Error::custom))
        .collect()
}
