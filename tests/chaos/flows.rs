//! kill -9 of what runs a flow, in the middle of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use farmhand_tests::farm::Farm;
use serde_json::Value;

const GRAPH: &str = "rc-netbsd-7.99.10-2015-04";

fn data(ending: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/graphs/{GRAPH}.{ending}"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The graph's scripts; each writes down its start and its end.
fn write_scripts(dir: &Path, log: &Path) {
    for line in data("jsonl").lines() {
        let script: Value = serde_json::from_str(line).expect("a line of JSON");
        let mut text = "#!/bin/sh\n".to_owned();
        for key in ["provide", "require", "before"] {
            let words: Vec<_> = script[key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if !words.is_empty() {
                text += &format!("# {}: {}\n", key.to_uppercase(), words.join(" "));
            }
        }
        let log = log.display();
        text += &format!(
            "\necho \"start $FARMHAND_TASK $FARMHAND_ATTEMPT\" >> {log}\nsleep 0.1\necho \"end $FARMHAND_TASK $FARMHAND_ATTEMPT\" >> {log}\n"
        );
        let path = dir.join(script["name"].as_str().expect("a name"));
        fs::write(&path, text).expect("a script can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_finishes_a_flow_runs_no_ended_task_again_and_nothing_before_what_it_requires() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (scripts, log) = (place.path().join("rc.d"), place.path().join("log"));
    fs::create_dir(&scripts).expect("a directory");
    write_scripts(&scripts, &log);
    let job = format!(
        "[job.boot]\nflow = '{}'\nresume = 'skip-finished'\n",
        scripts.display()
    );
    let mut farm = Farm::new().agents(2).jobs(&job).start().await;
    let run_id = farm.submit("boot").await;
    let ended =
        format!("SELECT count(*) FROM farmhand.task WHERE run_id = {run_id} AND outcome = 'succeeded'");
    farm.eventually(
        "a third of the tasks has ended",
        Duration::from_secs(60),
        async || {
            let count: i64 = farm.value(&ended).await;
            (count >= 40).then_some(()).ok_or_else(|| format!("{count} have"))
        },
    )
    .await;
    let home = farm.run(run_id).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    let run = farm.over(run_id, Duration::from_secs(120)).await;
    assert_eq!(
        (run.state.as_str(), run.attempt),
        ("succeeded", 2),
        "{}",
        farm.output(run_id, 2).await
    );
    assert_ne!(run.running_at.as_deref(), Some(home.as_str()));

    let recorded: Vec<String> = farm
        .value(&format!(
            "SELECT array_agg(task) FROM farmhand.task WHERE run_id = {run_id} AND attempt = 1 AND outcome = 'succeeded'"
        ))
        .await;
    let text = fs::read_to_string(&log).expect("the tasks' log");
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let mut starts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (line, at) in text.lines().zip(0..) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["start", task, attempt] => {
                let twice = starts.insert((*task, *attempt), at);
                assert!(twice.is_none(), "{task} started twice in attempt {attempt}");
            }
            ["end", task, _] => {
                ends.entry(*task).or_insert(at);
            }
            _ => panic!("{line}"),
        }
    }
    let again: Vec<&String> = recorded
        .iter()
        .filter(|t| starts.contains_key(&(t.as_str(), "2")))
        .collect();
    assert!(again.is_empty(), "ended, and run again: {again:?}");
    let tasks: BTreeSet<&str> = starts.keys().map(|(task, _)| *task).collect();
    assert_eq!(tasks.len(), 120, "every task ran");
    assert_eq!(ends.len(), 120, "every task ended");
    for line in data("edges").lines() {
        let (from, to) = line.split_once(' ').expect("two names");
        for attempt in ["1", "2"] {
            if let (true, Some(start)) = (from != to, starts.get(&(to, attempt))) {
                assert!(ends[from] < *start, "{to} started before the end of {from}");
            }
        }
    }
    // What ended and could not be written down before the kill is the only thing that may run twice.
    let twice = starts
        .keys()
        .filter(|(t, a)| *a == "2" && starts.contains_key(&(*t, "1")))
        .count();
    eprintln!(
        "{} tasks ended before the kill; {twice} were cut short and ran again",
        recorded.len()
    );
}
