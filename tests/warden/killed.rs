//! What is left when warden, reaper or both are killed or stopped.

use std::time::Duration;

use farmhand_core::definition::Isolation;
use farmhand_os::clock::{MILLISECOND, SECOND, boottime_ns};
use farmhand_tests::freezer::Frozen;
use farmhand_warden_client::Gone;
use farmhand_warden_client::wire::*;

use super::harness::*;

/// A command with everything that tries to stay: a double-forked daemon of its own session that also dropped
/// its environment, one that ignores SIGTERM, and itself. Their pids are in the run directory.
const CLINGING: &str = r#"
    setsid sh -c '(env -i sh -c "echo \$\$ >daemon; exec sleep 1000" &) ; exit' </dev/null >/dev/null 2>&1
    sh -c 'trap "" TERM HUP INT; echo $$ >stubborn; while :; do sleep 1000; done' &
    echo $$ >main
    wait
"#;

async fn clinging(farmer: &Farmer, request: SpawnRequest) -> Vec<i32> {
    let id = request.id;
    let isolated = request.isolation == Isolation::Pid;
    farmer.spawn(request).await;
    let mut pids = Vec::new();
    for name in ["main", "daemon", "stubborn"] {
        pids.push(farmer.file(id, name).await.parse::<i32>().unwrap());
    }
    if isolated {
        // These are numbers of the namespace.
        pids = farmhand_tests::processes::tree(farmer.client.identity().warden_pid)
            .into_iter()
            .map(|p| p.pid)
            .filter(|pid| *pid != farmer.client.identity().warden_pid)
            .collect();
    }
    assert!(pids.len() >= 3 && pids.iter().all(|pid| alive(*pid)), "{pids:?}");
    pids
}

fn all_dead(pids: &[i32]) {
    let left: Vec<i32> = pids.iter().copied().filter(|pid| alive(*pid)).collect();
    assert!(left.is_empty(), "still alive: {left:?} of {pids:?}");
}

#[tokio::test]
async fn nothing_outlives_a_killed_warden() {
    let farmer = Farmer::new().await;
    let pids = clinging(&farmer, sh(id(1, 1), CLINGING)).await;
    assert_eq!(farmer.kill_warden().await, Gone::Empty { swept: 0 });
    all_dead(&pids);
}

#[tokio::test]
async fn nothing_outlives_a_killed_warden_without_cgroups() {
    let farmer = Farmer::with(|launch| launch.cgroup = false).await;
    assert_eq!(farmer.client.identity().cgroup, None);
    let pids = clinging(&farmer, sh(id(1, 1), CLINGING)).await;
    assert_eq!(farmer.kill_warden().await, Gone::Empty { swept: 0 });
    all_dead(&pids);
}

#[tokio::test]
async fn a_child_of_another_user_dies_with_the_warden() {
    needs_root();
    let farmer = Farmer::with(|launch| launch.cgroup = false).await;
    // Changing the user clears the death signal, like a setuid program does.
    let script = "setpriv --reuid 65534 --clear-groups setsid sleep 1000 & echo $! >child; wait";
    farmer.spawn(sh(id(1, 1), script)).await;
    let child = farmer.file(id(1, 1), "child").await.parse::<i32>().unwrap();
    farmer.kill_warden().await;
    all_dead(&[child]);
}

/// Starts a fork bomb and answers with the mark of its processes.
async fn bomb(farmer: &Farmer) -> String {
    let mark = format!("BOMB={}", farmer.dir.path().display());
    // Each level replaces itself for ever; the count of live ones stays below about 200.
    let script = r#"
        f() { i=0; while :; do ( exec setsid sleep 0.$((i % 5)) ) & i=$((i+1)); [ $((i % 40)) -eq 0 ] && wait; done; }
        f & f & f & f &
        echo up >up; f"#;
    let mut request = sh(id(1, 1), script);
    let (name, value) = mark.split_once('=').unwrap();
    request.env.insert(name.into(), value.into());
    farmer.spawn(request).await;
    farmer.file(id(1, 1), "up").await;
    eventually("many processes", || (marked(&mark).len() > 30).then_some(())).await;
    mark
}

async fn bomb_ends(cgroup: bool) {
    let farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
    let mark = bomb(&farmer).await;
    farmer.kill_warden().await;
    assert_eq!(marked(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_attempt_and_the_warden_goes_on() {
    let mut farmer = Farmer::new().await;
    let mark = bomb(&farmer).await;
    let killed = farmer.client.kill(id(1, 1), Duration::ZERO, KillReason::Cancel);
    killed.await.unwrap();
    // Only a cgroup is killed at once: without one, a bomb may go on until the warden ends.
    if farmer.client.identity().cgroup.is_some() {
        let result = farmer.exited(id(1, 1)).await;
        assert_eq!(result.killed, Some(KillReason::Cancel), "{result:?}");
        assert_eq!(marked(&mark), Vec::<i32>::new());
    }
    assert!(farmer.client.list().await.is_ok());
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_warden() {
    bomb_ends(true).await;
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_warden_without_cgroups() {
    bomb_ends(false).await;
}

#[tokio::test]
async fn a_stopped_warden_dies_at_its_deadline_and_takes_everything_along() {
    let farmer = Farmer::new().await;
    let pids = clinging(&farmer, sh(id(1, 1), CLINGING)).await;
    let deadline = boottime_ns() + 120 * SECOND + 700 * MILLISECOND;
    // Only forward; the short deadline of this test is an attempt's hard end.
    assert!(farmer.client.set_deadline(deadline, deadline).await.unwrap().0 == deadline);
    let hard_end = boottime_ns() + 6 * SECOND;
    let mut second = sh(id(2, 1), "sleep 1000");
    (second.grace_ms, second.hard_end_ns) = (0, Some(hard_end));
    farmer.spawn(second).await;
    // SAFETY: a process this test started.
    unsafe { libc::kill(farmer.client.identity().warden_pid, libc::SIGSTOP) };
    farmer.client.proof().warden_dead().await;
    let late = boottime_ns() - hard_end;
    assert!(late < 3 * SECOND, "{} ms late", late / MILLISECOND);
    farmer.gone().await;
    all_dead(&pids);
}

/// The reaper would end it at the same instant, and is stopped as well.
#[tokio::test]
async fn the_kernel_ends_a_stopped_warden_whose_reaper_is_stopped_too() {
    let farmer = Farmer::new().await;
    let hard_end = boottime_ns() + 6 * SECOND;
    let mut request = sh(id(1, 1), "sleep 1000");
    (request.grace_ms, request.hard_end_ns) = (0, Some(hard_end));
    farmer.spawn(request).await;
    let identity = farmer.client.identity();
    for pid in [identity.reaper_pid, identity.warden_pid] {
        // SAFETY: processes this test started.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
    }
    let dead = tokio::time::timeout(Duration::from_secs(10), farmer.client.proof().warden_dead()).await;
    // SAFETY: a process this test started.
    unsafe { libc::kill(identity.reaper_pid, libc::SIGCONT) };
    assert!(dead.is_ok(), "it lives after its end");
    farmer.gone().await;
}

#[tokio::test]
async fn the_guard_ends_what_a_warden_in_uninterruptible_sleep_runs_at_the_end_of_its_lease() {
    needs_root();
    for cgroup in [true, false] {
        let farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let pids = clinging(&farmer, sh(id(1, 1), CLINGING)).await;
        // The earliest hard end is the warden's own; it is set before the fork.
        let hard_end = boottime_ns() + 6 * SECOND;
        let mut second = sh(id(2, 1), "sleep 1000");
        (second.grace_ms, second.hard_end_ns) = (0, Some(hard_end));
        farmer.spawn(second).await;
        let identity = farmer.client.identity();
        let frozen = Frozen::new(identity.warden_pid);
        eventually("everything is dead but the warden", || {
            pids.iter().all(|pid| !alive(*pid)).then_some(())
        })
        .await;
        let late = boottime_ns().saturating_sub(hard_end);
        assert!(
            boottime_ns() >= hard_end && late < 3 * SECOND,
            "{} ms late",
            late / MILLISECOND
        );
        assert!(alive(identity.warden_pid), "the kernel cannot end what is frozen");
        // Its SIGKILL is pending: it counts as gone, for the reaper and for whoever waits for the proof.
        assert_eq!(farmer.gone().await, Gone::Empty { swept: 0 });
        assert!(!alive(identity.reaper_pid));
        // Its lock holds up nobody, and its socket is not answered for it.
        let again = farmhand_warden_client::WardenClient::connect(farmer.dir.path(), None, "n1").await;
        assert!(again.unwrap().is_none());
        let next = launch(farmer.dir.path()).start().await.unwrap().0;
        next.spawn(sh(id(3, 1), "true")).await.unwrap();
        assert!(alive(identity.warden_pid));
        next.proof().kill_warden().unwrap();
        next.proof().tree_gone().await.unwrap();
        drop(frozen);
        eventually("the old warden is dead", || {
            (!alive(identity.warden_pid)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_warden_whose_lease_is_not_renewed_ends_its_attempts_and_dies() {
    let mut farmer = Farmer::with(|launch| {
        let now = boottime_ns();
        launch.deadline_ns = now + 14 * SECOND;
        launch.soft_ns = now + 8 * SECOND;
    })
    .await;
    let pids = clinging(&farmer, sh(id(1, 1), CLINGING)).await;
    let deadline = farmer.client.identity().deadline_ns;
    let result = farmer.exited(id(1, 1)).await;
    assert_eq!(result.killed, Some(KillReason::Lease));
    assert!(result.ended_ns < deadline, "the result could still be told");
    all_dead(&pids);
    let refused = farmer.client.spawn(sh(id(2, 1), "true")).await;
    assert!(matches!(
        refused,
        Err(farmhand_warden_client::WardenError::Refused(Refusal::Ending))
    ));
    farmer.gone().await;
    assert!(boottime_ns() >= deadline);
}

#[tokio::test]
async fn a_renewed_lease_moves_the_end_and_a_late_smaller_one_does_not() {
    let farmer = Farmer::with(|launch| {
        let now = boottime_ns();
        launch.deadline_ns = now + 6 * SECOND;
        launch.soft_ns = now + 3 * SECOND;
    })
    .await;
    let far = boottime_ns() + 60 * SECOND;
    assert_eq!(
        farmer.client.set_deadline(far, far - 1).await.unwrap(),
        (far, far - 1)
    );
    let near = farmer.client.set_deadline(far - SECOND, 1).await.unwrap();
    assert_eq!(near, (far, far - 1));
    let first_end = farmer.client.identity().deadline_ns;
    eventually("the first end passes", || {
        (boottime_ns() > first_end + SECOND / 4).then_some(())
    })
    .await;
    assert!(farmer.client.list().await.unwrap().attempts.is_empty());
}

#[tokio::test]
async fn with_pid_isolation_nothing_outlives_warden_and_guard_killed_together() {
    needs_root();
    for cgroup in [true, false] {
        let farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let mut request = sh(id(1, 1), CLINGING);
        request.isolation = Isolation::Pid;
        let pids = clinging(&farmer, request).await;
        let identity = farmer.client.identity();
        let (warden, reaper) = (identity.warden_pid, identity.reaper_pid);
        // Both are stopped first, so that neither can act between the two kills.
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for pid in [reaper, warden] {
                // SAFETY: processes this test started.
                unsafe { libc::kill(pid, signal) };
            }
        }
        eventually("everything is dead", || {
            pids.iter().all(|pid| !alive(*pid)).then_some(())
        })
        .await;
        assert_eq!(farmer.gone().await, Gone::Empty { swept: 0 });
    }
}

#[tokio::test]
async fn what_outlives_warden_and_guard_is_swept_by_whoever_waits_for_their_end() {
    for cgroup in [true, false] {
        let farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let script = "setsid sh -c 'echo $$ >daemon; exec sleep 1000' & wait";
        farmer.spawn(sh(id(1, 1), script)).await;
        let daemon = farmer.file(id(1, 1), "daemon").await.parse::<i32>().unwrap();
        let identity = farmer.client.identity();
        for signal in [libc::SIGSTOP, libc::SIGKILL] {
            for pid in [identity.reaper_pid, identity.warden_pid] {
                // SAFETY: processes this test started.
                unsafe { libc::kill(pid, signal) };
            }
        }
        let gone = farmer.gone().await;
        assert!(matches!(gone, Gone::Empty { swept: 1.. }), "{gone:?}");
        all_dead(&[daemon]);
    }
}

#[tokio::test]
async fn a_killed_guard_takes_the_warden_along() {
    let farmer = Farmer::new().await;
    let main = farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    // SAFETY: a process this test started.
    unsafe { libc::kill(farmer.client.identity().reaper_pid, libc::SIGKILL) };
    farmer.gone().await;
    all_dead(&[main]);
}

#[tokio::test]
async fn a_stray_signal_ends_neither_guard_nor_warden() {
    let mut farmer = Farmer::new().await;
    let identity = farmer.client.identity();
    let (warden, reaper) = (identity.warden_pid, identity.reaper_pid);
    let main = farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    let stray = [
        libc::SIGALRM,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGSTKFLT,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGRTMIN(),
        libc::SIGRTMAX(),
    ];
    for signal in stray {
        for pid in [reaper, warden] {
            // SAFETY: processes this test started.
            unsafe { libc::kill(pid, signal) };
        }
        let listing = farmer.client.list().await;
        assert!(
            listing.is_ok() && alive(reaper) && alive(main),
            "after signal {signal}"
        );
    }
    // A command may rely on what these do by default.
    let (result, _) = farmer.run(sh(id(2, 1), "kill -ALRM $$")).await;
    assert_eq!(
        result.ending,
        Ending::Signaled {
            signal: libc::SIGALRM
        }
    );
}

#[tokio::test]
async fn sigterm_lets_a_warden_end_everything_and_leave() {
    let mut farmer = Farmer::new().await;
    farmer
        .spawn(sh(
            id(1, 1),
            "trap 'exit 9' TERM; echo up >up; while :; do sleep 0.05; done",
        ))
        .await;
    farmer.file(id(1, 1), "up").await;
    // SAFETY: a process this test started.
    unsafe { libc::kill(farmer.client.identity().warden_pid, libc::SIGTERM) };
    let result = farmer.exited(id(1, 1)).await;
    assert_eq!(
        (result.exit_code(), result.killed),
        (Some(9), Some(KillReason::Shutdown))
    );
    farmer.client.ack(id(1, 1), true).await.unwrap();
    assert_eq!(farmer.gone().await, Gone::Empty { swept: 0 });
}
