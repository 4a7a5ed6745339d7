//! An attempt that its node no longer holds: its warden's deadline waits for its end.

use std::time::Duration;

use farmhand_core::lease::{BootInstant, LeaseTiming};
use farmhand_tests::farm::{CALM, Farm, SOON};
use farmhand_tests::freezer::Frozen;
use farmhand_tests::witness::boot_ns;
use farmhand_warden_client::WardenClient;

/// The warden must still live when the test has seen enough.
const LEASE: Duration = Duration::from_secs(15);

/// What an older copy of the database would show. No agent claims the run while the test looks.
const FREE: &str = "UPDATE farmhand.run_live SET state = 'due', running_at = NULL, session = NULL,
    ready_at = clock_timestamp() + interval '1 hour'";

const RENEWALS: &str = "SELECT renewals FROM farmhand.node";

async fn deadline(farm: &Farm) -> u64 {
    let known = WardenClient::identify(&farm.agents[0].state_dir).await;
    known.expect("an answer").expect("a warden").deadline_ns
}

/// A warden says so 10 s after the SIGKILL, which follows a SIGTERM by the grace of the job.
async fn unkillable(farm: &Farm, wanted: f64) {
    let bound = Duration::from_secs(60);
    farm.eventually("the metric says so", bound, async || {
        match farm.agents[0].metric("farmhand_runs_unkillable", &[]).await {
            now if now == wanted => Ok(()),
            now => Err(now.to_string()),
        }
    })
    .await;
}

/// The freezer stands for a system call that does not return: the SIGKILL of the attempt stays pending.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_moves_no_deadline_of_a_warden_that_runs_what_the_node_does_not_hold() {
    let jobs = "[job.long]\ncommand = [WITNESS, '60000']\n[job.short]\ncommand = [WITNESS, '100']\n";
    let farm = Farm::new().ttl(LEASE).jobs(jobs).start().await;
    let run_id = farm.submit("long").await;
    farm.lives(run_id, 1).await;
    let running = farm.processes_of_run(run_id);
    assert_eq!(running.len(), 1, "{running:?}");
    let warden = farm.agents[0].wardens()[0].pid;
    let frozen = Frozen::new(running[0].pid);
    farm.exec(FREE).await;
    let freed = BootInstant(boot_ns());

    farm.event("fence_kill").await;
    let (stands, renewals) = (deadline(&farm).await, farm.value::<i64>(RENEWALS).await);
    let timing = LeaseTiming::new(LEASE).expect("a lease");
    assert!(
        stands < timing.holder_deadline(freed).0,
        "the renewal that showed the run free moved the deadline"
    );
    // The agent withholds the renewal after next, because its warden has not confirmed the deadline of this one.
    farm.eventually("a renewal is withheld", SOON, async || {
        let renewed = farm.value::<i64>(RENEWALS).await - renewals;
        let moved = deadline(&farm).await - stands;
        assert_eq!(moved, 0, "the deadline was moved after {renewed} more renewals");
        match farm.events("renewal_withheld").await {
            0 => Err(format!("{renewed} more renewals")),
            _ => Ok(()),
        }
    })
    .await;
    assert!(farm.value::<i64>(RENEWALS).await > renewals, "it did not renew");
    assert_eq!(farm.events("fence_kill").await, 1);
    assert_eq!(farm.processes_of_run(run_id).len(), 1, "it could be ended");

    drop(frozen);
    farm.eventually("the deadline moves again", SOON, async || {
        match deadline(&farm).await {
            now if now > stands => Ok(()),
            now => Err(now.to_string()),
        }
    })
    .await;
    let left = farm.processes_of_run(run_id);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(farm.agents[0].wardens()[0].pid, warden);
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    let run = farm.run(run_id).await;
    assert_eq!((run.state.as_str(), run.attempt), ("due", 1), "{run:?}");
    assert_eq!(farm.value::<i64>("SELECT session FROM farmhand.node").await, 1);
    farm.check().await;
}

/// A run whose warden is dead, and of which the kernel ends a process only when the second value is dropped.
async fn stuck(farm: &Farm) -> (i64, Frozen) {
    let run = farm.submit("frozen").await;
    farm.lives(run, 1).await;
    let frozen = Frozen::new(farm.processes_of_run(run)[0].pid);
    let warden = farm.agents[0].wardens()[0].pid;
    // SAFETY: the warden of this test's agent, which lives.
    assert_eq!(unsafe { libc::kill(warden, libc::SIGKILL) }, 0);
    unkillable(farm, 1.0).await;
    (run, frozen)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_warden_had_begun_is_lost_once_the_kernel_has_ended_its_last_process() {
    let jobs = "[job.frozen]\ncommand = [WITNESS, '60000']\n[job.beside]\ncommand = [WITNESS, '60000']\n";
    let farm = Farm::new().ttl(LEASE).jobs(jobs).start().await;
    let runs = [farm.submit("frozen").await, farm.submit("beside").await];
    for run in runs {
        farm.lives(run, 1).await;
    }
    let frozen = Frozen::new(farm.processes_of_run(runs[0])[0].pid);
    let warden = farm.agents[0].wardens()[0].pid;
    // SAFETY: the warden of this test's agent, which lives.
    assert_eq!(unsafe { libc::kill(warden, libc::SIGKILL) }, 0);

    farm.eventually("both are held", SOON, async || {
        match farm.events("unkillable").await {
            2 => Ok(()),
            n => Err(format!("{n} are told")),
        }
    })
    .await;
    unkillable(&farm, 2.0).await;
    let lost = "SELECT count(*) FROM farmhand.attempt WHERE outcome = 'lost'";
    assert_eq!(
        farm.value::<i64>(lost).await,
        0,
        "one of its processes still lives"
    );
    let beside = farm.processes_of_run(runs[1]);
    assert!(beside.is_empty(), "{beside:?}");

    drop(frozen);
    for run in runs {
        farm.lives(run, 2).await;
    }
    assert_eq!(farm.value::<i64>(lost).await, 2);
    unkillable(&farm, 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_kernel_does_not_end_is_counted_until_it_has_ended_by_the_next_agent_too() {
    let mut farm = Farm::new()
        .ttl(CALM)
        .jobs("[job.frozen]\ncommand = [WITNESS, '60000']\n")
        .start()
        .await;
    let run = farm.submit("frozen").await;
    farm.lives(run, 1).await;
    unkillable(&farm, 0.0).await;
    let frozen = Frozen::new(farm.processes_of_run(run)[0].pid);
    farm.ok(&["run", "cancel", &run.to_string()]);
    unkillable(&farm, 1.0).await;
    farm.agents[0].kill();
    farm.agents[0].start().await;
    unkillable(&farm, 1.0).await;

    drop(frozen);
    farm.over(run, SOON).await;
    unkillable(&farm, 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_not_closed_while_something_of_a_dead_warden_lives() {
    let jobs = "[job.frozen]\ncommand = [WITNESS, '60000']\n";
    let mut farm = Farm::new().ttl(LEASE).jobs(jobs).start().await;
    let (run, frozen) = stuck(&farm).await;
    farm.agents[0].signal(libc::SIGQUIT);
    farm.agents[0].exit(Duration::from_secs(60)).await;
    let run = farm.run(run).await;
    assert_eq!((run.state.as_str(), run.attempt), ("running", 1), "{run:?}");
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_warden_left_stays_held_by_the_next_agent_too() {
    let jobs = "[job.frozen]\ncommand = [WITNESS, '60000']\n[job.short]\ncommand = [WITNESS, '100']\n";
    let mut farm = Farm::new().ttl(LEASE).jobs(jobs).start().await;
    let (run, frozen) = stuck(&farm).await;
    // It has the warden that the next agent adopts.
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    farm.agents[0].kill();
    farm.agents[0].start().await;
    let before = farm.value::<i64>(RENEWALS).await;
    farm.eventually("four renewals", Duration::from_secs(60), async || {
        match farm.value::<i64>(RENEWALS).await - before {
            4.. => Ok(()),
            n => Err(n.to_string()),
        }
    })
    .await;
    let seen = farm.run(run).await;
    assert_eq!((seen.state.as_str(), seen.attempt), ("running", 1), "{seen:?}");
    drop(frozen);
    farm.lives(run, 2).await;
}
