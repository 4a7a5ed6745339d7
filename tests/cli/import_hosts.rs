//! `farmhand import crontab` of one node, of each node, and of many.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::farm::{Farm, Ran, command, ran};

fn import(dir: &Path, args: &[&str]) -> Ran {
    ran(command("", dir)
        .current_dir(dir)
        .env_remove("FARMHAND_DATABASE_URL")
        .env("TZ", "Europe/Berlin")
        .args(["import", "crontab"])
        .args(args))
}

const HOSTS: usize = 40;

/// Of forty hosts: what all have, what the even ones have, what a rack has, and what differs from host to host.
fn crontabs(farm: &Farm) {
    for n in 0..HOSTS {
        let host = format!("hosts/web-{n:02}");
        farm.file(
            &format!("{host}/etc/crontab"),
            "SHELL=/bin/sh\nPATH=/usr/bin:/bin\n# m h dom mon dow user command\n17 * * * * root run-parts /etc/cron.hourly\n",
        );
        let mut backup = "MAILTO=ops@example.com\n30 2 * * * root /usr/local/bin/backup\n".to_owned();
        if n % 2 == 0 {
            backup += "0 4 * * 7 root /usr/local/bin/scrub\n";
        }
        let _ = writeln!(
            backup,
            "{} 5 * * * root /usr/local/bin/sync --from web-{n:02}",
            n % 20
        );
        farm.file(&format!("{host}/etc/cron.d/backup"), &backup);
        farm.file(&format!("{host}/etc/cron.d/.placeholder"), "# not for cron\n");
        farm.file(
            &format!("{host}/etc/cron.d/backup.dpkg-old"),
            "* * * * * root old\n",
        );
        farm.file(
            &format!("{host}/etc/cron.daily/logrotate"),
            "#!/bin/sh\nlogrotate\n",
        );
        if n < 4 {
            farm.file(
                &format!("{host}/var/spool/cron/crontabs/www-data"),
                "*/5 * * * * cd /srv/app && ./queue\n",
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_hosts_become_a_job_file_of_what_they_share_and_what_they_do_not() {
    let farm = Farm::new().await;
    crontabs(&farm);
    let dir = farm.dir.path();
    let told = import(dir, &["--hosts", "hosts", "-o", "jobs.toml"]).ok();
    assert!(
        told.err.contains("hosts/web-00/etc/cron.daily/logrotate and others below hosts, 40 files in all, do not lie where cron"),
        "{told:?}"
    );
    assert!(told.err.contains("jobs.toml: 44 jobs"), "{told:?}");
    let notes = told
        .err
        .lines()
        .filter(|line| line.contains("became `notify`"))
        .count();
    assert_eq!(notes, 1, "what all files have is told once: {told:?}");

    let file = dir.join("jobs.toml");
    let file = file.to_str().unwrap();
    farm.run(&["job", "check", file]).ok();
    farm.run(&["job", "apply", file]).ok();
    let jobs = farm.run(&["job", "ls", "--json"]).json();
    let jobs = jobs["items"].as_array().unwrap().clone();
    assert_eq!(jobs.len(), HOSTS + 4);
    let nodes = |name: &str| {
        let job = jobs.iter().find(|job| job["job_id"] == name);
        let job = job.unwrap_or_else(|| panic!("no {name} in {jobs:#?}"));
        assert_eq!(job["each_node"], true, "{name}");
        job["where"]["node"].clone()
    };
    let hosts = |of: &dyn Fn(usize) -> bool| -> Value {
        (0..HOSTS)
            .filter(|n| of(*n))
            .map(|n| format!("web-{n:02}"))
            .collect()
    };
    assert_eq!(nodes("run-parts"), hosts(&|_| true));
    assert_eq!(nodes("backup"), hosts(&|_| true));
    assert_eq!(nodes("backup-scrub"), hosts(&|n| n % 2 == 0));
    assert_eq!(nodes("www-data-app"), hosts(&|n| n < 4));
    for n in 0..HOSTS {
        assert_eq!(nodes(&format!("backup-sync-web-{n:02}")), format!("web-{n:02}"));
    }
    let spec = farm.run(&["job", "show", "www-data-app", "--json"]).json()["spec"].clone();
    assert_eq!(
        (&spec["user"], &spec["overlap"]),
        (&json!("www-data"), &json!("allow"))
    );

    // The way back to files keeps them.
    let exported = farm.run(&["job", "export"]).ok().out;
    let exported = farm.file("exported.toml", &exported);
    let exported = exported.to_str().unwrap();
    farm.run(&["job", "diff", "--take-over", "--exit-code", exported])
        .ok();
    let found = farm
        .run(&["run", "ls", "--label", "node=web-07", "--json"])
        .json();
    assert_eq!(found["items"], json!([]));
    import(dir, &["--hosts", "hosts", "-o", "jobs.toml"]).ok();
    farm.run(&["job", "diff", "--exit-code", file]).ok();
}

#[test]
fn a_hosts_directory_may_hold_what_crontab_l_printed() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::create_dir(dir.path().join("tabs")).unwrap();
    for host in ["a.example.com", "b.example.com"] {
        std::fs::write(dir.path().join("tabs").join(host), "1 * * * * /bin/x\n").unwrap();
    }
    let made = import(dir.path(), &["--hosts", "tabs", "--user", "app", "--json"]).json();
    assert_eq!(
        made["jobs"],
        json!([{"name": "x", "file": "tabs/a.example.com", "line": 1, "schedule": "1 * * * *", "timezone": "Europe/Berlin",
            "user": "app", "never": false, "nodes": ["a.example.com", "b.example.com"]}])
    );
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    import(dir.path(), &["--hosts", "empty"]).refused(2, &["there is no crontab in empty", "DIR/NODE"]);
    import(dir.path(), &["--hosts", "nowhere"]).refused(2, &["nowhere cannot be read"]);
    import(dir.path(), &["--hosts", "tabs", "--host", "a"]).refused(2, &["--host"]);
    import(dir.path(), &[]).refused(2, &["<FILE>"]);
}

#[test]
fn a_crontab_is_pinned_to_its_host_or_runs_on_each_node() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::write(dir.path().join("tab"), "1 * * * * /bin/x\n").unwrap();
    let pinned = import(dir.path(), &["tab", "--host", "web-3"]).ok().out;
    for line in [
        "[job.tab-x-web-3]",
        "where    = { node = \"web-3\" }",
        "run_on   = \"each-node\"",
    ] {
        assert!(pinned.contains(line), "{line}: {pinned}");
    }
    let each = import(dir.path(), &["tab", "--each-node"]).ok().out;
    assert!(
        each.contains("[job.tab-x]") && each.contains("run_on   = \"each-node\""),
        "{each}"
    );
    assert!(!each.contains("where"), "{each}");
    import(dir.path(), &["tab", "--each-node", "--host", "a"]).refused(2, &["--host"]);
}

/// Writes these files below a directory.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

#[test]
fn files_of_cron_d_that_debians_cron_ignores_are_left_out_and_told() {
    let dir = machine(&[
        ("hosts/web-1/etc/cron.d/backup", "1 * * * * root x\n"),
        ("hosts/web-1/etc/cron.d/backup.disabled", "2 * * * * root y\n"),
    ]);
    let (on, off) = (
        "hosts/web-1/etc/cron.d/backup",
        "hosts/web-1/etc/cron.d/backup.disabled",
    );
    for args in [&["--hosts", "hosts"][..], &[on, off]] {
        let told = import(dir.path(), args).ok();
        assert!(!told.out.contains("command  = \"y\""), "{args:?}: {told:?}");
        let said = format!("{off}: not imported: Debian's cron ignores a file of cron.d");
        assert!(told.err.contains(&said), "{args:?}: {told:?}");
    }
    // Who names it alone wants it.
    let told = import(dir.path(), &[off]).ok();
    assert!(told.out.contains("command  = \"y\""), "{told:?}");
    assert!(
        told.out.contains("#   Debian's cron ignores a file of cron.d"),
        "{told:?}"
    );
}

#[test]
fn variables_that_pam_gives_crons_commands_are_told() {
    let environment =
        "# LC_ALL=C\nPATH=\"/usr/bin:/bin\"\nJAVA_HOME=/opt/java\nexport http_proxy=http://me:geheim@proxy\n";
    let dir = machine(&[
        ("hosts/web-1/etc/crontab", "1 * * * * root x\n"),
        ("hosts/web-1/etc/cron.d/more", "2 * * * * root y\n"),
        ("hosts/web-1/etc/environment", environment),
        ("hosts/web-1/etc/default/locale", "LANG=de_DE.UTF-8\n"),
        ("hosts/web-2/etc/crontab", "1 * * * * root x\n"),
        ("hosts/web-2/etc/environment", "PATH=\"/usr/bin:/bin\"\n"),
    ]);
    for args in [
        &["--hosts", "hosts"][..],
        &["hosts/web-1/etc/crontab", "hosts/web-1/etc/cron.d/more"],
    ] {
        let told = import(dir.path(), args).ok();
        for said in [
            "hosts/web-1/etc/environment sets JAVA_HOME, http_proxy: cron gives",
            "hosts/web-1/etc/default/locale sets LANG: cron gives",
        ] {
            assert_eq!(told.err.matches(said).count(), 1, "{said}: {told:?}");
        }
        assert!(
            !told.err.contains("geheim") && !told.err.contains("web-2/etc/environment"),
            "{told:?}"
        );
        assert!(!told.err.contains("were not read"), "{told:?}");
    }
}
