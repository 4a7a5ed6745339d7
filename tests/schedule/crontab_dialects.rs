//! What other crons have in their crontabs is read as they read it, or told by their names.

use farmhand_core::definition::{JobSpec, Overlap};
use farmhand_import::Import;
use farmhand_import::crontab::{File, Owner};

use super::crontab::{file, imported, shell, specs};

fn taken(file: File) -> (Import, Vec<(String, JobSpec)>) {
    let import = imported(&[file]);
    let specs = specs(&import);
    (import, specs)
}

/// What is said of the first file: notes and refusals.
fn told(import: &Import) -> String {
    let report = &import.files[0];
    let notes = report.notes.iter().map(|note| note.text.clone());
    let refusals = report
        .invalid
        .iter()
        .map(|bad| format!("{}; {}", bad.problem, bad.fix));
    notes.chain(refusals).collect::<Vec<_>>().join("\n")
}

fn user(text: &str) -> File {
    file("tab", text, Owner::User(Some("root".to_owned())))
}

#[test]
fn a_field_too_many_is_refused_and_read_with_seconds() {
    for (line, schedule, years) in [
        ("0 0 3 * * * * /opt/app/x", "0 0 3 * * *", [None, None]),
        ("*/10 * * * * * /opt/app/x", "*/10 * * * * *", [None, None]),
        ("0 0 3 * * ? /opt/app/x", "0 0 3 * * *", [None, None]),
        (
            "0 15 10 ? * MON-FRI 2027-2028 /opt/app/x",
            "0 15 10 * * MON-FRI",
            [Some("2027-01-01"), Some("2029-01-01")],
        ),
        (
            "0 12 * * * 2027 /opt/app/x",
            "0 12 * * *",
            [Some("2027-01-01"), Some("2028-01-01")],
        ),
    ] {
        let (import, none) = (imported(&[user(&format!("{line}\n"))]), 0);
        assert_eq!(import.jobs.len(), none, "{}", import.toml);
        assert!(import.files[0].invalid.len() == 1, "{line}");
        let mut file = user(&format!("{line}\n"));
        file.seconds = true;
        let (import, specs) = taken(file);
        let spec = &specs[0].1;
        assert_eq!(spec.schedule, [schedule], "{line}");
        assert_eq!(shell(spec), "/opt/app/x", "{line}");
        let bounds = ["start", "end"].map(|key| import.toml.lines().find(|text| text.starts_with(key)));
        let bounds = bounds.map(|bound| bound.map(|text| text.split('"').nth(1).unwrap()));
        assert_eq!(bounds, years, "{line}");
    }
    let import = imported(&[user("0 0 3 * * * * /opt/app/x\n")]);
    assert!(told(&import).contains("`*`, as if it were a field") && told(&import).contains("--seconds"));
    let mut quartz = user("0 0 3 ? * 2 /opt/app/x\n");
    quartz.seconds = true;
    assert!(told(&imported(&[quartz])).contains("counts weekdays from 1 for Sunday"));
}

#[test]
fn what_other_crons_take_off_a_command_is_taken_off_and_told() {
    for (line, command, text) in [
        ("0 2 * * * -ns /opt/app/x", "/opt/app/x", "`-s` of OpenBSD's"),
        ("0 2 * * * -n -q /opt/app/x", "/opt/app/x", "`-q` of OpenBSD's"),
        ("*/5 * * * * @AppleNotOnBattery /opt/app/x", "/opt/app/x", "macOS"),
        ("0 2 * * * -x /opt/app/x", "-x /opt/app/x", ""),
        ("0 2 * * * ID=5 /opt/app/x", "ID=5 /opt/app/x", ""),
        (
            "0 4 * * * echo \"50 % done\" | mail ops",
            "echo \"50",
            "within a quoted text",
        ),
        (
            "PERSISTENT=yes\n0 2 * * * /opt/app/x",
            "/opt/app/x",
            "systemd-cron",
        ),
    ] {
        let (import, specs) = taken(user(&format!("{line}\n")));
        assert_eq!(shell(&specs[0].1), command, "{line}");
        assert!(told(&import).contains(text), "{line}: {}", told(&import));
        assert!(!specs[0].1.env.contains_key("PERSISTENT"));
    }
    let (_, specs) = taken(user("0 2 * * * -s /opt/app/x\n"));
    assert_eq!(specs[0].1.overlap, Overlap::Skip);
    for line in ["%daily * 2 /opt/app/x", "& 5 * * * * /opt/app/x", "!serial(true)"] {
        let import = imported(&[user(&format!("{line}\n"))]);
        assert!(
            told(&import).contains("a line of fcron"),
            "{line}: {}",
            told(&import)
        );
    }
}

#[test]
fn a_line_of_dcron_that_waits_for_another_follows_it() {
    let text = "@daily ID=first /opt/app/a\n@daily ID=second WAIT=first/2h /opt/app/b\n* 5 * * * WAIT=first /opt/app/c\n";
    let (import, specs) = taken(user(text));
    let by = |command: &str| &specs.iter().find(|(_, spec)| shell(spec) == command).unwrap().1;
    let first = &specs
        .iter()
        .find(|(_, spec)| shell(spec) == "/opt/app/a")
        .unwrap()
        .0;
    assert_eq!(&by("/opt/app/b").triggered_by, std::slice::from_ref(first));
    assert_eq!(by("/opt/app/c").schedule, ["* 5 * * *"]);
    assert!(
        told(&import).contains("`WAIT=first` of dcron"),
        "{}",
        told(&import)
    );
}

#[test]
fn random_values_of_cronie_are_chosen_by_the_jobs_name() {
    let (import, specs) = taken(user("0~59 4 * * * /a\n~ ~9 * * * /b\n0~30/5 2 * * * /c\n"));
    let mut schedules: Vec<&str> = specs.iter().map(|(_, spec)| spec.schedule[0].as_str()).collect();
    schedules.sort_unstable();
    assert_eq!(
        schedules,
        ["H(0-30)/5 2 * * *", "H(0-59) 4 * * *", "H(0-59) H(0-9) * * *"]
    );
    assert!(told(&import).contains("each time it starts") && !told(&import).contains("cron refuses"));
}

#[test]
fn an_anacrontab_is_read_as_one() {
    let text = "START_HOURS_RANGE=4-22\n1\t5\tcron.daily\trun-parts /etc/cron.daily\n7 70 cron.weekly run-parts /etc/cron.weekly\n\
        @monthly 15 cron.monthly run-parts /etc/cron.monthly\n3 0 cache /opt/app/cache\n";
    let (import, specs) = taken(file("/etc/anacrontab", text, Owner::User(None)));
    let made: Vec<(&str, &str, &str)> = (specs.iter())
        .map(|(name, spec)| (name.as_str(), spec.schedule[0].as_str(), shell(spec)))
        .collect();
    assert_eq!(
        made,
        [
            ("cache", "@every 72h", "/opt/app/cache"),
            ("cron.daily", "5 4 * * *", "run-parts /etc/cron.daily"),
            ("cron.monthly", "15 4 1 * *", "run-parts /etc/cron.monthly"),
            ("cron.weekly", "10 5 * * 7", "run-parts /etc/cron.weekly"),
        ]
    );
    assert!(
        specs.iter().all(|(_, spec)| spec.user.as_deref() == Some("root")),
        "{}",
        import.toml
    );
    assert!(import.toml.matches("latest").count() >= 4, "{}", import.toml);
    let wrong = imported(&[file(
        "/etc/anacrontab",
        "9999 5 x /opt/app/x\n1 5 y\n",
        Owner::User(None),
    )]);
    assert_eq!(wrong.files[0].invalid.len(), 2, "{}", told(&wrong));
}

#[test]
fn a_secret_of_the_file_is_for_the_commands_that_use_it() {
    let text = "PGPASSWORD=hunter2hunter2\n0 1 * * * psql -h db app\n0 2 * * * /opt/app/x\n0 3 * * * /opt/app/y \"$PGPASSWORD\"\n";
    let (import, specs) = taken(user(text));
    let with: Vec<bool> = specs.iter().map(|(_, spec)| !spec.secrets.is_empty()).collect();
    assert_eq!(with.iter().filter(|with| **with).count(), 2, "{}", import.toml);
    assert!(
        told(&import).contains("PGPASSWORD is for the jobs whose commands use it"),
        "{}",
        told(&import)
    );
    // None is known to use it: it may be any that does.
    let (_, specs) = taken(user(
        "DB_PASSWORD=hunter2hunter2\n0 1 * * * /opt/app/x\n0 2 * * * /opt/app/y\n",
    ));
    assert!(specs.iter().all(|(_, spec)| spec.secrets.len() == 1));
    let (import, _) = taken(user(
        "0 3 * * * curl -fsS 'https://example.org/hook?token=abc123'\n",
    ));
    assert!(
        told(&import).contains("holds what looks like a password"),
        "{}",
        told(&import)
    );
}
