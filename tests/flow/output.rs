//! What tasks print: in pieces of any length, and more than anybody can show.

use std::fs;
use std::process::{Command, Stdio};

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

#[test]
fn a_terminal_gets_nothing_that_steers_it() {
    let dir = scripts(&[("a", "printf 'name\\tsize\\n\\033[31mred\\033]0;title\\007\\n'")]);
    let line = format!(
        "{} flow run {}",
        farmhand_tests::bin::farmhand().display(),
        path(&dir)
    );
    let mut terminal = Command::new("script");
    let out = terminal.args(["-qefc", &line, "/dev/null"]).output().unwrap();
    let said = text(&out.stdout);
    assert!(
        said.contains("a | name\tsize\r\n") && said.contains("a | red^[]0;title^G\r\n"),
        "{said:?}"
    );
}

#[test]
fn a_pipe_gets_what_tasks_print_byte_for_byte() {
    let dir = scripts(&[("a", "printf 'name\\tsize\\n\\033[31mred\\033[0m\\n\\377\\n'")]);
    let out = flow(&["run", path(&dir)]);
    assert_eq!(out.stdout, b"a | name\tsize\na | \x1b[31mred\x1b[0m\na | \xff\n");
}
