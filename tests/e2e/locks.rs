//! `farmhand lock NAME -- CMD`: a lock of the whole farm, whose command dies with its lease.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use farmhand_tests::bin::farmhand;
use farmhand_tests::farm::Farm;
use farmhand_tests::guides::{blocks, shell};
use farmhand_tests::pg::{Options, PrivateServer, TestDb};
use farmhand_tests::wait::eventually;
use tempfile::TempDir;

const TTL: f64 = 3.0;
const BOUND: Duration = Duration::from_secs(20);

/// Beats until it is killed, and so does a child that left its session.
const BEATS: &str = "beat='while :; do read -r up rest < /proc/uptime; echo \"$FARMHAND_FENCE $up\" >> $PLACE/beats; sleep \
     0.05; done'; setsid sh -c \"$beat\" & eval \"$beat\"";

struct Place {
    dir: TempDir,
    url: String,
}

impl Place {
    fn new(url: String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, url }
    }

    fn lock(&self, args: &[&str], script: &str) -> Command {
        let mut command = Command::new(farmhand());
        command.arg("lock").args(args).args(["--", "sh", "-c", script]);
        command.env("FARMHAND_DATABASE_URL", &self.url);
        command
            .env("PLACE", self.dir.path())
            .env("TMPDIR", self.dir.path());
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn output(&self, args: &[&str], script: &str) -> Output {
        self.lock(args, script).output().unwrap()
    }

    fn beating(&self) -> Child {
        self.lock(&["--ttl", "3s", "report"], BEATS).spawn().unwrap()
    }

    fn beats_file(&self) -> PathBuf {
        self.dir.path().join("beats")
    }

    /// The first and last beat under each fence, by the lowest fence.
    fn beats(&self) -> Vec<(i64, f64, f64)> {
        let text = fs::read_to_string(self.beats_file()).unwrap_or_default();
        let mut found: Vec<(i64, f64, f64)> = Vec::new();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let (fence, at) = line.split_once(' ').unwrap();
            let (fence, at): (i64, f64) = (fence.parse().unwrap(), at.parse().unwrap());
            match found.iter_mut().find(|life| life.0 == fence) {
                Some(life) => *life = (fence, life.1.min(at), life.2.max(at)),
                None => found.push((fence, at, at)),
            }
        }
        found.sort_by_key(|life| life.0);
        found
    }

    fn until_lives(&self, count: usize) -> Vec<(i64, f64, f64)> {
        eventually("it runs", BOUND, || {
            let beats = self.beats();
            (beats.len() >= count)
                .then_some(beats.clone())
                .ok_or(format!("{beats:?}"))
        })
    }
}

fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a child of this test that it has not waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

/// A server that neither answers nor refuses.
fn stopped(server: &PrivateServer, signal: i32) {
    for pid in server.family() {
        // SAFETY: a process of this test's server.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Until so many clients had an answer of the server.
async fn eventually_asked(sql: &farmhand_tests::pg::Client, clients: i64) {
    let begun = std::time::Instant::now();
    loop {
        let asked = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'farm_operator' AND state = 'idle' AND query ~ 'acquire|renew'";
        let found: i64 = sql.value(asked).await;
        if found >= clients {
            return;
        }
        assert!(begun.elapsed() < BOUND, "{found} clients have asked");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Of two, each life's last beat is before the next one's first.
fn never_overlap(beats: &[(i64, f64, f64)]) {
    for pair in beats.windows(2) {
        assert!(pair[0].2 < pair[1].1, "{beats:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_or_stopped_clients_command_is_dead_before_another_gets_the_lock() {
    for how in [libc::SIGKILL, libc::SIGSTOP] {
        let db = TestDb::new().await;
        let place = Place::new(db.operator_url());
        let mut first = place.beating();
        place.until_lives(1);
        let mut second = place.beating();
        tokio::time::sleep(Duration::from_secs_f64(TTL * 1.5)).await;
        assert_eq!(place.beats().len(), 1, "it is renewed");
        let at = uptime();
        signal(&first, how);
        let beats = place.until_lives(2);
        assert!(beats[1].1 - at < TTL * 1.1 + 2.0, "{at} {beats:?}");
        if how == libc::SIGSTOP {
            signal(&first, libc::SIGCONT);
            assert_eq!(first.wait().unwrap().code(), Some(5));
        } else {
            first.wait().unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        never_overlap(&place.beats());
        // The command has 10 seconds to end, and the lock is free at once.
        signal(&second, libc::SIGTERM);
        assert_eq!(second.wait().unwrap().code(), Some(128 + libc::SIGTERM));
        assert_eq!(place.output(&["-n", "report"], "true").status.code(), Some(0));
        never_overlap(&place.beats());
        assert_eq!(place.beats().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_the_command_ends_before_the_lock_can_be_taken() {
    let server = PrivateServer::start(Options::default()).await;
    let place = Place::new(server.operator_url());
    let mut first = place.beating();
    place.until_lives(1);
    let mut second = place.beating();
    let sql = server.admin().await;
    // Who never had an answer gives up.
    eventually_asked(&sql, 2).await;
    let at = uptime();
    stopped(&server, libc::SIGSTOP);
    assert_eq!(first.wait().unwrap().code(), Some(5));
    let last = place.beats()[0].2;
    assert!(last - at < TTL, "{last} {at}");
    tokio::time::sleep(Duration::from_secs_f64(TTL)).await;
    stopped(&server, libc::SIGCONT);
    place.until_lives(2);
    never_overlap(&place.beats());
    signal(&second, libc::SIGTERM);
    second.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_the_farm_says_what_the_command_says_and_who_waits_what_it_was_told() {
    let db = TestDb::new().await;
    let place = Place::new(db.url_as("farm_submitter"));
    let script = "echo out; echo err >&2; echo $FARMHAND_FENCE > fence; umask; pwd; exit 7";
    let ran = place.output(&["backup"], script);
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    let out = String::from_utf8(ran.stdout).unwrap();
    let here = fs::canonicalize(place.dir.path()).unwrap();
    assert_eq!(out, format!("out\n0022\n{}\n", here.display()));
    assert_eq!(ran.stderr, b"err\n");
    let fence = fs::read_to_string(place.dir.path().join("fence")).unwrap();
    assert!(fence.trim().parse::<i64>().unwrap() > 1 << 40);
    let mut missing = Command::new(farmhand());
    missing
        .args(["lock", "backup", "--", "no-such-program"])
        .env("FARMHAND_DATABASE_URL", &place.url);
    assert_eq!(missing.output().unwrap().status.code(), Some(127));

    let mut holder = place
        .lock(&["backup"], "touch held; exec sleep 60")
        .spawn()
        .unwrap();
    eventually("it runs", BOUND, || {
        let held = place.dir.path().join("held");
        held.exists().then_some(()).ok_or(String::new())
    });
    assert_eq!(place.output(&["-n", "backup"], "true").status.code(), Some(1));
    let refused = place.output(&["-w", "0.5", "-E", "9", "backup"], "true");
    assert_eq!(refused.status.code(), Some(9), "{refused:?}");
    signal(&holder, libc::SIGTERM);
    assert_eq!(holder.wait().unwrap().code(), Some(143));
    for (args, said) in [
        (vec!["a", "b"], "one name"),
        (vec!["a=2"], "no seats"),
        (vec!["--ttl", "1s", "a"], "shorter than 3s"),
    ] {
        let refused = place.output(&args, "true");
        let err = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{err}");
        assert!(err.contains(said), "{err}");
    }
    // Nothing is left behind.
    let left: Vec<_> = fs::read_dir(place.dir.path())
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|n| n.to_string_lossy().starts_with("farmhand-lock-")),
        "{left:?}"
    );
}

/// A lock of that name among a job's `locks` is the same lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_the_lock_waits_for_the_command_and_the_command_for_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let beats = "for i in 1 2 3 4 5 6 7 8 9; do read -r up rest < /proc/uptime; echo $FARMHAND_FENCE $up";
    let jobs = format!(
        "[job.report]\nlocks = ['report', 'disk']\ncommand = ['sh', '-c', '{beats} >> {at}/beats; sleep 0.1; done']\n\
         [job.long]\nlocks = ['report']\ncommand = ['sh', '-c', 'until [ -e {at}/go ]; do sleep 0.1; done']\n"
    );
    let farm = Farm::new().jobs(&jobs).start().await;
    let url = farm.database.operator_url();
    let place = Place { dir, url };
    let mut holder = place.beating();
    place.until_lives(1);
    let run = farm.submit("report").await;
    farm.eventually("it says why it waits", BOUND, async || {
        let said = farm.ok(&["explain", &run.to_string()]);
        let why =
            said.contains("waits for the lock report: farmhand") && said.contains("has it as farm_operator");
        why.then_some(()).ok_or(said)
    })
    .await;
    signal(&holder, libc::SIGKILL);
    let killed = uptime();
    holder.wait().unwrap();
    farm.succeeds(run).await;
    let beats = place.until_lives(2);
    never_overlap(&beats);
    // A look may be as far away as the next poll of the farm.
    assert!(beats[1].1 - killed < TTL * 1.1 + 2.0 + 5.0, "{killed} {beats:?}");
    farm.event("lease_freed").await;

    let long = farm.submit("long").await;
    farm.eventually("it runs", BOUND, async || {
        let state = farm.run(long).await.state;
        (state == "running").then_some(()).ok_or(state)
    })
    .await;
    let refused = place.output(&["-n", "report"], "true");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert_eq!(said, format!("held by run {long}: report\n"));
    let waits = place.lock(&["report"], "touch after").spawn().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!place.dir.path().join("after").exists());
    fs::write(place.dir.path().join("go"), "").unwrap();
    assert!(waits.wait_with_output().unwrap().status.success());
    farm.succeeds(long).await;
    farm.check().await;
}

/// Nobody reads what the command prints, as in `farmhand lock … | head -1`: it ends, and only then the lock is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_output_nobody_reads_is_dead_before_another_gets_the_lock() {
    let db = TestDb::new().await;
    let place = Place::new(db.operator_url());
    let talking = format!("echo begun; {BEATS} & while sleep 0.2; do echo more; done");
    let mut first = place
        .lock(&["report"], &talking)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    place.until_lives(1);
    drop(first.stdout.take());
    let code = first.wait().unwrap().code();
    let mut second = place.beating();
    place.until_lives(2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    never_overlap(&place.beats());
    assert_eq!(code, Some(1));
    signal(&second, libc::SIGTERM);
    second.wait().unwrap();
}

/// It needs no rights on its machine: no cgroup, no state directory of the agent's.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_locks_and_is_killed_with_the_lease() {
    super::user::needs_root();
    let db = TestDb::new().await;
    let place = Place::new(db.operator_url());
    fs::set_permissions(place.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let beating = || {
        let mut command = place.lock(&["--ttl", "3s", "report"], BEATS);
        command.uid(65534).gid(65534).spawn().unwrap()
    };
    let mut first = beating();
    place.until_lives(1);
    let mut second = beating();
    let at = uptime();
    signal(&first, libc::SIGKILL);
    first.wait().unwrap();
    let beats = place.until_lives(2);
    assert!(beats[1].1 - at < TTL * 1.1 + 2.0, "{at} {beats:?}");
    signal(&second, libc::SIGTERM);
    second.wait().unwrap();
    never_overlap(&place.beats());
}

/// Each old line and what stands for it call the same program with the same words.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_watchdog_guide_run_as_they_stand_there() {
    let blocks = blocks("watchdog.md");
    assert_eq!(blocks.len(), 6);
    let db = TestDb::new().await;
    let table = "CREATE TABLE lease (job_id text PRIMARY KEY, running_at text, until timestamptz);
        INSERT INTO lease VALUES ('report', NULL, '2000-01-01')";
    db.client().await.exec(table).await;
    let run = |nth: usize, url: String| {
        let place = tempfile::tempdir().unwrap();
        for name in ["report", "mailer"] {
            let path = place.path().join(name);
            fs::write(
                &path,
                format!(
                    "#!/bin/sh\ncd {}\nmkdir {name}-runs || echo twice >> calls\necho {name} \"$@\" >> calls\nrmdir {name}-runs\n",
                    place.path().display()
                ),
            )
            .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // As long as a holder is looked at, and no longer.
        let block = blocks[nth]
            .replace("sleep 60", "sleep 12")
            .replace("-w 20s", "-w 1s");
        let mut shell = shell(&block, place.path());
        shell.env("FARMHAND_DATABASE_URL", &url);
        shell.env("DATABASE_URL", url).stdout(Stdio::null());
        (place, shell)
    };
    let calls = |place: &TempDir| fs::read_to_string(place.path().join("calls")).unwrap_or_default();
    for nth in [0, 2] {
        let (place, mut shell) = run(nth, if nth == 0 { db.url() } else { db.operator_url() });
        assert!(shell.status().unwrap().success(), "{}", blocks[nth]);
        let called = if nth == 0 { "report --all\n" } else { "" };
        assert_eq!(calls(&place), called, "{}", blocks[nth]);
    }
    // The other server's line begins when the report is over, or nearly.
    for (nth, called, code) in [(1, "report --all\n", 1), (5, "report --fence 1099511", 0)] {
        let (place, mut shell) = run(nth, db.operator_url());
        let mut first = shell.spawn().unwrap();
        eventually("it runs", BOUND, || {
            let calls = calls(&place);
            (!calls.is_empty()).then_some(()).ok_or(calls)
        });
        let second = shell.status().unwrap();
        assert!(first.wait().unwrap().success(), "{}", blocks[nth]);
        assert_eq!(second.code(), Some(code), "{}", blocks[nth]);
        let calls = calls(&place);
        assert!(calls.starts_with(called), "{calls}");
        assert_eq!(calls.lines().count(), 1, "{}{calls}", blocks[nth]);
    }
    for nth in [3, 4] {
        let (place, mut shell) = run(nth, db.operator_url());
        let mut loops = vec![shell.stderr(Stdio::null()).spawn().unwrap()];
        // On two servers, where it is ours: the program is never there twice.
        let twice = nth == 4;
        loops.extend(twice.then(|| shell.spawn().unwrap()));
        eventually("it is started again", BOUND, || {
            let calls = calls(&place);
            calls
                .starts_with("mailer --queue\nmailer --queue\n")
                .then_some(())
                .ok_or(calls)
        });
        for mut looping in loops {
            // SAFETY: the group of a child that was not waited for.
            unsafe { libc::kill(-looping.id().cast_signed(), libc::SIGKILL) };
            looping.wait().unwrap();
        }
        assert!(!calls(&place).contains("twice"), "{}", calls(&place));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_said_to_hold_a_lock_while_claims_are_closed() {
    let db = TestDb::new().await;
    let closed = "UPDATE farmhand.epoch SET server = '0 other'";
    db.client().await.exec(closed).await;
    let ran = Place::new(db.url_as("farm_submitter")).output(&["-n", "x"], "true");
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("held by no one: "), "{said}");
    assert!(!said.contains("others"), "{said}");
}
