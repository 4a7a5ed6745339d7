//! From a TOML value to the type a key wants.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::de::DeValue;

use super::{closest, parse_duration, parse_size};

/// Why a value does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong, without the key's name.
    pub what: String,
    pub fix: String,
    /// The offending bytes of a string's value, when it is not all of it.
    pub within: Option<Range<usize>>,
}

impl Wrong {
    /// A value that is wrong as a whole.
    pub fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            fix: fix.into(),
            within: None,
        }
    }

    fn kind(wanted: &str, found: &DeValue<'_>, example: &str) -> Self {
        Self::new(
            format!("expected {wanted}, found {}", article(found.type_str())),
            format!("for example {example}"),
        )
    }
}

fn article(kind: &str) -> String {
    match kind.as_bytes().first() {
        Some(b'a' | b'i') => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// Refuses a value that is not as it should be.
pub fn require(good: bool, what: impl Into<String>, fix: impl Into<String>) -> Result<(), Wrong> {
    match good {
        true => Ok(()),
        false => Err(Wrong::new(what, fix)),
    }
}

/// A string without NUL, which neither an argument nor an environment can hold.
pub fn text(value: &DeValue<'_>) -> Result<String, Wrong> {
    let Some(s) = value.as_str() else {
        return Err(Wrong::kind("a string", value, "\"text\""));
    };
    match s.find('\0') {
        Some(at) => Err(Wrong {
            what: "a NUL character".to_owned(),
            fix: "the operating system cannot pass it on: leave it out".to_owned(),
            within: Some(at..at + 1),
        }),
        None => Ok(s.to_owned()),
    }
}

/// A string with something in it.
pub fn filled(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = text(value)?;
    let fix = "write a value, or leave the key out";
    require(!text.trim().is_empty(), "it is empty", fix)?;
    Ok(text)
}

/// `true` or `false`.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, Wrong> {
    value
        .as_bool()
        .ok_or_else(|| Wrong::kind("true or false", value, "true"))
}

/// An integer within a range.
pub fn integer(range: RangeInclusive<i64>) -> impl Fn(&DeValue<'_>) -> Result<i64, Wrong> {
    move |value| {
        let Some(n) = value.as_integer() else {
            return Err(Wrong::kind("an integer", value, &range.start().to_string()));
        };
        i64::from_str_radix(n.as_str(), n.radix())
            .ok()
            .filter(|n| range.contains(n))
            .ok_or_else(|| {
                Wrong::new(
                    format!("{n} is out of range"),
                    format!("from {} to {}", range.start(), range.end()),
                )
            })
    }
}

/// As [`parse_duration`].
pub fn duration(value: &DeValue<'_>) -> Result<Duration, Wrong> {
    let Some(s) = value.as_str() else {
        let mut wrong = Wrong::kind("a duration", value, "\"90s\", \"5m\", \"1h30m\"");
        if let Some(n) = value.as_integer() {
            wrong.fix = format!("say the unit: \"{n}s\", \"{n}m\", \"{n}h\"");
        }
        return Err(wrong);
    };
    parse_duration(s).map_err(|why| {
        Wrong::new(
            format!("`{s}` is not a valid duration: {why}"),
            "write numbers with units, largest first (w, d, h, m, s, ms): \"90s\", \"5m\", \"1h30m\"",
        )
    })
}

/// A duration longer than nothing.
pub fn positive_duration(value: &DeValue<'_>) -> Result<Duration, Wrong> {
    let duration = duration(value)?;
    let fix = "leave the key out for \"no limit\"";
    require(!duration.is_zero(), "it must be longer than nothing", fix)?;
    Ok(duration)
}

/// As [`parse_size`], in bytes.
pub fn size(value: &DeValue<'_>) -> Result<u64, Wrong> {
    let Some(s) = value.as_str() else {
        let mut wrong = Wrong::kind("a size", value, "\"512MiB\"");
        if let Some(n) = value.as_integer() {
            wrong.fix = format!("say the unit: \"{n}B\", \"{n}KiB\", \"{n}MiB\"");
        }
        return Err(wrong);
    };
    parse_size(s).map_err(|why| {
        Wrong::new(
            format!("`{s}` is not a valid size: {why}"),
            "write a number with a unit (B, KiB, MiB, GiB, kB, MB, GB): \"512MiB\"",
        )
    })
}

/// One of a few words.
pub fn one_of(words: &[&'static str]) -> impl Fn(&DeValue<'_>) -> Result<String, Wrong> {
    move |value| {
        let all = || {
            let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            quoted.join(", ")
        };
        let Some(s) = value.as_str() else {
            return Err(Wrong::kind("a word", value, &all()));
        };
        if words.contains(&s) {
            return Ok(s.to_owned());
        }
        let fix = match closest(s, words.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"? It is one of {}", all()),
            None => format!("it is one of {}", all()),
        };
        Err(Wrong::new(format!("unknown value \"{s}\""), fix))
    }
}
