//! A team's first evening: a repository of crontabs and timers becomes a farm that observes beside them, and then does their work.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use farmhand_tests::farm::Farm;

/// Two of them are nodes by now.
const HOSTS: usize = 40;

/// Timers of packages that no machine of a test has; and one more, which is due each second.
const TIMERS: [&str; 14] = [
    "acmetool",
    "btrbk",
    "clamav-freshclam-once",
    "com.dde.calendarserver.calendar",
    "dailyaidecheck",
    "ddupdate",
    "debci-update",
    "debspawn-clear-caches",
    "fetch-crl",
    "ipa-epn",
    "ipa-healthcheck",
    "jetty9",
    "liblemonldap-ng-portal-perl",
    "lynis",
];

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The crontabs of all hosts, as Ansible fetches them, and the timers; `beat` and `tick` are due each second.
fn repository(dir: &Path, user: &str, beat: &str, tick: &str) {
    for n in 1..=HOSTS {
        let host = format!("n{n}");
        let mut own = format!(
            "30 2 1 1 * root /usr/local/bin/backup\n{} 5 1 1 * root /usr/local/bin/sync --from {host}\n",
            n % 60
        );
        if n <= 2 {
            let _ = writeln!(own, "@every_second {user} {beat}");
        }
        write(&dir.join("hosts").join(host).join("etc/cron.d/ops"), &own);
    }
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/timers");
    for name in TIMERS {
        for end in ["timer", "service"] {
            let unit = format!("{name}.{end}");
            let text = std::fs::read_to_string(packages.join(&unit)).unwrap();
            write(&dir.join("units").join(unit), &text);
        }
    }
    write(
        &dir.join("units/tick.timer"),
        "[Timer]\nOnCalendar=*:*:*\nAccuracySec=1s\n",
    );
    let service = format!("[Service]\nType=oneshot\nUser={user}\nExecStart=/bin/sh -c '{tick}'\n");
    write(&dir.join("units/tick.service"), &service);
}

fn commit(dir: &Path, message: &str) {
    for args in [
        &["init", "-q"][..],
        &["add", "."],
        &["commit", "-q", "-m", message],
    ] {
        let done = Command::new("git")
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"])
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "git {args:?}: {done:?}");
    }
}

/// What the journals of the machines would have, had cron and systemd done what was observed.
async fn journal(farm: &Farm, user: &str, beat: &str) -> String {
    let rows = farm
        .sql
        .query(
            "SELECT h.job_id, h.node, extract(epoch FROM h.first_due)::bigint, v.spec->'tags'->>0
             FROM farmhand.run_history h JOIN farmhand.job j USING (job_id)
             JOIN farmhand.job_revision v ON v.job_id = j.job_id AND v.rev = j.rev
             WHERE h.state = 'skipped' AND h.reason = 'observed' AND h.count = 1 ORDER BY 3",
            &[],
        )
        .await
        .unwrap();
    let mut log = String::new();
    for row in rows {
        let (node, at): (Option<String>, i64) = (row.get(1), row.get(2));
        let (by, more) = match row.get::<_, Option<String>>(3) {
            Some(unit) => (
                "systemd",
                format!(r#""UNIT":"{unit}","MESSAGE":"Starting {unit} - …""#),
            ),
            None => ("CRON", format!(r#""MESSAGE":"({user}) CMD ({beat})""#)),
        };
        let node = node.unwrap_or_else(|| "n1".to_owned());
        let _ = writeln!(
            log,
            r#"{{"_HOSTNAME":"{node}","__REALTIME_TIMESTAMP":"{at}000001","SYSLOG_IDENTIFIER":"{by}",{more}}}"#
        );
    }
    log
}

/// How many nodes have done so of a job with this in its command.
async fn nodes(farm: &Farm, state: &str, command: &str) -> i64 {
    let row = farm
        .sql
        .query_one(
            "SELECT count(DISTINCT coalesce(h.running_at, h.node, 'farm')) FROM farmhand.run_history h
             JOIN farmhand.job_revision v ON v.job_id = h.job_id AND v.rev = 1
             WHERE h.state = $1 AND v.spec::text LIKE '%' || $2 || '%'",
            &[&state, &command],
        )
        .await
        .unwrap();
    row.get(0)
}

async fn both(farm: &Farm, state: &str) {
    farm.eventually(
        "cron's and systemd's jobs",
        Duration::from_secs(60),
        async || match (
            nodes(farm, state, "echo beat").await,
            nodes(farm, state, "echo tick").await,
        ) {
            (2, 1..) => Ok(()),
            few => Err(format!("{few:?} nodes have {state}")),
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_hosts_crontabs_and_fifteen_timers_come_from_a_repository_through_shadow_mode_to_life() {
    let farm = Farm::new().agents(2).start().await;
    let dir = farm.dir().join("repository");
    let at = |name: &str| dir.join(name).display().to_string();
    let (beat_file, tick_file) = (farm.dir().join("beaten"), farm.dir().join("ticked"));
    let beat = format!("echo beat >> {}", beat_file.display());
    let tick = format!("echo tick >> {}", tick_file.display());
    let user = Command::new("id").arg("-un").output().unwrap();
    let user = String::from_utf8(user.stdout).unwrap().trim().to_owned();
    repository(&dir, &user, &beat, &tick);
    commit(&dir, "What the servers run");

    let (crontabs, timers) = (at("jobs/crontabs.toml"), at("jobs/timers.toml"));
    std::fs::create_dir(dir.join("jobs")).unwrap();
    farm.ok(&[
        "import",
        "crontab",
        "--hosts",
        &at("hosts"),
        "--observe",
        "-o",
        &crontabs,
    ]);
    farm.ok(&[
        "import",
        "systemd",
        &at("units"),
        "--tz",
        "UTC",
        "--observe",
        "-o",
        &timers,
    ]);
    commit(&dir, "The same as jobs that observe");
    farm.ok(&["job", "check", &at("jobs")]);
    let apply = [
        "job",
        "apply",
        "--source",
        "ops/jobs",
        "--prune",
        "--yes",
        &at("jobs"),
    ];
    farm.ok(&apply);
    let listed: serde_json::Value = serde_json::from_str(&farm.ok(&["job", "ls", "--json"])).unwrap();
    // The backup of all, the beat of two, one of each host, and the timers.
    let jobs = listed["items"].as_array().unwrap();
    assert_eq!(jobs.len(), 2 + HOSTS + TIMERS.len() + 1, "{listed:#}");
    assert!(jobs.iter().all(|job| job["source"] == "ops/jobs"), "{listed:#}");

    both(&farm, "skipped").await;
    assert!(
        !beat_file.exists() && !tick_file.exists(),
        "something was executed"
    );
    let log = farm.dir().join("journal");
    let verify = ["import", "verify", "--log", &log.display().to_string()];
    // The ends of a log are not compared: it has to be some seconds long.
    let compared = farm.eventually(
        "a log that can be compared",
        Duration::from_secs(60),
        async || {
            let text = journal(&farm, &user, &beat).await;
            std::fs::write(&log, &text).unwrap();
            let told = farm.farmhand(&verify);
            match told.status.success() && String::from_utf8_lossy(&told.stdout).contains("Safe to switch") {
                true => Ok(text),
                false => Err(format!("{told:?}")),
            }
        },
    );
    let mut text = compared.await;
    let last = text
        .lines()
        .last()
        .unwrap()
        .split(r#""SYSLOG"#)
        .next()
        .unwrap()
        .to_owned();
    let _ = writeln!(
        text,
        r#"{last}"SYSLOG_IDENTIFIER":"CRON","MESSAGE":"(root) CMD (/usr/local/bin/forgotten)"}}"#
    );
    std::fs::write(&log, &text).unwrap();
    let told = farm.farmhand(&verify);
    assert_eq!(told.status.code(), Some(14), "{told:?}");
    assert!(
        String::from_utf8_lossy(&told.stdout).contains("forgotten"),
        "{told:?}"
    );

    for file in [&crontabs, &timers] {
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("observe "))
            .collect();
        assert!(lines.len() < text.lines().count(), "{text}");
        std::fs::write(file, lines.join("\n")).unwrap();
    }
    commit(&dir, "Live");
    let diff = farm.farmhand(&["job", "diff", "--source", "ops/jobs", "--exit-code", &at("jobs")]);
    assert_eq!(diff.status.code(), Some(14), "{diff:?}");
    farm.ok(&apply);
    both(&farm, "succeeded").await;
    assert!(beat_file.exists() && tick_file.exists());
    for job in jobs.iter().filter_map(|job| job["job_id"].as_str()) {
        farm.ok(&["job", "pause", job]);
    }
    farm.check().await;
}
