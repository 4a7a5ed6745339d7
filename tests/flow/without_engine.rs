//! Names that are waited for and marked without a flow.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use farmhand_tests::guides::blocks;
use farmhand_tests::wait::eventually;

use super::fixture::{flow, text};

const BOUND: Duration = Duration::from_secs(20);

fn ours(args: &[&str]) -> Option<i32> {
    flow(args).status.code()
}

fn spawned(args: &[&str]) -> Child {
    super::fixture::command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn shell(program: &[&str], text: &str) -> Command {
    let mut shell = Command::new(program[0]);
    shell.args(&program[1..]).args(["-c", text]).stdin(Stdio::null());
    shell
}

fn ends(mut child: Child) -> Option<i32> {
    eventually("it ends", BOUND, || {
        let ended = child.try_wait().map_err(|e| e.to_string())?;
        ended.ok_or_else(|| "it sleeps".to_owned())
    })
    .code()
}

/// Until it sleeps in the kernel's open, or in poll.
fn asleep(child: &Child) {
    let file = format!("/proc/{}/wchan", child.id());
    eventually("it waits", BOUND, || {
        let at = fs::read_to_string(&file).unwrap_or_default();
        let waits = at.contains("wait_for_partner") || at.contains("fifo_open") || at.contains("poll");
        waits.then_some(()).ok_or(at)
    });
}

#[test]
fn what_waits_sleeps_until_the_mark_and_gets_its_code() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deps");
    let dir = dir.to_str().unwrap();
    assert_eq!(ours(&["init", dir, "a", "b"]), Some(0));
    assert_eq!(
        ours(&["wait", "a", "--deps", dir, "--timeout", "100ms"]),
        Some(124)
    );
    assert_eq!(ours(&["wait", "c", "--deps", dir]), Some(3));
    assert_eq!(ours(&["mark", "c", "--deps", dir]), Some(3));
    let waiters = [
        spawned(&["wait", "a", "--deps", dir]),
        shell(&["sh"], &format!("true < {dir}/a")).spawn().unwrap(),
    ];
    waiters.iter().for_each(asleep);
    assert_eq!(ours(&["init", dir, "a"]), Some(0), "no change");
    assert_eq!(ours(&["mark", "a", "--deps", dir]), Some(0));
    for waiter in waiters {
        assert_eq!(ends(waiter), Some(0));
    }
    assert_eq!(ours(&["mark", "b", "--deps", dir, "--code", "3"]), Some(0));
    let out = flow(&["wait", "a", "b", "--deps", dir]);
    assert_eq!(out.status.code(), Some(10));
    assert!(text(&out.stderr).contains("failed (3)"), "{out:?}");
    assert_eq!(ours(&["init", dir, "b"]), Some(0));
    assert_eq!(ours(&["wait", "b", "--deps", dir]), Some(10), "it stays marked");
    assert_eq!(ours(&["init", dir, "b", "--again"]), Some(0));
    assert_eq!(
        ours(&["wait", "b", "--deps", dir, "--timeout", "100ms"]),
        Some(124)
    );
}

#[test]
fn a_directory_of_something_else_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let out = flow(&["init", place.path().to_str().unwrap(), "a"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("was not made by `flow init`"),
        "{out:?}"
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn many_that_make_the_same_names_at_once_all_succeed() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deps");
    let dir = dir.to_str().unwrap();
    let all: Vec<Child> = (0..8).map(|_| spawned(&["init", dir, "a", "b"])).collect();
    for one in all {
        assert_eq!(ends(one), Some(0));
    }
    assert_eq!(ours(&["mark", "a", "--deps", dir]), Some(0));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// At random moments; whatever it was killed at, `flow wait` or the next mark ends the wait.
#[test]
fn a_mark_that_is_killed_is_finished_by_the_next() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deps");
    let dir = dir.to_str().unwrap();
    for round in 0..24_u64 {
        let name = format!("n{round}");
        assert_eq!(ours(&["init", dir, &name]), Some(0));
        let reader = shell(&["sh"], &format!("true < {dir}/{name}")).spawn().unwrap();
        let waiter = spawned(&["wait", &name, "--deps", dir]);
        asleep(&reader);
        asleep(&waiter);
        let mut marker = spawned(&["mark", &name, "--deps", dir]);
        std::thread::sleep(Duration::from_micros(500 * round));
        marker.kill().unwrap();
        marker.wait().unwrap();
        assert_eq!(ours(&["mark", &name, "--deps", dir]), Some(0));
        assert_eq!((ends(reader), ends(waiter)), (Some(0), Some(0)), "round {round}");
    }
}

/// The state in which a mark may be killed: its status is written, and nothing else.
#[test]
fn a_wait_sees_a_mark_that_was_killed_at_its_first_step() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deps");
    let (path, dir) = (dir.clone(), dir.to_str().unwrap());
    assert_eq!(ours(&["init", dir, "a"]), Some(0));
    let waiter = spawned(&["wait", "a", "--deps", dir]);
    asleep(&waiter);
    fs::write(path.join(".status/a"), "0 ok\n").unwrap();
    assert_eq!(ends(waiter), Some(0));
    let reader = shell(&["sh"], &format!("true < {dir}/a")).spawn().unwrap();
    asleep(&reader);
    assert_eq!(ours(&["mark", "a", "--deps", dir]), Some(0));
    assert_eq!(ends(reader), Some(0));
}

/// The state in which `flow init --again` may be killed: the status is gone, and the FIFO not there yet.
#[test]
fn a_name_that_was_half_way_to_be_waited_for_again_is_marked() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deps");
    let (path, dir) = (dir.clone(), dir.to_str().unwrap());
    assert_eq!(ours(&["init", dir, "a"]), Some(0));
    assert_eq!(ours(&["mark", "a", "--deps", dir]), Some(0));
    fs::remove_file(path.join(".status/a")).unwrap();
    let waiter = spawned(&["wait", "a", "--deps", dir]);
    assert_eq!(ours(&["mark", "a", "--deps", dir, "--code", "7"]), Some(0));
    assert_eq!(ends(waiter), Some(10));
    assert_eq!(fs::read_to_string(path.join(".status/a")).unwrap(), "7 failed\n");
}

/// dash, and others where there are some.
fn shells() -> Vec<Vec<&'static str>> {
    let all = [vec!["dash"], vec!["busybox", "sh"], vec!["bash", "--posix"]];
    let there = |shell: &Vec<&str>| shell[0] == "dash" || shell_is_there(shell[0]);
    all.into_iter().filter(there).collect()
}

fn shell_is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).exists())
}

#[test]
fn the_shell_functions_of_the_guide_speak_the_same_protocol() {
    let functions = blocks("waiting.md").remove(0);
    for program in shells() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("deps");
        let dir = dir.to_str().unwrap();
        let call = |text: &str| shell(&program, &format!("{functions}\n{}", text.replace("DIR", dir)));
        let code = |text: &str| call(text).status().unwrap().code();
        assert_eq!(
            code("fifo_init DIR a b c; fifo_init DIR a"),
            Some(0),
            "{program:?}"
        );
        assert_eq!(code("fifo_wait DIR nothing"), Some(127));
        assert_eq!(code("fifo_mark DIR nothing"), Some(127));
        let both = || {
            let ours = spawned(&["wait", "a", "--deps", dir]);
            [ours, call("fifo_wait DIR a").spawn().unwrap()]
        };
        let waiters = both();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(code("fifo_mark DIR a"), Some(0), "{program:?}");
        for waiter in waiters {
            assert_eq!(ends(waiter), Some(0), "{program:?}");
        }
        let waiter = call("fifo_wait DIR b").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(ours(&["mark", "b", "--deps", dir, "--code", "4"]), Some(0));
        assert_eq!(ends(waiter), Some(4), "{program:?}");
        killed_in_shell(&call, Path::new(dir));
    }
}

fn killed_in_shell(call: &dyn Fn(&str) -> Command, dir: &Path) {
    let waiter = call("fifo_wait DIR c").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    fs::write(dir.join(".status/c"), "7 failed\n").unwrap();
    let began = Instant::now();
    assert_eq!(call("fifo_mark DIR c").status().unwrap().code(), Some(0));
    assert_eq!(ends(waiter), Some(7), "the first mark counts");
    assert!(began.elapsed() < BOUND);
    assert_eq!(
        fs::read_dir(dir.join(".w"))
            .unwrap()
            .flatten()
            .filter(|e| !e.file_name().to_string_lossy().starts_with('.'))
            .count(),
        0
    );
}
