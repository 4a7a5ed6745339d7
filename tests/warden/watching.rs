//! Progress that a command reports, its silence, and children that grow too old.

use std::time::Duration;

use farmhand_core::definition::{ChildLimit, Isolation};
use farmhand_os::clock::{MILLISECOND, boottime_ns};
use farmhand_warden_client::wire::*;
use farmhand_warden_client::{Item, Notice, OutputReader, Stream, WardenClient};

use super::harness::*;

fn old(name: &str, ms: u64) -> ChildLimit {
    ChildLimit {
        name: name.to_owned(),
        max_age: Some(Duration::from_millis(ms)),
        max_memory: None,
    }
}

/// What the warden itself said in the output.
fn said(farmer: &Farmer, id: AttemptId) -> String {
    let mut reader = OutputReader::new(farmer.paths().attempt_dir(id), 0);
    let mut text = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        if let Item::Chunk {
            stream: Stream::Agent,
            bytes,
            ..
        } = item
        {
            text.extend(bytes);
        }
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn silence_ends_an_attempt_and_signs_of_life_put_it_off() {
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let mut request = sh(
            id(1, 1),
            "for n in 1 2 3 4; do sleep 0.9; echo >&$FARMHAND_PROGRESS_FD; done; echo alive; sleep 600",
        );
        request.isolation = isolation;
        request.progress_timeout_ms = Some(3_000);
        request.grace_ms = 100;
        let (result, output) = farmer.run(request).await;
        assert_eq!(result.killed, Some(KillReason::Progress), "{result:?}");
        assert_eq!(output.stdout, "alive\n");
        let lived = Duration::from_nanos(result.ended_ns - result.started_ns);
        assert!(lived >= Duration::from_millis(6_500), "{lived:?}");
    }
}

#[tokio::test]
async fn a_checkpoint_that_cannot_come_back_as_it_was_is_refused_and_the_one_before_stays() {
    let mut farmer = Farmer::new().await;
    let request = sh(
        id(1, 1),
        "echo kept >&3; head -c 5000 /dev/zero | tr '\\0' x >&3; echo >&3; printf 'a\\0b\\n\\377\\n' >&3",
    );
    let result = {
        farmer.spawn(request).await;
        farmer.exited(id(1, 1)).await
    };
    assert_eq!(result.checkpoint.as_deref(), Some("kept"));
    let said = said(&farmer, id(1, 1));
    assert!(said.contains("refused"), "{said}");
}

#[tokio::test]
async fn an_old_child_is_ended_inside_its_own_tree_only_and_never_the_command_itself() {
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        farmer.spawn(argv(id(2, 1), &["sleep", "604"])).await;
        let mut request = sh(
            id(1, 1),
            "sleep 600; echo first $?; setsid sh -c 'sleep 601; echo second $?'; sleep 0.1; echo over",
        );
        request.isolation = isolation;
        request.grace_ms = 1_000;
        request.child_limits = vec![old("sleep", 600), old("sh", 3_600_000)];
        farmer.spawn(request).await;
        let mut kills = Vec::new();
        let result = loop {
            match farmer.notice().await {
                Notice::Event(Event::ChildKilled { id: of, kill }) => {
                    assert_eq!(of, id(1, 1));
                    kills.push(kill);
                }
                Notice::Event(Event::Exited(report)) if report.id == id(1, 1) => {
                    break report.result.unwrap();
                }
                Notice::Gone => panic!("{}", log(&farmer.paths())),
                _ => {}
            }
        };
        assert!(result.succeeded(), "{result:?}");
        let output = farmer.output(id(1, 1));
        assert!(
            output.stdout.contains("first 143") && output.stdout.contains("second 143"),
            "{output:?}"
        );
        let numbers: Vec<u64> = kills.iter().map(|k| k.number).collect();
        assert_eq!(numbers, [1, 2]);
        assert!(kills.iter().all(|k| k.name == "sleep"));
        assert_eq!(said(&farmer, id(1, 1)).lines().count(), 2);
        let other = farmer.client.list().await.unwrap();
        assert_eq!(other.find(id(2, 1)).unwrap().state, State::Running);
    }
}

#[tokio::test]
async fn the_command_itself_may_grow_old_whatever_it_is_called() {
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let mut request = argv(id(1, 1), &["sleep", "2.5"]);
        request.isolation = isolation;
        request.child_limits = vec![old("sleep", 100)];
        let (result, _) = farmer.run(request).await;
        assert!(result.succeeded(), "{result:?}");
    }
}

#[tokio::test]
async fn a_child_that_uses_too_much_memory_is_ended() {
    let mut farmer = Farmer::new().await;
    let script = "head -c 60000000 /dev/zero | tail -c 50000000 | (sleep 30; cat) > /dev/null; echo over";
    let mut request = sh(id(1, 1), script);
    request.child_limits = vec![ChildLimit {
        name: "tail".to_owned(),
        max_age: None,
        max_memory: Some(20 << 20),
    }];
    farmer.spawn(request).await;
    loop {
        match farmer.notice().await {
            Notice::Event(Event::ChildKilled { kill, .. }) => {
                assert!(matches!(kill.why, KillWhy::Memory { bytes, .. } if bytes > 20 << 20));
                return;
            }
            Notice::Gone => panic!("{}", log(&farmer.paths())),
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_an_agent_did_not_confirm_is_told_to_the_next_one() {
    let mut farmer = Farmer::new().await;
    let mut request = sh(id(1, 1), "sleep 600; echo 'at 7' >&3; exec sleep 603");
    request.child_limits = vec![old("sleep", 300)];
    farmer.spawn(request).await;
    while !matches!(farmer.notice().await, Notice::Event(Event::ChildKilled { .. })) {}
    let next = async |farmer: &mut Farmer| {
        let found = WardenClient::connect(farmer.dir.path(), None, "n1").await;
        (farmer.client, farmer.notices) = found.unwrap().expect("it lives on");
    };
    next(&mut farmer).await;
    while !matches!(
        farmer.notice().await,
        Notice::Event(Event::ChildKilled {
            kill: ChildKill { number: 1, .. },
            ..
        })
    ) {}
    farmer.client.heard(id(1, 1), 1).await.unwrap();
    next(&mut farmer).await;
    let deadline = std::time::Instant::now() + BOUND;
    loop {
        let listing = farmer.client.list().await.unwrap();
        let report = listing.find(id(1, 1)).unwrap();
        assert!(report.child_kills.is_empty(), "it was confirmed");
        if report.checkpoint.as_deref() == Some("at 7") {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{report:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Clock ticks that a process has computed for.
fn computed(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum()
}

#[tokio::test]
async fn a_warden_without_an_agent_sleeps_while_a_command_reports_progress() {
    let farmer = Farmer::new().await;
    let script =
        "for n in $(seq 30); do sleep 0.1; echo >&3; done; echo over >$FARMHAND_RUN_DIR/over; sleep 1000";
    farmer.spawn(sh(id(1, 1), script)).await;
    // The last agent, which is gone at once.
    drop(WardenClient::connect(farmer.dir.path(), None, "n1").await);
    let warden = farmer.client.identity().warden_pid;
    let before = computed(warden);
    farmer.file(id(1, 1), "over").await;
    let ticks = computed(warden) - before;
    assert!(ticks < 20, "{ticks} ticks for 30 lines");
}

/// System calls of it that read, so far. Those of children join them as soon as they are reaped.
fn reads(pid: i32) -> u64 {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("syscr: "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_flood_of_progress_waits_in_its_pipe_and_loses_nothing() {
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let warden = farmer.client.identity().warden_pid;
        let (before, since) = (reads(warden), boottime_ns());
        let flood =
            "cd $FARMHAND_RUN_DIR; yes at | head -c 4000001 >&3; printf '\\nlast\\n' >&3; echo over >over";
        let mut request = sh(id(1, 1), &format!("{flood}; sleep 1000"));
        request.isolation = isolation;
        farmer.spawn(request).await;
        farmer.file(id(1, 1), "over").await;
        let windows = (boottime_ns() - since) / (50 * MILLISECOND);
        let reads = reads(warden) - before;
        assert!(reads < 2 * windows + 100, "{reads} reads in {windows} windows");
        // What is in the pipe when a command ends is still read.
        let grace = Duration::from_millis(100);
        farmer
            .client
            .kill(id(1, 1), grace, KillReason::Cancel)
            .await
            .unwrap();
        let result = farmer.exited(id(1, 1)).await;
        assert_eq!(result.checkpoint.as_deref(), Some("last"), "{result:?}");
    }
}
