//! `farmhand agent --user`: what talks to networks has no rights; a small process keeps them, and answers for little.
//!
//! These tests need root, and users of Debian's: `www-data` is the agent's, `nobody` and `backup` are jobs'.

mod state;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use farmhand_os::accounts;
use farmhand_tests::farm::{Agent, CALM, Farm, FarmBuilder, SOON, TTL, send};
use farmhand_tests::processes::{self, Process};

const AGENT: &str = "www-data";
const JOBS: &str = "
    [job.who]
    user = 'backup'
    command = 'id -un; grep -E \"^(Uid|Gid|Groups|CapEff|NoNewPrivs)\" /proc/self/status'
    [job.root]
    user = 'root'
    command = 'id -un'
    [job.agent]
    user = 'www-data'
    command = 'id -un'
    [job.long]
    command = 'echo begun; until test -e @DIR@/go; do sleep 0.05; done; echo ended'
    on_lost = 'rerun'
    [job.flow.task.a]
    command = 'echo one'
    [job.flow.task.b]
    command = 'echo two'
    after = ['a']
";

pub fn needs_root() {
    // SAFETY: only asks.
    let own = unsafe { libc::geteuid() };
    assert_eq!(own, 0, "this test needs root: run it as root or in a container");
}

fn farm() -> FarmBuilder {
    needs_root();
    Farm::new()
        .policy("users = ['*']\ndefault_user = 'nobody'\n")
        .arguments(&["--user", AGENT])
        .jobs(JOBS)
}

fn uid_of(name: &str) -> u32 {
    let found = accounts::find(name).expect("the machine's users");
    found
        .unwrap_or_else(|| panic!("this test needs the user {name}, as Debian has it"))
        .account
        .uid
}

fn helper(agent: &Agent) -> Process {
    let mut found = agent.helpers();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The line of `/proc/PID/status` that begins so, without its name.
fn status(pid: i32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {text}"))
        .trim()
        .to_owned()
}

/// Whether the agent's user gets this done.
fn as_agent(script: &str) -> bool {
    let uid = uid_of(AGENT);
    let done = Command::new("/bin/sh")
        .args(["-c", script])
        .uid(uid)
        .gid(uid)
        .current_dir("/")
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    done.expect("a shell").success()
}

fn group_and_mode(path: &Path) -> (u32, u32) {
    let found = std::fs::metadata(path).expect("what is there");
    (found.gid(), found.mode() & 0o7777)
}

async fn begun(farm: &Farm, run: i64, attempt: i32) {
    farm.eventually("it has begun", SOON, async || {
        match farm.output(run, attempt).await {
            text if text.contains("begun") => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

fn go(farm: &Farm) {
    std::fs::write(farm.dir().join("go"), "").expect("a file");
}

/// It is told to end, and does so where it began.
async fn goes_on_and_ends(farm: &Farm, long: i64) {
    go(farm);
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
    assert_eq!(farm.output(long, 1).await, "begun\nended\n");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_talks_to_networks_has_no_rights_and_jobs_become_their_users_all_the_same() {
    let farm = farm().start().await;
    let agent = &farm.agents[0];
    let uid = uid_of(AGENT);
    let four = format!("{uid}\t{uid}\t{uid}\t{uid}");
    let pid = agent.pid();
    assert_eq!(status(pid, "Uid"), four);
    assert_eq!(status(pid, "Gid"), four);
    assert_eq!(status(pid, "Groups"), "");
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(pid, set), "0000000000000000", "{set}");
    }
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("threads")
        .flatten()
    {
        let text = std::fs::read_to_string(thread.path().join("status")).expect("a thread");
        assert!(text.contains(&format!("Uid:\t{four}")), "{text}");
    }
    let helper = helper(agent);
    assert_eq!(status(helper.pid, "Uid"), "0\t0\t0\t0");
    assert_eq!(helper.environment, Vec::<String>::new());
    assert!(!helper.command.contains("postgres"), "{helper:?}");

    let who = farm.submit("who").await;
    farm.succeeds(who).await;
    let backup = uid_of("backup");
    let text = farm.output(who, 1).await;
    assert!(
        text.starts_with(&format!("backup\nUid:\t{backup}\t{backup}\t{backup}\t{backup}\n")),
        "{text}"
    );
    assert!(
        text.contains("CapEff:\t0000000000000000\nNoNewPrivs:\t1"),
        "{text}"
    );
    for (job, why) in [("root", "root"), ("agent", "agent's own")] {
        let run = farm.submit(job).await;
        let ended = farm.over(run, SOON).await;
        assert_eq!(
            (ended.state.as_str(), ended.exit_code),
            ("failed", Some(126)),
            "{ended:?}"
        );
        assert!(
            ended.reason.as_ref().is_some_and(|r| r.contains(why)),
            "{ended:?}"
        );
        assert_eq!(farm.output(run, 1).await, "");
    }
    // Its record lies in the job's own directory.
    let flow = farm.submit("flow").await;
    farm.succeeds(flow).await;
    let tasks: i64 = farm
        .value(&format!(
            "SELECT count(*) FROM farmhand.task WHERE run_id = {flow}"
        ))
        .await;
    assert_eq!(tasks, 2);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agents_user_can_read_output_and_change_or_reach_nothing() {
    let farm = farm().start().await;
    let long = farm.submit("long").await;
    begun(&farm, long, 1).await;
    let state = farm.agents[0].state_dir.clone();
    let (state_text, policy) = (state.display().to_string(), farm.dir().join("policy.toml"));
    let attempt = format!("{state_text}/runs/{long}.1");
    assert!(as_agent(&format!(
        "test -r {attempt}/output.0 && ls {state_text}/runs"
    )));
    for refused in [
        format!("echo x >> {attempt}/output.0"),
        format!("rm -f {attempt}/output.0 && test ! -e {attempt}/output.0"),
        format!("touch {attempt}/new"),
        format!("touch {state_text}/runs/new"),
        format!("touch {state_text}/new"),
        format!("ls {attempt}/dir"),
        format!("ls {state_text}/warden"),
        format!("cat {state_text}/warden/bounds"),
        format!("echo 'x 1' > {state_text}/warden/seen-serials"),
        format!("echo x >> {}", policy.display()),
        format!("kill -0 {}", helper(&farm.agents[0]).pid),
        format!("kill -0 {}", farm.agents[0].wardens()[0].pid),
        format!("cat /proc/{}/environ", farm.agents[0].pid()),
    ] {
        assert!(!as_agent(&refused), "{refused}");
    }
    let socket = state.join("warden/main.sock");
    assert!(socket.exists());
    let dial = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        socket.display()
    );
    assert!(!as_agent(&dial), "{dial}");
    // The control: the shell above could have done it.
    assert!(as_agent(&format!("test -x {state_text}")));
    // Its own memory of the database is the one thing that it writes.
    assert!(as_agent(&format!(
        "test -s {state_text}/memory/database.json && test -w {state_text}/memory"
    )));
    let private = std::fs::metadata(state.join("warden")).expect("a directory");
    assert_eq!((private.uid(), private.permissions().mode() & 0o7777), (0, 0o700));
    go(&farm);
    farm.succeeds(long).await;
    farm.eventually("its directory is removed", SOON, async || {
        match Path::new(&attempt).exists() {
            false => Ok(()),
            true => Err(attempt.clone()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_adopts_what_a_killed_one_left() {
    let mut farm = farm().ttl(CALM).start().await;
    let long = farm.submit("long").await;
    begun(&farm, long, 1).await;
    let old = helper(&farm.agents[0]).pid;
    farm.agents[0].kill();
    farm.eventually("its helper follows it", SOON, async || {
        match processes::one(old).filter(|p| p.state != 'Z') {
            None => Ok(()),
            Some(alive) => Err(format!("{alive:?}")),
        }
    })
    .await;
    farm.agents[0].start().await;
    goes_on_and_ends(&farm, long).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_warden_is_proven_dead_and_has_a_successor() {
    let farm = farm().start().await;
    let long = farm.submit("long").await;
    begun(&farm, long, 1).await;
    // With its reaper, so that what is left is the helper's to end.
    let both: Vec<i32> = [farm.agents[0].reapers(), farm.agents[0].wardens()]
        .concat()
        .iter()
        .map(|p| p.pid)
        .collect();
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        both.iter().for_each(|pid| send(*pid, signal));
    }
    begun(&farm, long, 2).await;
    assert!(!both.contains(&farm.agents[0].wardens()[0].pid));
    go(&farm);
    let done = farm.succeeds(long).await;
    assert_eq!(done.attempt, 2, "{done:?}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_privileged_helper_an_agent_ends_as_in_a_crash() {
    let mut farm = farm().start().await;
    let long = farm.submit("long").await;
    begun(&farm, long, 1).await;
    send(helper(&farm.agents[0]).pid, libc::SIGKILL);
    let status = farm.agents[0].exit(SOON).await;
    assert_eq!(status.code(), Some(1), "{status}");
    assert!(
        farm.agents[0].log().contains("helper"),
        "{}",
        farm.agents[0].log_tail(5)
    );
    // Nobody came: the lease ends, and everything with it.
    farm.eventually(
        "nothing is left",
        TTL + Duration::from_secs(10),
        async || match farm.processes() {
            none if none.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        },
    )
    .await;
    farm.agents[0].start().await;
    begun(&farm, long, 2).await;
    go(&farm);
    farm.succeeds(long).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_changes_over_and_back_with_its_jobs_running_and_reads_its_settings_again() {
    needs_root();
    let mut farm = Farm::new()
        .policy("users = ['*']\ndefault_user = 'nobody'\n")
        .ttl(Duration::from_secs(12))
        .jobs(JOBS)
        .prepare()
        .await;
    let config = farm.dir().join("agent.toml");
    std::fs::write(&config, "[labels]\nrack = '1'\n").expect("settings");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600)).expect("their mode");
    let named = ["--config".to_owned(), config.display().to_string()];
    farm.agents[0].arguments.extend(named);
    farm.agents[0].start().await;
    let long = farm.submit("long").await;
    begun(&farm, long, 1).await;
    farm.agents[0].kill();
    let before = farm.agents[0].arguments.clone();
    farm.agents[0]
        .arguments
        .extend(["--user".to_owned(), AGENT.to_owned()]);
    farm.agents[0].start().await;
    std::fs::write(&config, "[labels]\nrack = '2'\n").expect("settings");
    farm.agents[0].signal(libc::SIGHUP);
    farm.eventually("the settings that only root can read", SOON, async || {
        let labels: String = farm
            .value("SELECT concat(labels->>'rack', ' ', labels->>'node') FROM farmhand.node WHERE address = 'n1'")
            .await;
        if labels == "2 n1" { Ok(()) } else { Err(labels) }
    })
    .await;
    assert!(
        !farm.agents[0].log().contains("restart"),
        "{}",
        farm.agents[0].log_tail(9)
    );
    let state = farm.agents[0].state_dir.clone();
    let output = state.join(format!("runs/{long}.1/output.0"));
    let shown = || [&state.join("runs"), &output].map(|path| group_and_mode(path));
    let group = accounts::find(AGENT)
        .expect("users")
        .expect("the agent's")
        .account
        .gid;
    assert_eq!(shown(), [(group, 0o751), (group, 0o640)]);
    farm.agents[0].kill();
    farm.agents[0].arguments = before;
    farm.agents[0].start().await;
    assert_eq!(shown(), [(0, 0o711), (0, 0o600)]);
    assert!(!state.join("warden/bounds").exists());
    goes_on_and_ends(&farm, long).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn root_an_unknown_user_and_a_user_without_a_policy_are_refused_at_the_start() {
    needs_root();
    let refused = [
        (AGENT, "--policy", 2),
        ("root", "is root", 1),
        ("no-such-user", "no user", 1),
    ];
    for (user, why, code) in refused {
        let mut farm = Farm::new().arguments(&["--user", user]);
        if code == 1 {
            farm = farm.policy("users = ['*']");
        }
        let mut farm = farm.prepare().await;
        farm.agents[0].spawn();
        let status = farm.agents[0].exit(SOON).await;
        let said = farm.agents[0].log();
        assert_eq!(status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
