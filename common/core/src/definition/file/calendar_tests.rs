use crate::definition::load;
use crate::document::Source;

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn calendars_are_shared_by_the_files_of_one_apply_and_resolved() {
    let jobs = load(&[
        source(
            "a.toml",
            "[job.x]\ncommand = ['x']\ncalendars = ['de', 'own']\n[job.y]\ncommand = ['y']\n",
        ),
        source(
            "b.toml",
            "[calendar.de]\nexclude = ['2026-12-24..2026-12-26', 2027-01-01]\n[calendar.own]\nexclude = '2026-11-30'\n",
        ),
    ])
    .unwrap();
    assert_eq!(jobs[0].spec.calendars, ["de", "own"]);
    assert_eq!(
        jobs[0].spec.exclude,
        ["2026-11-30", "2026-12-24..2026-12-26", "2027-01-01"]
    );
    assert!(jobs[1].spec.exclude.is_empty());
}

#[test]
fn included_days_are_the_only_ones_that_the_others_leave() {
    let jobs = load(&[source(
        "a.toml",
        "[calendar.ends]\ninclude = ['2026-12-30..2026-12-31', '2026-09-30', '2026-12-31']\nexclude = '2026-12-30'\n\
         [job.x]\ncommand = ['x']\nschedule = '0 8 * * *'\ntimezone = 'Europe/Berlin'\ncalendars = 'ends'\n",
    )])
    .unwrap();
    let spec = &jobs[0].spec;
    assert_eq!(
        spec.exclude,
        [
            "0001-01-01..2026-09-29",
            "2026-10-01..2026-12-29",
            "2026-12-30",
            "2027-01-01..9999-12-31"
        ]
    );
    let (schedule, policy) = crate::due::compile("x", spec).unwrap();
    let from = "2026-01-01T00:00:00Z".parse().unwrap();
    let due: Vec<String> = (crate::due::upcoming(&schedule, &policy, from, 5).iter())
        .map(ToString::to_string)
        .collect();
    assert_eq!(due, ["2026-09-30T06:00:00Z", "2026-12-31T07:00:00Z"]);
    load(&[source("a.toml", "[calendar.x]\ninclude = ['2026-13-01']\n")]).unwrap_err();
}

#[test]
fn a_calendar_with_a_mistake_says_where() {
    let error = load(&[
        source(
            "a.toml",
            "[calendar.de]\nexclude = ['2026-12-26..2026-12-24', 'soon']\n[calendar.none]\n[job.x]\ncommand = ['x']\ncalendars = ['dee']\n",
        ),
        source("b.toml", "[calendar.de]\nexclude = ['2027-01-01']\n"),
    ])
    .unwrap_err();
    let found: Vec<_> = (error.located().into_iter())
        .map(|l| (l.file, l.line, l.column, l.what, l.fix))
        .collect();
    let wanted = [
        (
            "a.toml",
            2,
            12,
            "`exclude`: \"2026-12-26..2026-12-24\" runs backwards",
            "write \"2026-12-24..2026-12-26\"",
        ),
        (
            "a.toml",
            2,
            38,
            "`exclude`: \"soon\" holds \"soon\", which is not a valid day",
            "write a day as 2026-12-24, a range as 2026-12-24..2026-12-26",
        ),
        (
            "a.toml",
            3,
            11,
            "calendar `none` excludes nothing",
            "add exclude = [\"2026-12-24..2026-12-26\", \"2027-01-01\"]",
        ),
        (
            "a.toml",
            6,
            14,
            "`calendars`: there is no calendar \"dee\"",
            "did you mean \"de\"?",
        ),
        (
            "b.toml",
            1,
            11,
            "calendar `de` is already defined in a.toml",
            "rename one of them, or delete one",
        ),
    ]
    .map(|(file, line, column, what, fix)| (file.to_owned(), line, column, what.to_owned(), fix.to_owned()));
    assert_eq!(found, wanted);
}

#[test]
fn a_calendar_that_includes_no_day_is_refused_and_each_unknown_one_is_told() {
    load(&[source("a.toml", "[calendar.x]\ninclude = []\n")]).unwrap_err();
    let unknown = "[job.x]\ncommand = ['x']\ncalendars = ['a', 'b']\n";
    let told = load(&[source("a.toml", unknown)]).unwrap_err().located();
    assert_eq!(told.len(), 2, "{told:?}");
}
