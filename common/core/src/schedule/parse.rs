//! One expression: a macro or five or six fields.

use super::cron::{Cron, Days};
use super::error::{Fault, NEVER};
use super::field::{self, DAY_OF_MONTH, DAY_OF_WEEK, HOUR, Kind, MINUTE, MONTH, SECOND};
use super::hash::JobHash;
use super::interval;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Cron(Cron),
    /// Multiples of this many seconds since the Unix epoch.
    Every(i64),
    Reboot,
    Continuous,
}

const MACROS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

pub(super) fn parse(text: &str, hash: &JobHash) -> Result<Rule, Fault> {
    let words = words(text);
    let Some(&(at, first)) = words.first() else {
        return Err(Fault::whole(
            0,
            "the expression is empty",
            "write five fields such as 5 4 * * *, or @daily",
        ));
    };
    if !first.starts_with('@') {
        return cron(text, &words, hash).map(Rule::Cron);
    }
    let lower = first.to_ascii_lowercase();
    if lower == "@every" {
        let after = text.trim_start()[first.len()..].trim_start();
        return interval::parse(after, text.chars().count() - after.chars().count()).map(Rule::Every);
    }
    if let Some((extra, _)) = words.get(1) {
        return Err(Fault::whole(
            *extra,
            format!("{first} stands alone"),
            "remove what follows",
        ));
    }
    match lower.as_str() {
        "@reboot" => Ok(Rule::Reboot),
        "@continuous" => Ok(Rule::Continuous),
        _ => match MACROS.iter().find(|(name, _)| *name == lower) {
            Some((_, fields)) => cron(fields, &self::words(fields), hash).map(Rule::Cron),
            None => Err(Fault::whole(
                at,
                format!("{first} is not a valid macro"),
                "there are @yearly @annually @monthly @weekly @daily @midnight @hourly @reboot @continuous and @every",
            )),
        },
    }
}

fn cron(text: &str, words: &[(usize, &str)], hash: &JobHash) -> Result<Cron, Fault> {
    let kinds: &[Kind] = match words.len() {
        5 => &[MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK],
        6 => &[SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK],
        found => {
            let at = words.get(6).map_or(text.trim_end().chars().count(), |w| w.0);
            return Err(Fault::whole(
                at,
                format!("{found} fields where 5 or 6 are needed"),
                "write minute hour day-of-month month day-of-week, with seconds before them if wanted",
            ));
        }
    };
    let mut fields = Vec::with_capacity(6);
    for (kind, (at, word)) in kinds.iter().zip(words) {
        fields.push(field::parse(kind, word, *at, hash)?);
    }
    let with_seconds = fields.len() == 6;
    let mut fields = fields.into_iter();
    let second = if with_seconds {
        fields.next().map_or(0, |f| f.set)
    } else {
        1
    };
    let mut next = || fields.next().unwrap_or_default();
    let (minute, hour, dom, month, dow) = (next(), next(), next(), next(), next());
    let cron = Cron {
        second,
        minute: minute.set,
        hour: hour.set as u32,
        month: month.set as u16,
        days: Days {
            dom: dom.set as u32,
            dow: dow.set as u8,
            dow_last: dow.special.dow_last,
            dow_nth: dow.special.dow_nth,
            both: dom.both || dow.both,
            ..dom.special
        },
        wildcard: minute.interval || hour.interval,
    };
    if !cron.can_fire() {
        let (at, mut day) = words[kinds.len() - 3];
        let (_, weekday) = words[kinds.len() - 1];
        let pair = format!("{day} {weekday}");
        if weekday.starts_with('+') {
            day = &pair;
        }
        return Err(Fault {
            field: Some(DAY_OF_MONTH.name),
            at,
            problem: format!("{NEVER}: no month it names has such a day ({day})"),
            fix: "use L for the last day of a month, or name a month that has the day".to_owned(),
        });
    }
    Ok(cron)
}

/// The words and where each begins, in characters.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::with_capacity(6);
    let mut start = None;
    for (position, (byte, c)) in text.char_indices().enumerate() {
        match (start, c.is_whitespace()) {
            (None, false) => start = Some((position, byte)),
            (Some((at, from)), true) => {
                words.push((at, &text[from..byte]));
                start = None;
            }
            _ => {}
        }
    }
    if let Some((at, from)) = start {
        words.push((at, &text[from..]));
    }
    words
}
