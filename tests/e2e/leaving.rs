//! Signals, and a second agent where one is.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};
use farmhand_tests::witness::boot_ns;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '1500']
    [job.endless]
    grace = '300ms'
    command = [WITNESS, '60000', 'ignore-term', 'daemon']
    [job.short]
    command = [WITNESS, '50']
";

async fn closed(farm: &Farm) {
    let open = farm
        .value::<i64>("SELECT count(*) FROM farmhand.node WHERE open")
        .await;
    assert_eq!(open, 0, "the session is closed");
    assert!(farm.agents[0].wardens().is_empty() && farm.agents[0].reapers().is_empty());
}

async fn under_systemd() -> Farm {
    Farm::new()
        .env("NOTIFY_SOCKET", "/nowhere")
        .env("INVOCATION_ID", "0123456789abcdef0123456789abcdef")
        .ttl(CALM)
        .jobs(JOBS)
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sigint_drains_what_runs_finishes_and_nothing_new_starts() {
    let mut farm = Farm::new().jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].signal(libc::SIGINT);
    farm.event("draining").await;
    let short = farm.submit("short").await;
    let status = farm.agents[0].exit(SOON).await;
    assert!(status.success(), "{status}");
    assert_eq!(farm.run(long).await.state, "succeeded");
    assert_eq!(farm.run(short).await.state, "due");
    closed(&farm).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_claim_under_way_wins_after_sigint_is_given_back_as_never_started() {
    let mut farm = Farm::new().ttl(CALM).jobs(JOBS).start().await;
    farm.apply("[job.once]\non_lost = 'fail'\ncommand = [WITNESS, '50']\n");
    let client = farm.database.client().await;
    client
        .exec("BEGIN; SELECT FROM farmhand.node WHERE address = 'n1' FOR UPDATE")
        .await;
    let run_id = farm.submit("once").await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%me AS MATERIALIZED%left_to_others%'";
    let admin = farm.database.admin().await;
    farm.eventually("a claim that waits", SOON, async || {
        match admin.value(waits).await {
            0i64 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    farm.agents[0].signal(libc::SIGINT);
    farm.event("draining").await;
    client.exec("COMMIT").await;
    let status = farm.agents[0].exit(SOON).await;
    assert!(status.success(), "{status}");
    let run = farm.run(run_id).await;
    assert_eq!((run.state.as_str(), run.attempt), ("due", 1), "{run:?}");
    assert_eq!(farm.attempts(run_id).await[0].outcome, "never_started");
    closed(&farm).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sigint_and_sigquit_kill_at_once_and_the_runs_are_free() {
    for signals in [&[libc::SIGINT, libc::SIGINT][..], &[libc::SIGQUIT]] {
        let mut farm = Farm::new().jobs(JOBS).start().await;
        let endless = farm.submit("endless").await;
        farm.lives(endless, 1).await;
        let asked = boot_ns();
        for signal in signals {
            farm.agents[0].signal(*signal);
            if signals.len() > 1 {
                farm.event("draining").await;
            }
        }
        let status = farm.agents[0].exit(Duration::from_secs(9)).await;
        assert!(status.success(), "{status}");
        eprintln!("gone after {:?}", Duration::from_nanos(boot_ns() - asked));
        assert!(farm.processes_of_run(endless).is_empty());
        let run = farm.run(endless).await;
        assert_eq!((run.state.as_str(), run.attempt), ("due", 1), "{run:?}");
        closed(&farm).await;
        farm.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains_until_the_stop_timeout_and_kills_what_is_left() {
    let mut farm = Farm::new()
        .arguments(&["--stop-timeout", "3s"])
        .jobs(JOBS)
        .start()
        .await;
    let (long, endless) = (farm.submit("long").await, farm.submit("endless").await);
    farm.lives(long, 1).await;
    farm.lives(endless, 1).await;
    let asked = boot_ns();
    farm.agents[0].signal(libc::SIGTERM);
    let status = farm.agents[0].exit(SOON).await;
    let took = Duration::from_nanos(boot_ns() - asked);
    assert!(
        status.success() && took < Duration::from_secs(7),
        "{status} after {took:?}"
    );
    assert_eq!(farm.run(long).await.state, "succeeded");
    assert_eq!(farm.run(endless).await.state, "due");
    closed(&farm).await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_stop_timeout_a_job_still_has_its_grace_to_tidy_up() {
    let mut farm = Farm::new()
        .arguments(&["--stop-timeout", "100ms"])
        .jobs("[job.tidy]\ngrace = '10s'\ncommand = \"trap 'sleep 1; echo tidied; exit 0' TERM; echo up; sleep 60 & wait\"")
        .start()
        .await;
    let tidy = farm.submit("tidy").await;
    farm.eventually("it is up", SOON, async || match farm.output(tidy, 1).await {
        up if up.contains("up") => Ok(()),
        other => Err(other),
    })
    .await;
    farm.agents[0].signal(libc::SIGTERM);
    assert!(farm.agents[0].exit(Duration::from_secs(9)).await.success());
    assert_eq!(farm.output(tidy, 1).await, "up\ntidied\n");
    let run = farm.run(tidy).await;
    assert_eq!(
        (run.state.as_str(), run.attempt, run.takeovers),
        ("due", 1, 0),
        "{run:?}"
    );
    closed(&farm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_systemd_leaves_the_jobs_to_the_next_agent() {
    let mut farm = under_systemd().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].signal(libc::SIGTERM);
    assert!(farm.agents[0].exit(SOON).await.success());
    assert_eq!(farm.agents[0].wardens().len(), 1);
    farm.agents[0].start().await;
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_notifications_work_is_found_by_polling_and_sigalrm_polls_at_once() {
    let farm = Farm::new()
        .arguments(&["--notify", "off"])
        .jobs(JOBS)
        .start()
        .await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    // The best of several: the machine may be busy with other things.
    let mut delays = Vec::new();
    for _ in 0..8 {
        let asked = boot_ns();
        let short = farm.submit("short").await;
        farm.agents[0].signal(libc::SIGALRM);
        farm.succeeds(short).await;
        delays.push(Duration::from_nanos(farm.witness.life(short, 1).first - asked));
        if delays.last() < Some(&Duration::from_millis(700)) {
            return farm.check().await;
        }
    }
    panic!("{delays:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_under_the_same_address_is_refused_and_the_first_notices_nothing() {
    let mut farm = Farm::new().jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let mut second = farm.agents[0].double(farm.dir());
    second.spawn();
    let status = second.exit(SOON).await;
    assert_eq!(status.code(), Some(4), "{}", second.log_tail(10));
    assert!(
        second.log().contains("belongs to another live agent"),
        "{}",
        second.log_tail(10)
    );
    let done = farm.succeeds(long).await;
    assert_eq!(done.attempt, 1, "{done:?}");
    assert_eq!(
        farm.value::<i64>("SELECT session FROM farmhand.node WHERE open")
            .await,
        1
    );
    assert!(farm.agents[0].exited().is_none());
    farm.check().await;
}

/// Both nodes' sessions have the number 1.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_another_node_does_not_take_over_a_state_directory_in_use() {
    let mut farm = Farm::new().agents(2).ttl(CALM).jobs(JOBS).prepare().await;
    farm.agents[0].start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[1].start().await;
    farm.agents[1].kill_with_wardens();
    let mut renamed = farm.agents[0].double(farm.dir());
    renamed.address = "n2".to_owned();
    renamed.state_dir.clone_from(&farm.agents[0].state_dir);
    renamed.spawn();
    let status = renamed.exit(SOON).await;
    assert_eq!(status.code(), Some(4), "{}", renamed.log_tail(10));
    let said = renamed.log();
    assert!(
        said.contains("belongs to the node n1"),
        "{}",
        renamed.log_tail(10)
    );
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
    assert!(
        farm.agents[0].exited().is_none(),
        "the agent that is there goes on"
    );
    assert_eq!(farm.events("superseded").await, 0);
    farm.check().await;
}

/// The agent is gone, its warden is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_address_does_not_adopt_the_session_of_the_one_before() {
    let mut farm = Farm::new().ttl(CALM).jobs(JOBS).start().await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    farm.agents[0].kill();
    farm.agents[0].address = "n9".to_owned();
    farm.agents[0].spawn();
    let status = farm.agents[0].exit(SOON).await;
    assert_eq!(status.code(), Some(4), "{}", farm.agents[0].log_tail(10));
    farm.agents[0].address = "n1".to_owned();
    farm.agents[0].start().await;
    let done = farm.succeeds(long).await;
    assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
    farm.check().await;
}

/// The agent before was killed between its session and its boot jobs.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_adopts_fires_the_boot_jobs_that_were_not_fired() {
    let boot = "[job.warm]\nschedule = '@reboot'\nrun_on = 'each-node'\ncommand = [WITNESS, '50']\n";
    let mut farm = Farm::new().ttl(CALM).jobs(&format!("{JOBS}{boot}")).start().await;
    let fired = "SELECT count(*) FROM farmhand.run WHERE job_id = 'warm'";
    let count = async |farm: &Farm, wanted: i64| {
        farm.becomes(SOON, fired, wanted).await;
    };
    // A run that is just being claimed when its agent goes holds the session until it lapses.
    let idle = async |farm: &Farm| {
        farm.becomes(SOON, "SELECT count(*) FROM farmhand.run_live", 0_i64)
            .await;
    };
    count(&farm, 1).await;
    idle(&farm).await;
    farm.agents[0].kill();
    farm.exec("DELETE FROM farmhand.node_boot").await;
    farm.agents[0].start().await;
    farm.event("session_adopted").await;
    count(&farm, 2).await;
    idle(&farm).await;
    // A later session of the same boot fires nothing.
    farm.agents[0].signal(libc::SIGINT);
    assert!(farm.agents[0].exit(SOON).await.success());
    farm.agents[0].start().await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    count(&farm, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_an_agent_leaves_everybody_is_told_that_its_node_drains_and_its_next_agent_is_ready() {
    let mut farm = Farm::new()
        .agents(2)
        .ttl(CALM)
        .arguments(&["--stop-timeout", "10m"])
        .jobs(
            "[job.long]\nwhere = { node = 'n1' }\ncommand = [WITNESS, '600000', 'daemon']
            [job.pinned]\nwhere = { node = 'n1' }\ncommand = [WITNESS, '50']
            [job.each]\nrun_on = 'each-node'\ncommand = [WITNESS, '50']",
        )
        .start()
        .await;
    let long = farm.submit("long").await;
    farm.lives(long, 1).await;
    let state = |farm: &Farm| {
        let shown: serde_json::Value =
            serde_json::from_str(&farm.ok(&["node", "show", "n1", "--json"])).expect("JSON");
        shown["state"].as_str().expect("a word").to_owned()
    };
    farm.agent("n1").signal(libc::SIGTERM);
    farm.eventually("n1 drains", SOON, async || match state(&farm) {
        state if state == "draining" => Ok(()),
        other => Err(other),
    })
    .await;
    let row = farm.ok(&["node", "ls"]);
    assert!(
        row.lines()
            .any(|l| l.trim_start().starts_with("n1") && l.contains("draining")),
        "{row}"
    );
    let held = farm.ok(&["explain", "job", "pinned"]);
    assert!(
        held.contains("n1 is draining") && !held.contains("node resume"),
        "{held}"
    );
    farm.submit("each").await;
    let made = "SELECT string_agg(node, ' ') FROM farmhand.run WHERE job_id = 'each'";
    assert_eq!(farm.value::<String>(made).await, "n2");
    // It dies before it has left; the next one goes on with what runs.
    farm.agent("n1").kill();
    farm.agent("n1").start().await;
    farm.eventually("n1 is ready", SOON, async || match state(&farm) {
        state if state == "ready" => Ok(()),
        other => Err(other),
    })
    .await;
    let run = farm.run(long).await;
    assert_eq!((run.state.as_str(), run.attempt), ("running", 1), "{run:?}");
    let pinned = farm.submit("pinned").await;
    farm.succeeds(pinned).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_systemd_closes_the_session_of_a_drained_node() {
    let mut farm = under_systemd().await;
    let address = farm.agents[0].address.clone();
    farm.ok(&["node", "drain", &address, "--wait"]);
    farm.event("drained").await;
    farm.agents[0].signal(libc::SIGTERM);
    assert!(farm.agents[0].exit(SOON).await.success());
    closed(&farm).await;
    farm.check().await;
}
