//! A flow from a job file, on an agent.

use std::fs;

use farmhand_tests::farm::{CALM, Farm};
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
    let farm = Farm::new().agents(1).ttl(CALM).jobs(&job).start().await;
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

/// Stopped: backwards, one after the other, without what has the keyword, whatever names are missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_flow_on_the_farm_does_what_the_options_of_flow_run_do() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a temporary directory");
    let (dir, log) = (place.path().join("rc.d"), place.path().join("log"));
    fs::create_dir(&dir).expect("a directory");
    let facilities = place.path().join("insserv.conf");
    fs::write(&facilities, "$disks a\n").expect("a file");
    let lsb =
        "### BEGIN INIT INFO\n# Provides: d\n# Required-Stop: $disks\n# Default-Stop: 0\n### END INIT INFO";
    let scripts = [
        ("a", "# PROVIDE: a"),
        ("b", "# PROVIDE: b\n# REQUIRE: a nowhere"),
        ("c", "# PROVIDE: c\n# REQUIRE: b\n# KEYWORD: nostop"),
        ("d", lsb),
        ("e", "# PROVIDE: e\n# REQUIRE: c"),
    ];
    for (name, header) in scripts {
        let text = format!(
            "#!/bin/sh\n{header}\necho \"+ {name} $1\" >> '{0}'; sleep 0.1; echo - >> '{0}'\n",
            log.display()
        );
        let path = dir.join(name);
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
    }
    let job = format!(
        "[job.f]\nflow = {{ dir = '{}', stop = true, skip = 'nostop', missing = 'warn', facilities = '{}', jobs = 1 }}\n",
        dir.display(),
        facilities.display()
    );
    let farm = Farm::new().agents(1).ttl(CALM).jobs(&job).start().await;
    let run_id = farm.submit("f").await;
    let run = farm.over(run_id, std::time::Duration::from_secs(60)).await;
    let output = farm.output(run_id, 1).await;
    assert_eq!(run.state.as_str(), "succeeded", "{output}");
    assert!(
        output.contains("names `nowhere`, which nobody provides"),
        "{output}"
    );
    let ran = fs::read_to_string(&log).expect("the scripts' log");
    let lines: Vec<&str> = ran.lines().collect();
    assert!(lines.chunks(2).all(|pair| pair[1] == "-"), "one at a time: {ran}");
    let place_of = |name: &str| lines.iter().position(|l| *l == format!("+ {name} stop"));
    let [a, b, d, e] =
        ["a", "b", "d", "e"].map(|name| place_of(name).unwrap_or_else(|| panic!("{name}: {ran}")));
    assert!(e < b && b < a && d < a, "{ran}");
    assert!(!ran.contains("+ c"), "{ran}");
    farm.check().await;
}

/// The reason is in the run's history; what does not take part runs to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_of_a_flow_on_the_farm_is_told_with_its_chain() {
    let job = "[job.f]\ntimeout = '60s'\n\
        [job.f.task.a]\ncommand = 'true < \"$FARMHAND_DEPS/b\"'\n\
        [job.f.task.b]\nrequires = ['a']\ncommand = 'true'\n\
        [job.f.task.c]\ncommand = 'sleep 2'\n";
    let farm = Farm::new().agents(1).ttl(CALM).jobs(job).start().await;
    let run_id = farm.submit("f").await;
    let run = farm.over(run_id, std::time::Duration::from_secs(45)).await;
    assert_eq!(run.state.as_str(), "failed", "{}", farm.output(run_id, 1).await);
    let shown = farm.ok(&["run", "show", &run_id.to_string(), "--json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let ended = |name: &str| {
        let tasks = shown["tasks"].as_array().expect("tasks");
        let task = tasks.iter().find(|t| t["task"] == name);
        let task = task.unwrap_or_else(|| panic!("no {name}: {shown}"));
        (task["outcome"].clone(), task["reason"].clone())
    };
    let chain = "deadlock: a waits for b, b waits for a";
    assert_eq!(ended("a"), ("failed".into(), chain.into()));
    assert_eq!(
        (ended("b").0, ended("c").0),
        ("skipped".into(), "succeeded".into())
    );
    farm.check().await;
}
