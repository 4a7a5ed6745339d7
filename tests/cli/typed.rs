//! What is typed, almost right or as elsewhere, leads somewhere.

use farmhand_tests::bin::farmhand;

use super::farm::{Farm, command, ran};

const JOB: &str = "[job.import]\ncommand = ['true']\nschedule = '0 3 * * *'\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_job_is_suggested_wherever_a_job_is_named() {
    let farm = Farm::new().await;
    farm.apply(JOB);
    let reason = ["there is no job imprt", "did you mean import?"];
    for args in [
        &["job", "pause", "imprt"][..],
        &["job", "resume", "imprt"],
        &["job", "history", "imprt"],
        &["job", "diff", "--job", "imprt"],
        &["explain", "imprt"],
        &["explain", "job", "imprt", "--at", "2026-01-01 03:00"],
        &["run", "ls", "--job", "imprt"],
        &["events", "--job", "imprt"],
    ] {
        farm.run(args).refused(3, &reason);
    }
    // What it did stays readable after it was deleted.
    farm.run(&["job", "rm", "import", "--yes"]).ok();
    farm.run(&["events", "--job", "import"]).ok();
    farm.run(&["run", "ls", "--job", "import"]).ok();
    farm.run(&["job", "history", "import"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instant_and_a_jobs_newest_run_are_explained_without_the_words_between() {
    let mut farm = Farm::new().await;
    farm.apply(JOB);
    let at = ["--at", "2026-01-01 03:00", "--json"];
    let long = farm
        .run(&[&["explain", "job", "import"][..], &at].concat())
        .json();
    let short = farm.run(&[&["explain", "import"][..], &at].concat()).json();
    assert_eq!((&long["at"], &long["gates"]), (&short["at"], &short["gates"]));
    assert_eq!(short["at"], "2026-01-01T03:00:00Z");
    farm.run(&["explain", "run", "import"])
        .refused(3, &["import has no run yet"]);
    farm.agent("n1");
    let run = farm.run(&["job", "run", "import", "--wait", "--json"]).json();
    let said = farm.run(&["explain", "run", "import"]).ok();
    assert!(
        said.out.contains(&format!("run {} succeeded", run["run_id"])),
        "{said:?}"
    );
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_deletions_have_the_names_that_they_have_elsewhere() {
    let farm = Farm::new().await;
    farm.apply(JOB);
    for group in ["job", "run", "node", "lease", "pool", "token", "notify"] {
        farm.run(&[group, "list"]).ok();
    }
    farm.run(&["job", "delete", "import", "--yes"]).ok();
    farm.apply(JOB);
    farm.run(&["job", "remove", "import", "--yes"]).ok();
    for word in ["delete", "remove"] {
        farm.run(&["node", word, "n9"]).refused(3, &["n9"]);
    }
    farm.run(&["run", "log", "7"]).refused(3, &["there is no run 7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_help_of_a_retry_that_is_a_number_is_taken_when_followed() {
    let farm = Farm::new().await;
    let file = farm.file("bad.toml", "[job.a]\ncommand = 'true'\nretry = 3\n");
    let refused = farm.run(&["job", "apply", file.to_str().unwrap()]);
    refused.refused(2, &["retry = { max = 3 }"]);
    assert!(!refused.err.contains("[retry]"), "{refused:?}");
    farm.apply("[job.a]\ncommand = 'true'\nretry = { max = 3 }\n");
    let file = farm.file("bad.toml", "[job.a]\ncommand = 'true'\nlimits = 3\n");
    let refused = farm.run(&["job", "apply", file.to_str().unwrap()]);
    refused.refused(2, &["limits = { … }"]);
    assert!(!refused.err.contains("[limits]"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_may_only_submit_is_told_so() {
    let farm = Farm::new().await;
    farm.apply(JOB);
    let url = farm.db.url_as("farm_submitter");
    let denied = ran(command(&url, farm.dir.path()).args(["job", "run", "import"]));
    denied.refused(
        6,
        &[
            "may not read",
            "SELECT farmhand.submit('JOB')",
            "farmhand_operator",
        ],
    );
    assert!(!denied.err.contains("schema_version"), "{denied:?}");
}

#[test]
fn every_manual_page_has_the_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let made = ran(std::process::Command::new(farmhand()).arg("man").arg(dir.path()));
    made.ok();
    let mut pages = 0;
    for page in dir.path().read_dir().unwrap() {
        let path = page.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("Exit codes: 0 done"), "{}", path.display());
        pages += 1;
    }
    assert!(pages > 50, "{pages}");
}
