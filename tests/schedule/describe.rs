//! Schedules in plain words.

use farmhand_core::definition::DstPolicy;

use super::parse_in;

#[test]
fn a_schedule_says_what_it_does() {
    let cases = [
        ("5 8 * * 1-5", "at 08:05 on weekdays"),
        ("@daily", "at 00:00"),
        ("@hourly", "at minute 0 past every hour"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        (
            "*/5 8-18 * * MON-FRI",
            "every 5 minutes from 08:00 to 18:59 on weekdays",
        ),
        ("0 8-18 * * *", "at minute 0 past the hour from 08:00 to 18:59"),
        (
            "*/7 9,17,20 * * *",
            "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 past the hour in the hours 9, 17 and 20",
        ),
        ("30 6,18 * * 6,0", "at 06:30 and 18:30 on weekends"),
        ("0 0 1 1 *", "at 00:00 on the 1st in January"),
        ("0 0 1,15,22 * *", "at 00:00 on the 1st, the 15th and the 22nd"),
        (
            "0 4 1-7 6-8 *",
            "at 04:00 on the 1st to the 7th in June to August",
        ),
        ("0 4 L * *", "at 04:00 on the last day of the month"),
        (
            "0 4 L-2,15W,LW * *",
            "at 04:00 on the last weekday of the month, the weekday nearest to the 15th and the last day but 2 of the month",
        ),
        (
            "0 4 3B,LB,LB-2 * *",
            "at 04:00 on the 3rd business day of the month, the last business day of the month and the last business day but 2 of the month",
        ),
        (
            "0 4 * * MON#1,FRIL",
            "at 04:00 on the 1st Monday of the month and the last Friday of the month",
        ),
        ("0 4 13 * FRI", "at 04:00 on the 13th and on Fridays"),
        (
            "0 4 */2 * FRI-SUN",
            "at 04:00 on the 1st, the 3rd, the 5th, the 7th, the 9th, the 11th, the 13th, the 15th, the 17th, the 19th, the 21st, the 23rd, the 25th, the 27th, the 29th and the 31st if it is Friday to Sunday",
        ),
        ("0 4 13 * +FRI", "at 04:00 on the 13th if it is a Friday"),
        (
            "0 4 1,L * +TUE,THU",
            "at 04:00 on the 1st and the last day of the month if it is a Tuesday or a Thursday",
        ),
        (
            "0 4 24-31 12 +1-5",
            "at 04:00 on the 24th to the 31st if it is a weekday in December",
        ),
        ("0 4 1-31 * FRI", "at 04:00"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("15 30 2 * * *", "at 02:30:15"),
        ("* * 3 * * *", "every second from 03:00 to 03:59"),
    ];
    for (expression, words) in cases {
        let schedule = parse_in(expression, "Europe/Berlin", DstPolicy::Once).unwrap();
        assert_eq!(
            schedule.describe(),
            format!("{words}, Europe/Berlin"),
            "{expression}"
        );
    }
    assert_eq!(super::utc("@every 5400s").describe(), "every 1h 30m");
    assert_eq!(super::utc("0 4 * * *").describe(), "at 04:00, UTC");
}
