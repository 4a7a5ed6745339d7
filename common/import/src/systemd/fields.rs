//! Sets of values as the fields of a schedule.

use farmhand_core::schedule::WEEKDAYS;

/// All seven days.
pub(super) const EVERY: u64 = 0x7f;

/// Days of the month: bit n is day n, or with `from_end` the n-th last one.
pub(super) struct Days {
    pub set: u64,
    pub from_end: bool,
}

/// Here a day of the month and a weekday are joined by "or", unless one of the fields begins with `*` or the weekday with `+`;
/// there by "and".
pub(super) fn days_of(days: &Days, weekdays: u64) -> (String, String) {
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
            (EVERY, _) => (list.join(","), any),
            (_, 0b1111_1110) => (any, each("L")),
            _ => (list.join(","), format!("+{dow}")),
        };
    }
    let dom = field(days.set, 1, 31);
    if weekdays == EVERY || dom.starts_with('*') {
        return (dom, dow);
    }
    // Seven days that begin at 1, 8, 15 or 22 hold each weekday once.
    let week = (0..4).find(|week| days.set == full(1 + 7 * week, 7 + 7 * week));
    match week {
        Some(week) => (any, each(&format!("#{}", week + 1))),
        None => (dom, format!("+{dow}")),
    }
}

/// As a field is written: `*`, `*/n`, `a/n`, ranges and numbers.
pub(super) fn field(set: u64, low: u32, high: u32) -> String {
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

pub(super) fn full(low: u32, high: u32) -> u64 {
    (low..=high).fold(0, |set, value| set | 1 << value)
}

fn bits(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| set & (1 << bit) != 0)
}
