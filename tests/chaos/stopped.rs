//! SIGSTOP: the process lives, the lease does not.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON, TAKEOVER, send, stop};
use farmhand_tests::freezer::Frozen;
use farmhand_tests::witness::boot_ns;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '4000', 'ignore-term', 'daemon']
    [job.short]
    command = [WITNESS, '2000']
";

#[tokio::test(flavor = "multi_thread")]
async fn the_processes_of_a_stopped_agent_are_dead_before_the_takeover_and_its_finish_is_refused() {
    let mut farm = Farm::new().agents(2).jobs(JOBS).start().await;
    // Both on one node: the other is full of nothing, but asks later.
    let (long, short) = (farm.submit("long").await, farm.submit("short").await);
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    farm.lives_or_is_over(short).await;
    let stopped = boot_ns();
    farm.agent(&home).stop();
    let run = farm.run(short).await;
    let near = run.state == "running" && run.running_at.as_deref() == Some(home.as_str());
    farm.lives(long, 2).await;
    let (before, after) = (farm.witness.life(long, 1), farm.witness.life(long, 2));
    let delay = Duration::from_nanos(after.first - stopped);
    eprintln!(
        "takeover after {delay:?}; the old processes ended {:?} before",
        before.gap_to(&after)
    );
    assert!(before.last < after.first);
    assert!(delay <= TAKEOVER, "{delay:?}");
    farm.agent(&home).resume();
    farm.event("session_lost").await;
    farm.eventually("a new session", SOON, async || {
        let session: i64 = farm
            .value(&format!(
                "SELECT coalesce(max(session) FILTER (WHERE open), 0) FROM farmhand.node WHERE address = '{home}'"
            ))
            .await;
        (session > 1).then_some(()).ok_or_else(|| format!("session {session}"))
    })
    .await;
    assert!(
        farm.agent(&home)
            .metric("farmhand_timeouts_total", &["type=\"lease\""])
            .await
            >= 1.0
    );
    farm.succeeds(long).await;
    // Whatever became of it there, and whichever it learned first, its end or that of the session: nothing of it counts.
    let done = farm.succeeds(short).await;
    assert_eq!(done.attempt, if near { 2 } else { 1 }, "{done:?}");
    let again = farm.submit("short").await;
    farm.succeeds(again).await;
    farm.check().await;
}

/// Once in a while it learns first that its session is over, and then has nothing to write.
#[tokio::test(flavor = "multi_thread")]
async fn a_finish_of_a_node_whose_session_was_expired_is_refused_and_counted() {
    // The command ends well within it.
    let ttl = Duration::from_secs(8);
    let mut farm = Farm::new().agents(1).ttl(ttl).jobs(JOBS).start().await;
    for round in 0..4 {
        let short = farm.submit("short").await;
        let home = farm.lives(short, 1).await.running_at.expect("a node");
        farm.agent(&home).stop();
        if round == 0 {
            farm.add_agent("n2").await;
        }
        farm.lives(short, 2).await;
        assert!(
            farm.witness.life(short, 1).ended,
            "it had ended when its agent could not see it"
        );
        farm.agent(&home).resume();
        let done = farm.succeeds(short).await;
        assert_eq!(done.attempt, 2, "{done:?}");
        assert_ne!(done.running_at, Some(home.clone()), "{done:?}");
        for _ in 0..30 {
            if farm.events("fenced").await > 0 {
                let finish = ["op=\"finish\""];
                let refused = farm
                    .agent(&home)
                    .metric("farmhand_fence_rejections_total", &finish);
                assert!((refused.await - 1.0).abs() < 0.1);
                return farm.check().await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    panic!("no finish was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_lost_beside_a_stopped_warden_leaves_no_files() {
    let mut farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let warden = farm.agents[0].wardens()[0].pid;
    farm.agents[0].stop();
    stop(warden);
    farm.add_agent("n2").await;
    farm.lives(long, 2).await;
    farm.agents[0].resume();
    farm.event("session_lost").await;
    no_files_are_left(&farm).await;
    farm.succeeds(long).await;
    farm.check().await;
}

async fn is_logged(farm: &Farm, words: &str) {
    farm.eventually(words, SOON, async || {
        let log = farm.agents[0].log();
        log.contains(words).then_some(()).ok_or(log)
    })
    .await;
}

async fn no_files_are_left(farm: &Farm) {
    let runs = farm.agents[0].state_dir.join("runs");
    farm.eventually("no files are left", SOON, async || {
        let left: Vec<_> = std::fs::read_dir(&runs)
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .collect();
        left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
    })
    .await;
}

/// Once in a while the agent learns first that its session is over, and then has no end to write.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_refused_while_the_session_is_being_lost_leaves_no_files() {
    for _ in 0..4 {
        if is_refused_while_the_session_is_being_lost().await {
            return;
        }
    }
    panic!("no end was refused");
}

async fn is_refused_while_the_session_is_being_lost() -> bool {
    // The command ends well within it.
    let mut farm = Farm::new()
        .agents(1)
        .ttl(Duration::from_secs(8))
        .jobs("[job.short]\ncommand = [WITNESS, '1500']\n")
        .start()
        .await;
    let short = farm.submit("short").await;
    farm.lives(short, 1).await;
    farm.agents[0].stop();
    farm.eventually("it ends", SOON, async || {
        let (life, left) = (farm.witness.life(short, 1), farm.processes_of_run(short));
        let over = life.ended && left.is_empty();
        over.then_some(()).ok_or_else(|| format!("{life:?} {left:?}"))
    })
    .await;
    // The warden has to report it before it hangs.
    tokio::time::sleep(Duration::from_millis(300)).await;
    // A warden that hangs in the kernel keeps the session from ending at once. The answer to the end comes meanwhile.
    let frozen = Frozen::new(farm.agents[0].wardens()[0].pid);
    farm.add_agent("n2").await;
    farm.lives(short, 2).await;
    farm.exec("BEGIN; LOCK TABLE farmhand.run_history IN EXCLUSIVE MODE")
        .await;
    farm.agents[0].resume();
    is_logged(&farm, "another agent expired it").await;
    farm.exec("COMMIT").await;
    let mut refused = false;
    for _ in 0..50 {
        refused = farm.agents[0]
            .log()
            .contains("attempt 1 refused: the run has moved on");
        if refused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(frozen);
    no_files_are_left(&farm).await;
    farm.succeeds(short).await;
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_told_to_leave_while_it_loses_its_lease_leaves() {
    let mut farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].stop();
    farm.add_agent("n2").await;
    farm.lives(long, 2).await;
    farm.agents[0].signal(libc::SIGTERM);
    farm.agents[0].resume();
    let status = farm.agents[0].exit(SOON).await;
    assert!(status.success(), "{status}");
    let done = farm.succeeds(long).await;
    assert_eq!(done.running_at.as_deref(), Some("n2"), "{done:?}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_warden_is_ended_by_the_kernel_with_its_processes_and_the_run_goes_again() {
    let farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let warden = farm.agents[0].wardens()[0].pid;
    let stopped = boot_ns();
    stop(warden);
    farm.lives(long, 2).await;
    let (before, after) = (farm.witness.life(long, 1), farm.witness.life(long, 2));
    assert!(before.last < after.first);
    let delay = Duration::from_nanos(after.first - stopped);
    assert!(delay <= TAKEOVER, "{delay:?}");
    assert_eq!(
        farm.value::<i64>("SELECT session FROM farmhand.node").await,
        1,
        "the lease itself is fine"
    );
    farm.succeeds(long).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_agent_and_warden_stopped_the_processes_are_dead_before_the_takeover() {
    let mut farm = Farm::new().agents(2).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    let home = farm.lives(long, 1).await.running_at.expect("a node");
    let stopped = boot_ns();
    for warden in farm.agent(&home).wardens() {
        stop(warden.pid);
    }
    farm.agent(&home).stop();
    farm.lives(long, 2).await;
    let (before, after) = (farm.witness.life(long, 1), farm.witness.life(long, 2));
    assert!(before.last < after.first);
    assert!(Duration::from_nanos(after.first - stopped) <= TAKEOVER);
    farm.agent(&home).resume();
    farm.event("session_lost").await;
    farm.succeeds(long).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_agent_that_wakes_up_after_a_newer_one_adopted_leaves_and_touches_nothing() {
    let mut farm = Farm::new().agents(1).ttl(CALM).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].stop();
    let mut older = farm.agents[0].set_aside();
    farm.agents[0].start().await;
    farm.event("session_adopted").await;
    send(older.id().cast_signed(), libc::SIGCONT);
    let status = farm
        .eventually("the older one leaves", SOON, async || {
            older
                .try_wait()
                .expect("waiting for a child")
                .ok_or_else(|| "it lives".to_owned())
        })
        .await;
    assert!(status.success(), "{status}");
    assert!(farm.agents[0].log().contains("a newer agent has taken over"));
    let done = farm.succeeds(long).await;
    assert_eq!(done.attempt, 1, "{done:?}");
    assert_eq!(
        farm.events("expired").await + farm.events("session_lost").await,
        0
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_agent_that_wakes_up_after_its_session_is_over_touches_nothing_of_the_newer_one() {
    let mut farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].stop();
    let mut older = farm.agents[0].set_aside();
    // The lease ends first: the newer one finds no warden and waits the dead session out.
    farm.eventually("the old warden is gone", SOON, async || {
        farm.agents[0]
            .wardens()
            .is_empty()
            .then_some(())
            .ok_or_else(|| "it lives".to_owned())
    })
    .await;
    farm.agents[0].start().await;
    farm.lives(long, 2).await;
    send(older.id().cast_signed(), libc::SIGCONT);
    let status = farm
        .eventually("the older one leaves", SOON, async || {
            older
                .try_wait()
                .expect("waiting for a child")
                .ok_or_else(|| "it lives".to_owned())
        })
        .await;
    assert!(status.success(), "{status}");
    assert!(farm.agents[0].log().contains("a newer agent has taken over"));
    let done = farm.succeeds(long).await;
    assert_eq!(done.attempt, 2, "{done:?}");
    // Expired once, opened once.
    let session = "SELECT session FROM farmhand.node WHERE open";
    assert_eq!(farm.value::<i64>(session).await, 3);
    farm.check().await;
}

/// A farm whose one agent waits until a warden's death is proven, while the reaper that would see to it is stopped.
async fn without_a_warden() -> (Farm, i32) {
    const FOREVER: &str = "[job.forever]\ncommand = [WITNESS, '600000', 'ignore-term']\n";
    let farm = Farm::new().agents(1).ttl(CALM).jobs(FOREVER).start().await;
    let first = farm.submit("forever").await;
    farm.lives(first, 1).await;
    let (reaper, warden) = (farm.agents[0].reapers()[0].pid, farm.agents[0].wardens()[0].pid);
    stop(reaper);
    send(warden, libc::SIGKILL);
    (farm, reaper)
}

/// The start request is queued until the next warden is up.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_while_its_warden_is_replaced_is_not_started() {
    let (farm, reaper) = without_a_warden().await;
    let run = farm.submit("forever").await;
    claimed(&farm, run).await;
    farm.ok(&["run", "cancel", &run.to_string()]);
    // Before there is a warden again.
    let over = farm.over(run, SOON).await;
    assert_eq!((over.state.as_str(), over.attempt), ("cancelled", 1), "{over:?}");
    only_a_later_one_lives(&farm, reaper, run).await;
}

/// A failover lost the claim, so another node may run it by now.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_claim_is_lost_while_its_warden_is_replaced_is_not_started() {
    let (farm, reaper) = without_a_warden().await;
    let run = farm.submit("forever").await;
    claimed(&farm, run).await;
    let lose = format!(
        "UPDATE farmhand.run_live SET state = 'due', running_at = NULL, session = NULL, ready_at = now() + interval '1 hour'
         WHERE run_id = {run}"
    );
    farm.exec(&lose).await;
    is_logged(
        &farm,
        "was not started: the run is no longer held by this session",
    )
    .await;
    only_a_later_one_lives(&farm, reaper, run).await;
}

async fn only_a_later_one_lives(farm: &Farm, reaper: i32, run: i64) {
    let later = farm.submit("forever").await;
    send(reaper, libc::SIGCONT);
    farm.lives(later, 1).await;
    let lives = farm.witness.lives(run);
    assert!(lives.is_empty(), "{lives:?}");
}

async fn claimed(farm: &Farm, run: i64) {
    farm.eventually("it is claimed", SOON, async || match farm.run(run).await {
        claimed if claimed.state == "running" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}
