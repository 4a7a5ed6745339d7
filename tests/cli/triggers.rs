//! Jobs that others trigger, as files and commands show them.

use std::time::Duration;

use farmhand_tests::wait::eventually;

use super::farm::Farm;

fn apply(farm: &Farm, name: &str, text: &str, more: &[&str]) -> super::farm::Ran {
    let file = farm.file(name, text);
    let mut args = vec!["job", "apply", file.to_str().unwrap()];
    args.extend(more);
    farm.run(&args)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_is_named_job_by_job_with_file_and_line_also_over_what_is_stored() {
    let farm = Farm::new().await;
    let files = "[job.a]\ncommand = ['x']\ntriggered_by = ['c']\n\n[job.b]\ncommand = ['x']\ntriggered_by = 'a'\n\n\
                 [job.c]\ncommand = ['x']\ntriggered_by = [\n  'b',\n]\n";
    apply(&farm, "round.toml", files, &[]).refused(
        2,
        &[
            "the triggers go round in a circle",
            "round.toml:3) is triggered by `c`",
            "round.toml:12) is triggered by `b`",
            "round.toml:7) is triggered by `a` again",
            "Nothing was applied",
        ],
    );
    assert_eq!(
        farm.run(&["job", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );

    let stored = "[job.a]\ncommand = ['x']\n[job.b]\ncommand = ['x']\ntriggered_by = 'a'\n";
    apply(&farm, "stored.toml", stored, &[]).ok();
    apply(
        &farm,
        "back.toml",
        "[job.a]\ncommand = ['x']\ntriggered_by = 'b'\n",
        &["--dry-run"],
    )
    .refused(
        2,
        &[
            "back.toml:3:16",
            "back.toml:3) is triggered by `b` (stored, from",
            "stored.toml) is triggered by `a` again",
        ],
    );
    apply(
        &farm,
        "self.toml",
        "[job.z]\ncommand = ['x']\ntriggered_by = 'z'\n",
        &[],
    )
    .refused(2, &["`z` (", "self.toml:3) is triggered by `z` again"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_does_not_exist_or_is_being_pruned_is_refused() {
    let farm = Farm::new().await;
    apply(
        &farm,
        "a.toml",
        "[job.import]\ncommand = ['x']\n",
        &["--source", "s"],
    )
    .ok();
    apply(
        &farm,
        "b.toml",
        "[job.b]\ncommand = ['x']\ntriggered_by = 'improt'\n",
        &[],
    )
    .refused(
        2,
        &["b.toml:3:16", "there is no such job", "did you mean \"import\"?"],
    );
    let file = farm.dir.path().join("b.toml").display().to_string();
    farm.run(&["job", "diff", &file])
        .refused(2, &["b.toml:3:16", "there is no such job"]);
    apply(
        &farm,
        "b.toml",
        "[job.b]\ncommand = ['x']\ntriggered_by = 'import'\n",
        &["--prune", "--yes", "--source", "s"],
    )
    .refused(
        2,
        &["`b` is triggered by `import`", "--prune would delete `import`"],
    );
    apply(
        &farm,
        "b.toml",
        "[job.b]\ncommand = ['x']\ntriggered_by = 'import'\n",
        &[],
    )
    .ok();
    // What is left of the farm would name a job that is gone.
    apply(
        &farm,
        "c.toml",
        "[job.b]\ncommand = ['x']\ntriggered_by = ['import', 'import']\n",
        &[],
    )
    .refused(2, &["names `import` twice"]);
    apply(
        &farm,
        "d.toml",
        "[job.b]\ncommand = ['x']\ntrigger_on = 'failure'\n",
        &[],
    )
    .refused(2, &["`trigger_on` without `triggered_by`"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_say_after_which_jobs_a_job_runs_and_what_it_waits_for() {
    let mut farm = Farm::new().await;
    farm.apply(
        "[job.a]\ncommand = ['true']\n[job.b]\ncommand = ['true']\n\
         [job.c]\ncommand = 'echo $FARMHAND_PARENT_RUN $FARMHAND_PARENT_RUNS'\ntriggered_by = ['a', 'b']\n",
    );
    let shown = farm.run(&["job", "show", "c"]).ok().out;
    assert!(shown.contains("after a and b succeed"), "{shown}");
    assert!(
        farm.run(&["job", "show", "a"])
            .ok()
            .out
            .contains("c (on success)")
    );
    assert!(
        farm.run(&["job", "ls"])
            .ok()
            .out
            .contains("after a and b succeed")
    );
    let next = farm.run(&["next", "c"]).ok();
    assert!(next.err.contains("c: it runs after a and b succeed"), "{next:?}");
    let idle = farm.run(&["explain", "job", "c", "--json"]).json();
    assert_eq!(idle["held_by"], "trigger", "{idle}");
    assert!(
        idle["answer"].as_str().unwrap().contains("a (it has never run)"),
        "{idle}"
    );

    farm.agent("n1");
    farm.run(&["job", "run", "a", "--wait"]).ok();
    let waits = "and it waits for b (it has never run)";
    let waiting = eventually("the meeting waits", Duration::from_secs(20), || {
        let told = farm.run(&["explain", "job", "c", "--json"]).json();
        match told["answer"].as_str().is_some_and(|a| a.contains(waits)) {
            true => Ok(told),
            false => Err(told.to_string()),
        }
    });
    let gate = &waiting["gates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["gate"] == "trigger")
        .unwrap();
    assert!(gate["since"].is_string(), "{gate}");
    assert_eq!(gate["frees"], "b succeeds (`farmhand job run b`)");

    let b = farm.run(&["job", "run", "b", "--wait", "--json"]).json()["run_id"].clone();
    let run = eventually("the run has ended", Duration::from_secs(20), || {
        let runs = farm
            .run(&["run", "ls", "--job", "c", "--state", "succeeded", "--json"])
            .json()["items"]
            .clone();
        match runs.as_array().unwrap().first() {
            Some(run) => Ok(run.clone()),
            None => Err(runs.to_string()),
        }
    });
    let run = farm
        .run(&["run", "show", &run["run_id"].to_string(), "--json"])
        .json()["run"]
        .clone();
    assert_eq!(
        (&run["kind"], &run["parents"]["b"]),
        (&"triggered".into(), &b),
        "{run}"
    );
    let said = farm.run(&["run", "logs", &run["run_id"].to_string()]).ok().out;
    assert!(said.starts_with(&run["parent_run"].to_string()), "{said} {run}");
    assert!(said.contains("\"a\""), "{said}");
}
