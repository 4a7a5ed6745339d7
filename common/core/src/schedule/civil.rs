//! The proleptic Gregorian calendar in integers: days since 1970-01-01 and back.
//!
//! Algorithms: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"
//! (`days_from_civil`, `civil_from_days`).

pub(super) const DAY: i64 = 86_400;

/// From Sunday on. Three letters of a name are enough in schedules.
pub const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// From January on.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Days since 1970-01-01 of a date; `month` 1-12, `day` 1-31.
pub(super) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// (year, month 1-12, day 1-31) of a day number.
pub(super) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = (month_from_march + if month_from_march < 10 { 3 } else { -9 }) as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// 0 is Sunday, as in cron.
pub(super) fn weekday(days: i64) -> u32 {
    (days + 4).rem_euclid(7) as u32
}

pub(super) fn month_length(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_agrees_with_jiff() {
        let mut date = jiff::civil::date(1600, 1, 1);
        let mut days = days_from_civil(1600, 1, 1);
        while date.year() < 2400 {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(
                (y, m, d),
                (date.year().into(), date.month() as u32, date.day() as u32)
            );
            assert_eq!(days_from_civil(y, m, d), days);
            assert_eq!(weekday(days), date.weekday().to_sunday_zero_offset() as u32);
            assert_eq!(month_length(y, m), date.days_in_month() as u32);
            date = date.tomorrow().unwrap();
            days += 1;
        }
    }
}
