//! What tasks print: in pieces of any length, and more than anybody can show.

use std::fs;
use std::process::Stdio;

use super::fixture::*;
use super::run::scripts;

#[test]
fn a_task_that_floods_its_output_keeps_nothing_else_from_running() {
    // Whether it is over is told in this file.
    let alone = "# REQUIRE: b\n[ ! -e \"$FARMHAND_DEPS/.status/a\" ] && touch \"$FARMHAND_RUN_DIR/ran\"";
    let size = "sleep 1.5; stat -c %s \"$FARMHAND_RUN_DIR/log/a.log\" > \"$FARMHAND_RUN_DIR/size\"";
    let dir = scripts(&[
        (
            "a",
            "# PROVIDE: a\nexec timeout 10 yes \"a line of some length, again and again\"",
        ),
        ("b", "# PROVIDE: b\nsleep 0.2"),
        ("c", alone),
        ("d", size),
    ]);
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let args = [
        "run",
        "--timeout",
        "2s",
        "--run-dir",
        run_dir.to_str().unwrap(),
        path(&dir),
    ];
    let out = command(&args).stdout(Stdio::null()).output().unwrap();
    let err = text(&out.stderr);
    assert!(err.contains("a ran past its timeout"), "{err}");
    assert!(run_dir.join("ran").exists(), "c did not run beside a: {err}");
    let size = fs::read_to_string(run_dir.join("size")).unwrap();
    let size: u64 = size.trim().parse().unwrap();
    assert!(size < 200 << 20, "the file of a has {size} bytes");
}

#[test]
fn a_line_of_any_length_is_shown_whole_in_parts() {
    let long = "head -c 200000 /dev/zero | tr '\\0' x; echo; echo short";
    let out = flow(&["run", path(&scripts(&[("a", long)]))]);
    let said = text(&out.stdout);
    let parts: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("a | "))
        .collect();
    let (last, long) = parts.split_last().unwrap();
    assert_eq!(*last, "short");
    assert_eq!(long.concat(), "x".repeat(200_000));
}
