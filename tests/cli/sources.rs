//! Sources: what is applied belongs to one, and `--prune` deletes within it alone.

use super::farm::{Farm, ran};

fn names(farm: &Farm) -> Vec<(String, String)> {
    let jobs = farm.run(&["job", "ls", "--json"]).json()["items"].clone();
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
        let jobs = farm.run(&["job", "ls", "--json"]).json()["items"].clone();
        let running = jobs[0]["live"][0]["node"] == "n1";
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
    for args in [&["apply", "--dry-run"][..], &["apply"], &["diff"]] {
        farm.run(&[&["job"], args, &[two]].concat()).refused(
            4,
            &[&format!("a is defined by another source: {one}"), "--take-over"],
        );
    }
    farm.run(&["job", "diff", two, "--take-over", "--exit-code"]).ok();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_begins_as_another_one_is_another_source() {
    let farm = Farm::new().await;
    let (a, b) = (farm.file("a.toml", &job("a")), farm.file("b.toml", &job("b")));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    farm.run(&["job", "apply", "--source", "ops/jobs", a]).ok();
    farm.run(&["job", "apply", "--source", "ops", "--prune", "--yes", b])
        .ok();
    let both = [("a", "ops/jobs"), ("b", "ops")].map(|(name, of)| (name.to_owned(), of.to_owned()));
    assert_eq!(names(&farm), both);
    farm.run(&["job", "apply", "--source", "ops", a])
        .refused(4, &["a is defined by another source: ops/jobs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relative_path_is_no_source_to_prune() {
    let farm = Farm::new().await;
    farm.file("x/jobs/a.toml", &job("a"));
    farm.file("y/jobs/b.toml", &job("b"));
    let within = |place: &str, args: &[&str]| {
        let mut command = farm.command();
        ran(command.current_dir(farm.dir.path().join(place)).args(args))
    };
    within("x", &["job", "apply", "jobs/"]).ok();
    for args in [&["apply", "--yes"][..], &["apply", "--dry-run"], &["diff"]] {
        within("y", &[&["job"], args, &["--prune", "jobs/"]].concat())
            .refused(2, &["jobs/ is a relative path", "--source NAME"]);
    }
    // A whole path, which the present directory has, is one.
    within("y/jobs", &["job", "apply", "--prune", "--yes", "."]).ok();
    let named: Vec<String> = names(&farm).into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_source_takes_along_the_signatures_beside_its_files() {
    let farm = Farm::new().await;
    let file = farm.file("jobs/a.toml", &job("a"));
    let directory = file.parent().unwrap().to_str().unwrap();
    let key = farm.dir.path().join("alice.key");
    let key = key.to_str().unwrap();
    farm.run(&["key", "new", "alice", "-o", key]).ok();
    farm.run(&["job", "sign", "--key", key, directory]).ok();
    let apply = [
        "job", "apply", "--source", "ops/jobs", "--prune", "--yes", directory,
    ];
    farm.run(&apply).ok();
    let signed = "SELECT count(*) FROM farmhand.job_signature WHERE job_id = 'a' AND rev = 1";
    let client = farm.db.client().await;
    let signed: i64 = client.value(signed).await;
    assert_eq!(signed, 1);
    farm.file("jobs/a.toml", &job("a").replace("600", "700"));
    farm.run(&apply).refused(4, &["has changed since it was signed"]);
}

/// A pool and a target, and a job of this name that needs both.
fn shares(job: &str, size: u32, host: &str) -> String {
    format!(
        "[pool.mailer]\nsize = {size}\n[notify.ops]\nwebhook = 'https://{host}.example/hook'\n\
         [job.{job}]\ncommand = 'true'\npool = 'mailer'\nnotify = ['ops']\n"
    )
}

/// Size and source of the pool, webhook and source of the target.
fn shared(farm: &Farm) -> (u64, String, String, String) {
    let pool = farm.run(&["pool", "ls", "--json"]).json()["items"][0].clone();
    let target = farm.run(&["notify", "ls", "--json"]).json()["items"][0].clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let hook = text(&target["spec"]["webhook"]);
    (
        pool["size"].as_u64().unwrap(),
        text(&pool["source"]),
        hook,
        text(&target["source"]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_and_a_target_of_another_source_change_only_when_taken_over() {
    let farm = Farm::new().await;
    let one = farm.file("one.toml", &shares("a", 2, "x"));
    let two = farm.file("two.toml", &shares("b", 2, "x"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let hook = |host: &str| format!("https://{host}.example/hook");
    farm.run(&["job", "apply", one]).ok();
    farm.run(&["job", "apply", two]).ok();
    let first = (2, one.to_owned(), hook("x"), one.to_owned());
    assert_eq!(shared(&farm), first, "the same values are shared");
    for (size, host, said) in [
        (
            3,
            "x",
            format!("the pool mailer is defined by another source: {one}"),
        ),
        (
            2,
            "y",
            format!("the target ops is defined by another source: {one}"),
        ),
    ] {
        farm.file("two.toml", &shares("b", size, host));
        for more in [&["--dry-run"][..], &[]] {
            farm.run(&[&["job", "apply", two], more].concat())
                .refused(4, &[&said, "--take-over"]);
        }
        assert_eq!(shared(&farm), first);
    }
    farm.file("two.toml", &shares("b", 3, "y"));
    farm.run(&["job", "apply", two, "--take-over"]).ok();
    let second = (3, two.to_owned(), hook("y"), two.to_owned());
    assert_eq!(shared(&farm), second);
    farm.run(&["job", "apply", one]).refused(4, &[two]);
    // What belongs to another source now is not this one's to delete.
    farm.file("one.toml", &job("a"));
    farm.run(&["job", "apply", one, "--prune", "--yes"]).ok();
    assert_eq!(shared(&farm), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_does_not_delete_a_pool_or_a_target_that_jobs_of_another_source_need() {
    let farm = Farm::new().await;
    let one = farm.file("one.toml", &shares("a", 2, "x"));
    let two = farm.file("two.toml", &shares("b", 2, "x"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    farm.run(&["job", "apply", one]).ok();
    farm.run(&["job", "apply", two]).ok();
    let before = shared(&farm);
    let target = "[notify.ops]\nwebhook = 'https://x.example/hook'\n";
    for (left, what) in [
        (target, "the pool mailer"),
        ("[pool.mailer]\nsize = 2\n", "the target ops"),
    ] {
        farm.file("one.toml", &(left.to_owned() + &job("a")));
        let said = format!("{what} would be deleted, and b of {two} needs it");
        for more in [&["--dry-run"][..], &["--yes"]] {
            farm.run(&[&["job", "apply", "--prune", one], more].concat())
                .refused(4, &[&said, &format!("apply {two} with --take-over")]);
        }
        assert_eq!(shared(&farm), before);
    }
    farm.file("one.toml", &job("a"));
    farm.run(&["job", "apply", "--take-over", two]).ok();
    farm.run(&["job", "apply", "--prune", "--yes", one]).ok();
    assert_eq!(shared(&farm), (2, two.to_owned(), before.2, two.to_owned()));
    // A pool set by hand stays as it is when it changes hands.
    farm.run(&["pool", "set", "mailer", "7"]).ok();
    farm.file("one.toml", &shares("a", 2, "x"));
    farm.run(&["job", "apply", "--take-over", one]).ok();
    assert_eq!(shared(&farm).0, 7);
    // Nothing else needs it: it goes with the last source.
    farm.file("two.toml", &job("b"));
    farm.run(&["job", "apply", two]).ok();
    farm.file("one.toml", &job("a"));
    farm.run(&["job", "apply", "--prune", "--yes", one]).ok();
    assert_eq!(
        farm.run(&["pool", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
    assert_eq!(
        farm.run(&["notify", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_defines_the_same_jobs() {
    let farm = Farm::new().await;
    let jobs = "[pool.mail]\nsize = 2\n[notify.ops]\nemail = 'ops@example.org'\n[calendar.de]\nexclude = '2026-12-24..2026-12-26'\n\
                [job.mail]\ncommand = ['send']\nschedule = '@daily'\ntimeout = '90s'\npool = 'mail'\nnotify = 'ops'\ncalendars = 'de'\n\
                [job.flow.task.a]\ncommand = 'true'\n[job.flow.task.b]\ncommand = 'true'\nrequires = 'a'\n";
    farm.apply(jobs);
    let other = farm.file("other.toml", &job("other"));
    farm.run(&["job", "apply", "--source", "else", other.to_str().unwrap()])
        .ok();
    let all = farm.run(&["job", "export"]).ok();
    assert_eq!(all.err, "");
    let exported = farm.file("exported.toml", &all.out);
    let path = exported.to_str().unwrap();
    farm.run(&["job", "diff", "--take-over", "--exit-code", path])
        .ok();
    let one = farm.run(&["job", "export", "mail"]).ok().out;
    assert!(
        one.contains("[pool.mail]") && one.contains("[notify.ops]") && !one.contains("flow"),
        "{one}"
    );
    let named = farm.run(&["job", "export", "--source", "else"]).ok().out;
    assert!(named.starts_with("[job.other]"), "{named}");
    farm.run(&["job", "export", "nix"]).refused(3, &["no job nix"]);
    farm.run(&["job", "export", "--source", "nix"])
        .refused(3, &["there is no job of the source nix"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_says_what_of_a_newer_version_it_cannot_hold() {
    let farm = Farm::new().await;
    farm.apply(&job("a"));
    let client = farm.db.client().await;
    let later = "UPDATE farmhand.job_revision SET spec = spec || '{\"later\": true}'";
    client.exec(later).await;
    farm.run(&["job", "export"])
        .refused(1, &["cannot be written", "later"]);
}
