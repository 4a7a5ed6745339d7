//! Tests of looking at processes.

use super::*;

#[test]
fn a_name_full_of_parentheses_does_not_shift_the_fields() {
    let text = "7 (a) R 1 (b)) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
    let stat = parse_stat(7, text).unwrap();
    assert_eq!(
        (stat.state, stat.ppid, stat.pgrp, stat.session, stat.start),
        ('S', 3, 4, 5, 4711)
    );
}

#[test]
fn a_process_that_starts_programs_one_after_the_other_has_its_environment_all_the_time() {
    const AGAIN: &str = "exec sh -c \"$0\" \"$0\"";
    let mut child = std::process::Command::new("sh")
        .args(["-c", AGAIN, AGAIN])
        .env("FARMHAND_TEST_MARK", "1")
        .spawn()
        .unwrap();
    let pid = child.id().cast_signed();
    // A busy machine may keep it from running for longer than is waited in earnest.
    let patience = Duration::from_secs(10);
    let marked = || {
        let environ = environment(pid, Instant::now() + patience);
        environ
            .split(|b| *b == 0)
            .any(|entry| entry == b"FARMHAND_TEST_MARK=1")
    };
    let without = (0..20_000).filter(|_| !marked()).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(without, 0, "looks that found no mark");
}

extern "C" fn wait_for_ever(_: *mut libc::c_void) -> *mut libc::c_void {
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_lives_while_another_does() {
    // SAFETY: the child starts a thread, and ends its own alone.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let mut thread: libc::pthread_t = std::mem::zeroed();
            let none = std::ptr::null_mut();
            libc::pthread_create(&raw mut thread, std::ptr::null(), wait_for_ever, none);
            libc::syscall(libc::SYS_exit, 0);
        }
        pid
    };
    assert!(pid > 0);
    let until = Instant::now() + Duration::from_secs(10);
    let mut seen = stat(pid).unwrap();
    while seen.state != 'Z' && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
        seen = stat(pid).unwrap();
    }
    let environments = [pid, std::process::id().cast_signed()].map(|pid| environment(pid, until));
    let (resident, ending) = (rss_bytes(pid), is_ending(pid));
    signal(&seen, Signal::KILL).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child just made.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((waited, libc::WTERMSIG(status)), (pid, libc::SIGKILL));
    assert_eq!((seen.state, seen.threads), ('Z', 2));
    assert!(!seen.is_zombie() && !ending);
    assert_eq!(environments[0], environments[1]);
    assert!(resident.is_some_and(|bytes| bytes > 0), "{resident:?}");
}

#[test]
fn a_child_is_found_below_its_parent() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let own = std::process::id().cast_signed();
    let found = descendants(own);
    assert!(
        found
            .iter()
            .any(|(s, top)| s.pid == child.id().cast_signed() && *top == s.pid)
    );
    let seen = stat(child.id().cast_signed()).unwrap();
    let other = Stat {
        start: seen.start + 1,
        ..seen.clone()
    };
    signal(&other, Signal::KILL).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    signal(&seen, Signal::KILL).unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn all_children_are_seen_however_many_there_are() {
    let children = 0..2_600;
    let children = children.map(|_| {
        // SAFETY: the child waits for its end, which comes at the latest with this thread.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                wait_for_ever(std::ptr::null_mut());
            }
            pid
        }
    });
    let mut children: Vec<i32> = children.collect();
    assert!(children.iter().all(|pid| *pid > 0));
    let mut seen = own_children();
    for pid in &children {
        // SAFETY: children of this process that were not waited for.
        unsafe {
            libc::kill(*pid, libc::SIGKILL);
            libc::waitpid(*pid, std::ptr::null_mut(), 0);
        }
    }
    children.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen.len(), children.len());
    assert_eq!(seen, children);
}
