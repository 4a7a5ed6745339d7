use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use farmhand_tests::wait::eventually;

use super::fixture::*;
use super::run::{run, scripts};

#[test]
fn scripts_without_the_run_bit_are_told_and_left_out_with_annotations_and_without() {
    let dir = scripts(&[("a", "# PROVIDE: a\n")]);
    fs::write(dir.path().join("b"), "#!/bin/sh\n# REQUIRE: a\n").unwrap();
    fs::write(dir.path().join("c"), "#!/bin/sh\n").unwrap();
    let (log, code, err) = run(&[path(&dir)]);
    let ran: Vec<&str> = log.times.keys().map(String::as_str).collect();
    assert_eq!((code, ran), (0, vec!["a"]), "{err}");
    for name in ["b", "c"] {
        let told = format!("/{name}:1: it has no run bit and is left out: chmod +x ");
        assert!(err.contains(&told), "{err}");
    }
}

#[test]
fn ten_thousand_tasks_run() {
    let place = tempfile::tempdir().unwrap();
    let edges = place.path().join("edges");
    let pairs: String = (1..10_000).map(|n| format!("t{} t{n}\n", n / 2)).collect();
    fs::write(&edges, pairs).unwrap();
    let (log, code, err) = run(&["--edges", edges.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(log.outcomes.len(), 10_000);
}

#[test]
fn a_task_that_deletes_the_fifos_ends_the_flow_with_a_clear_error() {
    let dir = scripts(&[
        ("bad", "sleep 0.2; rm -rf \"$FARMHAND_DEPS\""),
        ("waiter", "true < \"$FARMHAND_DEPS/never\""),
        ("never", "# PROVIDE: never\nsleep 600"),
    ]);
    let before = Instant::now();
    let (_, code, err) = run(&["--grace", "1s", path(&dir)]);
    assert_eq!(code, 1);
    assert!(err.contains("somebody deleted"), "{err}");
    assert!(before.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_flow_runs_where_its_session_began_outside_the_pid_namespace() {
    let dir = scripts(&[("a", "# PROVIDE: a\n")]);
    let out = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(farmhand_tests::bin::farmhand())
        .args(["flow", "run", path(&dir)])
        .output()
        .expect("unshare runs: apt-get install util-linux, as root");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

/// Mounts a small tmpfs in a mount namespace of its own and runs the flow in there.
fn in_tmpfs(options: &str, prepare: &str, dir: &Path) -> std::process::Output {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().display();
    let script = format!(
        "mount -t tmpfs -o size=64k,nr_inodes=200 tmpfs {at} && {{ {prepare} }} && mount -o remount,{options} {at} && exec {} flow run --run-dir {at}/run {}",
        farmhand_tests::bin::farmhand().display(),
        dir.display()
    );
    std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &script.replace("$AT", &at.to_string())])
        .output()
        .expect("unshare runs: apt-get install util-linux, as root")
}

#[test]
fn a_read_only_or_full_directory_is_a_clear_error() {
    let dir = scripts(&[("a", "# PROVIDE: a\n")]);
    let out = in_tmpfs("ro", "true;", dir.path());
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(
        err.contains("Read-only file system") && err.contains("next: choose another place with --run-dir"),
        "{err}"
    );

    let out = in_tmpfs(
        "rw",
        "i=0; while true > $AT/$i; do i=$((i+1)); done 2>/dev/null;",
        dir.path(),
    );
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(err.contains("No space left on device"), "{err}");
}

#[test]
fn a_disk_that_fills_up_during_the_flow_ends_it_with_a_clear_error() {
    let dir = scripts(&[
        (
            "a",
            "# PROVIDE: a\nhead -c 200000 /dev/zero > \"$FARMHAND_RUN_DIR/fill\"; exit 0",
        ),
        ("b", "# REQUIRE: a\n"),
    ]);
    let out = in_tmpfs("rw", "true;", dir.path());
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(
        err.contains("the flow was ended before its time") && err.contains("No space left"),
        "{err}"
    );
}

#[test]
fn two_engines_do_not_share_a_directory() {
    let dir = scripts(&[("a", "sleep 600")]);
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let args = ["run", "--run-dir", run_dir.to_str().unwrap(), path(&dir)];
    let mut first = command(&args).spawn().unwrap();
    eventually("the task runs", Duration::from_secs(20), || {
        run_dir
            .join("log/a.log")
            .exists()
            .then_some(())
            .ok_or_else(|| "it does not".to_owned())
    });
    let second = flow(&args);
    assert_eq!(second.status.code(), Some(4), "{}", text(&second.stderr));
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(first.id().cast_signed(), libc::SIGTERM) };
    first.wait().unwrap();
}

#[test]
fn a_flow_that_is_ended_keeps_the_grace_of_its_tasks_when_nobody_reads_it_any_more() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("{}/{name}", path(&place));
    let task = |on_term: &str, name: &str| {
        format!(
            "trap '{on_term}; exit 0' TERM\n: > {}\nwhile :; do sleep 0.1; done",
            at(name)
        )
    };
    let slow = task(&format!("sleep 1; : > {}", at("clean")), "slow");
    let quick = task("echo bye", "quick");
    let dir = scripts(&[("slow", &slow), ("quick", &quick)]);
    let mut child = command(&["run", path(&dir)])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("both run", Duration::from_secs(20), || {
        let both = ["slow", "quick"]
            .iter()
            .all(|name| place.path().join(name).exists());
        both.then_some(()).ok_or_else(|| "not yet".to_owned())
    });
    drop(child.stdout.take());
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    child.wait().unwrap();
    assert!(place.path().join("clean").exists(), "it was killed in its grace");
}

#[test]
fn two_flows_of_one_run_go_on_side_by_side() {
    let dir = scripts(&[("a", "# PROVIDE: a\nsleep 2")]);
    let run = tempfile::tempdir().unwrap();
    let start = || {
        let mut flow = command(&["run", path(&dir)]);
        flow.env("FARMHAND_RUN_DIR", run.path()).spawn().unwrap()
    };
    for mut one in [start(), start()] {
        assert_eq!(one.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_stop_does_not_go_on_where_a_start_ended() {
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let run_dir = run_dir.to_str().unwrap();
    let dir = scripts(&[("a", "# PROVIDE: a\n")]);
    let (_, code, err) = run(&["--run-dir", run_dir, path(&dir)]);
    assert_eq!(code, 0, "{err}");
    let (_, code, err) = run(&["--stop", "--resume", "--run-dir", run_dir, path(&dir)]);
    assert!(code == 2 && err.contains("was to start"), "{code}: {err}");
    let (_, code, err) = run(&["--stop", "--run-dir", run_dir, path(&dir)]);
    assert_eq!(code, 0, "{err}");
}
