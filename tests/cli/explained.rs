//! What is said of a run: where it is, what it waits for, how it ended.

use std::fs::OpenOptions;
use std::time::Duration;

use farmhand_tests::wait::eventually;
use serde_json::Value;

use super::farm::{Farm, command, ran};

const JOBS: &str = "[job.slow]\ncommand = 'sleep 600'\n[job.turns]\ncommand = 'sleep 600'\n";

fn until_said(farm: &Farm, args: &[&str], wanted: &str) -> String {
    eventually(wanted, Duration::from_secs(60), || {
        let said = farm.run(args).ok().out;
        if said.contains(wanted) {
            Ok(said)
        } else {
            Err(said)
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_not_ended_is_explained_by_itself() {
    let mut farm = Farm::new().await;
    farm.apply(JOBS);
    let submit = |args: &[&str]| {
        let run = farm
            .run(&[&["job", "run", "turns", "--json"], args].concat())
            .json();
        run["run_id"].to_string()
    };
    let first = submit(&[]);
    let second = submit(&["--overlap", "queue"]);
    farm.run(&["job", "pause", "turns", "--reason", "audit"]).ok();
    let due = farm.run(&["explain", "run", &first, "--json"]).json();
    assert_eq!(
        due["held_by"], "nodes",
        "a pause holds no run that is made: {due:#}"
    );
    let fired = format!("run {first} is due since ");
    assert!(due["gates"].to_string().contains(&fired), "{due:#}");
    let waiting = farm.run(&["explain", "run", &second, "--json"]).json();
    assert_eq!(waiting["held_by"], "overlap", "{waiting:#}");
    assert_eq!(waiting["answer"], format!("run {second} waits for run {first}"));

    farm.agent("n1");
    let runs = format!("run {first} runs on n1 since ");
    let said = until_said(&farm, &["explain", "run", &first], &runs);
    assert!(said.contains(", attempt 1"), "{said}");
    let other = format!("run {second}");
    assert!(!said.contains("audit") && !said.contains(&other), "{said}");
    let waiting = farm.run(&["explain", &second]).ok();
    assert!(
        waiting
            .out
            .starts_with(&format!("turns: run {second} waits for run {first} on n1")),
        "{waiting:?}"
    );
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_never_began_is_not_said_to_have_run() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    let waited = farm.run(&["job", "run", "slow", "--wait-timeout", "1s"]);
    assert_eq!(waited.code, 124, "{waited:?}");
    let run = waited.out.trim();
    assert!(
        waited.err.contains(&format!("run {run} is still waiting")),
        "{waited:?}"
    );
    let shown = farm.run(&["run", "show", run]).ok();
    assert!(shown.out.contains("no attempt yet"), "{shown:?}");
    farm.run(&["run", "cancel", run]).ok();
    let said = farm.run(&["explain", "run", run, "--json"]).json();
    assert_eq!(
        said["answer"],
        format!("it never ran: run {run} cancelled"),
        "{said:#}"
    );
    let shown = farm.run(&["run", "show", run]).ok();
    assert!(shown.out.contains("no attempt: it ended before"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_node_has_one_name_and_its_slots_are_counted_while_it_runs_something() {
    let mut farm = Farm::new().await;
    farm.apply(JOBS);
    farm.agent("n1");
    let run = farm.run(&["job", "run", "slow", "--json"]).json()["run_id"].to_string();
    until_said(&farm, &["explain", "run", &run], " runs on n1 since ");
    let slots = farm.run(&["node", "show", "n1", "--json"]).json()["slots"].to_string();
    farm.run(&["node", "drain", "n1"]).ok();
    let status = farm.run(&["status"]).ok();
    assert!(status.out.contains(&format!("1 of {slots} slots")), "{status:?}");
    let one = farm.run(&["node", "show", "n1"]).ok();
    assert!(one.out.contains("; it waits for 1 run\n"), "{one:?}");
    farm.run(&["run", "cancel", &run]).ok();
    until_said(&farm, &["node", "show", "n1"], "nothing runs there any more");
    for args in [&["node", "ls"][..], &["top", "--once"], &["status"]] {
        let said = farm.run(args).ok();
        assert!(
            said.out.contains("draining") && !said.out.contains("drained"),
            "{said:?}"
        );
    }
    assert!(farm.run(&["top", "--once"]).ok().out.starts_with("1 node, "));
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_cannot_be_written_is_an_error_with_a_text() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = farm.command();
    let ended = command
        .args(["job", "export"])
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains("could not be written") && said.contains("No space left"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_names_nothing_known_is_refused() {
    let farm = Farm::new().await;
    for args in [
        &["run", "ls", "--node", "nosuch"][..],
        &["events", "--node", "nosuch"],
    ] {
        farm.run(args)
            .refused(3, &["there is no node with the address nosuch"]);
    }
    farm.run(&["run", "ls", "--label", "batch"])
        .refused(2, &["--label", "NAME=VALUE"]);
    let state = farm.run(&["run", "ls", "--state", "succeded"]);
    state.refused(2, &["succeeded"]);
    assert_eq!(state.err.matches("invalid value").count(), 1, "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_times_of_an_explanation_are_in_the_zone_that_was_asked_for() {
    let farm = Farm::new().await;
    farm.apply("[job.daily]\ncommand = 'true'\nschedule = '0 3 * * *'\n");
    farm.run(&["job", "pause", "daily"]).ok();
    for args in [&["job", "resume", "daily"][..], &["explain", "job", "daily"]] {
        let mut command = farm.command();
        let said = ran(command.args(args).env("TZ", "Asia/Tokyo")).ok();
        assert!(said.out.contains("12:00:00+09:00"), "{said:?}");
        assert!(!said.out.contains("00Z"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_login_may_not_do_is_refused_with_the_role_that_may() {
    let farm = Farm::new().await;
    farm.apply(JOBS);
    // Roles belong to the cluster, which tests share.
    let made = "CREATE ROLE farm_cli_viewer LOGIN IN ROLE farmhand_viewer";
    let _ = farm.db.admin().await.batch_execute(made).await;
    let url = farm.db.url_as("farm_cli_viewer");
    let refused = ran(command(&url, farm.dir.path()).args(["job", "pause", "slow"]));
    refused.refused(
        6,
        &[
            "permission denied",
            "farmhand_operator",
            "docs/reference/roles.md",
        ],
    );
    for other in ["password", "farmhand_viewer"] {
        assert!(!refused.err.contains(other), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_explained_by_the_definition_that_it_was_made_from() {
    let mut farm = Farm::new().await;
    farm.apply(JOBS);
    farm.agent("n1");
    let runs = farm.run(&["job", "run", "slow", "--json"]).json()["run_id"].to_string();
    until_said(&farm, &["explain", "run", &runs], " runs on n1 since ");
    // A run by hand stays what it was made for, whatever is applied after it.
    farm.run(&["node", "cordon", "n1"]).ok();
    let waits = farm.run(&["job", "run", "turns", "--json"]).json()["run_id"].to_string();
    farm.apply(&JOBS.replace("[job.turns]", "[job.turns]\nwhere = { zone = 'z' }"));
    let said = farm.run(&["explain", "run", &waits, "--json"]).json();
    assert_eq!(said["held_by"], "nodes", "{said:#}");
    farm.run(&["job", "rm", "slow", "--yes"]).ok();
    let said = farm.run(&["explain", "run", &runs]).ok();
    assert!(said.out.contains(" runs on n1 since "), "{said:?}");
    farm.run(&["explain", "slow"])
        .refused(3, &["there is no job slow"]);
    farm.run(&["run", "cancel", &runs]).ok();
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_resumed_is_said_to_run_only_if_it_will() {
    let farm = Farm::new().await;
    let jobs = "[job.off]\ncommand = 'true'\nschedule = '@hourly'\nenabled = false\n[job.loop]\ncommand = 'true'\nschedule = '@continuous'\n";
    farm.apply(jobs);
    for (job, says) in [
        ("off", "it is not enabled, so nothing is due"),
        ("loop", "its rounds begin again"),
    ] {
        farm.run(&["job", "pause", job]).ok();
        let said = farm.run(&["job", "resume", job]).ok().out;
        assert!(said.contains(says), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_session_ended_waits_to_be_freed_in_each_answer() {
    let farm = Farm::new().await;
    farm.apply("[job.slow]\ncommand = 'sleep 600'\n");
    farm.db
        .client()
        .await.exec(
            "INSERT INTO farmhand.node (address, name, incarnation, session, open, lease_until, ttl_ms, slots, labels, version,
                 started_at, lost_at)
             VALUES ('n1', 'n1', gen_random_uuid(), 2, false, now(), 8000, 4, '{}', 'x', now(), '2026-03-10T12:00:00Z');
             INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, due_at, ready_at, state, running_at, session, attempt, fence,
                 claimed_at, started_at)
             VALUES (7, 'slow', 1, 'submitted', now(), now(), 'running', 'n1', 1, 1, 1, now(), now())"
        ).await;
    let held = "attempt 1; the session of its node ended at 2026-03-10T12:00:00Z: ";
    for args in [
        ["explain", "run", "7", "--json"],
        ["explain", "job", "slow", "--json"],
    ] {
        let said = farm.run(&args).json();
        assert_eq!(said["held_by"], Value::Null, "{said:#}");
        let answer = said["answer"].as_str().unwrap();
        assert!(
            answer.starts_with("run 7 started on n1 at ") && answer.contains(held),
            "{said:#}"
        );
    }
    farm.run(&["node", "rm", "n1"])
        .refused(4, &["1 run of it is not free yet"]);
    let node = farm.run(&["node", "show", "n1", "--json"]).json();
    let counts = |of: &str| node[of].as_i64();
    assert_eq!(
        (counts("running"), counts("held")),
        (Some(1), Some(1)),
        "{node:#}"
    );
    assert_eq!(node["runs"][0]["run_id"], 7, "{node:#}");
    let listed = farm.run(&["node", "ls"]).ok();
    let row: Vec<&str> = listed.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[3], "1", "{listed:?}");
    let top = farm.run(&["top", "--once"]).ok();
    let below = top.out.split_once("RUNNING 1").map(|(_, below)| below);
    assert!(below.is_some_and(|below| below.contains("slow")), "{top:?}");
    assert_eq!(farm.run(&["status", "--json"]).json()["running"], 1);
    let cancelled = farm.run(&["run", "cancel", "7"]).ok();
    let wanted = "run 7 is cancelled when it is freed";
    assert!(cancelled.out.contains(wanted), "{cancelled:?}");
}
