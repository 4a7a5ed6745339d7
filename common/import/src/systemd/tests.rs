use std::time::Duration;

use super::calendar::{Calendar, on_calendar};
use super::exec;
use super::span::span;
use super::specifiers::Specifiers;
use super::unit::Unit;

fn plain(text: &str) -> String {
    on_calendar(text)
        .unwrap_or_else(|problem| panic!("{text}: {problem}"))
        .expression
}

#[test]
fn a_calendar_expression_becomes_a_schedule() {
    for (text, wanted) in [
        ("minutely", "* * * * *"),
        ("hourly", "0 * * * *"),
        ("Daily", "0 0 * * *"),
        ("weekly", "0 0 * * MON"),
        ("monthly", "0 0 1 * *"),
        ("quarterly", "0 0 1 */3 *"),
        ("semiannually", "0 0 1 */6 *"),
        ("yearly", "0 0 1 1 *"),
        ("annually", "0 0 1 1 *"),
        ("bi-annually", "0 0 1 */6 *"),
        ("*-*-* 6,18:00", "0 6,18 * * *"),
        ("Mon..Fri 08:30", "30 8 * * MON-FRI"),
        ("Mon-Fri 08:30", "30 8 * * MON-FRI"),
        ("Sat,Sun", "0 0 * * SAT,SUN"),
        ("Monday", "0 0 * * MON"),
        ("*:0/15", "*/15 * * * *"),
        ("*:5/15", "5/15 * * * *"),
        ("*:*:0/30", "*/30 * * * * *"),
        ("8..18/2:00", "0 8,10,12,14,16,18 * * *"),
        ("00..23/6:00", "0 */6 * * *"),
        ("*-*-* 9..17:00:10", "10 0 9-17 * * *"),
        ("*-*~01", "0 0 L * *"),
        ("*-*~03", "0 0 L-2 * *"),
        ("*-02~01..02 04:00", "0 4 L,L-1 2 *"),
        ("Mon *-*~07/1", "0 0 * * MONL"),
        ("Sun *-*-1..7 05:00", "0 5 * * SUN#1"),
        ("Tue,Thu *-*-8..14", "0 0 * * TUE#2,THU#2"),
        ("Fri *-*-1/2", "0 0 */2 * FRI"),
        ("*-*-1,15 12:00", "0 12 1,15 * *"),
        ("*-1/3-1", "0 0 1 */3 *"),
        ("*-05..10-* 11:13", "13 11 * 5-10 *"),
        ("1-1", "0 0 1 1 *"),
        ("12,14,13,12:20,10,30", "10,20,30 12-14 * * *"),
        ("*-*-* 04:00:00.0", "0 4 * * *"),
        ("*:*:00.0/15.00", "*/15 * * * * *"),
        ("Fri *-*-13", "0 0 13 * +FRI"),
        ("Mon..Fri *-12-24..31 8:00", "0 8 24-31 12 +MON-FRI"),
        ("Mon *-*~02", "0 0 L-1 * +MON"),
        ("Mon,Tue *-*~1..3 18:00", "0 18 L,L-1,L-2 * +MON,TUE"),
    ] {
        assert_eq!(plain(text), wanted, "{text}");
    }
}

#[test]
fn zones_and_years_of_a_calendar_expression_are_kept_apart() {
    let zoned = on_calendar("Mon 04:00 Europe/Berlin").unwrap();
    assert_eq!(zoned.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(on_calendar("daily utc").unwrap().timezone.as_deref(), Some("UTC"));
    assert_eq!(
        on_calendar("2026-03-05 05:40").unwrap(),
        Calendar {
            expression: "40 5 5 3 *".to_owned(),
            timezone: None,
            years: vec![(2026, 2026)],
        }
    );
    for (text, wanted) in [
        ("26..28-*-1", vec![(2026, 2028)]),
        ("2029,2026..2027-*-*", vec![(2026, 2027), (2029, 2029)]),
        ("2026..2031/2-*-*", vec![(2026, 2026), (2028, 2028), (2030, 2030)]),
        ("2190/4-*-*", vec![(2190, 2190), (2194, 2194), (2198, 2198)]),
    ] {
        assert_eq!(on_calendar(text).unwrap().years, wanted, "{text}");
    }
    let instant = Calendar {
        expression: "56 59 2 25 3 *".to_owned(),
        timezone: Some("UTC".to_owned()),
        years: vec![(2014, 2014)],
    };
    assert_eq!(on_calendar("@1395716396").unwrap(), instant);
}

#[test]
fn what_no_schedule_can_say_is_refused_in_words() {
    for (text, said) in [
        ("@soon", "not a number of seconds since 1970"),
        (
            "05:40:23.42",
            "fractions of a second, and what is due here is due at whole seconds",
        ),
        ("*:*:0/0.5", "fractions of a second"),
        ("*:*:1.5..3", "fractions of a second"),
        ("2028..2026-*-*", "goes backwards"),
        ("1960-*-*", "not a year (1970 to 2199)"),
        ("Fri..Mon", "goes backwards"),
        ("*/5:00", "not a valid hour"),
        ("Sat, Sun", "neither a date nor a time"),
        ("24:00", "not a valid hour"),
        ("*-*-0", "not a valid day"),
        ("5", "neither a date nor a time"),
        ("", "not understood"),
        ("Blursday", "not a weekday"),
    ] {
        let problem = on_calendar(text).expect_err(text);
        assert!(problem.contains(said), "{text}: {problem}");
    }
}

#[test]
fn commands_are_split_as_systemd_splits_them() {
    let argv = |text: &str| -> Vec<Vec<String>> {
        let execs = exec::commands(text).unwrap();
        execs
            .iter()
            .map(|exec| exec.argv().expect("no variables"))
            .collect()
    };
    for (text, wanted) in [
        (
            "/bin/echo one 'two three' \"four's\"",
            vec![vec!["/bin/echo", "one", "two three", "four's"]],
        ),
        (
            r"/bin/echo a\x20b \u00e9 \101 x\sy \q",
            vec![vec!["/bin/echo", "a b", "é", "A", "x y", r"\q"]],
        ),
        (
            "/bin/a ; /bin/b \";\" \\;",
            vec![vec!["/bin/a"], vec!["/bin/b", ";", ";"]],
        ),
        ("@/bin/sh name -c true", vec![vec!["/bin/sh", "-c", "true"]]),
        ("/bin/a $$HOME 5$ ''", vec![vec!["/bin/a", "$HOME", "5$", ""]]),
        (":/bin/a ${HOME}", vec![vec!["/bin/a", "${HOME}"]]),
        ("/bin/a --x=\"b c\"d", vec![vec!["/bin/a", "--x=b cd"]]),
    ] {
        assert_eq!(argv(text), wanted, "{text}");
    }
    assert!(exec::commands("/bin/a 'b").unwrap_err().contains("does not end"));
    let flags = &exec::commands("-+/bin/a x").unwrap()[0];
    assert!(flags.may_fail && flags.privileged);
    assert_eq!(flags.shell(), "{ /bin/a x || true; }");
}

#[test]
fn variables_become_those_of_a_shell_with_systemds_splitting() {
    let exec = &exec::commands(r#"/bin/a $ARGS ${ONE} --x=${TWO}'y z' "it's" $1 '' "#).unwrap()[0];
    assert_eq!(exec.argv(), None);
    assert_eq!(
        exec.shell(),
        r#"/bin/a $ARGS "${ONE}" --x="${TWO}"'y z' 'it'\''s' '$1' ''"#
    );
    let list = exec::assignments(r#"A=1 "B=two words" 'C=x"y'"#).unwrap();
    let list: Vec<(&str, &str)> = list.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(list, [("A", "1"), ("B", "two words"), ("C", "x\"y")]);
}

#[test]
fn unit_files_have_sections_continued_lines_and_lists_that_begin_anew() {
    let text = "\u{feff}# a comment\n[Timer]\nOnCalendar=daily\nOnCalendar=\nOnCalendar = weekly\n[Service]\n\
                ExecStart=/bin/a \\\n# between\n  b \\\n  c\nodd\nUser=x\nUser=y\n";
    let unit = Unit::parse(text);
    let found: Vec<(usize, &str)> = (unit.times("OnCalendar").iter())
        .map(|entry| (entry.line, entry.value.as_str()))
        .collect();
    assert_eq!(found, [(5, "weekly")]);
    let exec = unit.last("Service", "ExecStart").unwrap();
    assert_eq!((exec.line, exec.value.split_whitespace().count()), (7, 3));
    assert_eq!(unit.last("Service", "User").unwrap().value, "y");
    assert_eq!(unit.odd, [(11, "odd".to_owned())]);
}

#[test]
fn an_empty_time_takes_back_those_of_all_keys() {
    let unit = Unit::parse("[Timer]\nOnUnitActiveSec=1d\nOnCalendar=\nOnCalendar=03:00\n");
    assert!(unit.times("OnUnitActiveSec").is_empty());
    assert_eq!(unit.times("OnCalendar").len(), 1);
}

#[test]
fn spans_and_specifiers_are_read() {
    for (text, seconds) in [
        ("90", 90),
        ("5min 20s", 320),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1w", 604_800),
        ("2M", 5_259_600),
    ] {
        assert_eq!(span(text), Some(Duration::from_secs(seconds)), "{text}");
    }
    for text in ["", "infinity", "x", "5 parsecs", "-1"] {
        assert_eq!(span(text), None, "{text}");
    }
    let specifiers = Specifiers::of("backup@home.service", false);
    assert_eq!(
        specifiers.expand("%n %N %p %i %S/%p 100%% %H %"),
        (
            "backup@home.service backup@home backup home /var/lib/backup 100% %H %".to_owned(),
            vec!["%H".to_owned()]
        )
    );
}
