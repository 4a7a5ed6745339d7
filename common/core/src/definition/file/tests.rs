use std::time::Duration;

use crate::definition::*;
use crate::document::{Mistakes, Source};

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

fn mistakes(text: &str) -> Mistakes {
    load(&[source("jobs.toml", text)]).expect_err("mistakes")
}

#[test]
fn a_whole_job_is_read() {
    let jobs = load(&[source(
        "jobs.toml",
        r#"
        [defaults]
        timezone = "Europe/Berlin"
        env = { LANG = "C.UTF-8", A = "default" }

        [job.mail]
        schedule = "*/5 8-18 * * MON-FRI"
        command  = ["send", "--since", "{since}"]
        timeout  = "4m"
        retry    = { max = 3, base = "10m" }
        env      = { A = "own" }
        umask    = "027"
        limits   = { memory = "512MiB", processes = 64 }
        params   = { since = { type = "duration", default = "5m" } }

        [job.hello]
        command = "echo hello"
        "#,
    )])
    .unwrap();
    assert_eq!(
        jobs.iter().map(|j| j.name.as_str()).collect::<Vec<_>>(),
        ["hello", "mail"]
    );
    let mail = &jobs[1].spec;
    assert_eq!(mail.timezone, "Europe/Berlin");
    assert_eq!(mail.timeout, Some(Duration::from_secs(240)));
    assert_eq!(mail.retry.max, 3);
    assert_eq!(mail.retry.cap, Duration::from_secs(600));
    assert_eq!(mail.env["LANG"], "C.UTF-8");
    assert_eq!(mail.env["A"], "own");
    assert_eq!(mail.umask, Some(0o027));
    assert_eq!(mail.limits.memory, Some(512 << 20));
    assert_eq!(
        jobs[0].spec.command,
        Some(Command::Shell("echo hello".to_owned()))
    );
}

#[test]
fn a_spec_survives_its_json() {
    let jobs = load(&[source(
        "j",
        "[job.a]\ncommand=['x']\ntimeout='90s'\nwhere={role='b'}",
    )])
    .unwrap();
    let json = serde_json::to_value(&jobs[0].spec).unwrap();
    assert_eq!(serde_json::from_value::<JobSpec>(json).unwrap(), jobs[0].spec);
}

/// Every row: a job's lines, the line and column of the mistake, a part of what it says, a part of the fix.
#[test]
fn each_mistake_names_its_place_and_its_mend() {
    let table: &[(&str, (usize, usize), &str, &str)] = &[
        (
            "comand = ['x']\ncommand = ['x']",
            (2, 1),
            "unknown key `comand`",
            "did you mean `command`?",
        ),
        (
            "command = ['x']\ncron = '* * * * *'",
            (3, 1),
            "unknown key `cron`",
            "`schedule`",
        ),
        (
            "command = ['x']\nschedule = '61 * * * *'",
            (3, 13),
            "`schedule`: minute, column 1",
            "0",
        ),
        (
            "command = ['x']\nschedule = ['@daily', '0 0 * foo *']",
            (3, 30),
            "month, column 7",
            "",
        ),
        ("command = ['x']\nschedule = '0 0 30 2 *'", (3, 17), "never", ""),
        ("command = ['x']\nschedule = '* * *'", (3, 18), "field", ""),
        (
            "command = ['x']\nschedule = ['@daily', '@reboot']",
            (3, 12),
            "@reboot fires once per boot of each node",
            "run_on = \"each-node\"",
        ),
        (
            "command = ['x']\nrun_on = 'each'",
            (3, 10),
            "unknown value",
            "each-node",
        ),
        ("command = 5", (2, 11), "expected a string", "/bin/sh -c"),
        ("command = []", (2, 11), "it is empty", "program"),
        ("command = ['']", (2, 12), "program is empty", "program"),
        (
            "command = ['a', 5]",
            (2, 17),
            "expected a string, found an integer",
            "text",
        ),
        ("command = ['a', \"b\\u0000\"]", (2, 17), "NUL", "leave it out"),
        ("enabled = true", (1, 6), "nothing to run", "add `command`"),
        (
            "command = ['x']\nflow = 'd'",
            (3, 1),
            "exclude each other",
            "keep one",
        ),
        (
            "command = ['x']\nflow = 'd'",
            (3, 8),
            "`d` is not absolute",
            "begin it with /",
        ),
        (
            "command = ['x']\nstream = {}",
            (3, 1),
            "`stream` has no list",
            "add file",
        ),
        (
            "command = ['x']\ntimeout = 90",
            (3, 11),
            "expected a duration, found an integer",
            "\"90s\"",
        ),
        (
            "command = ['x']\ntimeout = '90 s'",
            (3, 11),
            "not a valid duration",
            "largest first",
        ),
        (
            "command = ['x']\ntimeout = '0s'",
            (3, 11),
            "longer than nothing",
            "leave the key out",
        ),
        (
            "command = ['x']\nlimits = { memory = '12' }",
            (3, 21),
            "no unit",
            "512MiB",
        ),
        (
            "command = ['x']\nlimits = { memroy = '1GiB' }",
            (3, 12),
            "unknown key `memroy`",
            "`memory`",
        ),
        (
            "command = ['x']\nlimits = 5",
            (3, 10),
            "expected a table",
            "limits = { … }",
        ),
        (
            "command = ['x']\ntimezone = 'Europe/Berlni'",
            (3, 12),
            "unknown time zone",
            "\"Europe/Berlin\"",
        ),
        (
            "command = ['x']\noverlap = 'que'",
            (3, 11),
            "unknown value \"que\"",
            "\"queue\"",
        ),
        (
            "command = ['x']\nretry = { max = -1 }",
            (3, 17),
            "out of range",
            "from 0",
        ),
        (
            "command = ['x']\nretry = { base='9s', cap='1s' }",
            (3, 26),
            "below `base`",
            "at least as long",
        ),
        ("command = ['x']\ncwd = 'tmp'", (3, 7), "not absolute", "/"),
        (
            "command = ['x']\numask = '888'",
            (3, 9),
            "not a valid umask",
            "\"022\"",
        ),
        (
            "command = ['x']\numask = 22",
            (3, 9),
            "not a valid umask",
            "\"022\"",
        ),
        (
            "command = ['x']\nenv = { FARMHAND_JOB = 'x' }",
            (3, 9),
            "`FARMHAND_JOB`",
            "agent's",
        ),
        (
            "command = ['x']\nenv = { A = 5 }",
            (3, 13),
            "expected a string",
            "text",
        ),
        (
            "command = ['x', '{a}']",
            (2, 17),
            "no parameter `a`",
            "params = { a",
        ),
        (
            "command = ['x', '--since={since}']\nparams = { since = { type = 'date', required = true } }",
            (2, 17),
            "only part of an argument",
            "\"{since}\"",
        ),
        (
            "command = 'x {since}'\nparams = { since = { type = 'date', required = true } }",
            (2, 11),
            "not be substituted in a string",
            "$FARMHAND_PARAM_SINCE",
        ),
        (
            "command = ['x', '{a}']\nparams = { a = { type = 'date' } }",
            (2, 17),
            "may be absent",
            "required = true",
        ),
        (
            "command = ['{a}']\nparams = { a = { type = 'date', required = true } }",
            (2, 12),
            "cannot be a parameter",
            "name the program",
        ),
        (
            "command = ['x']\nparams = { a = { default = 1 } }",
            (3, 12),
            "has no `type`",
            "one of string",
        ),
        (
            "command = ['x']\nparams = { a = { type = 'date', default = 1 } }",
            (3, 43),
            "expected a date",
            "fit the type",
        ),
        (
            "command = ['x']\nparams = { a = { type = 'dat' } }",
            (3, 25),
            "unknown value",
            "\"date\"",
        ),
        (
            "command = ['x']\nschedule = '@daily'\nparams = { a = { type = 'date', required = true } }",
            (4, 1),
            "the schedule gives none",
            "default",
        ),
        (
            "command = ['x']\nstart = 'soon'",
            (3, 9),
            "not a point in time",
            "2026-12-01",
        ),
        (
            "command = ['x']\nstart = 2026-12-02\nend = '2026-12-01'",
            (4, 1),
            "not after `start`",
            "swap",
        ),
        ("command = ['x'", (2, 15), "", "toml.io"),
        (
            "command = ['x']\ncommand = ['y']",
            (3, 1),
            "duplicate key",
            "merge",
        ),
    ];
    for (lines, (line, column), what, fix) in table {
        let text = format!("[job.a]\n{lines}\n");
        let found = mistakes(&text).located();
        assert!(
            found.iter().any(|l| (l.line, l.column) == (*line, *column)
                && l.what.contains(what)
                && l.fix.contains(fix)),
            "{text}\nwanted {line}:{column} {what} / {fix}\nfound {found:#?}"
        );
    }
}

#[test]
fn all_mistakes_of_all_files_come_at_once() {
    let error = load(&[
        source(
            "a.toml",
            "[job.x]\ncomand = ['x']\ntimeout = 5\n[job.y]\ncommand = ['y']\n",
        ),
        source(
            "b.toml",
            "[jobs.x]\n[job.y]\ncommand = ['y']\n[job.'no name']\ncommand = ['z']\n",
        ),
    ])
    .unwrap_err();
    let found: Vec<_> = error
        .located()
        .into_iter()
        .map(|l| (l.file, l.line, l.what))
        .collect();
    let wanted = [
        ("a.toml", 1, "the job has nothing to run"),
        ("a.toml", 2, "unknown key `comand`"),
        ("a.toml", 3, "`timeout`: expected a duration, found an integer"),
        ("b.toml", 1, "unknown key `jobs`"),
        ("b.toml", 2, "job `y` is already defined in a.toml"),
        ("b.toml", 4, "`no name` is not a valid job name"),
    ]
    .map(|(file, line, what)| (file.to_owned(), line, what.to_owned()));
    assert_eq!(found, wanted);
}

#[test]
fn a_mistake_in_the_defaults_is_reported_once() {
    let error = mistakes(
        "[defaults]\ntimeout = 5\ncommand = ['x']\n[job.a]\ncommand=['x']\n[job.b]\ncommand=['x']\n",
    );
    let found: Vec<_> = error.located().into_iter().map(|l| (l.line, l.what)).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].0, 2);
    assert!(found[1].1.contains("cannot be inherited"));
}

#[test]
fn a_mistake_is_shown_with_its_line() {
    let text = mistakes("[job.a]\ncomand = ['x']\ncommand = ['x']\n").render(false, 100);
    assert!(text.contains("jobs.toml:2:1"), "{text}");
    assert!(text.contains("comand = ['x']"), "{text}");
    assert!(text.contains("did you mean `command`?"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn no_bytes_make_the_reader_panic() {
    for text in [
        "",
        "\u{feff}",
        "[",
        "[job",
        "[job.é]\ncommand=[\"é",
        "job = 5",
        "job.a = 5",
        "[job.a]\nschedule = [[]]",
        "\0",
        "a\u{301}=\"\\uD800\"",
    ] {
        if let Err(e) = load(&[source("j", text)]) {
            assert!(!e.render(true, 80).is_empty());
            assert!(!e.located().is_empty());
        }
    }
}
