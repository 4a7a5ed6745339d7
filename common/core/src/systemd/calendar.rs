//! `OnCalendar=` as a schedule here. The grammar is that of systemd.time(7); what no schedule can say is refused in words.

use jiff::tz::TimeZone;

/// One calendar expression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Calendar {
    /// Five or six fields.
    pub expression: String,
    /// The zone that it names.
    pub timezone: Option<String>,
    /// The first year, and the last one if there is one.
    pub years: Option<(u32, Option<u32>)>,
}

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// Shorthands, as systemd spells them out.
const WORDS: [(&str, &str); 10] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
];

/// Reads one `OnCalendar=`.
///
/// # Errors
/// What is wrong with it, or what of it no schedule can say.
pub fn on_calendar(text: &str) -> Result<Calendar, String> {
    let text = text.trim();
    if text.starts_with('@') {
        return Err("a number of seconds since 1970 is one single instant".to_owned());
    }
    let (body, timezone) = zone(text);
    let short = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(body));
    let mut rest = short.map_or(body, |(_, full)| full).trim();
    let mut weekdays = EVERY;
    if rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let (days, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        weekdays = weekdays_of(days)?;
        rest = after.trim();
    }
    let (mut date, mut time) = ("", "");
    for part in rest.split_whitespace() {
        match (part.contains(':'), part.contains(['-', '~'])) {
            (true, _) if time.is_empty() => time = part,
            (false, true) if date.is_empty() && time.is_empty() => date = part,
            _ => return Err(format!("\"{part}\" is neither a date nor a time of day")),
        }
    }
    if date.is_empty() && time.is_empty() && (weekdays == EVERY || !rest.is_empty()) {
        return Err(format!("\"{text}\" is not understood"));
    }
    let (years, months, days) = date_of(date)?;
    let (hours, minutes, seconds) = time_of(time)?;
    let (dom, dow) = days_of(&days, weekdays)?;
    let fields = [
        field(minutes, 0, 59),
        field(hours, 0, 23),
        dom,
        field(months, 1, 12),
        dow,
    ];
    let expression = match seconds {
        1 => fields.join(" "),
        set => format!("{} {}", field(set, 0, 59), fields.join(" ")),
    };
    Ok(Calendar {
        expression,
        timezone,
        years,
    })
}

/// A zone stands last: `UTC`, or one that the machine knows.
fn zone(text: &str) -> (&str, Option<String>) {
    if let Some((body, last)) = text.rsplit_once(char::is_whitespace) {
        let named = last.starts_with(|c: char| c.is_ascii_alphabetic());
        if last.eq_ignore_ascii_case("UTC") {
            return (body.trim(), Some("UTC".to_owned()));
        }
        if named && TimeZone::get(last).is_ok() {
            return (body.trim(), Some(last.to_owned()));
        }
    }
    (text, None)
}

/// All seven days.
const EVERY: u64 = 0x7f;

fn weekdays_of(text: &str) -> Result<u64, String> {
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        let known = |day: &&str| name.len() >= 3 && (name == day[..3] || name == **day);
        (WEEKDAYS.iter().position(known)).ok_or_else(|| format!("\"{name}\" is not a weekday"))
    };
    // Monday is the first day of a range.
    let from_monday = |day: usize| (day + 6) % 7;
    let mut set = 0;
    for item in text.trim_end_matches(',').split(',') {
        let (low, high) = item
            .split_once("..")
            .or_else(|| item.split_once('-'))
            .unwrap_or((item, item));
        let (low, high) = (from_monday(day(low)?), from_monday(day(high)?));
        if low > high {
            return Err(format!("the range {item} goes backwards"));
        }
        for day in low..=high {
            set |= 1 << ((day + 1) % 7);
        }
    }
    Ok(set)
}

/// Days of the month: bit n is day n, or with `from_end` the n-th last one.
struct Days {
    set: u64,
    from_end: bool,
}

pub(super) type Years = Option<(u32, Option<u32>)>;

fn date_of(text: &str) -> Result<(Years, u64, Days), String> {
    if text.is_empty() {
        return Ok((
            None,
            full(1, 12),
            Days {
                set: full(1, 31),
                from_end: false,
            },
        ));
    }
    let from_end = text.contains('~');
    let parts: Vec<&str> = text.split(['-', '~']).collect();
    let (year, month, day) = match parts[..] {
        [month, day] => ("*", month, day),
        [year, month, day] => (year, month, day),
        _ => return Err(format!("\"{text}\" is not a date")),
    };
    if text.find('~').is_some_and(|at| text[at..].contains('-')) {
        return Err(format!("\"{text}\" is not a date"));
    }
    let set = if from_end {
        last_days(day)?
    } else {
        chain(day, 1, 31, "day")?
    };
    Ok((
        years_of(year)?,
        chain(month, 1, 12, "month")?,
        Days { set, from_end },
    ))
}

/// `~07/1` counts towards the end of the month: bit n is the n-th last day.
fn last_days(text: &str) -> Result<u64, String> {
    let mut set = 0;
    for item in text.split(',') {
        let Some((start, step)) = item.split_once('/') else {
            set |= chain(item, 1, 31, "day")?;
            continue;
        };
        let (start, step) = (number(start, 1, 31, "day")?, number(step, 1, 31, "step")?);
        let mut day = start;
        loop {
            set |= 1 << day;
            match day.checked_sub(step) {
                Some(next) if next > 0 => day = next,
                _ => break,
            }
        }
    }
    Ok(set)
}

/// One year, or years that follow each other: these become `start` and `end`.
fn years_of(text: &str) -> Result<Years, String> {
    if text == "*" {
        return Ok(None);
    }
    if text.contains([',', '/']) {
        return Err(format!("the years {text} are neither one year nor a range"));
    }
    let year = |text: &str| match number(text, 0, 2199, "year")? {
        n @ 0..=69 => Ok(2000 + n),
        n @ 70..=99 => Ok(1900 + n),
        n @ 1970.. => Ok(n),
        n => Err(format!("{n} is not a year")),
    };
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (year(low)?, year(high)?);
    if low > high {
        return Err(format!("the range {text} goes backwards"));
    }
    Ok(Some((low, Some(high))))
}

fn time_of(text: &str) -> Result<(u64, u64, u64), String> {
    if text.is_empty() {
        return Ok((1, 1, 1));
    }
    let parts: Vec<&str> = text.split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, "0"),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err(format!("\"{text}\" is not a time of day")),
    };
    // `10.5..12` begins at a fraction; the dots of a range are none.
    let fraction = |item: &str| item.replace("..", " ").contains('.');
    if second.split(',').any(fraction) && second.parse::<f64>().map_or(true, |s| s.fract() != 0.0) {
        return Err("it names fractions of a second".to_owned());
    }
    let second = second
        .parse::<f64>()
        .map_or(second.to_owned(), |s| s.trunc().to_string());
    Ok((
        chain(hour, 0, 23, "hour")?,
        chain(minute, 0, 59, "minute")?,
        chain(&second, 0, 59, "second")?,
    ))
}

/// A list of `*`, `n`, `n/step`, `a..b` and `a..b/step`, as a set of bits.
fn chain(text: &str, low: u32, high: u32, what: &str) -> Result<u64, String> {
    if text == "*" {
        return Ok(full(low, high));
    }
    let mut set = 0;
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(number(step, 1, 99, "step")?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once("..") {
            Some((first, last)) => (number(first, low, high, what)?, number(last, low, high, what)?),
            None => {
                let first = number(range, low, high, what)?;
                (first, if step.is_some() { high } else { first })
            }
        };
        if first > last {
            return Err(format!("the range {range} goes backwards"));
        }
        for value in (first..=last).step_by(step.unwrap_or(1) as usize) {
            set |= 1 << value;
        }
    }
    Ok(set)
}

fn number(text: &str, low: u32, high: u32, what: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let found = text
        .parse::<u32>()
        .ok()
        .filter(|n| digits && (low..=high).contains(n));
    found.ok_or_else(|| format!("\"{text}\" is not a valid {what} ({low} to {high})"))
}

/// Here a day of the month and a weekday are joined by "or", unless one of the fields begins with `*`; there by "and".
fn days_of(days: &Days, weekdays: u64) -> Result<(String, String), String> {
    let names = |set: u64| -> Vec<String> {
        let name = |day: usize| WEEKDAYS[day][..3].to_ascii_uppercase();
        // From Monday on, as people write it.
        (1..=7)
            .map(|day| day % 7)
            .filter(|day| set & (1 << day) != 0)
            .map(name)
            .collect()
    };
    let any = "*".to_owned();
    let each = |suffix: &str| -> String {
        let names: Vec<String> = names(weekdays)
            .iter()
            .map(|name| format!("{name}{suffix}"))
            .collect();
        names.join(",")
    };
    let dow = match weekdays {
        EVERY => any.clone(),
        0b011_1110 => "MON-FRI".to_owned(),
        _ => each(""),
    };
    if days.from_end {
        let last = |day: u32| match day {
            1 => "L".to_owned(),
            day => format!("L-{}", day - 1),
        };
        let list: Vec<String> = bits(days.set).map(last).collect();
        return match (weekdays, days.set) {
            (EVERY, _) => Ok((list.join(","), any)),
            (_, 0b1111_1110) => Ok((any, each("L"))),
            _ => Err("a weekday among the last days of a month can only be the last one".to_owned()),
        };
    }
    let dom = field(days.set, 1, 31);
    if weekdays == EVERY || dom.starts_with('*') {
        return Ok((dom, dow));
    }
    // Seven days that begin at 1, 8, 15 or 22 hold each weekday once.
    let week = (0..4).find(|week| days.set == full(1 + 7 * week, 7 + 7 * week));
    match week {
        Some(week) => Ok((any, each(&format!("#{}", week + 1)))),
        None => Err(format!("days of the month ({dom}) that must also be {dow}")),
    }
}

/// As a field is written: `*`, `*/n`, `a/n`, ranges and numbers.
fn field(set: u64, low: u32, high: u32) -> String {
    if set == full(low, high) {
        return "*".to_owned();
    }
    let values: Vec<u32> = bits(set).collect();
    if let [first, second, ..] = values[..] {
        let step = second - first;
        let even = (first..=high).step_by(step as usize).eq(values.iter().copied());
        if even && first == low && step > 1 {
            return format!("*/{step}");
        }
        if even && values.len() > 2 && step > 1 {
            return format!("{first}/{step}");
        }
    }
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < values.len() {
        let mut end = at;
        while values.get(end + 1).is_some_and(|next| *next == values[end] + 1) {
            end += 1;
        }
        if end > at + 1 {
            parts.push(format!("{}-{}", values[at], values[end]));
        } else {
            parts.extend(values[at..=end].iter().map(u32::to_string));
        }
        at = end + 1;
    }
    parts.join(",")
}

fn full(low: u32, high: u32) -> u64 {
    (low..=high).fold(0, |set, value| set | 1 << value)
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| set & (1 << bit) != 0)
}
