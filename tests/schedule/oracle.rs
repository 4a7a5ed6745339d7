//! The search against brute force: an expression evaluated second by second, straight from the rules.
//!
//! The oracle shares no code with the search: fields are expanded into lists of numbers, every instant
//! becomes a local date and time by jiff, and clock changes are found by comparing offsets.

use farmhand_core::definition::DstPolicy;
use farmhand_core::schedule::{ParseContext, Schedule};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use proptest::prelude::*;

use super::at;

/// A field as text and as the numbers it stands for.
#[derive(Clone, Debug)]
struct Field {
    text: String,
    values: Vec<i8>,
}

fn field(low: i8, high: i8) -> impl Strategy<Value = Field> {
    let item = prop_oneof![
        3 => Just(("*".to_owned(), (low..=high).collect::<Vec<_>>())),
        2 => (2..=high).prop_map(move |step| {
            (format!("*/{step}"), (low..=high).step_by(step as usize).collect())
        }),
        4 => (low..=high).prop_map(|n| (n.to_string(), vec![n])),
        2 => (low..=high, low..=high, 1i8..7).prop_map(|(a, b, step)| {
            let (a, b) = (a.min(b), a.max(b));
            (format!("{a}-{b}/{step}"), (a..=b).step_by(step as usize).collect())
        }),
    ];
    proptest::collection::vec(item, 1..3).prop_map(|items| {
        let text = items.iter().map(|i| i.0.as_str()).collect::<Vec<_>>().join(",");
        Field {
            text,
            values: items.into_iter().flat_map(|i| i.1).collect(),
        }
    })
}

/// Numbers only: a fixed time.
fn listed(low: i8, high: i8) -> impl Strategy<Value = Field> {
    proptest::collection::vec(low..=high, 1..4).prop_map(|values| {
        let text = values.iter().map(i8::to_string).collect::<Vec<_>>().join(",");
        Field { text, values }
    })
}

#[derive(Clone, Debug)]
struct Expression {
    minute: Field,
    hour: Field,
    dom: Field,
    month: Field,
    /// `+` before the weekday.
    both: bool,
    dow: Field,
}

/// Mostly every day and in the small hours, where clocks change.
fn expression() -> impl Strategy<Value = Expression> {
    let each = |low: i8, high: i8| {
        prop_oneof![
            6 => Just(Field { text: "*".to_owned(), values: (low..=high).collect() }),
            1 => field(low, high),
        ]
    };
    let minute = prop_oneof![1 => listed(0, 59), 1 => field(0, 59)];
    let hour = prop_oneof![3 => listed(0, 4), 1 => listed(22, 23), 2 => field(0, 23)];
    let days = (each(1, 31), each(0, 6), any::<bool>());
    (minute, hour, days, each(1, 12)).prop_map(|(minute, hour, (dom, dow, both), month)| Expression {
        minute,
        hour,
        dom,
        month,
        both,
        dow,
    })
}

impl Expression {
    fn text(&self) -> String {
        let dow = format!("{}{}", if self.both { "+" } else { "" }, self.dow.text);
        let fields = [&self.minute, &self.hour, &self.dom, &self.month];
        let fields = fields.map(|f| f.text.as_str()).join(" ");
        format!("{fields} {dow}")
    }

    fn matches(&self, local: civil::DateTime) -> bool {
        let dom = self.dom.values.contains(&local.day());
        let dow = self.dow.values.contains(&local.weekday().to_sunday_zero_offset());
        let both = self.both || self.dom.text.starts_with('*') || self.dow.text.starts_with('*');
        local.second() == 0
            && self.minute.values.contains(&local.minute())
            && self.hour.values.contains(&local.hour())
            && self.month.values.contains(&local.month())
            && if both { dom && dow } else { dom || dow }
    }

    fn interval(&self) -> bool {
        self.minute.text.starts_with('*') || self.hour.text.starts_with('*')
    }

    /// Every minute of [from, to), one after the other. All offsets used here are whole minutes.
    fn fires(&self, zone: &TimeZone, dst: DstPolicy, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let minute = SignedDuration::from_mins(1);
        let local = |t: Timestamp| zone.to_datetime(t);
        let mut fires = Vec::new();
        let mut t = from;
        while t < to {
            let (now, before) = (local(t), local(t - minute));
            let mut fire = self.matches(now);
            if !self.interval() {
                // A gap of less than three hours ends here: what lies in it?
                let mut skipped = before.checked_add(minute).unwrap();
                if now.duration_since(before) < SignedDuration::from_mins(181) && dst != DstPolicy::Skip {
                    while skipped < now {
                        fire |= self.matches(skipped);
                        skipped = skipped.checked_add(minute).unwrap();
                    }
                }
                // Has this local time been before, within the last three hours?
                let repeated = || (1..=180).any(|back| local(t - minute * back) == now);
                fire = fire && (dst == DstPolicy::Both || !repeated());
            }
            if fire {
                fires.push(t);
            }
            t += minute;
        }
        fires
    }
}

const ZONES: &[&str] = &[
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "America/St_Johns",
    "Pacific/Apia",
    "Asia/Tehran",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "America/Havana",
    "Europe/Dublin",
];

fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(ZONES)
}

fn dst() -> impl Strategy<Value = DstPolicy> {
    prop_oneof![4 => Just(DstPolicy::Once), 1 => Just(DstPolicy::Skip), 1 => Just(DstPolicy::Both)]
}

fn schedule(expressions: &[String], timezone: &str, dst: DstPolicy) -> Option<Schedule> {
    let context = ParseContext {
        job: "oracle",
        timezone,
        dst,
        ..ParseContext::default()
    };
    Schedule::parse(expressions, &context).ok()
}

/// Three days around a clock change of the zone near the given instant, else three days from it.
fn window(zone: &TimeZone, near: Timestamp) -> (Timestamp, Timestamp) {
    let day = SignedDuration::from_hours(24);
    let half_year = day * 180;
    let start = match zone.following(near).next() {
        Some(change) if change.timestamp() < near + half_year => change.timestamp() - day,
        _ => near,
    };
    let start = Timestamp::from_second(start.as_second().div_euclid(60) * 60).unwrap();
    (start, start + day * 3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_agrees_with_every_minute_around_clock_changes(
        expression in expression(),
        zone_name in zone(),
        dst in dst(),
        near in 978_307_200i64..2_208_988_800,
    ) {
        let zone = TimeZone::get(zone_name).unwrap();
        let (from, to) = window(&zone, Timestamp::from_second(near).unwrap());
        let want = expression.fires(&zone, dst, from, to);
        match schedule(&[expression.text()], zone_name, dst) {
            Some(schedule) => {
                let got: Vec<_> = schedule.between(from, to).collect();
                prop_assert_eq!(got, want, "{} {}", expression.text(), zone_name);
            }
            None => prop_assert!(want.is_empty(), "{} refused but fires", expression.text()),
        }
    }

    #[test]
    fn merged_lists_are_the_union_each_instant_once(
        expressions in proptest::collection::vec(expression(), 2..4),
        zone_name in zone(),
        near in 978_307_200i64..2_208_988_800,
    ) {
        let zone = TimeZone::get(zone_name).unwrap();
        let (from, to) = window(&zone, Timestamp::from_second(near).unwrap());
        let texts: Vec<String> = expressions.iter().map(Expression::text).collect();
        let Some(merged) = schedule(&texts, zone_name, DstPolicy::Once) else { return Ok(()) };
        let mut want: Vec<Timestamp> = texts
            .iter()
            .flat_map(|t| {
                let one = schedule(std::slice::from_ref(t), zone_name, DstPolicy::Once).unwrap();
                one.between(from, to).collect::<Vec<_>>()
            })
            .collect();
        want.sort_unstable();
        want.dedup();
        prop_assert_eq!(merged.between(from, to).collect::<Vec<_>>(), want);
    }

    #[test]
    fn asking_again_from_each_instant_gives_the_same_list_and_always_moves_on(
        expression in expression(),
        zone_name in zone(),
        dst in dst(),
        from in -2_000_000_000i64..7_000_000_000,
        nanos in 0i32..1_000_000_000,
    ) {
        let Some(schedule) = schedule(&[expression.text()], zone_name, dst) else { return Ok(()) };
        let from = Timestamp::new(from, nanos).unwrap();
        let listed: Vec<_> = schedule.iter_after(from).take(20).collect();
        prop_assert_eq!(listed.len(), 20, "{} in {}", expression.text(), zone_name);
        let mut t = from;
        for instant in &listed {
            prop_assert!(*instant > t);
            // From anywhere in between the answer is the same.
            let middle = t + instant.duration_since(t) / 2;
            prop_assert_eq!(schedule.next_after(middle), Some(*instant));
            prop_assert_eq!(schedule.next_after(t), Some(*instant));
            t = *instant;
        }
        let last = listed[19];
        prop_assert_eq!(schedule.between(listed[0], last).collect::<Vec<_>>(), &listed[..19]);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[-+0-9*,/#?LWBHhlwb() a-z@\t\u{e4}]{0,24}") {
        let _ = schedule(&[text], "UTC", DstPolicy::Once);
    }

    #[test]
    fn no_text_of_five_fields_makes_the_parser_panic_or_the_search_hang(
        fields in proptest::collection::vec("[-+0-9*,/#?LWBH()]{1,6}", 5..7),
    ) {
        if let Some(schedule) = schedule(&[fields.join(" ")], "Europe/Berlin", DstPolicy::Once) {
            prop_assert!(schedule.next_after(at("2026-01-01T00:00:00Z")).is_some(), "{:?}", fields);
        }
    }
}

#[test]
fn a_repeated_hour_is_found_even_if_the_next_match_on_a_steady_clock_is_a_year_away() {
    let schedule = schedule(&["*/30 2 26 10 *".to_owned()], "Europe/Berlin", DstPolicy::Once).unwrap();
    let fires: Vec<String> = schedule
        .iter_after(at("2025-10-26T00:00:00Z"))
        .take(4)
        .map(|t| t.to_string())
        .collect();
    assert_eq!(
        fires,
        [
            "2025-10-26T00:30:00Z",
            "2025-10-26T01:00:00Z",
            "2025-10-26T01:30:00Z",
            "2026-10-26T01:00:00Z"
        ]
    );
}

#[test]
fn a_century_of_every_zone_never_stalls() {
    for zone in [
        "Europe/Berlin",
        "Africa/Casablanca",
        "America/Caracas",
        "Asia/Gaza",
    ] {
        let schedule = schedule(&["0 0 29 2 *".to_owned()], zone, DstPolicy::Once).unwrap();
        let leap_days: Vec<_> = schedule.iter_after(at("1900-01-01T00:00:00Z")).take(60).collect();
        assert_eq!(leap_days.len(), 60);
        assert!(leap_days.windows(2).all(|w| w[0] < w[1]));
    }
}
