//! What a command gets, and what is told about it.

use farmhand_core::definition::Isolation;
use farmhand_warden_client::wire::*;

use super::harness::*;

#[tokio::test]
async fn a_command_runs_and_its_status_and_output_are_told() {
    let mut farmer = Farmer::new().await;
    let (result, output) = farmer.run(sh(id(1, 1), "echo out; echo err >&2; exit 3")).await;
    assert_eq!(result.ending, Ending::Exited { code: 3 });
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(
        (result.output.bytes, result.output.dropped_bytes, result.killed),
        (8, 0, None)
    );
    assert!(result.ended_ns > result.started_ns);
}

#[tokio::test]
async fn a_signal_and_the_cpu_time_are_told() {
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; kill -SEGV $$";
        let mut request = sh(id(1, 1), script);
        request.isolation = isolation;
        let (result, _) = farmer.run(request).await;
        assert_eq!(result.signal(), Some(libc::SIGSEGV), "{result:?}");
        assert!(result.user_us > 10_000, "{result:?}");
    }
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_who_the_command_runs_as() {
    let mut farmer = Farmer::new().await;
    let mut request = argv(id(1, 1), &["/usr/bin/env"]);
    request.env = [("LANG", "C.UTF-8"), ("HOME", "/given")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let (_, output) = farmer.run(request).await;
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    let dir = format!("FARMHAND_RUN_DIR={}", farmer.paths().run_dir(id(1, 1)).display());
    let who = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap()
        .stdout;
    let who = String::from_utf8(who).unwrap();
    let (user, logname) = (format!("USER={}", who.trim()), format!("LOGNAME={}", who.trim()));
    assert_eq!(
        lines,
        [
            "FARMHAND_PROGRESS_FD=3",
            &dir,
            "HOME=/given",
            "LANG=C.UTF-8",
            &logname,
            "SHELL=/bin/sh",
            &user
        ]
    );
}

#[tokio::test]
async fn no_signal_is_ignored_or_blocked_whatever_the_agent_was_started_with() {
    // It may have to be built first, by a child that is waited for.
    farmhand_tests::bin::farmhand();
    for signal in [libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD, libc::SIGRTMAX()] {
        // SAFETY: this test has a process of its own, in which nobody waits for these.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let mut request = argv(
            id(1, 1),
            &["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"],
        );
        request.isolation = isolation;
        let (_, output) = farmer.run(request).await;
        // The C library keeps two for itself, which nobody can change through it.
        let own = 0b11 << 31;
        let sets: Vec<u64> = output
            .stdout
            .lines()
            .filter_map(|line| u64::from_str_radix(line.split_once('\t')?.1, 16).ok())
            .map(|set| set & !own)
            .collect();
        assert_eq!(sets, [0, 0], "{}", output.stdout);
    }
}

#[tokio::test]
async fn a_command_is_as_likely_a_victim_of_the_oom_killer_as_the_agent_was_when_it_started_the_warden() {
    // This test has a process of its own.
    std::fs::write("/proc/self/oom_score_adj", "300").unwrap();
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let mut request = argv(id(1, 1), &["cat", "/proc/self/oom_score_adj"]);
        request.isolation = isolation;
        let (_, output) = farmer.run(request).await;
        assert_eq!(output.stdout, "300\n");
    }
}

#[tokio::test]
async fn user_groups_umask_nice_directory_and_stdin_are_as_asked() {
    needs_root();
    for isolation in [Isolation::Cgroup, Isolation::Pid] {
        let mut farmer = Farmer::new().await;
        let mut request = sh(
            id(1, 1),
            "id -u; id -g; id -G; umask; nice; pwd; cat; stat -c %U:%a \"$FARMHAND_RUN_DIR\"; ulimit -n; set -- /proc/$$/fd/*; echo $#",
        );
        request.user = Some("daemon".into());
        request.policy = policy(farmer.dir.path(), "users = ['daemon']");
        request.umask = Some(0o027);
        request.nice = Some(7);
        request.cwd = Some("/usr".into());
        request.stdin = Some(b"given\n".to_vec());
        request.isolation = isolation;
        let (result, output) = farmer.run(request).await;
        assert!(result.succeeded(), "{result:?} {output:?}");
        let expected = std::process::Command::new("id")
            .args(["-G", "daemon"])
            .output()
            .unwrap();
        let groups = String::from_utf8(expected.stdout).unwrap();
        let limit = std::process::Command::new("sh")
            .args(["-c", "ulimit -n"])
            .output()
            .unwrap();
        let limit = String::from_utf8(limit.stdout).unwrap();
        let lines: Vec<&str> = output.stdout.lines().collect();
        let wanted = [
            "1",
            "1",
            groups.trim(),
            "0027",
            "7",
            "/usr",
            "given",
            "daemon:700",
            limit.trim(),
            // Input, output, errors, progress, and the directory that the shell itself has open as it looks.
            "5",
        ];
        assert_eq!(lines, wanted);
    }
}

#[tokio::test]
async fn a_large_stdin_is_fed_without_holding_anything_up() {
    let mut farmer = Farmer::new().await;
    let mut request = sh(id(1, 1), "sleep 0.2; wc -c");
    request.stdin = Some(vec![b'x'; MAX_STDIN]);
    farmer.spawn(request).await;
    let (quick, _) = farmer.run(sh(id(2, 1), "true")).await;
    assert!(quick.succeeded());
    let (result, output) = farmer.ended(id(1, 1)).await;
    assert!(result.succeeded());
    assert_eq!(output.stdout, "1048576\n");
    let mut ignored = sh(id(3, 1), "exit 4");
    ignored.stdin = Some(vec![b'x'; MAX_STDIN]);
    assert_eq!(farmer.run(ignored).await.0.exit_code(), Some(4));
}

#[tokio::test]
async fn a_script_without_an_interpreter_line_runs_as_shells_run_it() {
    let mut farmer = Farmer::new().await;
    let script = farmer.dir.path().join("script");
    std::fs::write(&script, "echo \"hello $1\"\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, output) = farmer
        .run(argv(id(1, 1), &[script.to_str().unwrap(), "there"]))
        .await;
    assert_eq!(output.stdout, "hello there\n");
}

#[tokio::test]
async fn a_state_directory_with_a_very_long_path_works() {
    let dir = state_dir();
    let long = dir.path().join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(&long).unwrap();
    let launch = launch(&long);
    let (client, _notices) = launch.start().await.unwrap();
    assert!(client.list().await.unwrap().attempts.is_empty());
    client.proof().kill_warden().unwrap();
    client.proof().tree_gone().await.unwrap();
}

#[tokio::test]
async fn ps_shows_which_processes_are_guard_and_warden() {
    let farmer = Farmer::new().await;
    let state_dir = farmer.dir.path().to_str().unwrap();
    let find = |word: &str| {
        let all = farmhand_tests::processes::with_command(state_dir);
        all.into_iter()
            .filter(|p| p.command.contains(word))
            .map(|p| p.pid)
            .collect::<Vec<_>>()
    };
    let identity = farmer.client.identity();
    // The directory's own name holds the word.
    let is = |pid: i32, word: &str| {
        farmhand_tests::processes::one(pid)
            .unwrap()
            .command
            .replace(state_dir, "")
            .contains(word)
    };
    assert!(find("reaper").contains(&identity.reaper_pid));
    assert!(is(identity.warden_pid, "warden") && !is(identity.warden_pid, "reaper"));
    assert!(is(identity.reaper_pid, "reaper") && !is(identity.reaper_pid, "warden"));
}
