//! How attempts end: alone, by their deadlines, by request; and that their tree ends with them.

use std::time::Duration;

use farmhand_core::definition::Isolation;
use farmhand_os::clock::{MILLISECOND, SECOND, boottime_ns};
use farmhand_warden_client::Notice;
use farmhand_warden_client::wire::*;

use super::harness::*;

#[tokio::test]
async fn a_timeout_is_sigterm_then_sigkill_for_the_whole_tree() {
    for cgroup in [true, false] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let script = "setsid sh -c 'trap \"\" TERM; echo $$ >child; while :; do sleep 1; done' 2>/dev/null &
            trap 'echo asked >asked' TERM; while :; do sleep 0.05; done";
        let mut request = sh(id(1, 1), script);
        (request.timeout_ms, request.grace_ms) = (Some(4_000), 3_000);
        farmer.spawn(request).await;
        let child = farmer.file(id(1, 1), "child").await.parse::<i32>().unwrap();
        let result = farmer.exited(id(1, 1)).await;
        assert!(result.timed_out(), "{result:?}");
        assert_eq!(result.signal(), Some(libc::SIGKILL));
        let took = (result.ended_ns - result.started_ns) / MILLISECOND;
        assert!((7_000..30_000).contains(&took), "{took} ms");
        assert_eq!(farmer.file(id(1, 1), "asked").await, "asked");
        assert!(!alive(child));
    }
}

#[tokio::test]
async fn a_command_that_ends_within_the_grace_keeps_its_own_status() {
    let mut farmer = Farmer::new().await;
    let mut request = sh(id(1, 1), "trap 'exit 17' TERM; while :; do sleep 0.05; done");
    request.timeout_ms = Some(4_000);
    let (result, _) = farmer.run(request).await;
    assert_eq!((result.exit_code(), result.timed_out()), (Some(17), true));
    assert!(!result.succeeded());
}

#[tokio::test]
async fn what_outlives_its_main_process_ends_before_the_exit_is_told() {
    for (cgroup, isolation) in [
        (true, Isolation::Cgroup),
        (false, Isolation::Cgroup),
        (true, Isolation::Pid),
    ] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let script = "setsid sh -c 'trap \"\" TERM; echo $$ >child; while :; do sleep 1; done' 2>/dev/null &
            (setsid setsid sleep 999.25 &) ; while [ ! -s child ]; do sleep 0.01; done; exit 0";
        let mut request = sh(id(1, 1), script);
        request.isolation = isolation;
        request.grace_ms = 200;
        let mark = farmer.dir.path().display().to_string();
        let (result, output) = farmer.run(request).await;
        assert!(result.succeeded(), "{result:?}");
        assert!(result.leftovers >= 1, "{isolation:?} {result:?}");
        assert_eq!(
            output.stderr,
            "what it left in the background was ended with it\n"
        );
        let left: Vec<i32> = marked(&format!("FARMHAND_RUN_DIR={mark}"));
        assert_eq!(left, Vec::<i32>::new());
    }
}

#[tokio::test]
async fn a_daemon_without_any_mark_ends_with_its_attempt_while_others_run() {
    let mut farmer = Farmer::new().await;
    let other = farmer.spawn(sh(id(2, 1), "sleep 1000")).await;
    let script = "(setsid env -i sh -c 'echo $$ >daemon; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
        while [ ! -s daemon ]; do sleep 0.01; done";
    let (result, _) = farmer.run(sh(id(1, 1), script)).await;
    assert!(result.succeeded() && result.leftovers == 1, "{result:?}");
    let daemon = farmer.file(id(1, 1), "daemon").await.parse::<i32>().unwrap();
    assert!(!alive(daemon) && alive(other));
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_open_does_not_hold_the_attempt() {
    let mut farmer = Farmer::new().await;
    let (result, output) = farmer
        .run(sh(id(1, 1), "echo before; (sleep 1000 &) ; echo after"))
        .await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(output.stdout, "before\nafter\n");
    let took = (result.ended_ns - result.started_ns) / SECOND;
    assert!(took < 5, "{took} s");
}

#[tokio::test]
async fn a_stranger_that_holds_the_output_open_does_not_hold_the_attempt_either() {
    let mut farmer = Farmer::new().await;
    let pid = farmer
        .spawn(sh(id(1, 1), "mkfifo go; echo up >up; read x <go; echo said"))
        .await;
    farmer.file(id(1, 1), "up").await;
    // As when the descriptor is handed to another daemon: not of the tree, and alive after it.
    let held = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/fd/1"))
        .unwrap();
    std::fs::write(farmer.paths().run_dir(id(1, 1)).join("go"), "go\n").unwrap();
    let (result, output) = farmer.ended(id(1, 1)).await;
    assert!(result.succeeded());
    assert_eq!(output.stdout, "said\n");
    drop(held);
}

#[tokio::test]
async fn a_cancel_says_so_and_a_second_kill_changes_nothing() {
    let mut farmer = Farmer::new().await;
    farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    let grace = Duration::from_secs(5);
    farmer
        .client
        .kill(id(1, 1), grace, KillReason::Cancel)
        .await
        .unwrap();
    let result = farmer.exited(id(1, 1)).await;
    assert_eq!(
        (result.signal(), result.killed),
        (Some(libc::SIGTERM), Some(KillReason::Cancel))
    );
    farmer
        .client
        .kill(id(1, 1), grace, KillReason::Fenced)
        .await
        .unwrap();
    let listed = farmer.client.list().await.unwrap();
    let killed = listed.find(id(1, 1)).unwrap().result.as_ref().unwrap().killed;
    assert_eq!(killed, Some(KillReason::Cancel));
    let unknown = farmer.client.kill(id(9, 1), grace, KillReason::Cancel).await;
    assert!(unknown.is_err());
}

#[tokio::test]
async fn sigterm_reaches_a_command_in_its_pid_namespace() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let mut request = sh(
        id(1, 1),
        "trap 'exit 21' TERM; echo $$ >up; while :; do sleep 0.05; done",
    );
    request.isolation = Isolation::Pid;
    farmer.spawn(request).await;
    assert!(farmer.file(id(1, 1), "up").await.parse::<i32>().unwrap() < 10);
    farmer
        .client
        .kill(id(1, 1), Duration::from_secs(5), KillReason::Cancel)
        .await
        .unwrap();
    assert_eq!(farmer.exited(id(1, 1)).await.exit_code(), Some(21));
}

#[tokio::test]
async fn a_stopped_command_is_ended_too() {
    let mut farmer = Farmer::new().await;
    let pid = farmer
        .spawn(sh(
            id(1, 1),
            "trap 'exit 5' TERM; echo up >up; while :; do sleep 0.05; done",
        ))
        .await;
    farmer.file(id(1, 1), "up").await;
    // SAFETY: a process this test started.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    farmer
        .client
        .kill(id(1, 1), Duration::from_secs(5), KillReason::Cancel)
        .await
        .unwrap();
    assert_eq!(farmer.exited(id(1, 1)).await.exit_code(), Some(5));
}

#[tokio::test]
async fn silence_ends_a_command_that_promised_progress() {
    let mut farmer = Farmer::new().await;
    let script = "for i in 1 2 3; do echo \"line $i\" >&$FARMHAND_PROGRESS_FD; sleep 0.2; done; sleep 1000";
    let mut request = sh(id(1, 1), script);
    request.progress_timeout_ms = Some(3_000);
    farmer.spawn(request).await;
    let mut told = None;
    let result = loop {
        match farmer.notice().await {
            Notice::Event(Event::Progress { checkpoint, .. }) => told = checkpoint,
            Notice::Event(Event::Exited(report)) => break report.result.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(result.killed, Some(KillReason::Progress));
    assert_eq!(result.checkpoint.as_deref(), Some("line 3"));
    assert!(told.is_some_and(|t| t.starts_with("line ")));
    let took = (result.ended_ns - result.started_ns) / MILLISECOND;
    assert!(took >= 3_300, "{took} ms");
}

#[tokio::test]
async fn the_hard_end_is_kept_by_the_warden_before_the_kernel_must() {
    let mut farmer = Farmer::new().await;
    let hard_end = boottime_ns() + 2 * SECOND;
    let mut request = sh(id(1, 1), "trap '' TERM; while :; do sleep 1; done");
    (request.grace_ms, request.hard_end_ns) = (500, Some(hard_end));
    let (result, _) = farmer.run(request).await;
    assert!(result.timed_out() && result.ended_ns < hard_end, "{result:?}");
    assert!(farmer.client.list().await.is_ok(), "the warden lives on");
}

/// A program that goes on in its second thread when the first has ended, as by `pthread_exit` in `main`. The kernel shows it as a
/// zombie then.
fn without_first_thread(request: &mut SpawnRequest) {
    let code = format!(
        "import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
with open('pid', 'w') as file: print(os.getpid(), file=file)
ctypes.CDLL(None).syscall({}, 0)",
        libc::SYS_exit
    );
    request.env.insert("CODE".into(), code);
}

fn state_of(pid: i32) -> Option<char> {
    farmhand_tests::processes::one(pid).map(|process| process.state)
}

#[tokio::test]
async fn what_goes_on_without_its_first_thread_ends_with_its_attempt() {
    for cgroup in [true, false] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        farmer.spawn(sh(id(2, 1), "sleep 1000")).await;
        let script = "setsid python3 -c \"$CODE\" </dev/null >/dev/null 2>&1 &
            while [ ! -s pid ]; do sleep 0.01; done
            until grep -q ') Z ' /proc/$(cat pid)/stat; do sleep 0.01; done";
        let mut request = sh(id(1, 1), script);
        without_first_thread(&mut request);
        let (result, _) = farmer.run(request).await;
        let daemon = farmer.file(id(1, 1), "pid").await.parse::<i32>().unwrap();
        assert!(result.succeeded() && result.leftovers == 1, "{result:?}");
        eventually("the daemon's end", || state_of(daemon).is_none().then_some(())).await;
    }
}

#[tokio::test]
async fn sigterm_reaches_a_command_whose_first_thread_has_ended() {
    for cgroup in [true, false] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let mut request = sh(id(1, 1), "exec python3 -c \"$CODE\"");
        without_first_thread(&mut request);
        let pid = farmer.spawn(request).await;
        let ended = || state_of(pid).is_some_and(|state| state == 'Z').then_some(());
        eventually("the first thread's end", ended).await;
        let grace = Duration::from_secs(10);
        farmer
            .client
            .kill(id(1, 1), grace, KillReason::Cancel)
            .await
            .unwrap();
        assert_eq!(farmer.exited(id(1, 1)).await.signal(), Some(libc::SIGTERM));
    }
}
