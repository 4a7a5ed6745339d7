//! Sources: what is applied belongs to one, and `--prune` deletes within it alone.

use super::farm::Farm;

fn names(farm: &Farm) -> Vec<(String, String)> {
    let jobs = farm.run(&["job", "ls", "--json"]).json();
    let text = |job: &serde_json::Value, key: &str| job[key].as_str().unwrap().to_owned();
    (jobs.as_array().unwrap().iter())
        .map(|job| (text(job, "job_id"), text(job, "source")))
        .collect()
}

fn job(name: &str) -> String {
    format!("[job.{name}]\ncommand = ['sleep', '600']\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_deletes_only_what_its_own_source_defined() {
    let farm = Farm::new().await;
    farm.file("one/a.toml", &job("a"));
    farm.file("one/b.toml", &job("b"));
    let two = farm.file("two.toml", &job("c"));
    let (one, two) = (farm.dir.path().join("one"), two.to_str().unwrap());
    let one = one.to_str().unwrap();
    farm.run(&["job", "apply", one]).ok();
    farm.run(&["job", "apply", two]).ok();
    std::fs::remove_file(format!("{one}/b.toml")).unwrap();
    // A trailing slash names the same directory.
    let pruned = farm
        .run(&["job", "apply", "--prune", "--yes", &format!("{one}/")])
        .ok();
    assert!(
        pruned.out.contains("- b") && !pruned.out.contains("- c"),
        "{pruned:?}"
    );
    assert_eq!(
        names(&farm),
        [
            ("a".to_owned(), format!("{one}/a.toml")),
            ("c".to_owned(), two.to_owned())
        ]
    );
    let listed = farm.run(&["job", "ls"]).ok();
    assert!(
        listed.out.contains("SOURCE") && listed.out.contains(two),
        "{listed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_without_a_terminal_needs_yes_and_says_what_is_live() {
    let mut farm = Farm::new().await;
    let file = farm.file("jobs.toml", &(job("a") + &job("b")));
    let path = file.to_str().unwrap();
    farm.run(&["job", "apply", path]).ok();
    farm.agent("n1");
    farm.run(&["job", "run", "a"]).ok();
    farmhand_tests::wait::eventually("the run is running", std::time::Duration::from_secs(20), || {
        let jobs = farm.run(&["job", "ls", "--json"]).json();
        let running = jobs[0]["running_at"] == "n1";
        if running { Ok(()) } else { Err(jobs.to_string()) }
    });
    farm.file("jobs.toml", &job("c"));
    let refused = farm.run(&["job", "apply", "--prune", path]);
    assert_eq!(refused.code, 4, "{refused:?}");
    let why = "this would delete 2 jobs (1 running now); nothing was applied";
    assert!(
        refused.err.contains(why) && refused.err.contains("--yes"),
        "{refused:?}"
    );
    assert_eq!(refused.out, "+ c\n- a  running at n1\n- b\n", "the plan is shown");
    assert_eq!(names(&farm).len(), 2, "nothing was applied");
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_that_define_one_job_are_refused_until_one_takes_it_over() {
    let farm = Farm::new().await;
    let (one, two) = (farm.file("one.toml", &job("a")), farm.file("two.toml", &job("a")));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    farm.run(&["job", "apply", one]).ok();
    for more in [&["--dry-run"][..], &[]] {
        farm.run(&[&["job", "apply", two], more].concat()).refused(
            4,
            &[&format!("a is defined by another source: {one}"), "--take-over"],
        );
    }
    farm.run(&["job", "apply", two, "--take-over"]).ok();
    assert_eq!(names(&farm), [("a".to_owned(), two.to_owned())]);
    assert_eq!(
        farm.run(&["job", "show", "a", "--json"]).json()["job"]["rev"],
        1,
        "the same definition"
    );
    farm.run(&["job", "apply", one]).refused(4, &[two]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_source_is_one_wherever_its_files_lie() {
    let farm = Farm::new().await;
    let (here, there) = (farm.file("x/a.toml", &job("a")), farm.file("y/b.toml", &job("b")));
    let (here, there) = (here.to_str().unwrap(), there.to_str().unwrap());
    farm.run(&["job", "apply", "--source", "infra", here]).ok();
    farm.run(&["job", "apply", "--source", "infra", "--prune", "--yes", there])
        .ok();
    assert_eq!(names(&farm), [("b".to_owned(), "infra".to_owned())]);
    // A rollback changes the definition and not where it belongs.
    farm.file("y/b.toml", &job("b").replace("600", "700"));
    farm.run(&["job", "apply", "--source", "infra", there]).ok();
    farm.run(&["job", "rollback", "b", "1"]).ok();
    assert_eq!(names(&farm), [("b".to_owned(), "infra".to_owned())]);
}
