//! Rules of systemd's units that real ones showed to matter.

use farmhand_core::definition::JobDefinition;
use farmhand_import::systemd::{File, Timer, import};
use farmhand_import::{Import, Machine};

use super::systemd::jobs;

fn imported(dir: &str, unit: &str, timer: &str, service: &str) -> Import {
    let file = |end: &str, text: &str| File {
        name: format!("{dir}{unit}.{end}"),
        unit: format!("{unit}.{end}"),
        text: text.to_owned(),
        notes: Vec::new(),
    };
    let machine = Machine {
        timezone: "UTC",
        home: &|user| (user == "ann").then(|| "/home/ann".to_owned()),
    };
    let timers = [Timer {
        timer: file("timer", timer),
        service: Some(file("service", service)),
    }];
    import(&timers, &machine, "ann")
}

fn job(import: &Import) -> JobDefinition {
    jobs(import).remove(0)
}

fn said(import: &Import, part: &str) -> bool {
    let mut notes = import.files.iter().flat_map(|report| &report.notes);
    notes.any(|note| note.text.contains(part))
}

const DAILY: &str = "[Timer]\nOnCalendar=daily\n";

#[test]
fn specifiers_of_an_escaped_instance_are_unescaped_also_in_the_description() {
    let service = "[Unit]\nDescription=Back up %f of %i\n[Service]\nEnvironment=TO=%i\nExecStart=/bin/backup %I %f %j %P %i\n";
    let import = imported("", r"to-tape@srv-my\x2ddata", DAILY, service);
    let value = serde_json::to_value(&job(&import).spec).unwrap();
    let argv = [
        "/bin/backup",
        "srv/my-data",
        "/srv/my-data",
        "tape",
        "to/tape",
        r"srv-my\x2ddata",
    ];
    assert_eq!(value["command"], serde_json::json!(argv));
    assert_eq!(value["env"]["TO"], r"srv-my\x2ddata");
    assert_eq!(value["description"], r"Back up /srv/my-data of srv-my\x2ddata");
}

#[test]
fn a_timer_starts_a_service_again_that_still_ran_unless_it_is_deferred() {
    for (more, overlap) in [("", "latest"), ("DeferReactivation=yes\n", "skip")] {
        let timer = format!("{DAILY}RandomizedOffsetSec=2min\n{more}");
        let import = imported("", "long", &timer, "[Service]\nExecStart=|sleep 400 | cat\n");
        let value = serde_json::to_value(&job(&import).spec).unwrap();
        assert_eq!(
            (&value["overlap"], &value["spread"]),
            (&overlap.into(), &120_000.into())
        );
        assert_eq!(value["command"], "sleep 400 | cat");
        assert!(!said(&import, "not carried over"), "{:?}", import.files);
    }
}

#[test]
fn what_a_specifier_stands_for_stays_one_word() {
    let import = imported("", r"say@a b", DAILY, "[Service]\nExecStart=/bin/echo %i\n");
    let value = serde_json::to_value(&job(&import).spec).unwrap();
    assert_eq!(value["command"], serde_json::json!(["/bin/echo", "a b"]));
}

#[test]
fn a_user_that_can_be_none_refuses_the_service() {
    let import = imported("", "x", DAILY, "[Service]\nUser=back up\nExecStart=/bin/true\n");
    let invalid = import.files.iter().flat_map(|report| &report.invalid);
    let problems: Vec<&str> = invalid.map(|invalid| &*invalid.problem).collect();
    assert_eq!(problems, ["User=back up: it is not a valid user name"]);
}

#[test]
fn a_job_that_is_told_to_end_has_as_long_as_systemd_gives_it() {
    let grace = |keys: &str| {
        let import = imported("", "x", DAILY, &format!("[Service]\nExecStart=/bin/true\n{keys}"));
        job(&import).spec.grace.as_secs()
    };
    assert_eq!(grace(""), 90);
    assert_eq!(grace("TimeoutSec=5min\n"), 300);
    assert_eq!(grace("TimeoutStopSec=1\nTimeoutSec=5min\n"), 300);
    assert_eq!(grace("TimeoutSec=5min\nTimeoutStopSec=1\n"), 1);
}

#[test]
fn commands_that_systemd_runs_beside_the_main_one_are_told() {
    let service = "[Service]\nExecStart=/bin/a\nExecStartPost=/bin/b\n";
    let text = "it runs after the command has ended";
    assert!(said(&imported("", "x", DAILY, service), text));
    assert!(!said(
        &imported("", "x", DAILY, &format!("{service}Type=oneshot\n")),
        text
    ));
}

#[test]
fn a_variable_that_a_shell_would_split_otherwise_is_told() {
    let service =
        |value: &str| format!("[Service]\nEnvironment='OPTIONS={value}'\nExecStart=/bin/a $OPTIONS\n");
    assert!(said(
        &imported("", "x", DAILY, &service("--skip *.tmp")),
        "looks for files"
    ));
    assert!(!said(
        &imported("", "x", DAILY, &service("-a -b")),
        "looks for files"
    ));
}

#[test]
fn a_unit_of_a_user_is_told_and_has_the_users_directories() {
    let service = "[Service]\nExecStart=/bin/a %C/x\n";
    for (dir, of_user) in [
        ("/usr/lib/systemd/user/", true),
        ("/home/ann/.config/systemd/user/", true),
        ("/usr/lib/systemd/system/", false),
    ] {
        let import = imported(dir, "x", DAILY, service);
        assert_eq!(said(&import, "it is a unit of a user"), of_user);
        assert_eq!(said(&import, "%C is known only to systemd"), of_user);
        let cwd = if of_user { "/home/ann" } else { "/" };
        assert_eq!(job(&import).spec.cwd.as_deref(), Some(cwd));
    }
}

#[test]
fn a_timer_that_starts_no_service_is_refused_with_its_line() {
    let timer = "[Timer]\nOnCalendar=daily\nUnit=nightly.target\n";
    let import = imported("", "x", timer, "[Unit]\nRequires=a.service\n");
    let bad = &import.files[0].invalid[0];
    assert_eq!(bad.line, 3);
    assert!(
        bad.problem
            .contains("it starts nightly.target, which is no service"),
        "{bad:?}"
    );
}

#[test]
fn a_masked_unit_is_no_job_and_that_is_told() {
    let service = "[Service]\nExecStart=/bin/a\n";
    for (timer, service) in [("", service), (DAILY, "")] {
        let import = imported("", "x", timer, service);
        assert!(
            jobs(&import).is_empty() && said(&import, "it is masked"),
            "{}",
            import.toml
        );
        assert!(import.toml.contains("#   it is masked"), "{}", import.toml);
    }
}

#[test]
fn jobs_of_one_timer_do_not_run_at_once() {
    let timer = "[Timer]\nOnCalendar=daily UTC\nOnCalendar=daily Asia/Tokyo\n";
    let import = imported("", "back@up", timer, "[Service]\nUser=alice\nExecStart=/bin/a\n");
    let jobs = jobs(&import);
    assert_eq!(jobs.len(), 2);
    assert!(
        jobs.iter().all(|job| job.spec.locks == ["back-up"]),
        "{}",
        import.toml
    );
    assert!(said(&import, "They share a lock"));
    // Whom the service names, not whom --user says.
    assert!(import.jobs.iter().all(|job| job.user.as_deref() == Some("alice")));
    let one = imported("", "x", DAILY, "[Service]\nExecStart=/bin/a\n");
    assert!(job(&one).spec.locks.is_empty());
    assert_eq!(one.jobs[0].user.as_deref(), Some("ann"));
}

#[test]
fn numbers_out_of_range_leave_a_file_that_is_valid() {
    let service =
        "[Service]\nExecStart=/bin/a\nMemoryMax=500K\nTasksMax=0\nNice=40\nTimeoutStopSec=infinity\n";
    let timer = "[Timer]\nOnCalendar=daily\nRandomizedDelaySec=0\n";
    let import = imported("", "x", timer, service);
    assert!(said(&import, "Nice=40: it is not carried over"));
    let spec = job(&import).spec;
    assert_eq!((spec.limits.memory, spec.limits.processes), (None, None));
    for (keys, timeout, grace, told) in [
        (
            "TimeoutStopSec=infinity",
            None,
            365 * 86_400,
            "TimeoutStopSec=infinity: ",
        ),
        ("TimeoutStopSec=0", None, 365 * 86_400, "TimeoutStopSec=0: "),
        (
            "TimeoutStopSec=200years",
            None,
            365 * 86_400,
            "TimeoutStopSec=200years: ",
        ),
        (
            "TimeoutStopSec=soon",
            None,
            90,
            "TimeoutStopSec=soon: it is not a duration",
        ),
        ("RuntimeMaxSec=200years", None, 90, "RuntimeMaxSec=200years: "),
        (
            "RuntimeMaxSec=1x",
            None,
            90,
            "RuntimeMaxSec=1x: it is not a duration",
        ),
        ("RuntimeMaxSec=infinity", None, 90, ""),
        ("RuntimeMaxSec=2h", Some(7_200), 90, ""),
    ] {
        let import = imported("", "x", timer, &format!("[Service]\nExecStart=/bin/a\n{keys}\n"));
        let spec = job(&import).spec;
        assert_eq!(
            (spec.timeout.map(|time| time.as_secs()), spec.grace.as_secs()),
            (timeout, grace),
            "{keys}"
        );
        let name = keys.split('=').next().unwrap();
        assert!(
            said(&import, if told.is_empty() { name } else { told }) != told.is_empty(),
            "{keys}"
        );
    }
    let timer = "[Timer]\nOnCalendar=daily\nRandomizedDelaySec=200years\n";
    let import = imported("", "x", timer, service);
    assert!(
        said(&import, "RandomizedDelaySec=200years is "),
        "{}",
        import.toml
    );
    assert_eq!(job(&import).spec.spread.as_secs(), 0);
}

#[test]
fn what_a_command_is_told_as_its_name_is_told() {
    for (start, wanted, told) in [
        (
            "@/bin/busybox tar cf x",
            ["/bin/busybox", "cf", "x"].as_slice(),
            true,
        ),
        ("@/bin/tar tar cf x", &["/bin/tar", "cf", "x"], false),
        ("-@/bin/tar /bin/tar cf x", &[], false),
    ] {
        let import = imported("", "x", DAILY, &format!("[Service]\nExecStart={start}\n"));
        assert_eq!(
            said(&import, "is what systemd tells the program as its name"),
            told,
            "{start}"
        );
        if !wanted.is_empty() {
            let value = serde_json::to_value(&job(&import).spec).unwrap();
            assert_eq!(value["command"], serde_json::json!(wanted));
        }
    }
}

#[test]
fn what_a_line_of_a_unit_loses_is_told_of_that_line() {
    let service = "[Service]\nExecStart=+/bin/a\nExecStartPost=/bin/b\nWorkingDirectory=-/srv\n";
    let timer = "[Timer]\nOnUnitActiveSec=1500ms\n";
    let import = imported("", "x", timer, service);
    let lines = |part: &str| -> Vec<usize> {
        let notes = import.files.iter().flat_map(|report| &report.notes);
        notes
            .filter(|note| note.text.contains(part))
            .map(|note| note.line)
            .collect()
    };
    assert_eq!(lines("all of a job runs as one user"), [2]);
    assert_eq!(lines("WorkingDirectory=-/srv: "), [4]);
    assert_eq!(lines("whole seconds, so every 1s"), [2]);
    assert_eq!(job(&import).spec.cwd.as_deref(), Some("/srv"));
}

#[test]
fn years_that_do_not_follow_each_other_become_a_calendar() {
    let timer = "[Timer]\nOnCalendar=2026,2028..2029-*-1 4:00\nOnCalendar=2030-*-1\n";
    let import = imported("", "x", timer, "[Service]\nExecStart=/bin/true\n");
    let jobs = jobs(&import);
    let spec = &jobs[0].spec;
    assert_eq!(
        (spec.start.as_deref(), spec.end.as_deref(), &spec.calendars[..]),
        (
            Some("2026-01-01T00:00:00Z"),
            Some("2030-01-01T00:00:00Z"),
            &["x-years".to_owned()][..]
        )
    );
    assert_eq!(
        spec.exclude,
        [
            "0001-01-01..2025-12-31",
            "2027-01-01..2027-12-31",
            "2030-01-01..9999-12-31"
        ]
    );
    assert!(jobs[1].spec.calendars.is_empty() && jobs[1].spec.exclude.is_empty());
}
