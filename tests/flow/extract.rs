//! Annotations that a command prints, and conditions with alternatives.

use std::time::{Duration, Instant};

use super::fixture::*;
use super::run::{run, scripts};

/// `@needs a` in the scripts, instead of our annotations.
const EXTRACTOR: &str =
    "#!/bin/sh\nawk '/^# @needs/ { print \"REQUIRE: \" $3 } /^# @is/ { print \"PROVIDE: \" $3 }' \"$2\"\n";

fn foreign() -> tempfile::TempDir {
    scripts(&[
        ("one", "# @is disk\n# REQUIRE: nobody\n"),
        ("two", "# @needs disk\n# @is net\n"),
        ("three", "# @needs net\n"),
    ])
}

#[test]
fn annotations_of_another_format_are_what_the_command_prints() {
    let tools = tempfile::tempdir().unwrap();
    write_script(tools.path(), "describe it", EXTRACTOR);
    let command = format!("'{}/describe it' --headers", path(&tools));
    let dir = foreign();
    let out = flow(&["run", "--dry-run", "--extract", &command, path(&dir)]);
    assert_eq!(text(&out.stdout), "one\ntwo\nthree\n", "{}", text(&out.stderr));
    let (log, code, err) = run(&["--extract", &command, path(&dir)]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(log.outcomes.len(), 3);
    let job = format!(
        "[job.f]\nflow = {{ dir = '{}', extract = \"{command}\" }}\n",
        path(&dir)
    );
    let file = tools.path().join("jobs.toml");
    std::fs::write(&file, job).unwrap();
    let out = flow(&["run", "--dry-run", file.to_str().unwrap()]);
    assert_eq!(text(&out.stdout), "one\ntwo\nthree\n", "{}", text(&out.stderr));
}

#[test]
fn a_command_that_fails_says_nonsense_hangs_or_never_ends_is_told_with_its_script() {
    let dir = scripts(&[("one", "")]);
    let cases = [
        ("exit 3; :", "exit code 3"),
        ("no-such-command", "exit code 127"),
        ("echo REQURE: disk; :", "it printed `REQURE: disk`"),
        ("yes PROVIDE: a; :", "it printed more than 64 KiB"),
        ("sleep 600; :", "it took more than 10 s"),
        ("exec >&-; sleep 600; :", "it took more than 10 s"),
    ];
    std::thread::scope(|threads| {
        for (command, why) in cases {
            let dir = &dir;
            threads.spawn(move || {
                let began = Instant::now();
                let out = flow(&["plan", "--extract", command, path(dir)]);
                let err = text(&out.stderr);
                assert_eq!(out.status.code(), Some(1), "{err}");
                let named = format!(
                    "the annotations of {}/one cannot be extracted with `{command}`",
                    path(dir)
                );
                assert!(err.contains(&named) && err.contains(why), "{err}");
                assert!(began.elapsed() < Duration::from_secs(20), "{command}");
            });
        }
    });
}

#[test]
fn extract_is_for_directories() {
    let dir = foreign();
    let one = dir.path().join("one");
    let out = flow(&["plan", "--extract", "true", one.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("--extract is for directories"));
}

#[test]
fn a_script_that_requires_one_of_two_runs_after_the_first_that_succeeded() {
    let body = |a: &'static str, b: &'static str| {
        scripts(&[("a", a), ("b", b), ("c", "# PROVIDE: c\n# REQUIRE: a|b|absent\n")])
    };
    let dir = body("# PROVIDE: a\nexit 1", "# PROVIDE: b\nsleep 0.3");
    let (log, code, _) = run(&[path(&dir)]);
    assert_eq!((code, &*log.outcomes["c"]), (1, "succeeded"));
    assert!(log.times["b"].1 <= log.times["c"].0);
    let dir = body("# PROVIDE: a\nsleep 10", "# PROVIDE: b\n");
    let (log, code, err) = run(&[path(&dir)]);
    assert_eq!(code, 0, "{err}");
    assert!(log.times["c"].0 < log.times["a"].1, "it waits for one alone");
    let dir = body("# PROVIDE: a\nexit 1", "# PROVIDE: b\nsleep 0.2; exit 2");
    let err = text(&flow(&["run", path(&dir)]).stderr);
    assert!(err.contains("c is skipped: a did not succeed"), "{err}");
}
