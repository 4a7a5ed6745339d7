//! `farmhand import verify`: real forms of cron's log against what was recorded.

use std::fmt::Write;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::farm::{Farm, Ran};

/// Crontabs of two hosts: a line that both have, and one of the first alone.
const TABS: [(&str, &str); 2] = [
    (
        "web-1",
        "0 * * * * root /usr/local/bin/backup --day $(date +\\%F)\n30 * * * * www /srv/app/queue%go\n",
    ),
    (
        "web-2",
        "0 * * * * root /usr/local/bin/backup --day $(date +\\%F)\n",
    ),
];
const BACKUP: &str = "(root) CMD (  /usr/local/bin/backup --day $(date +%F))";
const QUEUE: &str = "(www) CMD (/srv/app/queue)";

/// The hours since then are compared.
const HOURS: i64 = 6;

/// What cron did: when, where, and what it wrote of it.
type Done = Vec<(Timestamp, &'static str, &'static str)>;

struct Week {
    farm: Farm,
    from: Timestamp,
}

impl Week {
    /// Jobs that have observed since before `from`, and the records of an agent that was there all the time.
    async fn new() -> Self {
        let farm = Farm::new().await;
        for (host, text) in TABS {
            farm.file(&format!("hosts/{host}/etc/cron.d/app"), text);
        }
        let dir = farm.dir.path().join("hosts");
        let file = farm.dir.path().join("jobs.toml");
        let (dir, file) = (dir.to_str().unwrap(), file.to_str().unwrap());
        farm.run(&[
            "import",
            "crontab",
            "--hosts",
            dir,
            "--tz",
            "UTC",
            "--observe",
            "-o",
            file,
        ])
        .ok();
        farm.run(&["job", "apply", file]).ok();
        let hour = Timestamp::now().as_second() / 3600 * 3600;
        let from = Timestamp::from_second(hour - 2 * 86_400).unwrap();
        let week = Self { farm, from };
        let sql = week.farm.db.client().await;
        sql.exec(
            "UPDATE farmhand.job_revision SET applied_at = now() - interval '7 days';
             INSERT INTO farmhand.node (address, name, session, incarnation, open, ttl_ms, lease_until, slots, labels, version,
                 started_at)
             SELECT a, a, 1, gen_random_uuid(), false, 15000, now(), 1, jsonb_build_object('node', a), '0.1.0', now()
             FROM unnest(ARRAY['web-1', 'web-2']) a"
        ).await;
        for (job, node, first) in [
            ("app-backup", "web-1", 0_i64),
            ("app-backup", "web-2", 0),
            ("app-queue-web-1", "web-1", 30),
        ] {
            sql.exec_with(
                "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, node, due_at, ready_at,
                     state, reason, ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due)
                 SELECT nextval('farmhand.run_id_seq'), $1, 1, 'scheduled', 0, 1, $2, d, d, 'skipped', 'observed', 'schedule',
                     0, 0, 0, '{}', d, d, d, d
                 FROM generate_series(0, $5::bigint - 1) n,
                     LATERAL (SELECT to_timestamp($3::bigint + n * 3600 + $4::bigint * 60) AS d) t",
                &[&job, &node, &week.from.as_second(), &first, &HOURS],
            ).await;
        }
        week
    }

    /// The same of cron.
    fn done(&self) -> Done {
        let mut done = Done::new();
        for hour in 0..HOURS {
            let at = |seconds| self.from + SignedDuration::from_secs(hour * 3600 + seconds);
            done.push((at(1), "web-1", BACKUP));
            done.push((at(2), "web-2", BACKUP));
            done.push((at(1801), "web-1", QUEUE));
        }
        done
    }

    /// Its log in one of the forms, with what others write around it.
    fn log(&self, done: &Done, form: fn(Timestamp, &str, &str) -> String) -> String {
        let mut text = String::new();
        let around = |minutes| self.from + SignedDuration::from_mins(minutes);
        for host in ["web-1", "web-2"] {
            let _ = writeln!(text, "{}", form(around(-5), host, "(CRON) INFO (pidfile fd = 3)"));
        }
        for (at, host, message) in done {
            let _ = writeln!(text, "{}", form(*at, host, message));
        }
        for host in ["web-1", "web-2"] {
            let _ = writeln!(
                text,
                "{}",
                form(around(HOURS * 60), host, "(root) RELOAD (crontabs/root)")
            );
        }
        let file = self.farm.file("log", &text);
        file.to_str().unwrap().to_owned()
    }

    fn verify(&self, log: &str, more: &[&str]) -> Ran {
        let args = [&["import", "verify", "--log", log, "--tz", "Europe/Berlin"], more].concat();
        self.farm.run(&args)
    }
}

fn short(at: Timestamp, host: &str, message: &str) -> String {
    let local = at.to_zoned(TimeZone::get("Europe/Berlin").unwrap());
    format!(
        "{} {host} CRON[4711]: {message}",
        local.strftime("%b %e %H:%M:%S")
    )
}

fn short_iso(at: Timestamp, host: &str, message: &str) -> String {
    let local = at.to_zoned(TimeZone::get("America/New_York").unwrap());
    format!(
        "{} {host} CROND[4711]: {message}",
        local.strftime("%Y-%m-%dT%H:%M:%S%z")
    )
}

fn rsyslog(at: Timestamp, host: &str, message: &str) -> String {
    let local = at.to_zoned(TimeZone::UTC);
    format!(
        "{} {host} CRON[4711]: {message}",
        local.strftime("%Y-%m-%dT%H:%M:%S.123456%:z")
    )
}

fn journal(at: Timestamp, host: &str, message: &str) -> String {
    serde_json::json!({"__REALTIME_TIMESTAMP": at.as_microsecond().to_string(), "_HOSTNAME": host,
        "SYSLOG_IDENTIFIER": "CRON", "_PID": "4711", "MESSAGE": message})
    .to_string()
}

fn verdicts(told: &Value) -> Vec<(&str, i64, usize, usize, &str)> {
    let jobs = told["jobs"].as_array().unwrap().iter();
    jobs.map(|job| {
        let count = |key: &str| job[key].as_array().unwrap().len();
        (
            job["job_id"].as_str().unwrap(),
            job["both"].as_i64().unwrap(),
            count("only_cron"),
            count("only_farm"),
            job["verdict"].as_str().unwrap(),
        )
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agrees_is_safe_to_switch_in_every_form_of_the_log() {
    let week = Week::new().await;
    for form in [short, short_iso, rsyslog, journal] {
        let log = week.log(&week.done(), form);
        let told = week.verify(&log, &["--json"]).json();
        assert_eq!(
            verdicts(&told),
            [
                ("app-backup", 12, 0, 0, "the same"),
                ("app-queue-web-1", 6, 0, 0, "the same")
            ],
            "{told:#}"
        );
        assert_eq!(
            (&told["safe"], &told["unknown"]),
            (&true.into(), &serde_json::json!([]))
        );
        let said = week.verify(&log, &[]).ok();
        let last = said.out.lines().last().unwrap();
        assert!(
            last.starts_with("Safe to switch: cron and the farm agree on 18 instants of 2 jobs between "),
            "{said:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_run_one_too_many_and_an_unknown_command_are_told() {
    let week = Week::new().await;
    let mut done = week.done();
    // Cron did not run the third backup of web-2, and once more than planned on web-1.
    done.remove(7);
    let later = |minutes| week.from + SignedDuration::from_mins(minutes);
    done.push((later(75), "web-1", QUEUE));
    done.push((
        later(80),
        "web-2",
        "(root) CMD (cd / && run-parts --report /etc/cron.hourly)",
    ));
    let log = week.log(&done, rsyslog);
    let told = week.verify(&log, &["--json"]);
    assert_eq!(told.code, 14, "{told:?}");
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(
        verdicts(&json),
        [
            ("app-backup", 11, 0, 1, "differs"),
            ("app-queue-web-1", 6, 1, 0, "differs")
        ],
        "{json:#}"
    );
    assert_eq!(json["jobs"][0]["only_farm"][0]["at"], later(120).to_string());
    assert_eq!(json["jobs"][0]["only_farm"][0]["node"], "web-2");
    assert_eq!(json["jobs"][1]["only_cron"][0]["at"], later(75).to_string());

    let said = week.verify(&log, &["--utc"]);
    assert_eq!(said.code, 14, "{said:?}");
    for part in [
        "app-queue-web-1: only cron at ",
        "app-backup: only farm at ",
        "(root) cd / && run-parts --report /etc/cron.hourly: 1 time on web-2",
        "Not safe to switch: 2 jobs: differ; 1 command: not in any job between ",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    // Without the days and the command that differ.
    let since = later(150).to_string();
    week.verify(&log, &["--since", &since]).ok();
    let until = later(70).to_string();
    week.verify(&log, &["--until", &until]).ok();
    let all = week.verify(&log, &["--ignore", "cron.hourly", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&all.out).unwrap()["unknown"],
        serde_json::json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_logs_have_is_told_and_no_other_is_safe() {
    let week = Week::new().await;
    let mut done = week.done();
    // The log of web-2 ends with its third hour, that of web-1 with its sixth.
    let third = week.from + SignedDuration::from_mins(121);
    done.retain(|(at, host, _)| *host == "web-1" || *at < third);
    let mut text = String::new();
    for (at, host, message) in &done {
        let _ = writeln!(text, "{}", rsyslog(*at, host, message));
    }
    let log = week.farm.file("short", &text);
    let log = log.to_str().unwrap();
    let said = week.verify(log, &["--utc"]).ok();
    let last = said.out.lines().last().unwrap();
    assert!(last.ends_with("in the time of these logs."), "{said:?}");
    let row = |host: &str| {
        let found = said.out.lines().find(|line| line.trim_start().starts_with(host));
        found.unwrap_or_else(|| panic!("no {host}: {said:?}")).to_owned()
    };
    let time = |at: Timestamp| {
        at.to_zoned(TimeZone::UTC)
            .strftime("%Y-%m-%d %H:%M:%SZ")
            .to_string()
    };
    let at = |seconds| week.from + SignedDuration::from_secs(seconds);
    for (host, first, last) in [("web-1", 1, 5 * 3600 + 1801), ("web-2", 2, 2 * 3600 + 2)] {
        let row = row(host);
        assert!(
            row.contains(&time(at(first))) && row.contains(&time(at(last))),
            "{row}"
        );
    }

    // No log of web-2 has a time at which its job was due.
    let text: String = (text.lines())
        .filter(|line| !line.contains(" web-2 "))
        .map(|line| format!("{line}\n"))
        .collect();
    let quiet = format!(
        "{}\n",
        rsyslog(
            week.from - SignedDuration::from_hours(2),
            "web-2",
            "(CRON) INFO (x)"
        )
    );
    let log = week.farm.file("quiet", &(quiet + &text));
    let said = week.verify(log.to_str().unwrap(), &[]);
    assert_eq!(said.code, 14, "{said:?}");
    for part in [
        "app-backup: no log of web-2 has the time of its instants",
        "Not safe to switch: 1 job: without a log of their time",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_user_is_not_safe_and_the_logs_user_is_told() {
    let week = Week::new().await;
    let client = week.farm.db.client().await;
    client.exec(
        "UPDATE farmhand.job_revision SET spec = jsonb_set(spec, '{user}', 'null') WHERE job_id = 'app-queue-web-1'"
    ).await;
    let log = week.log(&week.done(), rsyslog);
    let said = week.verify(&log, &[]);
    assert_eq!(said.code, 14, "{said:?}");
    for part in [
        "app-queue-web-1: cron ran it as www, and the job names no user: write user = \"www\" into it",
        "Not safe to switch: 1 job: differ between ",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_logs_that_lack_are_named() {
    let week = Week::new().await;
    let mut done = week.done();
    done.retain(|(_, host, _)| *host == "web-1");
    let one = |at, host: &str, message: &str| match host {
        "web-1" => rsyslog(at, "web-1.example.org", message),
        _ => String::new(),
    };
    let log = week.log(&done, one);
    let said = week.verify(&log, &[]);
    assert_eq!(said.code, 14, "{said:?}");
    assert!(
        said.out
            .contains("app-backup: no log of web-2 has the time of its instants"),
        "{said:?}"
    );
    // Alone it is, and its long name is the node's short one.
    let said = week.verify(&log, &["--host", "web-1"]).ok();
    assert!(said.out.contains("agree on 12 instants of 2 jobs"), "{said:?}");

    let other = |at, _: &str, message: &str| rsyslog(at, "db-9", message);
    let log = week.log(&done, other);
    let said = week.verify(&log, &[]);
    assert_eq!(said.code, 14, "{said:?}");
    assert!(
        said.err
            .contains("db-9: no node of the farm has this name; --host NODE says"),
        "{said:?}"
    );

    let none = week.farm.file("none", "Nov 26 10:00:01 web-1 systemd[1]: up\n");
    week.verify(none.to_str().unwrap(), &[]).refused(
        4,
        &[
            "no line of a command that cron started",
            "journalctl -t CRON -t CROND -t crond -t systemd -o json",
        ],
    );
    week.verify("/nowhere/log", &[])
        .refused(2, &["/nowhere/log cannot be read"]);
    let client = week.farm.db.client().await;
    client.exec("UPDATE farmhand.job SET observe = false").await;
    week.verify(&log, &[])
        .refused(3, &["no job observes", "observe = true"]);
}
