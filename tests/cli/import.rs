//! `farmhand import crontab`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::farm::{Farm, Ran, command, ran};

pub(super) fn run(dir: &Path, args: &[&str]) -> Ran {
    ran(command("", dir)
        .env_remove("FARMHAND_DATABASE_URL")
        .env("TZ", "America/New_York")
        .args(["import", "crontab"])
        .args(args))
}

fn sample(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "data/crontabs.sample", name]
        .iter()
        .collect();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_crontab_applies_as_it_is_and_its_jobs_fire_when_its_lines_did() {
    let farm = Farm::new().await;
    let out = farm.dir.path().join("jobs.toml");
    let out = out.to_str().unwrap();
    let text = "CRON_TZ=Europe/Berlin\n30 2 * * * /usr/local/bin/report\n*/20 1-3 * * 7 x\n";
    let crontab = farm.file("mine", text);
    let made = run(farm.dir.path(), &[crontab.to_str().unwrap(), "-o", out]).ok();
    assert_eq!(made.out, "");
    farm.run(&["job", "apply", out]).ok();
    for (job, expr) in [("mine-report", "30 2 * * *"), ("mine-x", "*/20 1-3 * * 7")] {
        let from = ["--from", "2026-01-01", "--count", "1500", "--json"];
        let of_job = farm.run(&[&["next", job][..], &from].concat()).json();
        let of_line = farm
            .run(&[&["next", "--expr", expr, "--tz", "Europe/Berlin"][..], &from].concat())
            .json();
        assert_eq!(of_job["instants"], of_line, "{job}");
    }
    farm.run(&["job", "apply", out]).ok();
    assert_eq!(
        farm.run(&["job", "show", "mine-x", "--json"]).json()["job"]["rev"],
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_system_sample_applies_together() {
    let farm = Farm::new().await;
    let out = farm.dir.path().join("jobs.toml");
    let manifest: Vec<Value> =
        serde_json::from_str(include_str!("../data/crontabs.sample/manifest.json")).unwrap();
    let system: Vec<&Value> = manifest.iter().filter(|m| m["format"] == "system").collect();
    let mut args: Vec<String> = system
        .iter()
        .map(|m| sample(m["file"].as_str().unwrap()))
        .collect();
    args.extend(["--system", "--json", "-o"].map(str::to_owned));
    args.push(out.to_str().unwrap().to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let report = run(farm.dir.path(), &args).json();
    let wanted: u64 = system.iter().map(|m| m["expected_jobs"].as_u64().unwrap()).sum();
    assert_eq!(report["jobs"].as_array().unwrap().len() as u64, wanted);
    farm.run(&["job", "apply", out.to_str().unwrap()]).ok();
    assert_eq!(
        farm.run(&["job", "ls", "--json"]).json()["items"]
            .as_array()
            .unwrap()
            .len() as u64,
        wanted
    );
}

#[test]
fn a_file_without_jobs_is_not_written_and_the_exit_code_says_that_there_are_none() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let out = dir.path().join("jobs.toml");
    let out = out.to_str().unwrap();
    let none = [&sample("debian-rsnapshot.crontab"), "--system", "-o", out];
    let why = ["no job was imported", "jobs.toml was not written"];
    run(dir.path(), &none).refused(4, &why);
    assert!(!Path::new(out).exists());
    // Nor is one of an earlier import lost.
    let good = dir.path().join("good");
    std::fs::write(&good, "0 1 * * * x\n").unwrap();
    run(dir.path(), &[good.to_str().unwrap(), "-o", out]).ok();
    let before = std::fs::read_to_string(out).unwrap();
    let told = run(dir.path(), &[&none[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, &json["output"]), (4, &Value::Null));
    assert_eq!(std::fs::read_to_string(out).unwrap(), before);

    let bad = dir.path().join("bad");
    std::fs::write(&bad, "MAILTO=ops\n0 25 * * * x\n").unwrap();
    let args = [bad.to_str().unwrap(), "-o", out];
    run(dir.path(), &args).refused(
        4,
        &[
            "bad:2:3: not imported: hour: 25 is out of range",
            "bad:1: MAILTO=ops: no mail is sent to it",
            "no job was imported",
        ],
    );
    run(dir.path(), &["/nowhere/crontab"]).refused(2, &["/nowhere/crontab cannot be read"]);
}

#[test]
fn a_job_file_that_was_edited_is_not_written_over() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let (crontab, out) = (dir.path().join("tab"), dir.path().join("jobs.toml"));
    std::fs::write(&crontab, "0 1 * * * x\n").unwrap();
    let args = [crontab.to_str().unwrap(), "-o", out.to_str().unwrap()];
    run(dir.path(), &args).ok();
    std::fs::write(&crontab, "0 2 * * * x\n").unwrap();
    run(dir.path(), &args).ok();
    let made = std::fs::read_to_string(&out).unwrap();
    assert!(
        made.contains("0 2 * * *"),
        "what was not edited is written over: {made}"
    );
    for edited in [
        made.replace("0 2", "0 3"),
        made.clone() + "# mine\n",
        "[job.precious]\n".to_owned(),
    ] {
        std::fs::write(&out, &edited).unwrap();
        run(dir.path(), &args).refused(4, &["did not make it as it is", "--force"]);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), edited);
    }
    run(dir.path(), &[&args[..], &["--force"]].concat()).ok();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), made);
}

#[test]
fn importing_again_keeps_edits_by_the_guides_commands() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = |name: &str| dir.path().join(name);
    let import = |crontab: &str, out: &str| {
        std::fs::write(path("tab"), crontab).unwrap();
        let (tab, out) = (path("tab"), path(out));
        run(dir.path(), &[tab.to_str().unwrap(), "-o", out.to_str().unwrap()]).ok();
    };
    let merge = || {
        let mut git = std::process::Command::new("git");
        git.args(["merge-file", "-L", "mine", "-L", "before", "-L", "now"]);
        git.args(["jobs.toml", "jobs.imported.toml", "jobs.new.toml"]);
        git.current_dir(dir.path()).status().unwrap().code()
    };
    let jobs = || std::fs::read_to_string(path("jobs.toml")).unwrap();
    let check = || {
        ran(command("", dir.path())
            .args(["job", "check", "jobs.toml"])
            .current_dir(dir.path()))
    };
    import(
        "0 1 * * * first\n\n# between\n\n0 5 * * * second\n",
        "jobs.imported.toml",
    );
    let made = std::fs::read_to_string(path("jobs.imported.toml")).unwrap();
    let mine = made.replace("0 1 * * *", "30 1 * * *");
    std::fs::write(path("jobs.toml"), mine).unwrap();
    import(
        "0 1 * * * first\n\n# between\n\n0 6 * * * second\n",
        "jobs.new.toml",
    );
    assert_eq!(merge(), Some(0));
    let merged = jobs();
    assert!(
        merged.contains("30 1 * * *") && merged.contains("0 6 * * *"),
        "{merged}"
    );
    check().ok();

    std::fs::rename(path("jobs.new.toml"), path("jobs.imported.toml")).unwrap();
    import(
        "0 2 * * * first\n\n# between\n\n0 6 * * * second\n",
        "jobs.new.toml",
    );
    assert_eq!(merge(), Some(1), "both sides changed the schedule of `first`");
    assert_ne!(check().code, 0, "{}", jobs());
}

#[test]
fn a_job_file_with_a_secret_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let (crontab, out) = (dir.path().join("tab"), dir.path().join("jobs.toml"));
    let args = [crontab.to_str().unwrap(), "-o", out.to_str().unwrap()];
    let mode = || std::fs::metadata(&out).unwrap().permissions().mode() & 0o777;
    std::fs::write(&crontab, "0 1 * * * x\n").unwrap();
    run(dir.path(), &args).ok();
    assert_ne!(mode(), 0o600);
    std::fs::write(&crontab, "0 1 * * * PGPASSWORD=geheim pg_dump\n").unwrap();
    run(dir.path(), &args).ok();
    assert_eq!(mode(), 0o600, "a password in a command");
}

#[test]
fn a_copy_of_a_systems_crontab_is_known_by_the_end_of_its_path() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    for name in ["hosts/web1/etc/cron.d/backup", "hosts/web1/etc/crontab"] {
        let file = dir.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "0 1 * * * root x\n").unwrap();
        let told = run(dir.path(), &[file.to_str().unwrap(), "--json"]).json();
        assert_eq!(told["jobs"][0]["user"], "root", "{name}");
        let own = run(dir.path(), &[file.to_str().unwrap(), "--user", "me", "--json"]).json();
        assert_eq!(own["jobs"][0]["user"], "me", "{name}");
    }
}

#[test]
fn a_dry_run_shows_both_sides_and_writes_nothing() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let out = dir.path().join("jobs.toml");
    let args = [
        &sample("debian-logcheck.crontab"),
        "--system",
        "--dry-run",
        "--json",
        "-o",
        out.to_str().unwrap(),
    ];
    let report = run(dir.path(), &args).json();
    assert_eq!(report["jobs"][0]["cron"], json!([]));
    assert_eq!(report["jobs"][1]["cron"].as_array().unwrap().len(), 3);
    assert_eq!(report["jobs"][1]["cron"], report["jobs"][1]["farmhand"]);
    assert!(!out.exists());
    let table = run(
        dir.path(),
        &[&sample("debian-logcheck.crontab"), "--system", "--dry-run"],
    )
    .ok();
    assert!(
        table.out.contains("at boot") && table.out.contains("the same"),
        "{table:?}"
    );
    // What cron refuses has no times there.
    let tab = dir.path().join("tab");
    std::fs::write(&tab, "0/15 * * * * x\n").unwrap();
    let tab = tab.to_str().unwrap();
    let report = run(dir.path(), &[tab, "--dry-run", "--json"]).json();
    assert_eq!(report["jobs"][0]["cron"], json!(null));
    assert_eq!(report["jobs"][0]["farmhand"].as_array().unwrap().len(), 3);
    let table = run(dir.path(), &[tab, "--dry-run"]).ok();
    assert!(!table.out.contains("the same"), "{table:?}");
    let hint = run(dir.path(), &[&sample("gh-awsmonitors.crontab")]).ok();
    assert!(!hint.err.contains("--system"), "ubuntu is no user here: {hint:?}");
    let hint = run(dir.path(), &[&sample("debian-mdadm.crontab")]).ok();
    assert!(hint.err.contains("import it with --system"), "{hint:?}");
}

/// `farmhand import systemd` or `k8s` in this directory.
pub(super) fn of(dir: &Path, args: &[&str]) -> Ran {
    ran(command("", dir)
        .current_dir(dir)
        .env_remove("FARMHAND_DATABASE_URL")
        .env("TZ", "America/New_York")
        .arg("import")
        .args(args))
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_with_their_services_become_a_job_file_that_applies() {
    let farm = Farm::new().await;
    let dir = farm.dir.path();
    farm.file(
        "units/report.timer",
        "[Timer]\nOnCalendar=Mon..Fri 08:30\nPersistent=yes\n",
    );
    farm.file(
        "units/report.service",
        "[Service]\nType=oneshot\nExecStart=/bin/echo 'two words' $$\n",
    );
    farm.file(
        "units/other.timer",
        "[Timer]\nOnCalendar=daily\nUnit=backup@home.service\n",
    );
    farm.file("units/lost.timer", "[Timer]\nOnCalendar=daily\n");
    farm.file(
        "more/backup@.service",
        "[Service]\nExecStart=/bin/echo %i\nProtectSystem=full\n",
    );
    let ran = of(
        dir,
        &["systemd", "units", "more", "--user", "", "-o", "jobs.toml"],
    )
    .ok();
    for said in [
        "units/lost.timer:1:1: not imported: its service, lost.service, is not among these files",
        "more/backup@.service:3: ProtectSystem=full is not carried over",
        "jobs.toml: 2 jobs",
    ] {
        assert!(ran.err.contains(said), "{said}: {ran:?}");
    }
    let out = dir.join("jobs.toml");
    farm.run(&["job", "apply", out.to_str().unwrap()]).ok();
    let spec = |job: &str| farm.run(&["job", "show", job, "--json"]).json()["spec"].clone();
    let report = spec("report");
    assert_eq!(report["command"], json!(["/bin/echo", "two words", "$"]));
    assert_eq!(
        (&report["timezone"], &report["user"]),
        (&json!("America/New_York"), &json!(null))
    );
    assert_eq!(spec("other")["command"], json!(["/bin/echo", "home"]));
    let shown = of(
        dir,
        &[
            "systemd",
            "units/report.timer",
            "--dry-run",
            "--tz",
            "UTC",
            "--json",
        ],
    )
    .json();
    assert_eq!(shown["jobs"][0]["farmhand"].as_array().unwrap().len(), 3);
    let table = of(dir, &["systemd", "units/report.timer", "--dry-run"]).ok();
    assert!(
        table.out.contains("FARMHAND") && !table.out.contains("CRON"),
        "{table:?}"
    );
    of(dir, &["systemd", "more"]).refused(2, &["no *.timer"]);
    of(dir, &["systemd", "nowhere.timer"]).refused(2, &["nowhere.timer cannot be read"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_become_a_job_file_that_applies() {
    let farm = Farm::new().await;
    let dir = farm.dir.path();
    let text = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa}\n---\napiVersion: batch/v1\nkind: CronJob\n\
                metadata:\n  name: hello\nspec:\n  schedule: \"*/5 * * * *\"\n  timeZone: Etc/UTC\n  concurrencyPolicy: Forbid\n\
                \x20 jobTemplate:\n    spec:\n      backoffLimit: 0\n      template:\n        spec:\n          containers:\n\
                \x20         - name: hello\n            image: &image busybox:1.36\n            command: [\"/bin/sh\", -c]\n\
                \x20           args:\n            - |\n              date; echo $(WHO)\n            env:\n\
                \x20           - {name: WHO, value: *image}\n            - {name: N, value: \"5\"}\n";
    farm.file("cronjob.yaml", text);
    let ran = of(dir, &["k8s", "cronjob.yaml", "-o", "jobs.toml"]).ok();
    assert!(
        ran.err.contains("ServiceAccount sa: only CronJobs are imported"),
        "{ran:?}"
    );
    let out = dir.join("jobs.toml");
    farm.run(&["job", "apply", out.to_str().unwrap()]).ok();
    let spec = farm.run(&["job", "show", "hello", "--json"]).json()["spec"].clone();
    assert_eq!(
        spec["command"],
        json!(["/bin/sh", "-c", "date; echo busybox:1.36\n"])
    );
    assert_eq!(
        (&spec["env"]["N"], &spec["overlap"]),
        (&json!("5"), &json!("latest"))
    );
    let text = "env: &env {command: [date], image: busybox, name: kept}\nkind: CronJob\nmetadata: {name: merged}\nspec:\n\
                \x20 schedule: \"@daily\"\n  jobTemplate: {spec: {template: {spec: {containers: [{<<: *env, name: own}]}}}}\n";
    farm.file("merged.yaml", text);
    let ran = of(dir, &["k8s", "merged.yaml"]).ok();
    assert!(ran.out.contains("command  = [\"date\"]"), "{ran:?}");
    farm.file("bad.yaml", "a: [\n");
    of(dir, &["k8s", "bad.yaml"]).refused(2, &["bad.yaml is not YAML", "helm template"]);
}
