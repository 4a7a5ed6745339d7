//! `--prefix`: staging and production from one set of files, in one database.

use serde_json::{Value, json};

use super::farm::{Farm, Ran};

const IMPORT: &str = "[vars]\nplaces = 2\n[pool.mailer]\nsize = '${vars.places}'\n[notify.ops]\nemail = 'ops@example.org'\n\
    [job.import]\ncommand = 'true'\npool = 'mailer'\nlocks = ['stock']\nnotify = 'ops'\n";
const REPORT: &str =
    "[job.report]\ncommand = 'true'\ntriggered_by = ['import']\n[job.clean]\ncommand = 'true'\n";
const STAGING: [&str; 4] = ["--prefix", "staging-", "--set", "places=1"];
const NOTHING: [&str; 0] = [];

/// Each job with its source.
fn jobs(farm: &Farm) -> Vec<(String, String)> {
    let jobs = farm.run(&["job", "ls", "--json"]).json()["items"].clone();
    let text = |job: &Value, key: &str| job[key].as_str().unwrap().to_owned();
    (jobs.as_array().unwrap().iter())
        .map(|job| (text(job, "job_id"), text(job, "source")))
        .collect()
}

fn names(farm: &Farm) -> Vec<String> {
    jobs(farm).into_iter().map(|(name, _)| name).collect()
}

/// A farm with the files in a directory.
async fn farm() -> (Farm, String) {
    let farm = Farm::new().await;
    farm.file("jobs/import.toml", IMPORT);
    farm.file("jobs/report.toml", REPORT);
    let dir = farm.dir.path().join("jobs").display().to_string();
    (farm, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_set_of_files_with_and_without_a_prefix_is_two_environments_that_leave_each_other_alone() {
    let (farm, dir) = farm().await;
    for source in [&["--source", "ops/jobs"][..], &NOTHING] {
        let run = |command: &str, words: &[&str], environment: &[&str]| -> Ran {
            farm.run(&[&["job", command], source, words, environment, &[&dir]].concat())
        };
        run("apply", &["--take-over"], &NOTHING).ok();
        let planned = run("diff", &["--take-over", "--exit-code"], &STAGING);
        assert!(
            [0, 14].contains(&planned.code) && !planned.out.contains(" import"),
            "{planned:?}"
        );
        run("apply", &["--take-over"], &STAGING).ok();
        for environment in [&STAGING[..], &NOTHING] {
            run("diff", &["--prune", "--exit-code"], environment).ok();
        }
    }
    let own = |file: &str| format!("{dir}/{file}.toml");
    let staging = |file: &str| format!("staging-:{dir}/{file}.toml");
    let wanted = [
        ("clean", own("report")),
        ("import", own("import")),
        ("report", own("report")),
        ("staging-clean", staging("report")),
        ("staging-import", staging("import")),
        ("staging-report", staging("report")),
    ];
    let wanted = wanted.map(|(name, source)| (name.to_owned(), source));
    assert_eq!(jobs(&farm), wanted);

    let spec = |name: &str| farm.run(&["job", "show", name, "--json"]).json()["spec"].clone();
    assert_eq!(spec("staging-report")["triggered_by"], json!(["staging-import"]));
    assert_eq!(spec("report")["triggered_by"], json!(["import"]));
    let import = spec("staging-import");
    assert_eq!(
        (&import["pool"], &import["notify"], &import["locks"]),
        (
            &json!("staging-mailer"),
            &json!(["staging-ops"]),
            &json!(["stock"])
        )
    );
    let pools = farm.run(&["pool", "ls", "--json"]).json()["items"].clone();
    let sizes: Vec<_> = (pools.as_array().unwrap().iter())
        .map(|p| (p["name"].clone(), p["size"].clone()))
        .collect();
    assert_eq!(
        sizes,
        [(json!("mailer"), json!(2)), (json!("staging-mailer"), json!(1))]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_after_jobs_of_its_environment_also_where_another_file_has_them() {
    let (farm, dir) = farm().await;
    let (import, report) = (format!("{dir}/import.toml"), format!("{dir}/report.toml"));
    farm.run(&["job", "apply", &dir]).ok();
    let staging = |file: &str| farm.run(&["job", "apply", "--prefix", "staging-", file]);
    staging(&report).refused(
        2,
        &[
            "report.toml:3:17",
            "job `staging-report` is triggered by `staging-import`, and there is no such job",
            "with the prefix `staging-` a job runs after jobs that have it, too",
        ],
    );
    assert_eq!(names(&farm), ["clean", "import", "report"]);
    staging(&import).ok();
    staging(&report).ok();
    let shown = farm.run(&["job", "show", "staging-report", "--json"]).json();
    assert_eq!(shown["spec"]["triggered_by"], json!(["staging-import"]));
    // As the file names it, not as it is stored.
    farm.file("jobs/report.toml", &REPORT.replace("['import']", "['improt']"));
    staging(&report).refused(2, &["`staging-improt`", "did you mean \"import\"?"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_of_one_environment_deletes_nothing_of_another() {
    for source in [&["--source", "ops/jobs"][..], &NOTHING] {
        let (farm, dir) = farm().await;
        let run = |command: &str, words: &[&str], environment: &[&str]| -> Ran {
            farm.run(&[&["job", command], source, words, environment, &[&dir]].concat())
        };
        let all = [&STAGING[..], &NOTHING, &["--prefix", "staging-2."]];
        for environment in all {
            run("apply", &[], environment).ok();
        }
        let before = names(&farm);
        farm.file("jobs/report.toml", &REPORT.replace("clean", "tidy"));
        let diff = run("diff", &["--prune"], &STAGING).ok();
        let gone: Vec<&str> = diff.out.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(gone, ["- staging-clean"], "{diff:?}");
        run("apply", &["--prune", "--yes"], &STAGING).ok();
        let swap = |names: &[String], old: &str, new: &str| -> Vec<String> {
            let swapped = names
                .iter()
                .map(|name| if name == old { new } else { name }.to_owned());
            let mut names: Vec<String> = swapped.collect();
            names.sort();
            names
        };
        let after = swap(&before, "staging-clean", "staging-tidy");
        assert_eq!(names(&farm), after);
        run("apply", &["--prune", "--yes"], &NOTHING).ok();
        assert_eq!(names(&farm), swap(&after, "clean", "tidy"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_source_defines_is_named_with_its_prefix_apart() {
    let (farm, dir) = farm().await;
    (farm.run(&["job", "apply", "--source", "x", "--prefix", "staging-", &dir])).ok();
    farm.run(&["job", "apply", "--prefix", "staging-", &dir]).refused(
        4,
        &[
            "another source: staging-:x",
            "apply x with --prefix staging- instead",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_prefix_makes_impossible_is_said_with_its_place() {
    let (farm, dir) = farm().await;
    let long = "x".repeat(98);
    farm.file(
        "jobs/long.toml",
        &format!("[job.a]\ncommand = 'true'\n[job.{long}]\ncommand = 'true'\n"),
    );
    farm.run(&["job", "check", &dir]).ok();
    for command in ["check", "diff", "apply"] {
        let wrong = farm.run(&["job", command, "--prefix", "staging-", &dir]);
        assert_eq!(wrong.code, 2, "{wrong:?}");
        let said = wrong.out + &wrong.err;
        assert!(
            said.contains("long.toml:3:6") && said.contains("has 106 characters with the prefix `staging-`"),
            "{said}"
        );
    }
    for command in ["check", "diff", "apply"] {
        let wrong = farm.run(&["job", command, "--prefix", "staging:", &dir]);
        let said = "'--prefix <PREFIX>': no name can begin with the prefix `staging:`: use letters";
        assert!(
            wrong.code == 2 && wrong.err.contains(said) && !wrong.err.contains(".toml"),
            "{wrong:?}"
        );
    }
    let report = format!("{dir}/report.toml");
    let alone = farm.run(&["job", "check", "--prefix", "staging-", &report]).ok();
    assert!(
        alone.err.contains("job staging-import is in none of these files"),
        "{alone:?}"
    );
    // Two ways to one name.
    farm.file("jobs/long.toml", "[job.staging-import]\ncommand = 'true'\n");
    farm.run(&["job", "apply", "--source", "x", &dir]).ok();
    farm.run(&["job", "apply", "--source", "x", "--prefix", "staging-", &dir])
        .refused(4, &["staging-import is defined by another source: x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_is_of_one_environment() {
    let (farm, dir) = farm().await;
    let key = farm.dir.path().join("alice.key").display().to_string();
    let public = farm.run(&["key", "new", "alice", "-o", &key]).ok().out;
    let trusted = farm.file("trusted", &public).display().to_string();
    farm.run(&[&["job", "sign", "--key", &key, &dir], &STAGING[..]].concat())
        .ok();
    let apply = |environment: &[&str]| {
        farm.run(&[&["job", "apply", "--trusted-keys", &trusted, &dir], environment].concat())
    };
    apply(&NOTHING).refused(4, &["is not signed", "with the same --set and --prefix"]);
    apply(&["--prefix", "stage-"]).refused(4, &["job stage-clean of", "is not signed"]);
    apply(&STAGING).ok();
    assert_eq!(
        names(&farm),
        ["staging-clean", "staging-import", "staging-report"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_rows_two_environments_would_share_is_told() {
    let farm = Farm::new().await;
    let admin = farm.db.admin().await;
    let table = "CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO farm;
        CREATE TABLE shop.t (id int PRIMARY KEY, d timestamptz); GRANT ALL ON shop.t TO farm";
    admin.exec(table).await;
    let text = "[job.t]\ncommand = ['true']\n[job.t.table]\nname = 'shop.t'\nkey = 'id'\ndispatch = 'd'\n";
    let file = farm.file("t.toml", text).display().to_string();
    let apply = |environment: &[&str]| farm.run(&[&["job", "apply", &file], environment].concat()).ok();
    let said = "takes rows of the same table";
    for _ in 0..2 {
        let first = apply(&NOTHING);
        assert!(!first.err.contains(said), "{first:?}");
    }
    let staging = apply(&STAGING[..2]);
    assert!(
        staging
            .err
            .contains(&format!("warning: job staging-t: t of {file} {said}")),
        "{staging:?}"
    );
}
