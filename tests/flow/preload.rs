//! A library that is loaded once, and a subshell of that shell for each script.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use farmhand_tests::wait::eventually;

use super::fixture::*;
use super::run::{run, scripts};

fn library(text: &str) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("subr");
    fs::write(&path, text).unwrap();
    (place, path)
}

#[test]
fn scripts_use_functions_of_a_library_that_is_loaded_once() {
    let (place, lib) =
        library("echo loaded >> \"$LOADS\"\nhello() { echo \"$FARMHAND_TASK: $1 $word\"; }\nword=kept\n");
    let loads = place.path().join("loads");
    let dir = scripts(&[
        ("a", "# PROVIDE: a\nhello \"$1\"; word=changed; cd /"),
        (
            "b",
            "# PROVIDE: b\n# REQUIRE: a\nhello \"$1\" >&2; [ \"$PWD\" != / ]",
        ),
        ("c", "# REQUIRE: b\nhello \"$1\"; return 0; exit 9"),
    ]);
    let out = command(&["run", "--preload", lib.to_str().unwrap(), path(&dir)])
        .env("LOADS", &loads)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let said = "a | a: start kept\nb | b: start kept\nc | c: start kept\n";
    assert_eq!(text(&out.stdout), said);
    assert_eq!(fs::read_to_string(loads).unwrap(), "loaded\n");
}

#[test]
fn exit_codes_signals_and_what_is_no_script_for_sh_are_as_ever() {
    let (_place, lib) = library("code() { return 5; }\n");
    let dir = scripts(&[
        ("fails", "# PROVIDE: fails\nexit 7"),
        ("falls", "# PROVIDE: falls\ncode"),
        ("killed", "# PROVIDE: killed\nkill -9 $(exec sh -c 'echo $PPID')"),
        ("after", "# REQUIRE: fails\n"),
        ("quick", "# PROVIDE: quick\n"),
    ]);
    write_script(
        dir.path(),
        "other",
        "#!/usr/bin/env sh\n# PROVIDE: other\ncode; [ $? = 127 ]\n",
    );
    let (log, code, err) = run(&["--preload", lib.to_str().unwrap(), path(&dir)]);
    assert_eq!(code, 1, "{err}");
    let end = |task: &str| {
        let found = log
            .events
            .iter()
            .find(|e| e["event"] == "end" && e["task"] == task);
        let found = found.unwrap_or_else(|| panic!("{task} did not end: {err}"));
        (
            found["outcome"].as_str().unwrap().to_owned(),
            found["exit_code"].as_i64(),
        )
    };
    assert_eq!(end("fails"), ("failed".to_owned(), Some(7)));
    assert_eq!(end("falls"), ("failed".to_owned(), Some(5)));
    assert_eq!(end("killed"), ("failed".to_owned(), Some(137)));
    assert_eq!(end("after"), ("skipped".to_owned(), None));
    assert_eq!(end("quick"), ("succeeded".to_owned(), Some(0)));
    assert_eq!(end("other"), ("succeeded".to_owned(), Some(0)));
}

#[test]
fn every_sample_graph_runs_through_one_shell_and_violates_no_edge() {
    let (_place, lib) = library("nap() { sleep 0.00$(( $(date +%N | sed 's/^0*//; s/^$/0/') % 9 )); }\n");
    for name in RCORDER.into_iter().chain([LSB]) {
        let dir = graph(name, "nap");
        let (edges, names) = edges(name);
        let (log, code, err) = run(&["--preload", lib.to_str().unwrap(), path(&dir)]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(log.times.len(), names.len());
        for (from, to) in &edges {
            assert!(
                log.times[from].1 <= log.times[to].0,
                "{to} started before the end of {from}"
            );
        }
    }
}

#[test]
fn a_task_past_its_timeout_is_ended_with_its_group_and_nobody_else() {
    let (_place, lib) = library("nap() { sleep \"$1\"; }\n");
    let dir = scripts(&[("hangs", "trap '' TERM\nnap 600 & nap 600"), ("lives", "nap 1.5")]);
    let args = [
        "--preload",
        lib.to_str().unwrap(),
        "--timeout",
        "15s",
        "--grace",
        "200ms",
        path(&dir),
    ];
    let before = Instant::now();
    let (log, code, err) = run(&args);
    assert_eq!(code, 1, "{err}");
    assert_eq!(
        (&*log.outcomes["hangs"], &*log.outcomes["lives"]),
        ("timed_out", "succeeded")
    );
    assert!(before.elapsed() < Duration::from_secs(60));
}

#[test]
fn when_the_shell_dies_what_it_ran_has_failed_and_another_one_goes_on() {
    let (_place, lib) = library("shell=$$\n");
    let dir = scripts(&[
        ("kills", "# PROVIDE: kills\nkill -9 \"$shell\"; sleep 600"),
        ("later", "# REQUIRE: first\necho later"),
        (
            "first",
            "# PROVIDE: first\nuntil [ -e \"$FARMHAND_DEPS/.status/kills\" ]; do sleep 0.05; done",
        ),
    ]);
    // Not of the shell that dies.
    write_script(
        dir.path(),
        "first",
        "#!/usr/bin/env sh\n# PROVIDE: first\nuntil [ -e \"$FARMHAND_DEPS/.status/kills\" ]; do sleep 0.05; done\n",
    );
    let out = flow(&["run", "--preload", lib.to_str().unwrap(), path(&dir)]);
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(
        err.contains("kills failed: ")
            && err.contains("the shell that had loaded")
            && err.contains("2 succeeded"),
        "{err}"
    );
    assert!(text(&out.stdout).contains("later | later"), "{err}");
}

#[test]
fn a_library_that_cannot_be_loaded_is_an_error_before_anything_starts() {
    let dir = scripts(&[("a", "# PROVIDE: a\n")]);
    let (place, lib) = library("this is ( no shell\n");
    let none = place.path().join("none");
    let ends = place.path().join("ends");
    fs::write(&ends, "echo 'it is too late' >&2; exit 3\n").unwrap();
    let cases = [
        (&lib, "the shell ends in it"),
        (&none, "No such file"),
        (&place.path().to_owned(), "it is a directory"),
        (&ends, "it is too late"),
    ];
    for (lib, why) in cases {
        let (log, code, err) = run(&["--preload", lib.to_str().unwrap(), path(&dir)]);
        assert_eq!((code, log.events.len()), (1, 0), "{err}");
        assert!(
            err.contains("cannot be preloaded") && err.contains(why) && err.contains("next: "),
            "{err}"
        );
    }
}

#[test]
fn nothing_of_the_shell_is_left_after_the_flow() {
    let (place, lib) = library("nap() { sleep 600; }\n");
    let run_dir = place.path().join("run");
    let dir = scripts(&[("a", "nap")]);
    let args = [
        "run",
        "--run-dir",
        run_dir.to_str().unwrap(),
        "--preload",
        lib.to_str().unwrap(),
        path(&dir),
    ];
    let mut child = command(&args)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let log = run_dir.join("log/a.log");
    eventually("the task runs", Duration::from_secs(20), || {
        log.exists().then_some(()).ok_or_else(|| "it does not".to_owned())
    });
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mark = format!(
        "FARMHAND_RUN_DIR={}",
        fs::canonicalize(&run_dir).unwrap().display()
    );
    eventually("all of it is gone", Duration::from_secs(10), || {
        let alive = |p: &farmhand_tests::processes::Process| p.state != 'Z' && p.environment.contains(&mark);
        let left: Vec<_> = farmhand_tests::processes::all()
            .into_iter()
            .filter(alive)
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}

/// As a warden does it.
#[test]
fn a_signal_to_all_processes_leaves_tasks_their_grace() {
    let (place, lib) = library("nap() { sleep 600 & wait; }\n");
    let run_dir = place.path().join("run");
    let body = "trap 'n=0; while [ $n -lt 10 ]; do sleep 0.1; n=$((n+1)); done; echo clean; exit 0' TERM\necho up\nnap";
    let dir = scripts(&[("a", body)]);
    let (at, lib) = (run_dir.to_str().unwrap(), lib.to_str().unwrap());
    let mut child = command(&["run", "--run-dir", at, "--preload", lib, path(&dir)])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let said = || fs::read_to_string(run_dir.join("log/a.log")).unwrap_or_default();
    eventually("the task runs", Duration::from_secs(20), || {
        said().contains("up").then_some(()).ok_or_else(said)
    });
    let mark = format!(
        "FARMHAND_RUN_DIR={}",
        fs::canonicalize(&run_dir).unwrap().display()
    );
    let own = child.id().cast_signed();
    for process in farmhand_tests::processes::all() {
        if process.pid == own || process.environment.contains(&mark) {
            // SAFETY: a plain system call; these are this test's own processes.
            unsafe { libc::kill(process.pid, libc::SIGTERM) };
        }
    }
    child.wait().unwrap();
    assert!(said().contains("clean"), "{}", said());
}
