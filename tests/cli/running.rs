//! Commands against a farm that runs.

use std::time::Duration;

use farmhand_tests::wait::eventually;
use serde_json::Value;

use super::farm::{Farm, Ran};
use super::pty::Pty;

const JOBS: &str = r#"
[job.ok]
command = ["echo", "{word}"]
params = { word = { type = "string", default = "hello" } }

[job.both]
command = "echo to-out; echo to-err >&2"

[job.exit]
command = "exit 7"

[job.flaky]
command = "echo attempt $FARMHAND_ATTEMPT; test $FARMHAND_ATTEMPT = 2"
retry = { max = 2, base = "100ms" }

[job.cut]
command = "printf 'attempt %s\\tends in \\033' $FARMHAND_ATTEMPT; test $FARMHAND_ATTEMPT = 2"
retry = { max = 2, base = "100ms" }

[job.slow]
command = "echo begun; sleep 60"

[job.short]
command = ["sleep", "60"]
timeout = "300ms"
"#;

async fn farm() -> Farm {
    let mut farm = Farm::new().await;
    farm.apply(JOBS);
    farm.agent("n1");
    farm
}

fn until_state(farm: &Farm, id: &str, state: &str) -> Value {
    eventually(&format!("run {id} is {state}"), Duration::from_secs(20), || {
        let run = farm.run(&["run", "show", id, "--json"]).json();
        if run["run"]["state"] == state {
            Ok(run)
        } else {
            Err(run.to_string())
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_maps_outcomes_to_exit_codes() {
    let farm = farm().await;
    let wait = |job: &str| -> Ran { farm.run(&["job", "run", job, "--wait"]) };
    assert_eq!(wait("ok").code, 0);
    assert_eq!(wait("exit").code, 10);
    assert_eq!(wait("short").code, 11);
    let expired = farm.run(&["job", "run", "slow", "--wait-timeout", "1s"]);
    assert_eq!(expired.code, 124, "{expired:?}");
    let id = expired.out.trim().to_owned();
    until_state(&farm, &id, "running");
    farm.run(&["run", "cancel", &id]).ok();
    until_state(&farm, &id, "cancelled");
    assert_eq!(farm.run(&["run", "retry", "99999"]).code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_exit_code_12_for_who_waits() {
    let farm = farm().await;
    let mut command = farm.command();
    command
        .args(["job", "run", "slow", "--wait", "--json"])
        .stdout(std::process::Stdio::piped());
    let waiting = command.spawn().unwrap();
    let id = eventually("the run runs", Duration::from_secs(20), || {
        let runs = farm.run(&["run", "ls", "--state", "running", "--json"]).json()["items"].clone();
        runs[0]["run_id"].as_i64().ok_or(runs.to_string())
    });
    farm.run(&["run", "cancel", &id.to_string()]).ok();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(12));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["state"], "cancelled");
    assert_eq!(run["run_id"], id);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_detaches_and_the_run_goes_on() {
    let farm = farm().await;
    let mut command = farm.command();
    command.args(["job", "run", "slow", "--follow"]);
    let waiting = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let id = eventually("the run runs", Duration::from_secs(20), || {
        let runs = farm.run(&["run", "ls", "--state", "running", "--json"]).json()["items"].clone();
        runs[0]["run_id"].as_i64().ok_or(runs.to_string())
    });
    // SAFETY: our own child, not yet waited for.
    unsafe { libc::kill(waiting.id().cast_signed(), libc::SIGINT) };
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    until_state(&farm, &id.to_string(), "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_comes_on_the_streams_it_was_written_to() {
    let farm = farm().await;
    let followed = farm.run(&["job", "run", "both", "--follow"]);
    assert_eq!(followed.code, 0);
    assert_eq!(followed.out, "to-out\n");
    assert!(followed.err.contains("to-err\n"), "{followed:?}");
    let id = farm.run(&["run", "ls", "--json"]).json()["items"][0]["run_id"].to_string();
    let logs = farm.run(&["run", "logs", &id]).ok();
    assert_eq!((logs.out.as_str(), logs.err.as_str()), ("to-out\n", "to-err\n"));
    let pieces = farm.run(&["run", "logs", &id, "--json"]).json();
    assert_eq!(pieces.as_array().unwrap().len(), 2, "{pieces}");
}

#[tokio::test(flavor = "multi_thread")]
async fn show_lists_every_attempt_and_logs_every_attempts_output() {
    let farm = farm().await;
    let ran = farm.run(&["job", "run", "flaky", "--wait", "--json"]).json();
    let id = ran["run_id"].to_string();
    let shown = farm.run(&["run", "show", &id, "--json"]).json();
    assert_eq!(shown["run"]["attempt"], 2);
    assert_eq!(shown["run"]["retries"], 1);
    assert_eq!(shown["attempts"][0]["attempt"], 1);
    assert_eq!(shown["attempts"][0]["outcome"], "failed");
    assert_eq!(shown["attempts"][0]["exit_code"], 1);
    assert!(shown["attempts"][0]["fence"].as_i64() < shown["run"]["fence"].as_i64());
    assert_eq!(farm.run(&["run", "logs", &id]).ok().out, "attempt 2\n");
    assert_eq!(
        farm.run(&["run", "logs", &id, "--attempt", "1"]).ok().out,
        "attempt 1\n"
    );
    assert_eq!(
        farm.run(&["run", "logs", &id, "--all"]).ok().out,
        "attempt 1\nattempt 2\n"
    );
    farm.run(&["run", "logs", &id, "--attempt", "3"])
        .refused(3, &["no attempt 3"]);
    let table = farm.run(&["run", "show", &id]).ok().out;
    assert_eq!(table.lines().filter(|l| l.contains(" n1 ")).count(), 2, "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_output_that_says_more_is_to_come_is_shown_all_the_same() {
    let farm = farm().await;
    let ran = farm.run(&["job", "run", "cut", "--wait", "--json"]).json();
    let id = ran["run_id"].to_string();
    for args in [&["--all"][..], &["-f"]] {
        let (code, seen) = Pty::start(&farm, 80, &[&["run", "logs", &id], args].concat()).end();
        assert_eq!(code, Some(0), "{seen}");
        let [first, second] = ["attempt 1\tends in ^[", "attempt 2\tends in ^["].map(|end| seen.find(end));
        assert!(first.is_some() && first < second, "{seen:?}");
    }
    let (_, seen) = Pty::start(&farm, 80, &["job", "run", "cut", "--follow"]).end();
    assert!(seen.contains("attempt 2\tends in ^["), "{seen:?}");
    let found = farm.run(&["run", "logs", &id, "--grep", "2\tends"]).ok();
    assert_eq!(found.out, format!("{id}:2:1:attempt 2\tends in \n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_adds_to_output_is_a_line_and_no_empty_one() {
    let farm = farm().await;
    let ran = farm.run(&["job", "run", "ok", "--wait", "--json"]).json();
    let id = ran["run_id"].to_string();
    let added = format!(
        "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
         VALUES ({id}, 1, 6, 'agent', now(), statement_timestamp(), E'it went over\\n')"
    );
    farm.db.client().await.exec(&added).await;
    let shown = farm.run(&["run", "logs", &id]).ok();
    assert_eq!(
        (shown.out.as_str(), shown.err.as_str()),
        ("hello\n", "farmhand: it went over\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_searched_like_grep_does() {
    let farm = farm().await;
    let ran = farm.run(&["job", "run", "flaky", "--wait", "--json"]).json();
    let id = ran["run_id"].to_string();
    let grep = |args: &[&str]| -> Ran { farm.run(&[&["run", "logs"], args].concat()) };
    let both = format!("{id}:1:1:attempt 1\n{id}:2:1:attempt 2\n");
    assert_eq!(grep(&[&id, "--grep", "attempt"]).ok().out, both);
    assert_eq!(grep(&["flaky", "--grep", "ATTEMPT", "-i"]).ok().out, both);
    assert_eq!(
        grep(&["flaky", "--grep", "tempt", "--runs", "1000"]).ok().out,
        both
    );
    let second = grep(&[&id, "--grep", "attempt", "--attempt", "2", "--json"]).json();
    assert_eq!(second["items"].as_array().unwrap().len(), 1, "{second}");
    assert_eq!(second["cut"], Value::Null);
    let nothing = grep(&[&id, "--grep", "ATTEMPT"]);
    assert_eq!(
        (nothing.code, nothing.out.as_str(), nothing.err.as_str()),
        (1, "", "")
    );
    grep(&[&id, "--grep", "x", "--runs", "5"]).refused(2, &["name the job instead"]);
    grep(&["nothing", "--grep", "x", "--runs", "5"]).refused(3, &["nothing"]);
    assert_eq!(grep(&[&id, "--grep", ""]).code, 2);
    assert_eq!(grep(&[&id, "--runs", "5"]).code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_is_retried_as_a_new_run_with_its_parameters() {
    let farm = farm().await;
    let first = farm
        .run(&["job", "run", "ok", "-p", "word=again", "--wait", "--json"])
        .json();
    let id = first["run_id"].to_string();
    let again = farm.run(&["run", "retry", &id, "--follow"]);
    assert_eq!((again.code, again.out.as_str()), (0, "again\n"), "{again:?}");
    let newest = farm.run(&["run", "show", "ok", "--json"]).json();
    assert_eq!(newest["run"]["parent_run"].to_string(), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_released_by_force_only_and_only_when_confirmed() {
    let farm = farm().await;
    let id = farm.run(&["job", "run", "slow"]).ok().out.trim().to_owned();
    let before = until_state(&farm, &id, "running");
    farm.run(&["lease", "release", "n1"])
        .refused(4, &["may run twice", "--force"]);
    farm.run(&["lease", "release", "n1", "--force"])
        .refused(4, &["--confirm \"n1\""]);
    farm.run(&["lease", "release", "n1", "--force", "--confirm", "n2"])
        .refused(4, &["nothing was done"]);
    let held = farm.run(&["lease", "ls", "--json"]).json()["items"].clone();
    assert_eq!(held[0]["runs"][0]["run_id"].to_string(), id);

    farm.run(&["lease", "release", "n1", "--force", "--confirm", "n1"])
        .ok();
    let after = eventually("the run moves on", Duration::from_secs(30), || {
        let run = farm.run(&["run", "show", &id, "--json"]).json();
        let moved = run["run"]["attempt"].as_i64() >= Some(2) && run["run"]["state"] == "running";
        if moved { Ok(run) } else { Err(run.to_string()) }
    });
    assert!(after["run"]["fence"].as_i64() > before["run"]["fence"].as_i64());
    assert_eq!(after["attempts"][0]["outcome"], "lost");
    let events = farm.run(&["events", "--kind", "lease_released", "--json"]).json();
    assert_eq!(events["items"][0]["detail"]["runs"][0].to_string(), id);
}
