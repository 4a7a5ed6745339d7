//! `job apply`: a plan, then one transaction, and nothing the second time.

use serde_json::{Value, json};

use super::farm::Farm;

const TWO: &str = "[job.a]\ncommand = ['true']\nschedule = '0 3 * * *'\n[job.b]\ncommand = 'true'\n";

fn plan(farm: &Farm, path: &str, more: &[&str]) -> Vec<String> {
    let mut args = vec!["job", "apply", path];
    args.extend(more);
    farm.run(&args).ok().out.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_is_shown_and_applying_again_changes_nothing() {
    let farm = Farm::new().await;
    let file = farm.file("jobs.toml", TWO);
    let path = file.to_str().unwrap();
    assert_eq!(plan(&farm, path, &["--dry-run"]), ["+ a", "+ b"]);
    assert_eq!(farm.run(&["job", "ls", "--json"]).json()["items"], json!([]));
    assert_eq!(plan(&farm, path, &[]), ["+ a", "+ b"]);
    assert_eq!(plan(&farm, path, &[]), ["= a", "= b"]);

    farm.file(
        "jobs.toml",
        &TWO.replace("schedule", "timeout = '5m'\npriority = 3\nschedule"),
    );
    assert_eq!(plan(&farm, path, &[]), ["~ a  priority, timeout", "= b"]);
    let job = farm.run(&["job", "show", "a", "--json"]).json();
    assert_eq!(job["job"]["rev"], 2);
    assert_eq!(job["revisions"].as_array().unwrap().len(), 2);
    assert_eq!(job["revisions"][0]["source"], path);
    assert!(
        job["revisions"][0]["applied_by"]
            .as_str()
            .unwrap()
            .starts_with("tester@")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_deletes_what_is_in_no_file_and_nothing_else_does() {
    let farm = Farm::new().await;
    let file = farm.file("jobs.toml", TWO);
    let path = file.to_str().unwrap();
    plan(&farm, path, &[]);
    farm.file("jobs.toml", "[job.b]\ncommand = 'true'\n");
    assert_eq!(plan(&farm, path, &[]), ["= b"]);
    // Where there is nobody to ask, nothing is deleted without --yes.
    let refused = farm.run(&["job", "apply", path, "--prune"]);
    assert_eq!(
        (refused.code, refused.out.as_str()),
        (4, "= b\n- a\n"),
        "{refused:?}"
    );
    for part in ["this would delete 1 job", "--yes", "nothing was applied"] {
        assert!(refused.err.contains(part), "{part:?} is missing: {refused:?}");
    }
    assert_eq!(plan(&farm, path, &["--prune", "--yes"]), ["= b", "- a"]);
    let names = |jobs: Value| -> Vec<String> {
        jobs.as_array()
            .unwrap()
            .iter()
            .map(|j| j["job_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(farm.run(&["job", "ls", "--json"]).json()["items"].clone()),
        ["b"]
    );
    farm.file("jobs.toml", TWO);
    assert_eq!(plan(&farm, path, &["--prune"]), ["+ a", "= b"]);
    assert_eq!(
        names(farm.run(&["job", "ls", "--json"]).json()["items"].clone()),
        ["a", "b"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_its_toml_files_and_hidden_ones_are_not() {
    let farm = Farm::new().await;
    farm.file("d/one.toml", "[job.one]\ncommand = 'true'\n");
    farm.file("d/two.toml", "[job.two]\ncommand = 'true'\n");
    farm.file("d/notes.txt", "not TOML");
    farm.file("d/.one.toml", "[job.one]\ncommand = 'false'\n");
    let dir = farm.dir.path().join("d");
    assert_eq!(plan(&farm, dir.to_str().unwrap(), &[]), ["+ one", "+ two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_gives_overdue_instants_their_outcome_first() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = ['true']\nschedule = '* * * * * *'\ncatch_up.runs = 'skip'\n");
    let client = farm.db.client().await;
    // No agent runs: the instants of the last hour are nobody's yet.
    client
        .exec("UPDATE farmhand.job SET next_run = date_trunc('second', now() - interval '1 hour')")
        .await;
    farm.apply("[job.a]\ncommand = ['true']\nschedule = '0 3 * * *'\n");
    let runs = farm.run(&["run", "ls", "--json"]).json()["items"].clone();
    let count: i64 = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["count"].as_i64().unwrap())
        .sum();
    assert!(
        (3600..3700).contains(&count),
        "{count} instants have an outcome: {runs:#}"
    );
}
