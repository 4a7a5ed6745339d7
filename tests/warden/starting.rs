//! What may start, how often, and what is said when it cannot.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use farmhand_core::definition::Isolation;
use farmhand_os::clock::{MILLISECOND, boottime_ns};
use farmhand_warden_client::wire::*;
use farmhand_warden_client::{WardenClient, WardenError};

use super::harness::*;

#[tokio::test]
async fn a_repeated_spawn_starts_nothing_again() {
    let mut farmer = Farmer::new().await;
    let request = sh(id(1, 1), "echo run >>runs; sleep 0.2");
    let (first, already) = farmer.client.spawn(request.clone()).await.unwrap();
    assert!(!already);
    assert_eq!(farmer.client.spawn(request.clone()).await.unwrap(), (first, true));
    farmer.exited(id(1, 1)).await;
    assert_eq!(farmer.client.spawn(request.clone()).await.unwrap(), (first, true));
    assert_eq!(farmer.file(id(1, 1), "runs").await, "run");
    farmer.client.ack(id(1, 1), true).await.unwrap();
    farmer.client.ack(id(1, 1), true).await.unwrap();
    let again = farmer.client.spawn(request).await;
    assert!(matches!(
        again,
        Err(WardenError::Refused(Refusal::Tombstone { .. }))
    ));
    assert!(!farmer.paths().attempt_dir(id(1, 1)).exists());
}

#[tokio::test]
async fn a_forbidden_attempt_never_starts_and_the_next_one_may() {
    let mut farmer = Farmer::new().await;
    assert_eq!(farmer.client.forbid(id(1, 2)).await.unwrap(), None);
    for attempt in [1, 2] {
        let refused = farmer.client.spawn(sh(id(1, attempt), "true")).await;
        assert!(matches!(
            refused,
            Err(WardenError::Refused(Refusal::Tombstone { .. }))
        ));
    }
    assert_eq!(farmer.client.list().await.unwrap().tombstones, [id(1, 2)]);
    assert!(farmer.run(sh(id(1, 3), "true")).await.0.succeeded());
}

#[tokio::test]
async fn forbidding_comes_too_late_for_what_runs_or_ended() {
    let mut farmer = Farmer::new().await;
    let go = farmer.dir.path().join("go");
    let waits = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    farmer.spawn(sh(id(1, 1), &waits)).await;
    assert_eq!(
        farmer.client.forbid(id(1, 1)).await.unwrap(),
        Some(State::Running)
    );
    std::fs::write(&go, "").unwrap();
    farmer.exited(id(1, 1)).await;
    assert_eq!(farmer.client.forbid(id(1, 1)).await.unwrap(), Some(State::Ended));
}

#[tokio::test]
async fn a_run_never_has_two_live_attempts() {
    let farmer = Farmer::new().await;
    farmer.spawn(sh(id(1, 2), "sleep 1000")).await;
    let newer = farmer.client.spawn(sh(id(1, 3), "true")).await;
    assert!(matches!(
        newer,
        Err(WardenError::Refused(Refusal::OlderAlive { .. }))
    ));
    let older = farmer.client.spawn(sh(id(1, 1), "true")).await;
    assert!(matches!(
        older,
        Err(WardenError::Refused(Refusal::Tombstone { .. }))
    ));
}

/// A start would set the kernel's timer to an instant that is over, or is so before the attempt can be ended, and end the warden
/// with all that it runs.
#[tokio::test]
async fn nothing_starts_after_its_hard_end_and_what_runs_goes_on() {
    let farmer = Farmer::new().await;
    farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    for left in [0, 200 * MILLISECOND] {
        let mut late = sh(id(2, 1), "true");
        late.hard_end_ns = Some(boottime_ns() + left);
        let refused = farmer.client.spawn(late).await;
        assert!(
            matches!(refused, Err(WardenError::Refused(Refusal::Ending))),
            "{refused:?}"
        );
    }
    let alive = farmer.client.list().await.unwrap().attempts;
    assert_eq!(alive.len(), 1, "{alive:?}");
}

#[tokio::test]
async fn attempts_are_bounded() {
    let farmer = Farmer::with(|launch| launch.max_attempts = 2).await;
    farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    farmer.spawn(sh(id(2, 1), "true")).await;
    let third = farmer.client.spawn(sh(id(3, 1), "true")).await;
    assert!(matches!(
        third,
        Err(WardenError::Refused(Refusal::Full { max: 2, .. }))
    ));
}

async fn failure(request: SpawnRequest) -> StartFailure {
    let mut farmer = Farmer::new().await;
    match farmer.run(request).await.0.ending {
        Ending::StartFailed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_not_an_exit_127_of_a_command() {
    let told = failure(argv(id(1, 1), &["no-such-command", "x"])).await;
    assert_eq!(
        (told.stage, told.errno, told.exit_code),
        (Stage::Exec, libc::ENOENT, 127)
    );
    assert!(
        told.message.contains("no such command: no-such-command (PATH="),
        "{told:?}"
    );
    let told = failure(argv(id(1, 1), &["/etc/passwd"])).await;
    assert_eq!(
        (told.stage, told.errno, told.exit_code),
        (Stage::Exec, libc::EACCES, 126)
    );
    let mut farmer = Farmer::new().await;
    let (result, _) = farmer.run(sh(id(1, 1), "exit 127")).await;
    assert_eq!(result.ending, Ending::Exited { code: 127 });
}

#[tokio::test]
async fn a_missing_directory_and_a_missing_user_are_named() {
    let mut request = sh(id(1, 1), "true");
    request.cwd = Some("/no/such/dir".into());
    let told = failure(request).await;
    assert_eq!((told.stage, told.subject.as_str()), (Stage::Cwd, "/no/such/dir"));
    let mut request = sh(id(1, 1), "true");
    request.user = Some("no-such-user".into());
    let told = failure(request).await;
    assert_eq!((told.stage, told.errno), (Stage::NoSuchUser, 0));
    assert_eq!(told.message, "no such user: no-such-user");
}

#[tokio::test]
async fn failures_inside_a_pid_namespace_are_told_the_same_way() {
    let mut request = argv(id(1, 1), &["no-such-command"]);
    request.isolation = Isolation::Pid;
    assert_eq!(failure(request).await.stage, Stage::Exec);
}

#[tokio::test]
async fn a_user_who_may_not_pass_to_the_run_directory_is_told_where() {
    needs_root();
    use std::os::unix::fs::PermissionsExt;
    let mut farmer = Farmer::new().await;
    std::fs::set_permissions(farmer.dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut request = sh(id(1, 1), "true");
    request.user = Some("daemon".into());
    request.policy = policy(farmer.dir.path(), "users = ['*']");
    let (result, _) = farmer.run(request).await;
    let Ending::StartFailed(failure) = result.ending else {
        panic!("{result:?}")
    };
    assert_eq!((failure.stage, failure.errno), (Stage::Cwd, libc::EACCES));
    assert!(failure.message.contains("mode 0711"), "{failure:?}");
}

#[tokio::test]
async fn a_second_warden_of_a_kind_is_refused() {
    let farmer = Farmer::new().await;
    let other = launch(farmer.dir.path());
    let paths = farmer.paths();
    let stream = WardenClient::dial_living(&paths).await.unwrap().unwrap();
    let refused = WardenClient::hello(stream, &paths, Some(other.serving), "n1").await;
    assert!(
        matches!(refused, Err(WardenError::Refused(Refusal::WrongLife { serving })) if serving.session == 7)
    );
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let farmer = Farmer::new().await;
    let mut request = sh(id(1, 1), "true");
    request.stdin = Some(vec![0; MAX_STDIN + 1]);
    assert!(farmer.client.spawn(request).await.is_err());
    assert!(farmer.client.spawn(argv(id(1, 1), &[])).await.is_err());
    let mut request = sh(id(1, 1), "true");
    request.env.insert("A=B".into(), "c".into());
    assert!(farmer.client.spawn(request).await.is_err());
    assert!(farmer.client.ack(id(1, 1), false).await.is_err());
}

/// What a policy refuses; `None`: it ran, as the user it then said it was.
async fn refusal(
    rules: Option<&str>,
    user: Option<&str>,
    isolation: Isolation,
) -> Result<String, StartFailure> {
    let mut farmer = Farmer::new().await;
    let mut request = sh(id(1, 1), "id -un");
    request.user = user.map(Into::into);
    request.isolation = isolation;
    request.policy = rules.and_then(|rules| policy(farmer.dir.path(), rules));
    let (result, output) = farmer.run(request).await;
    match result.ending {
        Ending::StartFailed(failure) => Err(failure),
        Ending::Exited { code: 0 } => Ok(output.stdout.trim().to_owned()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_policy_says_who_a_job_may_run_as() {
    needs_root();
    let shipped = Some("users = ['*']\ndefault_user = 'daemon'");
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let run = |rules, user| refusal(rules, user, isolation);
        assert_eq!(run(shipped, None).await.unwrap(), "daemon");
        assert_eq!(run(shipped, Some("nobody")).await.unwrap(), "nobody");
        let root = run(shipped, Some("root")).await.unwrap_err();
        assert_eq!(
            (root.stage, root.subject.as_str(), root.exit_code),
            (Stage::Policy, "root", 126)
        );
        assert!(
            root.message.contains("policy.toml") && root.message.contains("root"),
            "{root:?}"
        );
        // Nothing of root's without being asked for it either.
        let own = run(Some("users = ['*']"), None).await.unwrap_err();
        assert_eq!(own.stage, Stage::Policy);
        assert!(own.message.contains("default_user"), "{own:?}");
        assert_eq!(run(Some("users = ['*', 'root']"), None).await.unwrap(), "root");
        // Without a policy, the agent's own user alone.
        assert_eq!(run(None, None).await.unwrap(), "root");
        assert_eq!(run(None, Some("root")).await.unwrap(), "root");
        assert_eq!(run(None, Some("daemon")).await.unwrap_err().stage, Stage::Policy);
    }
}

#[tokio::test]
async fn a_policy_that_others_may_write_or_that_is_gone_lets_nobody_run_and_a_change_holds_at_once() {
    needs_root();
    use std::os::unix::fs::PermissionsExt;
    let mut farmer = Farmer::new().await;
    let file = policy(farmer.dir.path(), "users = ['*']");
    let path = file.clone().unwrap();
    let mut run = 0;
    let mut ask = || {
        run += 1;
        let mut request = sh(id(run, 1), "true");
        request.user = Some("daemon".into());
        request.policy.clone_from(&file);
        request
    };
    let request = ask();
    assert!(farmer.run(request).await.0.succeeded());
    for (change, said) in [
        (0o666, "mode is 0666"),
        (0o644, "does not name it"),
        (0, "No such file"),
    ] {
        match change {
            0 => std::fs::remove_file(&path).unwrap(),
            mode => {
                if mode == 0o644 {
                    policy(farmer.dir.path(), "users = ['root']");
                }
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        let request = ask();
        let Ending::StartFailed(failure) = farmer.run(request).await.0.ending else {
            panic!("{said}");
        };
        assert_eq!(failure.stage, Stage::Policy);
        assert!(failure.message.contains(said), "{failure:?}");
    }
}

/// Without a policy a command is prepared before the fork, with one after it.
#[tokio::test]
async fn a_command_starts_or_does_not_the_same_with_a_policy_and_without() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let dir = tempfile::tempdir().unwrap();
    let rules = policy(dir.path(), "users = ['root']");
    let (script, locked) = (dir.path().join("script"), dir.path().join("locked"));
    std::fs::write(&script, "echo $0 $1").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&locked, "").unwrap();
    let shown = "umask; ulimit -n; nice; cat /proc/self/oom_score_adj; grep -E 'NoNewPrivs|SigBlk|SigIgn' /proc/self/status; \
                 env | grep -vE '^(FARMHAND_RUN_DIR|PWD)=' | sort; ls -l /proc/self/fd | grep -c pipe; test $FARMHAND_RUN_DIR = $PWD";
    let in_path = |name: &str| {
        let mut request = argv(id(1, 1), &[name, "one"]);
        let path = format!("/no-such-directory:{}", dir.path().display());
        request.env.insert("PATH".into(), path);
        request
    };
    let mut limited = sh(id(1, 1), shown);
    (limited.umask, limited.nice) = (Some(0o027), Some(5));
    limited.limits.memory = Some(1 << 30);
    let mut nowhere = sh(id(1, 1), "true");
    nowhere.cwd = Some("/no/such/dir".into());
    let all = [
        sh(id(1, 1), shown),
        limited,
        argv(id(1, 1), &[script.to_str().unwrap(), "one"]),
        in_path("script"),
        in_path("locked"),
        in_path("missing"),
        argv(id(1, 1), &[locked.to_str().unwrap()]),
        argv(id(1, 1), &["/bin/echo", "a\0b"]),
        argv(id(1, 1), &[""]),
        nowhere,
    ];
    let mut run = 0;
    for request in all {
        let mut said = Vec::new();
        for rules in [None, rules.clone()] {
            run += 1;
            let mut request = request.clone();
            (request.id, request.policy) = (id(run, 1), rules);
            let (result, output) = farmer.run(request).await;
            said.push((result.ending, output.stdout, output.stderr));
        }
        assert_eq!(said[0], said[1], "{:?}", request.command);
    }
}

/// The rest of this test's process is an ordinary user; the binary is copied to where that one may read it.
fn become_ordinary(dir: &std::path::Path) -> std::path::PathBuf {
    let binary = dir.join("farmhand");
    std::fs::copy(farmhand_tests::bin::farmhand(), &binary).unwrap();
    std::os::unix::fs::chown(dir, Some(65534), Some(65534)).unwrap();
    // SAFETY: the system calls themselves, unlike their wrappers, change this thread alone.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, 65534, 65534, 65534), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534), 0);
    }
    binary
}

#[tokio::test]
async fn an_ordinary_user_runs_commands_but_not_as_others() {
    needs_root();
    let dir = state_dir();
    let mut launch = launch(&dir.path().join("state"));
    let everybody = policy(dir.path(), "users = ['*']");
    launch.exe = Some(become_ordinary(dir.path()));
    let mut farmer = Farmer::start(dir, &launch).await;
    let script = "id -u; grep NoNewPrivs /proc/self/status; (setsid sleep 1000 &)";
    let (result, output) = farmer.run(sh(id(1, 1), script)).await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(output.stdout, "65534\nNoNewPrivs:\t1\n");
    let mut as_daemon = sh(id(2, 1), "true");
    as_daemon.user = Some("daemon".into());
    as_daemon.policy = everybody;
    let Ending::StartFailed(failure) = farmer.run(as_daemon).await.0.ending else {
        panic!()
    };
    assert_eq!((failure.stage, failure.errno), (Stage::User, libc::EPERM));
    let mut isolated = sh(id(3, 1), "id -u; echo $$; exit 3");
    isolated.isolation = Isolation::Pid;
    let (result, output) = farmer.run(isolated).await;
    match result.ending {
        Ending::Exited { code: 3 } => assert_eq!(output.stdout, "65534\n2\n"),
        // A machine without user namespaces says so.
        Ending::StartFailed(failure) => assert_eq!(failure.stage, Stage::Isolation),
        other => panic!("{other:?}"),
    }
}
