//! Calendars, boots, backfills: what becomes of a job's schedule, seen from the command line.

use std::time::Duration;

use farmhand_tests::wait::eventually;
use serde_json::json;

use super::farm::Farm;

#[tokio::test(flavor = "multi_thread")]
async fn an_instant_that_a_calendar_excludes_ends_as_skipped() {
    let mut farm = Farm::new().await;
    farm.apply(
        "[calendar.always]\nexclude = ['2000-01-01..2100-01-01']\n\
         [job.a]\ncommand = 'true'\nschedule = '* * * * * *'\ncalendars = ['always']\n\
         [job.b]\ncommand = 'true'\nschedule = '* * * * * *'\nstart = '2000-01-01'\nend = '2100-01-01'\n",
    );
    let spec = farm.run(&["job", "show", "a", "--json"]).json();
    assert_eq!(spec["job"]["spec"]["exclude"], json!(["2000-01-01..2100-01-01"]));
    farm.agent("n1");
    eventually("both jobs have outcomes", Duration::from_secs(20), || {
        let runs = farm.run(&["run", "ls", "--json"]).json();
        let runs = runs.as_array().unwrap();
        let has = |job: &str, state: &str, reason: serde_json::Value| {
            runs.iter()
                .any(|r| r["job_id"] == job && r["state"] == state && r["reason"] == reason)
        };
        assert!(!has("a", "succeeded", json!(null)), "{runs:#?}");
        if has("a", "skipped", json!("calendar")) && has("b", "succeeded", json!(null)) {
            Ok(())
        } else {
            Err(format!("{runs:#?}"))
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_job_runs_once_on_each_node_whatever_restarts() {
    let mut farm = Farm::new().await;
    farm.apply("[job.warm]\ncommand = 'true'\nschedule = '@reboot'\nrun_on = 'each-node'\n");
    farm.agent("n1");
    farm.agent("n2");
    let nodes = |farm: &Farm| -> Vec<String> {
        let runs = farm.run(&["run", "ls", "--json"]).json();
        let mut nodes: Vec<String> = (runs.as_array().unwrap().iter())
            .filter(|r| r["state"] == "succeeded")
            .map(|r| r["node"].as_str().unwrap().to_owned())
            .collect();
        nodes.sort();
        nodes
    };
    eventually("both nodes ran it", Duration::from_secs(20), || {
        let ran = nodes(&farm);
        if ran == ["n1", "n2"] {
            Ok(())
        } else {
            Err(format!("{ran:?}"))
        }
    });
    farm.stop_agents();
    // A job that could only be behind a second firing: when it has run, that firing would have been made.
    farm.apply("[job.after]\ncommand = 'true'\n");
    farm.agent("n1");
    farm.run(&["job", "run", "after", "--wait"]).ok();
    let runs = farm.run(&["run", "ls", "--json"]).json();
    assert_eq!(runs.as_array().unwrap().len(), 3, "{runs:#}");
}
