//! Tasks that wait for each other while they run are told, and ended.

use std::time::{Duration, Instant};

use farmhand_tests::bin::farmhand;

use super::fixture::*;
use super::run::{run, scripts};

const CYCLE: &str = "deadlock: a waits for b, b waits for a";

/// The reason of a task's end.
fn reason(log: &super::run::Log, task: &str) -> String {
    let end = |e: &&serde_json::Value| e["event"] == "end" && e["task"] == task;
    let end = log
        .events
        .iter()
        .find(end)
        .unwrap_or_else(|| panic!("no end of {task}"));
    end["reason"].as_str().unwrap_or_default().to_owned()
}

/// `a` sleeps for `b`, which requires `a`. Without the timeout the test would hang where it is not noticed.
fn noticed(wait: &str, options: &[&str]) {
    let began = Instant::now();
    let dir = scripts(&[
        ("a", &format!("# PROVIDE: a\n{wait}")),
        ("b", "# PROVIDE: b\n# REQUIRE: a\n"),
        ("c", "# PROVIDE: c\nsleep 2"),
    ]);
    let args = [&["--timeout", "30s"], options, &[path(&dir)]].concat();
    let (log, code, err) = run(&args);
    assert_eq!(code, 1, "{err}");
    assert_eq!(reason(&log, "a"), CYCLE, "{wait}");
    let ends = ["a", "b", "c"].map(|task| &*log.outcomes[task]);
    assert_eq!(ends, ["failed", "skipped", "succeeded"], "{wait}");
    assert!(began.elapsed() < Duration::from_secs(20), "{wait}");
}

#[test]
fn a_task_that_reads_the_fifo_of_what_requires_it_is_ended_and_the_chain_told() {
    noticed("true < \"$FARMHAND_DEPS/b\"", &[]);
    noticed("cd \"$FARMHAND_DEPS\"; x=$(cat b); echo \"$x\"", &[]);
}

#[test]
fn a_task_that_calls_flow_wait_for_what_requires_it_is_ended_and_the_chain_told() {
    noticed(&format!("{} flow wait b", farmhand().display()), &[]);
}

#[test]
fn a_deadlock_under_a_library_is_told() {
    let library = tempfile::NamedTempFile::new().unwrap();
    noticed(
        "true < \"$FARMHAND_DEPS/b\"",
        &["--preload", library.path().to_str().unwrap()],
    );
}

#[test]
fn people_read_the_chain_and_which_task_was_ended() {
    let dir = scripts(&[
        ("a", "# PROVIDE: a\ntrue < \"$FARMHAND_DEPS/b\""),
        ("b", "# PROVIDE: b\ntrue < \"$FARMHAND_DEPS/c\""),
        ("c", "# PROVIDE: c\n# REQUIRE: m\n"),
        ("d", "# PROVIDE: m d\ntrue < \"$FARMHAND_DEPS/a\""),
    ]);
    let out = flow(&["run", "--timeout", "30s", path(&dir)]);
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    let chain = "deadlock: a waits for b, b waits for c, c waits for d (m), d waits for a";
    for task in ["a", "b", "d"] {
        assert!(err.contains(&format!("{task} failed: {chain}")), "{err}");
    }
}

#[test]
fn a_task_that_waits_for_one_that_has_no_place_before_it_ends_is_a_deadlock() {
    let dir = scripts(&[
        ("a", "# PROVIDE: a\n# LOCK: disk\ntrue < \"$FARMHAND_DEPS/b\""),
        ("b", "# PROVIDE: b\n# LOCK: disk\n"),
    ]);
    let locks = tempfile::tempdir().unwrap();
    let cases = [
        (vec!["-j", "1"], "b waits for a to leave a place"),
        (vec!["-j", "2"], "b waits for a to release a lock"),
    ];
    for (options, why) in cases {
        let args = [
            &["run", "--json", "--timeout", "30s"],
            &options[..],
            &[path(&dir)],
        ]
        .concat();
        let out = command(&args)
            .env("FARMHAND_LOCK_DIR", locks.path())
            .output()
            .unwrap();
        let said = text(&out.stdout);
        assert!(
            said.contains(&format!("deadlock: a waits for b, {why}")),
            "{said}"
        );
        assert_eq!(out.status.code(), Some(1));
    }
}

/// Whatever may yet end the wait: a time limit, a background process, a daemon that marks.
#[test]
fn waits_that_something_may_end_are_no_deadlock() {
    let bin = farmhand().display();
    let waits = [
        format!("{bin} flow wait b --timeout 4s; true"),
        "timeout 4 cat \"$FARMHAND_DEPS/b\"; true".to_owned(),
        format!("(sleep 4; {bin} flow mark a) & true < \"$FARMHAND_DEPS/b\""),
        format!(
            "setsid sh -c 'sleep 4; {bin} flow mark a' > /dev/null 2>&1 < /dev/null & true < \"$FARMHAND_DEPS/b\""
        ),
        "true < \"$FARMHAND_DEPS/c\"".to_owned(),
    ];
    std::thread::scope(|threads| {
        for wait in &waits {
            threads.spawn(move || {
                let dir = scripts(&[
                    ("a", &format!("# PROVIDE: a\n{wait}")),
                    ("b", "# PROVIDE: b\n# REQUIRE: a\n"),
                    ("c", "# PROVIDE: c\nsleep 4"),
                ]);
                let (_, code, err) = run(&["--timeout", "30s", path(&dir)]);
                assert_eq!(code, 0, "{wait}: {err}");
            });
        }
    });
}
