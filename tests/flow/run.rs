use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use farmhand_tests::wait::eventually;
use serde_json::Value;

use super::fixture::*;

/// Start and end of every executed task, in microseconds since the flow began, and how each task ended.
pub struct Log {
    pub times: BTreeMap<String, (u64, u64)>,
    pub outcomes: BTreeMap<String, String>,
    pub events: Vec<Value>,
}

fn log(stdout: &[u8]) -> Log {
    let events: Vec<Value> = text(stdout)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
        .collect();
    let mut starts = BTreeMap::new();
    let mut log = Log {
        times: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        events: Vec::new(),
    };
    for event in &events {
        let task = event["task"].as_str().expect("a task").to_owned();
        let at = event["elapsed_us"].as_u64().expect("a time");
        match event["event"].as_str() {
            Some("start") => assert!(starts.insert(task, at).is_none(), "started twice: {event}"),
            Some("end") => {
                if let Some(start) = starts.get(&task) {
                    log.times.insert(task.clone(), (*start, at));
                }
                let outcome = event["outcome"].as_str().expect("an outcome").to_owned();
                assert!(
                    log.outcomes.insert(task, outcome).is_none(),
                    "ended twice: {event}"
                );
            }
            _ => {}
        }
    }
    log.events = events;
    log
}

fn respects(log: &Log, edges: &BTreeSet<(String, String)>) {
    for (from, to) in edges {
        let (Some((_, end)), Some((start, _))) = (log.times.get(from), log.times.get(to)) else {
            panic!("{from} or {to} did not run");
        };
        assert!(
            end <= start,
            "{to} started at {start} us, {from} ended at {end} us"
        );
    }
}

pub fn run(args: &[&str]) -> (Log, i32, String) {
    let out = flow(&[&["run", "--json"], args].concat());
    let err = text(&out.stderr);
    (
        log(&out.stdout),
        out.status.code().unwrap_or_else(|| panic!("{err}")),
        err,
    )
}

pub fn scripts(scripts: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, body) in scripts {
        write_script(dir.path(), name, &format!("#!/bin/sh\n{body}\n"));
    }
    dir
}

/// Runs a graph twenty times with random task durations; no task may start before the end of what it waits for.
fn runs_without_a_violated_edge(name: &str) {
    let runs = std::env::var("FARMHAND_FLOW_RUNS").map_or(20, |n| n.parse().expect("a number"));
    let dir = graph(name, "exec sleep 0.00$(( $$ % 9 ))");
    let (edges, names) = edges(name);
    for _ in 0..runs {
        let (log, code, err) = run(&[path(&dir)]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(log.times.keys().cloned().collect::<BTreeSet<_>>(), names);
        respects(&log, &edges);
    }
}

#[test]
fn the_freebsd_graph_runs_twenty_times_and_violates_no_edge() {
    runs_without_a_violated_edge(RCORDER[0]);
}

#[test]
fn the_minix_graph_runs_twenty_times_and_violates_no_edge() {
    runs_without_a_violated_edge(RCORDER[1]);
}

#[test]
fn the_netbsd_graph_runs_twenty_times_and_violates_no_edge() {
    runs_without_a_violated_edge(RCORDER[2]);
}

#[test]
fn the_debian_graph_runs_twenty_times_and_violates_no_edge() {
    runs_without_a_violated_edge(LSB);
}

#[test]
fn a_flow_stops_in_reverse_order() {
    let dir = graph(RCORDER[1], "[ \"$1\" = stop ]");
    let (log, code, err) = run(&["--stop", path(&dir)]);
    assert_eq!(code, 0, "{err}");
    let reversed = edges(RCORDER[1])
        .0
        .into_iter()
        .map(|(from, to)| (to, from))
        .collect();
    respects(&log, &reversed);
}

#[test]
fn a_failure_skips_what_requires_it_and_says_who_is_to_blame() {
    let dir = scripts(&[
        ("a", "# PROVIDE: a\nexit 3"),
        ("b", "# PROVIDE: b\n# REQUIRE: a\n"),
        ("c", "# PROVIDE: c\n# REQUIRE: b\n"),
        ("d", "# PROVIDE: d\n"),
    ]);
    let (log, code, _) = run(&[path(&dir)]);
    assert_eq!(code, 1);
    assert_eq!(log.outcomes["a"], "failed");
    assert_eq!(
        (&*log.outcomes["b"], &*log.outcomes["c"], &*log.outcomes["d"]),
        ("skipped", "skipped", "succeeded")
    );
    let of = |task: &str| {
        log.events
            .iter()
            .find(|e| e["event"] == "end" && e["task"] == task)
            .unwrap()
    };
    assert_eq!(of("a")["exit_code"], 3);
    assert_eq!(strings(&of("c")["blame"]), ["b", "a"]);
    let err = text(&flow(&["run", path(&dir)]).stderr);
    assert!(
        err.contains("c is skipped: b was skipped because a did not succeed"),
        "{err}"
    );
}

#[test]
fn a_script_waits_for_another_through_its_fifo_and_learns_how_it_ended() {
    let waiter = "true < \"$FARMHAND_DEPS/slow\" && cat \"$FARMHAND_DEPS/.status/slow\"";
    let asks = format!(
        "{} flow wait slow; echo \"code $?\"",
        farmhand_tests::bin::farmhand().display()
    );
    let nobody = format!(
        "{} flow wait nothing --timeout 5s; echo \"code $?\"",
        farmhand_tests::bin::farmhand().display()
    );
    let dir = scripts(&[
        ("slow", "# PROVIDE: slow\nsleep 0.3; exit 7"),
        ("waiter", waiter),
        ("asks", &asks),
        ("nobody", &nobody),
    ]);
    let out = flow(&["run", path(&dir)]);
    let said = text(&out.stdout);
    assert!(said.contains("waiter | 7 failed"), "{said}");
    assert!(said.contains("  asks | code 10"), "{said}");
    assert!(said.contains("nobody | code 3"), "{said}");
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn a_daemon_marks_itself_ready_and_goes_on() {
    let bin = farmhand_tests::bin::farmhand().display();
    let until_client = "until [ -e \"$FARMHAND_DEPS/.status/client\" ]; do sleep 0.05; done";
    let dir = scripts(&[
        (
            "daemon",
            &format!("# PROVIDE: net\n{bin} flow mark net; {until_client}"),
        ),
        (
            "client",
            "# PROVIDE: client\n# REQUIRE: net\n[ -e \"$FARMHAND_DEPS/.status/net\" ]",
        ),
    ]);
    let (log, code, err) = run(&[path(&dir)]);
    assert_eq!(code, 0, "{err}");
    assert!(log.times["client"].1 < log.times["daemon"].1);
    assert!(
        log.events
            .iter()
            .any(|e| e["event"] == "mark" && e["name"] == "net")
    );
}

#[test]
fn a_task_that_runs_past_its_timeout_is_ended_with_all_of_its_group() {
    let dir = scripts(&[
        ("a", "# PROVIDE: a\ntrap '' TERM; sleep 600 & sleep 600"),
        ("b", "# REQUIRE: a\n"),
    ]);
    let before = Instant::now();
    let (log, code, _) = run(&["--timeout", "200ms", "--grace", "200ms", path(&dir)]);
    assert_eq!(code, 1);
    assert_eq!(
        (&*log.outcomes["a"], &*log.outcomes["b"]),
        ("timed_out", "skipped")
    );
    assert!(before.elapsed() < Duration::from_secs(20));
}

#[test]
fn ctrl_c_ends_everything_and_says_so_in_the_exit_code() {
    let dir = scripts(&[
        (
            "a",
            "# PROVIDE: a\necho $$ > \"$FARMHAND_RUN_DIR/pid\"; sleep 600 & wait",
        ),
        ("b", "# REQUIRE: a\n"),
    ]);
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let mut child = command(&["run", "--run-dir", run_dir.to_str().unwrap(), path(&dir)])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid: i32 = eventually("the task runs", Duration::from_secs(20), || {
        let text = fs::read_to_string(run_dir.join("pid")).map_err(|e| e.to_string())?;
        text.trim().parse().map_err(|_| "not yet written".to_owned())
    });
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mark = format!(
        "FARMHAND_RUN_DIR={}",
        fs::canonicalize(&run_dir).unwrap().display()
    );
    let alive = |p: &farmhand_tests::processes::Process| p.state != 'Z' && p.environment.contains(&mark);
    eventually("all of it is gone", Duration::from_secs(10), || {
        let mut left = farmhand_tests::processes::all();
        left.retain(|p| alive(p));
        left.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{pid}: {left:?}"))
    });
}

#[test]
fn waiters_are_told_when_the_engine_is_killed() {
    let dir = scripts(&[("a", "# PROVIDE: a\nsleep 3"), ("b", "# REQUIRE: a\n")]);
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let mut child = command(&["run", "--run-dir", run_dir.to_str().unwrap(), path(&dir)])
        .spawn()
        .unwrap();
    let deps = run_dir.join("deps");
    eventually("the task runs", Duration::from_secs(20), || {
        run_dir
            .join("log/a.log")
            .exists()
            .then_some(())
            .ok_or_else(|| "it does not".to_owned())
    });
    let waiter = {
        let deps = deps.clone();
        std::thread::spawn(move || farmhand_engine::flow::fifo::wait(&deps, "b", None).unwrap())
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        waiter.join().unwrap(),
        farmhand_engine::flow::fifo::Status::engine_lost()
    );
}

#[test]
fn what_succeeded_is_not_run_again_when_a_flow_resumes() {
    let place = tempfile::tempdir().unwrap();
    let run_dir = place.path().join("run");
    let run_dir = run_dir.to_str().unwrap();
    let dir = scripts(&[
        ("a", "# PROVIDE: a\n"),
        ("b", "# PROVIDE: b\n# REQUIRE: a\n[ -e \"$0.fixed\" ]"),
        ("c", "# REQUIRE: b\n"),
    ]);
    let (_, code, _) = run(&["--run-dir", run_dir, path(&dir)]);
    assert_eq!(code, 1);
    fs::write(dir.path().join("b.fixed"), "").unwrap();
    let (log, code, err) = run(&["--run-dir", run_dir, "--resume", path(&dir)]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(log.times.keys().collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn numbered_scripts_run_in_the_order_of_their_numbers() {
    let place = tempfile::tempdir().unwrap();
    let body = format!("echo \"$FARMHAND_TASK\" >> {}/order", path(&place));
    let names = ["30-web", "4-disk", "30-mail", "K02web", "S200last"];
    let dir = scripts(&names.map(|name| (name, body.as_str())));
    let out = flow(&["run", path(&dir)]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let ran = fs::read_to_string(place.path().join("order")).unwrap();
    let mut ran: Vec<_> = ran.lines().collect();
    ran[1..3].sort_unstable();
    assert_eq!(ran, ["4-disk", "30-mail", "30-web", "S200last"]);
}

#[test]
fn scripts_with_a_common_lock_never_run_at_the_same_time() {
    let body = "# LOCK: disk\nmkdir DIR/held || exit 1; sleep 0.1; rmdir DIR/held";
    let place = tempfile::tempdir().unwrap();
    let body = body.replace("DIR", path(&place));
    let dir = scripts(&["a", "b", "c", "d"].map(|name| (name, body.as_str())));
    let out = flow(&["run", path(&dir)]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[test]
fn a_misspelt_annotation_and_a_soft_cycle_are_warnings() {
    let soft = |other: &str| format!("### BEGIN INIT INFO\n# Should-Start: {other}\n### END INIT INFO\n");
    let (a, b) = (soft("b"), soft("a"));
    let dir = scripts(&[("a", &a), ("b", &b), ("c", "# REQURE: a\n")]);
    let out = flow(&["run", path(&dir)]);
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{err}");
    assert!(
        err.contains("`REQURE` is not an annotation: write `# REQUIRE:`"),
        "{err}"
    );
    assert!(
        err.contains("is ignored: it closes a cycle in which nothing is required"),
        "{err}"
    );
}

#[test]
fn a_script_whose_name_another_provides_has_a_status_of_its_own() {
    let bin = farmhand_tests::bin::farmhand().display();
    let asks = format!(
        "# REQUIRE: y\n{bin} flow wait y; echo \"y $?\"; {bin} flow wait 'task y'; echo \"task y $?\""
    );
    let dir = scripts(&[
        ("x", "# PROVIDE: y\n"),
        ("y", "# PROVIDE: why\nexit 4"),
        ("z", &asks),
    ]);
    let out = flow(&["run", path(&dir)]);
    let (said, err) = (text(&out.stdout), text(&out.stderr));
    assert!(
        said.contains("z | y 0") && said.contains("z | task y 10"),
        "{said}{err}"
    );
    assert!(
        err.contains("what waits for it waits for x, not the task"),
        "{err}"
    );
}

#[test]
fn the_critical_path_counts_a_daemon_until_its_mark_and_names_only_what_ran() {
    let bin = farmhand_tests::bin::farmhand().display();
    let dir = scripts(&[
        ("daemon", &format!("# PROVIDE: net\n{bin} flow mark net; sleep 5")),
        ("client", "# PROVIDE: client\n# REQUIRE: net\nsleep 6"),
        ("out", "# PROVIDE: out\n# KEYWORD: no\n# REQUIRE: client\n"),
        ("last", "# REQUIRE: out\n"),
    ]);
    let err = text(&flow(&["run", "--skip", "no", path(&dir)]).stderr);
    assert!(
        err.contains("): daemon > client\n") || err.contains("): daemon > client > last\n"),
        "{err}"
    );
    let length = err
        .split("critical path ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let length: f64 = length.and_then(|l| l.parse().ok()).unwrap();
    assert!((6.0..10.9).contains(&length), "{err}");
}

#[test]
fn functions_of_one_file_are_tasks() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("all.sh");
    let body = "say() { echo \"$1 $2\"; }\n\n# PROVIDE: net\nup_net() { say net \"$1\"; }\n\n# REQUIRE: net\ndb() { say db \"$1\"; }\n";
    fs::write(&file, body).unwrap();
    let out = flow(&["run", file.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(text(&out.stdout), "up_net | net start\n    db | db start\n");
}
