//! An operator who is restricted to some jobs, at the command line.

use super::farm::{Farm, Ran, command, ran};

const JOBS: &str = r#"
[pool.few]
size = 2
[job."team-a.x"]
command = ["true"]
pool = "few"
[job."team-a.y"]
command = ["true"]
schedule = "0 3 * * *"
[job."team-b.z"]
command = ["true"]
schedule = "0 3 * * *"
"#;

const LOGIN: &str = "farm_cli_team";

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_operator_commands_its_own_jobs_alone() {
    let farm = Farm::new().await;
    // Roles belong to the cluster, which tests share.
    let made = format!("CREATE ROLE {LOGIN} LOGIN IN ROLE farmhand_operator");
    let _ = farm.db.admin().await.batch_execute(&made).await;
    let apply = |name: &str, text: &str| {
        let file = farm.file(name, text);
        let path = file.to_str().unwrap().to_owned();
        ["job", "apply", "--source", "farm", "--prune", "--yes"]
            .map(str::to_owned)
            .into_iter()
            .chain([path])
            .collect::<Vec<_>>()
    };
    ran(farm.command().args(apply("all.toml", JOBS))).ok();
    farm.run(&["restriction", "set", LOGIN, "team-a.*"]).ok();
    let listed = farm.run(&["restriction", "ls"]).ok();
    assert!(
        listed.out.contains(LOGIN) && listed.out.contains("team-a.*"),
        "{listed:?}"
    );
    let url = farm.db.url_as(LOGIN);
    let team = |args: &[&str]| -> Ran { ran(command(&url, farm.dir.path()).args(args)) };
    let stretch = ["--from", "2026-01-01", "--to", "2026-01-03", "--yes"];

    for args in [
        ["job", "run", "team-a.x"].as_slice(),
        &["job", "pause", "team-a.y"],
        &["job", "resume", "team-a.y"],
        &["run", "cancel", "1"],
        &["run", "retry", "1"],
        &[["job", "backfill", "team-a.y"].as_slice(), stretch.as_slice()].concat(),
        &["job", "rollback", "team-a.x", "1"],
        &["job", "ls"],
        &["status"],
    ] {
        team(args).ok();
    }
    farm.run(&["job", "run", "team-b.z"]).ok();
    let newest = "SELECT max(run_id)::text FROM farmhand.run_live WHERE job_id = 'team-b.z'";
    let other: String = farm.db.client().await.value(newest).await;
    let refusal = format!("login {LOGIN} is restricted to team-a.*");
    for args in [
        ["job", "run", "team-b.z"].as_slice(),
        &["job", "pause", "team-b.z"],
        &["run", "cancel", &other],
        &[["job", "backfill", "team-b.z"].as_slice(), stretch.as_slice()].concat(),
        &["job", "rm", "team-b.z", "--yes"],
        &["pool", "set", "few", "0"],
        &["token", "create", "mine", "--role", "admin"],
        &["restriction", "rm", LOGIN],
        &["restriction", "set", LOGIN, "team-*"],
    ] {
        let refused = team(args);
        assert!(
            refused.code == 6 && refused.err.contains(&refusal),
            "{args:?}: {refused:#?}"
        );
    }

    for _ in 0..2 {
        team(&["job", "run", "team-a.x"]).ok();
    }
    let many = team(&["run", "cancel", "--state", "due", "--yes"]).ok();
    assert!(
        many.err
            .contains("not 1 run of team-b.z, which you may not act on"),
        "{many:#?}"
    );
    team(&["run", "cancel", &other, &other]).refused(6, &[&refusal]);

    // What another team's definition would become is refused as a whole.
    let mixed = JOBS.replace("[\"true\"]", "[\"false\"]");
    let refused = ran(command(&url, farm.dir.path()).args(apply("all.toml", &mixed)));
    assert_eq!(refused.code, 6, "{refused:#?}");
    assert!(refused.err.contains(&refusal), "{refused:#?}");
    // What is not in its files is deleted where it is its own, and no pool.
    let pruned =
        ran(command(&url, farm.dir.path())
            .args(apply("all.toml", "[job.\"team-a.x\"]\ncommand = [\"true\"]\n")))
        .ok();
    assert!(pruned.out.contains("- team-a.y"), "{pruned:?}");
    let jobs = farm.run(&["job", "ls", "--json"]).json();
    let jobs: Vec<_> = jobs["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["job_id"].as_str().unwrap())
        .collect();
    assert_eq!(jobs, ["team-a.x", "team-b.z"]);
    assert_eq!(
        farm.run(&["pool", "ls", "--json"]).json()["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    farm.run(&["restriction", "rm", LOGIN]).ok();
    team(&["job", "pause", "team-b.z"]).ok();
    farm.run(&["restriction", "rm", LOGIN])
        .refused(3, &["is not restricted"]);
    farm.run(&["restriction", "set", "nobody.here", "team-a.*"])
        .refused(4, &["the database has no login nobody.here"]);
    farm.run(&["token", "create", "eye", "--role", "viewer", "--jobs", "team-a.*"])
        .refused(2, &["a viewer only sees"]);
}
