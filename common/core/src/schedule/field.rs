//! One field of a cron expression: lists, ranges, steps, names, `H`, and the day fields' `L W #`.

use std::ops::RangeInclusive;

use super::civil::{MONTHS, WEEKDAYS};
use super::cron::Days;
use super::error::Fault;
use super::hash::JobHash;

/// What a field may hold. `high` is the largest number written, so 7 for day-of-week.
pub(super) struct Kind {
    pub name: &'static str,
    limits: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
    /// The range that a bare `H` picks from.
    hashed: (u32, u32),
}

impl Kind {
    const fn new(name: &'static str, limits: &'static str, low: u32, high: u32) -> Self {
        Self {
            name,
            limits,
            low,
            high,
            names: &[],
            hashed: (low, high),
        }
    }
}

pub(super) const SECOND: Kind = Kind::new("second", "seconds are 0-59", 0, 59);
pub(super) const MINUTE: Kind = Kind::new("minute", "minutes are 0-59", 0, 59);
pub(super) const HOUR: Kind = Kind::new("hour", "hours are 0-23", 0, 23);
/// `H` stays within days that every month has.
pub(super) const DAY_OF_MONTH: Kind = Kind {
    hashed: (1, 28),
    ..Kind::new("day-of-month", "days of the month are 1-31", 1, 31)
};
pub(super) const MONTH: Kind = Kind {
    names: &MONTHS,
    ..Kind::new("month", "months are 1-12 or JAN-DEC", 1, 12)
};
pub(super) const DAY_OF_WEEK: Kind = Kind {
    names: &WEEKDAYS,
    hashed: (0, 6),
    ..Kind::new(
        "day-of-week",
        "weekdays are 0-7 (0 and 7 are Sunday) or SUN-SAT",
        0,
        7,
    )
};

#[derive(Default)]
pub(super) struct Field {
    /// Bit n: value n. Sunday is bit 0.
    pub set: u64,
    /// A day must satisfy both day fields: the text begins with `*` or `?` (Vixie's rule), or that of the weekday with `+`.
    pub both: bool,
    /// The text begins with `*`, `n/step` or `H/step`: an interval and not a fixed time.
    pub interval: bool,
    /// The special days found here; only its own half is filled in.
    pub special: Days,
}

/// Reads one field; `text` stands at character `at` of its expression.
pub(super) fn parse(kind: &Kind, text: &str, at: usize, hash: &JobHash) -> Result<Field, Fault> {
    let plus = kind.name == DAY_OF_WEEK.name && text.starts_with('+');
    let text = &text[usize::from(plus)..];
    let mut field = Field {
        both: plus || text.starts_with(['*', '?']),
        ..Field::default()
    };
    let mut item_at = at + usize::from(plus);
    for (number, item) in text.split(',').enumerate() {
        let parser = Item {
            kind,
            text: item,
            at: item_at,
            hash,
        };
        let interval = parser.parse_into(&mut field)?;
        if number == 0 {
            field.interval = interval;
        }
        item_at += item.chars().count() + 1;
    }
    Ok(field)
}

struct Item<'a> {
    kind: &'a Kind,
    text: &'a str,
    at: usize,
    hash: &'a JobHash<'a>,
}

impl Item<'_> {
    /// Adds the item's values to the field; true when it is written as an interval.
    fn parse_into(&self, field: &mut Field) -> Result<bool, Fault> {
        if self.text.is_empty() {
            return Err(self.fault(0, "a value is missing", self.kind.limits));
        }
        if self.special(&mut field.special)? {
            return Ok(false);
        }
        let (base, step) = match self.text.split_once('/') {
            Some((base, step)) => (base, Some(self.step(step, base.chars().count() + 1)?)),
            None => (self.text, None),
        };
        if base == "?" && (self.kind.name == DAY_OF_MONTH.name || self.kind.name == DAY_OF_WEEK.name) {
            if step.is_some() {
                return Err(self.fault(1, "? takes no step", "write */n"));
            }
            self.fill(field, self.kind.low, self.last(), 1);
            return Ok(false);
        }
        if base == "*" {
            self.fill(field, self.kind.low, self.last(), step.unwrap_or(1));
            return Ok(true);
        }
        if base.starts_with(['H', 'h']) {
            return self.hashed(field, base, step);
        }
        let Some((low, high)) = base.split_once('-') else {
            let value = self.value(base, 0)?;
            match step {
                Some(step) => self.fill(field, value, self.last().max(value), step),
                None => self.fill(field, value, value, 1),
            }
            return Ok(step.is_some());
        };
        let low_value = self.value(low, 0)?;
        let high_value = self.value(high, low.chars().count() + 1)?;
        self.range(field, (low_value, high_value), step)?;
        Ok(false)
    }

    /// The largest value of a full range: day-of-week's 7 is a second name of 0.
    fn last(&self) -> u32 {
        if self.kind.high == 7 { 6 } else { self.kind.high }
    }

    fn range(&self, field: &mut Field, (low, high): (u32, u32), step: Option<u32>) -> Result<(), Fault> {
        let weekday = self.kind.high == 7;
        let (low, high) = match (low, high) {
            (7, h) if weekday && h < 7 => (0, h),
            (l, 0) if weekday && l > 0 => (l, 7),
            pair => pair,
        };
        if low <= high {
            self.fill(field, low, high, step.unwrap_or(1));
            return Ok(());
        }
        // Months and weekdays go round; hours do not, because "9-5" is more often a slip than a night.
        if self.kind.names.is_empty() {
            let fix = format!(
                "ranges go up; for one that goes round write {low}-{},{}-{high}",
                self.kind.high, self.kind.low
            );
            return Err(self.fault(0, format!("the range {} goes backwards", self.text), fix));
        }
        if step.is_some() {
            let fix = "list the values instead; cron implementations disagree on what this means";
            return Err(self.fault(0, "a range that goes round takes no step", fix));
        }
        self.fill(field, low, self.last(), 1);
        self.fill(field, self.kind.low, high, 1);
        Ok(())
    }

    fn fill(&self, field: &mut Field, low: u32, high: u32, step: u32) {
        let mut value = low;
        while value <= high {
            field.set |= 1 << if self.kind.high == 7 { value % 7 } else { value };
            value = value.saturating_add(step);
        }
    }

    /// `H`, `H/n`, `H(a-b)`, `H(a-b)/n`.
    fn hashed(&self, field: &mut Field, base: &str, step: Option<u32>) -> Result<bool, Fault> {
        let (mut low, mut high) = self.kind.hashed;
        let rest = &base[1..];
        if !rest.is_empty() {
            let Some((a, b)) = rest
                .strip_prefix('(')
                .and_then(|r| r.strip_suffix(')')?.split_once('-'))
            else {
                return Err(self.fault(
                    0,
                    format!("{:?} is not understood", self.text),
                    "write H, H/n, H(a-b) or H(a-b)/n",
                ));
            };
            low = self.value(a, 2)?;
            high = self.value(b, 3 + a.chars().count())?;
            if low > high {
                let fix = format!("write H({high}-{low})");
                return Err(self.fault(2, format!("the range {a}-{b} goes backwards"), fix));
            }
        }
        let choices = step.unwrap_or(u32::MAX).min(high - low + 1);
        let value = low + self.hash.below(self.kind.name, choices);
        match step {
            Some(step) => self.fill(field, value, high, step),
            None => self.fill(field, value, value, 1),
        }
        Ok(step.is_some() && rest.is_empty())
    }

    fn step(&self, text: &str, at: usize) -> Result<u32, Fault> {
        match number(text) {
            Some(0) => Err(self.fault(at, "a step of 0", "steps are 1 or more")),
            Some(step) => Ok(step),
            None if text.is_empty() => Err(self.fault(at, "the step is missing", "write a number after /")),
            None => Err(self.fault(
                at,
                format!("{text:?} is not a valid step"),
                "a step is a number, as in */5",
            )),
        }
    }

    fn value(&self, text: &str, at: usize) -> Result<u32, Fault> {
        if text.is_empty() {
            return Err(self.fault(at, "a value is missing", self.kind.limits));
        }
        let named = self
            .kind
            .names
            .iter()
            .position(|name| name[..3].eq_ignore_ascii_case(text));
        if let Some(position) = named {
            return Ok(position as u32 + self.kind.low);
        }
        match number(text) {
            Some(n) if (self.kind.low..=self.kind.high).contains(&n) => Ok(n),
            _ if text.bytes().all(|b| b.is_ascii_digit()) => {
                Err(self.fault(at, format!("{text} is out of range"), self.kind.limits))
            }
            _ => Err(self.fault(at, format!("{text:?} is not understood"), self.kind.limits)),
        }
    }

    /// `L`, `L-n`, `nW`, `LW`, `nB`, `LB`, `LB-n` in day-of-month, `nL`, `n#k` in day-of-week. False when the item is ordinary.
    fn special(&self, days: &mut Days) -> Result<bool, Fault> {
        let upper = self.text.to_ascii_uppercase();
        if self.kind.name == DAY_OF_MONTH.name {
            self.special_day_of_month(&upper, days)
        } else if self.kind.name == DAY_OF_WEEK.name {
            self.special_day_of_week(&upper, days)
        } else {
            Ok(false)
        }
    }

    fn special_day_of_month(&self, text: &str, days: &mut Days) -> Result<bool, Fault> {
        if text == "L" {
            days.dom_from_last |= 1;
        } else if text == "LW" {
            days.dom_near |= 1;
        } else if let Some(nth) = text.strip_suffix('B').and_then(number) {
            days.dom_business |= self.bit(Some(nth), 1..=23, 0, "write 1B to 23B")?;
        } else if let Some(back) = text.strip_prefix("LB") {
            let nth = back
                .strip_prefix('-')
                .map_or(back.is_empty().then_some(0), number);
            days.dom_business_from_last |= self.bit(nth, 0..=22, 0, "write LB, or LB-1 to LB-22")?;
        } else if let Some(back) = text.strip_prefix("L-") {
            days.dom_from_last |= self.bit(number(back), 1..=30, 2, "write L-1 to L-30")?;
        } else if let Some(day) = text.strip_suffix('W').filter(|d| number(d).is_some()) {
            days.dom_near |= 1 << self.value(day, 0)?;
        } else if text.contains(['L', 'W', 'B', '#']) {
            let fix = "L, L-1 to L-30, 1W to 31W, LW, 1B to 23B and LB stand alone or in a list, not in ranges or steps";
            return Err(self.fault(0, format!("{:?} is not understood", self.text), fix));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Of a day that there may be.
    fn bit(&self, day: Option<u32>, days: RangeInclusive<u32>, at: usize, fix: &str) -> Result<u32, Fault> {
        let bit = day.filter(|day| days.contains(day)).map(|day| 1 << day);
        bit.ok_or_else(|| self.fault(at, format!("{} is not understood", self.text), fix))
    }

    fn special_day_of_week(&self, text: &str, days: &mut Days) -> Result<bool, Fault> {
        if text == "L" {
            let fix = "write 6L for the last Saturday of the month, SAT for every one";
            return Err(self.fault(0, "a bare L is ambiguous here", fix));
        }
        if let Some(dow) = text.strip_suffix('L').filter(|d| !d.contains(['-', '/', '#'])) {
            days.dow_last |= 1 << (self.value(dow, 0)? % 7);
            return Ok(true);
        }
        if let Some((dow, nth)) = text.split_once('#') {
            let fix = "write n#1 to n#5, as in MON#1; it takes no range and no step";
            if dow.contains(['-', '/']) {
                return Err(self.fault(0, format!("{:?} is not understood", self.text), fix));
            }
            let dow_value = self.value(dow, 0)? % 7;
            return match nth.as_bytes() {
                [k @ b'1'..=b'5'] => {
                    days.dow_nth |= 1 << (8 * (k - b'1') as u32 + dow_value);
                    Ok(true)
                }
                _ => Err(self.fault(
                    dow.chars().count() + 1,
                    format!("{nth:?} is not a valid week of a month"),
                    fix,
                )),
            };
        }
        if text.contains('L') {
            let fix = "nL and n#k stand alone or in a list, not in ranges or steps";
            return Err(self.fault(0, format!("{:?} is not understood", self.text), fix));
        }
        Ok(false)
    }

    fn fault(&self, offset: usize, problem: impl Into<String>, fix: impl Into<String>) -> Fault {
        Fault {
            field: Some(self.kind.name),
            at: self.at + offset,
            problem: problem.into(),
            fix: fix.into(),
        }
    }
}

/// ASCII digits only: no sign, no space.
fn number(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
