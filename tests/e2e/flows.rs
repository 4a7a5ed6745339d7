//! A flow from a job file, on an agent.

use std::fs;

use farmhand_tests::farm::Farm;
use serde_json::Value;

/// A library that tells how often it is loaded, and a function that writes down when a task begins and ends.
const LIBRARY: &str = r#"echo loaded >> "$LOG.loads"
witness()
{
	echo "start $FARMHAND_TASK" >> "$LOG"
	sleep 0.2
	echo "end $FARMHAND_TASK" >> "$LOG"
	echo "this is $FARMHAND_TASK"
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_loads_its_library_once_keeps_to_its_pool_and_shows_how_each_task_ended() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (library, log) = (place.path().join("library"), place.path().join("log"));
    let assigned = format!("LOG='{}'\n{LIBRARY}", log.display());
    fs::write(&library, assigned).expect("the library can be written");
    let mut job = format!("[pool.p]\nsize = 2\n[job.f]\npreload = '{}'\n", library.display());
    for task in ["a", "b", "c", "d", "e", "f"] {
        job += &format!("[job.f.task.{task}]\npool = 'p'\ncommand = 'witness'\n");
    }
    job += "[job.f.task.bad]\nafter = ['a', 'b', 'c', 'd', 'e', 'f']\ncommand = 'witness; exit 3'\n";
    job += "[job.f.task.never]\nrequires = ['bad']\ncommand = 'witness'\n";
    let farm = Farm::new().agents(1).jobs(&job).start().await;
    let run_id = farm.submit("f").await;
    let run = farm.over(run_id, std::time::Duration::from_secs(60)).await;
    let output = farm.output(run_id, 1).await;
    assert_eq!((run.state.as_str(), run.attempt), ("failed", 1), "{output}");

    let loads = fs::read_to_string(place.path().join("log.loads")).expect("the library was loaded");
    assert_eq!(loads, "loaded\n");
    let (mut running, mut most) = (0, 0);
    let text = fs::read_to_string(&log).expect("the tasks' log");
    for line in text.lines() {
        running += if line.starts_with("start ") { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!((running, most), (0, 2), "{text}");
    for task in ["a", "f", "bad"] {
        let said = format!("this is {task}");
        assert!(output.lines().any(|l| l.ends_with(&said)), "{said}: {output}");
    }

    let shown = farm.ok(&["run", "show", &run_id.to_string(), "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let task = |name: &str| {
        let tasks = shown["tasks"].as_array().expect("tasks");
        tasks
            .iter()
            .find(|t| t["task"] == name)
            .unwrap_or_else(|| panic!("no {name}: {shown}"))
    };
    for name in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(task(name)["outcome"], "succeeded", "{shown}");
    }
    assert_eq!(
        (&task("bad")["outcome"], &task("bad")["exit_code"]),
        (&"failed".into(), &3.into())
    );
    assert_eq!(task("never")["outcome"], "skipped");
    assert_eq!(task("never")["blame"], serde_json::json!(["bad"]));
    let people = farm.ok(&["run", "show", &run_id.to_string()]);
    assert!(people.contains("because of bad"), "{people}");
    farm.check().await;
}
