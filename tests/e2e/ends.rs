//! Ends that the database takes late, a warden that is full, and files of attempts that get no end.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON, TAKEOVER};

/// A statement that waits for a lock is given up after 10 s; each halving of the set takes as long.
const HALVED: Duration = Duration::from_secs(150);

const TWO: &str = "[job.locked]\ncommand = 'while [ ! -e @DIR@/go ]; do sleep 0.1; done'\n
                   [job.other]\ncommand = 'while [ ! -e @DIR@/go ]; do sleep 0.1; done'\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_command_left_something_in_the_background_says_that_it_was_ended() {
    const SAID: &str = "what it left in the background was ended with it";
    let jobs = "[job.leaves]\ncommand = 'sleep 600 & echo begun'\n
                [job.fails]\ncommand = 'sleep 600 & exit 3'\n
                [job.waits]\ncommand = 'true & wait; echo done'\n";
    let farm = Farm::new().jobs(jobs).start().await;
    let leaves = farm.submit("leaves").await;
    let over = farm.succeeds(leaves).await;
    assert_eq!(over.reason.as_deref(), Some(SAID));
    let run = leaves.to_string();
    assert!(farm.ok(&["run", "show", &run]).contains(SAID));
    farm.event("leftovers_ended").await;
    let logs = farm.farmhand(&["run", "logs", &run]);
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "begun\n");
    let said = String::from_utf8_lossy(&logs.stderr).into_owned();
    assert_eq!(said, format!("farmhand: {SAID}\n"));

    let fails = farm.submit("fails").await;
    let over = farm.over(fails, SOON).await;
    assert_eq!(over.reason, Some(format!("exit code 3; {SAID}")));
    let waits = farm.submit("waits").await;
    assert_eq!(farm.succeeds(waits).await.reason, None);
    let told = async || match farm.events("leftovers_ended").await {
        2 => Ok(()),
        n => Err(n.to_string()),
    };
    farm.eventually("both are told", SOON, told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_row_somebody_has_locked_holds_up_no_other_end() {
    let farm = Farm::new().slots(16).ttl(CALM).jobs(TWO).start().await;
    let locked = farm.submit("locked").await;
    let mut others = Vec::new();
    for _ in 0..10 {
        others.push(farm.submit("other").await);
    }
    for run in others.iter().chain([&locked]) {
        let sql = format!("SELECT started_at IS NOT NULL FROM farmhand.run WHERE run_id = {run}");
        farm.becomes(SOON, &sql, true).await;
    }
    let mut holder = farm.database.client().await;
    let transaction = holder.transaction().await.expect("a transaction");
    let lock = "SELECT FROM farmhand.run_live WHERE run_id = $1 FOR UPDATE";
    transaction.query(lock, &[&locked]).await.expect("its lock");
    std::fs::write(farm.dir().join("go"), "").expect("a file");
    for run in others {
        let over = farm.over(run, HALVED).await;
        assert_eq!(over.state, "succeeded", "{over:?}");
    }
    assert_eq!(farm.run(locked).await.state, "running");
    transaction.rollback().await.expect("its end");
    let over = farm.over(locked, HALVED).await;
    assert_eq!((over.state.as_str(), over.attempt), ("succeeded", 1), "{over:?}");
}

/// A limit of open files that leaves room for 25 attempts.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_claims_no_more_than_its_warden_has_room_for() {
    let mut farm = Farm::new()
        .slots(100)
        .ttl(CALM)
        .jobs("[job.long]\ncommand = ['sleep', '600']\n")
        .prepare()
        .await;
    let program = farm.dir().join("few-files.sh");
    let real = farm.agents[0].program.display().to_string();
    let script = format!("#!/bin/sh\nexec prlimit --nofile=264:264 {real} \"$@\"\n");
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    farm.agents[0].program = program;
    farm.start_agents().await;
    let mut last = 0;
    for _ in 0..60 {
        last = farm.submit("long").await;
    }
    let running = "SELECT count(*) FROM farmhand.run_live WHERE started_at IS NOT NULL AND state = 'running'";
    farm.becomes(SOON, running, 25_i64).await;
    // One place is free: the next run takes it, and more claims were not needed.
    let first = farm
        .value::<i64>("SELECT min(run_id) FROM farmhand.run_live WHERE state = 'running'")
        .await;
    farm.ok(&["run", "cancel", &first.to_string()]);
    farm.over(first, SOON).await;
    farm.becomes(SOON, running, 25_i64).await;
    let numbers = farm
        .value::<i64>("SELECT sum(attempt)::bigint FROM farmhand.run")
        .await;
    assert_eq!(numbers, 26, "attempts up to run {last}");
    assert!(
        farm.agents[0].log().contains("25 runs at most run here at once"),
        "{}",
        farm.agents[0].log_tail(30)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_what_a_lost_session_ran_are_closed() {
    let farm = Farm::new()
        .jobs("[job.chatty]\non_lost = 'fail'\ncommand = 'echo hello; sleep 600'\n")
        .start()
        .await;
    let run = farm.submit("chatty").await;
    farm.eventually("its output is stored", SOON, async || {
        match farm.output(run, 1).await {
            output if output.contains("hello") => Ok(()),
            other => Err(other),
        }
    })
    .await;
    farm.ok(&["lease", "release", "n1", "--force", "--confirm", "n1"]);
    farm.eventually("the next session is open", TAKEOVER + SOON, async || {
        match farm.events("session_opened").await {
            opened if opened >= 2 => Ok(()),
            other => Err(format!("{other} sessions")),
        }
    })
    .await;
    let fds = format!("/proc/{}/fd", farm.agents[0].pid());
    farm.eventually("no removed output is open", SOON, async || {
        let open = std::fs::read_dir(&fds).expect("its descriptors").flatten();
        let names = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let names: Vec<String> = names.map(|name| name.display().to_string()).collect();
        match names
            .iter()
            .find(|n| n.contains("output.") && n.contains("(deleted)"))
        {
            None => Ok(()),
            Some(name) => Err(name.clone()),
        }
    })
    .await;
}
