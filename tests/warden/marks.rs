//! Without cgroups an orphan is known by the run directory that its environment names, and anybody can write another there.

use std::time::Duration;

use farmhand_os::clock::MILLISECOND;
use farmhand_warden_client::wire::*;

use super::harness::*;

const FORGER: AttemptId = AttemptId {
    run_id: 1,
    attempt: 1,
};
const VICTIM: AttemptId = AttemptId {
    run_id: 2,
    attempt: 1,
};

const GRACE: Duration = Duration::from_millis(200);

async fn without_cgroups() -> Farmer {
    needs_root();
    Farmer::with(|launch| launch.cgroup = false).await
}

/// A job of `user` that starts `count` orphans, each with a session of its own, which carry the mark of `of`, and then does `then`.
fn orphans(
    farmer: &Farmer,
    id: AttemptId,
    user: &str,
    of: AttemptId,
    count: u32,
    then: &str,
) -> SpawnRequest {
    let mark = farmer.paths().run_dir(of).display().to_string();
    let script = format!(
        "cd $FARMHAND_RUN_DIR; setsid sh -c '
             for n in $(seq {count}); do FARMHAND_RUN_DIR={mark} setsid sleep 1000 & done; echo $! >orphan' </dev/null; {then}"
    );
    as_user(farmer, sh(id, &script), user)
}

fn as_user(farmer: &Farmer, mut request: SpawnRequest, user: &str) -> SpawnRequest {
    request.user = Some(user.to_owned());
    request.policy = policy(farmer.dir.path(), "users = ['root', 'daemon', 'nobody']");
    request.grace_ms = GRACE.as_millis() as u64;
    request
}

async fn orphan(farmer: &Farmer, id: AttemptId) -> i32 {
    farmer.file(id, "orphan").await.parse().unwrap()
}

#[tokio::test]
async fn a_forged_mark_costs_another_users_job_neither_its_limits_nor_its_end() {
    let mut farmer = without_cgroups().await;
    let mut victim = as_user(&farmer, sh(VICTIM, "sleep 1000"), "nobody");
    victim.limits.processes = Some(5);
    farmer.spawn(victim).await;
    let mut forger = orphans(&farmer, FORGER, "daemon", VICTIM, 10, "sleep 1000");
    forger.limits.processes = Some(5);
    farmer.spawn(forger).await;
    // Both are counted in one look: the processes are those of the job that started them.
    let result = farmer.exited(FORGER).await;
    assert_eq!(result.killed, Some(KillReason::LimitProcesses), "{result:?}");
    let listing = farmer.client.list().await.unwrap();
    assert_eq!(listing.find(VICTIM).unwrap().state, State::Running);
}

#[tokio::test]
async fn the_end_of_a_job_kills_no_process_of_another_user_that_carries_its_mark() {
    let mut farmer = without_cgroups().await;
    farmer
        .spawn(as_user(&farmer, sh(VICTIM, "sleep 1000"), "nobody"))
        .await;
    farmer
        .spawn(orphans(&farmer, FORGER, "daemon", VICTIM, 1, "sleep 1000"))
        .await;
    let forged = orphan(&farmer, FORGER).await;
    let asked = farmhand_os::clock::boottime_ns();
    farmer
        .client
        .kill(VICTIM, GRACE, KillReason::Cancel)
        .await
        .unwrap();
    let result = farmer.exited(VICTIM).await;
    assert_eq!(result.killed, Some(KillReason::Cancel), "{result:?}");
    assert!(alive(forged), "it is not of the job that was cancelled");
    let took = (result.ended_ns - asked) / MILLISECOND;
    assert!(took < 5_000, "its end waited for a process of another: {took} ms");
    let listing = farmer.client.list().await.unwrap();
    assert_eq!(listing.find(FORGER).unwrap().state, State::Running);
}

#[tokio::test]
async fn a_process_with_a_forged_mark_does_not_outlive_its_own_job() {
    let mut farmer = without_cgroups().await;
    farmer
        .spawn(as_user(&farmer, sh(VICTIM, "sleep 1000"), "nobody"))
        .await;
    farmer
        .spawn(orphans(&farmer, FORGER, "daemon", VICTIM, 1, "exit 0"))
        .await;
    let result = farmer.exited(FORGER).await;
    let forged = orphan(&farmer, FORGER).await;
    assert!(!alive(forged), "{result:?}");
    assert_eq!(result.leftovers, 1, "{result:?}");
    let listing = farmer.client.list().await.unwrap();
    assert_eq!(listing.find(VICTIM).unwrap().state, State::Running);
}

#[tokio::test]
async fn what_is_below_a_jobs_own_processes_is_its_own_whatever_mark_it_carries() {
    let mut farmer = without_cgroups().await;
    farmer
        .spawn(as_user(&farmer, sh(VICTIM, "sleep 1000"), "daemon"))
        .await;
    let mark = farmer.paths().run_dir(VICTIM).display().to_string();
    let script = format!(
        "cd $FARMHAND_RUN_DIR; FARMHAND_RUN_DIR={mark} setsid sleep 1000 & echo $! >$FARMHAND_RUN_DIR/orphan; wait"
    );
    farmer
        .spawn(as_user(&farmer, sh(FORGER, &script), "daemon"))
        .await;
    let child = orphan(&farmer, FORGER).await;
    farmer
        .client
        .kill(VICTIM, GRACE, KillReason::Cancel)
        .await
        .unwrap();
    farmer.exited(VICTIM).await;
    assert!(alive(child), "the same user's, and below the other job");
    farmer
        .client
        .kill(FORGER, GRACE, KillReason::Cancel)
        .await
        .unwrap();
    farmer.exited(FORGER).await;
    assert!(!alive(child));
}

#[tokio::test]
async fn what_roots_job_started_as_another_user_ends_with_it() {
    let mut farmer = without_cgroups().await;
    farmer
        .spawn(as_user(&farmer, sh(VICTIM, "sleep 1000"), "nobody"))
        .await;
    let script = "cd $FARMHAND_RUN_DIR; setsid sh -c '
        setpriv --reuid 1 --clear-groups setsid sleep 1000 & echo $! >orphan' </dev/null; exit 0";
    farmer.spawn(as_user(&farmer, sh(FORGER, script), "root")).await;
    let result = farmer.exited(FORGER).await;
    let started = orphan(&farmer, FORGER).await;
    assert!(!alive(started), "{result:?}");
    let listing = farmer.client.list().await.unwrap();
    assert_eq!(listing.find(VICTIM).unwrap().state, State::Running);
}

/// As a flow does, which gives its tasks a directory of its own.
#[tokio::test]
async fn what_carries_a_directory_within_a_jobs_own_lives_and_ends_with_that_job() {
    let mut farmer = without_cgroups().await;
    let script = "cd $FARMHAND_RUN_DIR
        (FARMHAND_RUN_DIR=$FARMHAND_RUN_DIR/flow setsid sleep 1000 & echo $! >orphan); sleep 1000";
    farmer.spawn(sh(FORGER, script)).await;
    farmer.spawn(sh(VICTIM, "sleep 1000")).await;
    let daemon = orphan(&farmer, FORGER).await;
    for run in 3..=10 {
        let (result, _) = farmer.run(sh(id(run, 1), "true")).await;
        assert!(result.succeeded(), "{result:?}");
    }
    assert!(alive(daemon), "it is of a job that goes on");
    farmer
        .client
        .kill(FORGER, GRACE, KillReason::Cancel)
        .await
        .unwrap();
    farmer.exited(FORGER).await;
    assert!(!alive(daemon));
}
