//! One cron expression as bit sets, and the search for its next match on a clock that never changes.
//!
//! The search jumps by field: a month that is not allowed costs one bit test, a month that is allowed
//! costs the computation of one 32-bit day mask, and the time of day is found by counting zeros.

use super::calendar::Closed;
use super::civil::{DAY, civil_from_days, days_from_civil, month_length, weekday};

/// How many years the search looks ahead. The rarest pattern, 29 February on one weekday, recurs after at
/// most 40 years (28, or 40 across a century that is no leap year).
const HORIZON_YEARS: i64 = 44;

/// What a day-of-month and a day-of-week field allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    /// Bit n: day n of the month.
    pub dom: u32,
    /// Bit n: the day n days before the last one (`L-n`, bit 0 is `L`).
    pub dom_from_last: u32,
    /// Bit n: the weekday nearest to day n (`nW`); bit 0: the last weekday (`LW`).
    pub dom_near: u32,
    /// Bit n: the n-th business day (`nB`).
    pub dom_business: u32,
    /// Bit n: the business day n before the last one (`LB-n`, bit 0 is `LB`).
    pub dom_business_from_last: u32,
    /// Bit n: weekday n, 0 is Sunday.
    pub dow: u8,
    /// Bit n: the last weekday n of the month (`nL`).
    pub dow_last: u8,
    /// Bit 8·(k-1) + n: the k-th weekday n of the month (`n#k`).
    pub dow_nth: u64,
    /// One of the two fields begins with `*` (Vixie's rule), or the weekday with `+`: both must agree, else either is enough.
    pub both: bool,
}

impl Days {
    /// The days allowed in a month of `length` days that begins on weekday `first`; bit n is day n, of `closed` too: weekdays
    /// that are no business days.
    pub fn mask(&self, length: u32, first: u32, closed: u32) -> u32 {
        let dom = self.dom_mask(length, first) | self.business_mask(length, first, closed);
        let dow = self.dow_mask(length, first);
        let mask = if self.both { dom & dow } else { dom | dow };
        mask & month_mask(length)
    }

    fn dom_mask(&self, length: u32, first: u32) -> u32 {
        let mut mask = self.dom;
        for back in bits(self.dom_from_last) {
            if back < length {
                mask |= 1 << (length - back);
            }
        }
        for day in bits(self.dom_near) {
            let wanted = if day == 0 { length } else { day };
            if wanted <= length {
                mask |= 1 << nearest_weekday(wanted, length, first);
            }
        }
        mask
    }

    fn counts_business_days(&self) -> bool {
        self.dom_business | self.dom_business_from_last != 0
    }

    fn business_mask(&self, length: u32, first: u32, closed: u32) -> u32 {
        if !self.counts_business_days() {
            return 0;
        }
        let weekdays = (1..=5).fold(0, |days, dow| days | every_seventh(first_on(dow, first)));
        let open = weekdays & month_mask(length) & !closed;
        let (mut mask, count) = (0, open.count_ones());
        for (nth, day) in (1..).zip(bits(open)) {
            let (from_first, from_last) = (1 << nth, 1 << (count - nth));
            if self.dom_business & from_first != 0 || self.dom_business_from_last & from_last != 0 {
                mask |= 1 << day;
            }
        }
        mask
    }

    fn dow_mask(&self, length: u32, first: u32) -> u32 {
        if self.dow == 0x7f {
            return month_mask(length);
        }
        let mut mask = 0;
        for dow in bits(self.dow.into()) {
            mask |= every_seventh(first_on(dow, first));
        }
        for dow in bits(self.dow_last.into()) {
            let day = first_on(dow, first);
            mask |= 1 << (day + (length - day) / 7 * 7);
        }
        if self.dow_nth != 0 {
            for k in 0..5 {
                for dow in bits((self.dow_nth >> (8 * k)) as u32 & 0x7f) {
                    let day = first_on(dow, first) + 7 * k;
                    if day <= length {
                        mask |= 1 << day;
                    }
                }
            }
        }
        mask
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    pub second: u64,
    pub minute: u64,
    pub hour: u32,
    /// Bit n: month n, 1 is January.
    pub month: u16,
    pub days: Days,
    /// An interval (minute or hour begins with `*`), not a fixed time: decides what a clock change does.
    pub wildcard: bool,
}

impl Cron {
    /// Whether some month of some year has a day that matches.
    ///
    /// Every combination of a month's length and first weekday occurs within 400 years, so looking at the
    /// at most 91 kinds of months is complete.
    pub fn can_fire(&self) -> bool {
        (1..=12u32).filter(|m| self.month & (1 << m) != 0).any(|m| {
            let lengths = match m {
                2 => 28..=29,
                _ => month_length(2001, m)..=month_length(2001, m),
            };
            lengths
                .flat_map(|l| (0..7).map(move |f| (l, f)))
                .any(|(l, f)| self.days.mask(l, f, 0) != 0)
        })
    }

    /// The days allowed in the month that begins on day `from`.
    fn days_from(&self, from: i64, length: u32, closed: &Closed) -> u32 {
        let closed = match self.days.counts_business_days() {
            true => closed.mask(from, length),
            false => 0,
        };
        self.days.mask(length, weekday(from), closed)
    }

    /// The first match at or after `local`, in seconds since 1970-01-01T00:00:00 on the wall clock.
    pub fn at_or_after(&self, local: i64, closed: &Closed) -> Option<i64> {
        let day = local.div_euclid(DAY);
        let (year, month, dom) = civil_from_days(day);
        if self.month & (1 << month) != 0 {
            let mask = self.days_from(day - i64::from(dom) + 1, month_length(year, month), closed);
            if mask & (1 << dom) != 0
                && let Some(time) = self.time_at_or_after(local.rem_euclid(DAY) as u32)
            {
                return Some(day * DAY + i64::from(time));
            }
            let later = mask & !((2u32 << dom).wrapping_sub(1));
            if later != 0 {
                let ahead = i64::from(later.trailing_zeros() - dom);
                return Some((day + ahead) * DAY + i64::from(self.first_time()));
            }
        }
        let day = self.day_from_month(year, month + 1, year + HORIZON_YEARS, closed)?;
        Some(day * DAY + i64::from(self.first_time()))
    }

    fn day_from_month(&self, mut year: i64, mut month: u32, last_year: i64, closed: &Closed) -> Option<i64> {
        loop {
            let later = if month > 12 {
                0
            } else {
                u32::from(self.month) >> month << month
            };
            if later == 0 {
                year += 1;
                month = 1;
                if year > last_year {
                    return None;
                }
                continue;
            }
            month = later.trailing_zeros();
            let first_day = days_from_civil(year, month, 1);
            let mask = self.days_from(first_day, month_length(year, month), closed);
            if mask != 0 {
                return Some(first_day + i64::from(mask.trailing_zeros()) - 1);
            }
            month += 1;
        }
    }

    fn first_time(&self) -> u32 {
        self.hour.trailing_zeros() * 3600 + self.minute.trailing_zeros() * 60 + self.second.trailing_zeros()
    }

    fn time_at_or_after(&self, time: u32) -> Option<u32> {
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        if self.hour & (1 << hour) != 0 {
            if self.minute & (1 << minute) != 0
                && let Some(s) = at_least(self.second, second)
            {
                return Some(hour * 3600 + minute * 60 + s);
            }
            if let Some(m) = at_least(self.minute, minute + 1) {
                return Some(hour * 3600 + m * 60 + self.second.trailing_zeros());
            }
        }
        let hour = at_least(self.hour.into(), hour + 1)?;
        Some(hour * 3600 + self.minute.trailing_zeros() * 60 + self.second.trailing_zeros())
    }
}

fn at_least(set: u64, from: u32) -> Option<u32> {
    let rest = set >> from << from;
    (rest != 0).then(|| rest.trailing_zeros())
}

fn bits(mut set: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros();
            set &= set - 1;
            bit
        })
    })
}

/// Bits 1..=length.
fn month_mask(length: u32) -> u32 {
    ((1u64 << (length + 1)) - 2) as u32
}

/// The first day of the month that is weekday `dow`.
fn first_on(dow: u32, first: u32) -> u32 {
    1 + (dow + 7 - first) % 7
}

fn every_seventh(day: u32) -> u32 {
    // Bits 0, 7, 14, 21 and 28, moved up; what falls off the top is no day.
    0x1020_4081u32 << day
}

/// The Monday-to-Friday day nearest to `day` in the same month.
fn nearest_weekday(day: u32, length: u32, first: u32) -> u32 {
    match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}
