//! Memory and process limits, enforced by the kernel or watched by the warden.

use farmhand_core::definition::Command;
use farmhand_warden_client::wire::*;

use super::harness::*;

#[tokio::test]
async fn a_tree_with_too_many_processes_is_killed() {
    for cgroup in [true, false] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let mut request = sh(
            id(1, 1),
            "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; wait",
        );
        request.limits.processes = Some(4);
        let (result, _) = farmer.run(request).await;
        let by_controller = result.killed.is_none() && result.exit_code() == Some(2);
        assert!(
            by_controller || result.killed == Some(KillReason::LimitProcesses),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn a_process_with_too_much_memory_does_not_get_it() {
    let mut farmer = Farmer::new().await;
    let mut request = sh(
        id(1, 1),
        "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}",
    );
    request.limits.memory = Some(64 << 20);
    let (result, output) = farmer.run(request).await;
    assert!(!result.succeeded(), "{result:?} {output:?}");
    let mut modest = sh(
        id(2, 1),
        "x=$(head -c 1000000 /dev/zero | tr '\\0' x); echo ${#x}",
    );
    modest.limits.memory = Some(64 << 20);
    let (result, output) = farmer.run(modest).await;
    assert!(
        result.succeeded() && output.stdout == "1000000\n",
        "{result:?} {output:?}"
    );
}

#[tokio::test]
async fn a_tree_with_too_much_memory_together_is_killed() {
    let mut farmer = Farmer::new().await;
    let mut request = sh(
        id(1, 1),
        "for i in 1 2 3 4 5 6 7 8; do sh -c \"$HOG\" & done; wait",
    );
    let hog = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 1000";
    request.env.insert("HOG".into(), hog.into());
    request.limits.memory = Some(50 << 20);
    let (result, _) = farmer.run(request).await;
    assert_eq!(result.killed, Some(KillReason::LimitMemory), "{result:?}");
}

#[tokio::test]
async fn a_job_without_limits_has_those_of_the_policy_and_one_with_limits_its_own() {
    needs_root();
    for cgroup in [true, false] {
        let mut farmer = Farmer::with(|launch| launch.cgroup = cgroup).await;
        let rules =
            "users = ['*']\nlimits = { processes = 100 }\n[user.daemon]\nlimits = { processes = 4 }\n";
        let rules = policy(farmer.dir.path(), rules);
        let ask = |run, own, seconds: u32| {
            let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do sleep {seconds} & done; wait");
            let mut request = sh(id(run, 1), &script);
            request.user = Some("daemon".into());
            request.policy.clone_from(&rules);
            request.limits.processes = own;
            request
        };
        // Without a controller the processes are counted once a second.
        let (unlimited, own) = (ask(1, None, 1000), ask(2, Some(50), 2));
        let (result, _) = farmer.run(unlimited).await;
        let by_controller = result.killed.is_none() && result.exit_code() == Some(2);
        assert!(
            by_controller || result.killed == Some(KillReason::LimitProcesses),
            "{result:?}"
        );
        assert!(farmer.run(own).await.0.succeeded());
    }
}

#[tokio::test]
async fn a_memory_limit_holds_for_the_command_and_not_for_what_the_warden_keeps() {
    needs_root();
    let mut farmer = Farmer::new().await;
    for run in 1..=30 {
        let mut request = argv(id(run, 1), &["/bin/true"]);
        request.extra = "x".repeat(1 << 20).into();
        assert!(farmer.run(request).await.0.succeeded());
    }
    let mut limited = argv(id(31, 1), &["true"]);
    limited.user = Some("nobody".into());
    limited.policy = policy(farmer.dir.path(), "users = ['nobody']");
    limited.limits.memory = Some(16 << 20);
    let mut missing = limited.clone();
    let (result, _) = farmer.run(limited).await;
    assert_eq!(result.ending, Ending::Exited { code: 0 });
    missing.id = id(32, 1);
    missing.command = Command::Argv(vec!["no-such-command".into()]);
    let (result, _) = farmer.run(missing).await;
    assert!(
        matches!(&result.ending, Ending::StartFailed(failure) if failure.stage == Stage::Exec),
        "{result:?}"
    );
}
