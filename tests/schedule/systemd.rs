//! systemd's timers become jobs that are due when the timers were.

use std::process::Command;

use farmhand_core::definition::{JobDefinition, load};
use farmhand_core::document::Source;
use farmhand_core::due;
use farmhand_import::systemd::{File, Timer, import};
use farmhand_import::{Import, Machine};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::at;

pub(super) fn file(name: &str, text: &str) -> File {
    File {
        name: name.to_owned(),
        unit: name.to_owned(),
        text: text.to_owned(),
        notes: Vec::new(),
    }
}

fn imported(timer: &str, service: &str, zone: &str) -> Import {
    let timers = [Timer {
        timer: file("x.timer", timer),
        service: Some(file("x.service", service)),
    }];
    let machine = Machine {
        timezone: zone,
        home: &|_| None,
    };
    import(&timers, &machine, "root")
}

pub(super) fn jobs(import: &Import) -> Vec<JobDefinition> {
    let source = Source {
        name: "imported.toml".to_owned(),
        text: import.toml.clone(),
    };
    load(&[source]).unwrap_or_else(|mistakes| panic!("{mistakes}\n{}", import.toml))
}

const SERVICE: &str = "[Service]\nExecStart=/bin/true\n";

/// The next instants that systemd itself computes. None where it gives up, as systemd 252 does on some that it accepts.
pub(super) fn systemd(expression: &str, zone: &str, from: &str, count: usize) -> Option<Vec<Timestamp>> {
    let from = from.replace('T', " ").replace('Z', " UTC");
    // The zone of the process, since one in the expression costs a process for each instant.
    let out = Command::new("systemd-analyze")
        .args([
            "calendar",
            "--base-time",
            &from,
            &format!("--iterations={count}"),
            expression,
        ])
        .env("TZ", zone)
        .env("SYSTEMD_COLORS", "0")
        .env("LC_ALL", "C")
        .output()
        .expect("systemd-analyze runs");
    let said = String::from_utf8_lossy(&out.stderr);
    if said.contains("Resource deadlock avoided") {
        return None;
    }
    assert!(out.status.success(), "{expression}: {}", said);
    let text = String::from_utf8(out.stdout).unwrap();
    // Beside what is not in UTC stands what it is there.
    let instants = (text.lines())
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(what, _)| {
            what.starts_with("Next elapse") || what.starts_with("Iter. #") || *what == "(in UTC)"
        })
        .filter_map(|(_, at)| at.split_once(' ')?.1.strip_suffix(" UTC"))
        .map(|at| {
            let at: DateTime = at.replace(' ', "T").parse().unwrap();
            at.to_zoned(TimeZone::UTC).unwrap().timestamp()
        })
        .collect();
    Some(instants)
}

/// The next instants of the job that is made of it.
pub(super) fn farmhand(expression: &str, zone: &str, from: &str, count: usize) -> Vec<Timestamp> {
    instants(expression, zone, at(from)).take(count).collect()
}

/// All of them.
pub(super) fn instants(expression: &str, zone: &str, from: Timestamp) -> impl Iterator<Item = Timestamp> {
    let import = imported(&format!("[Timer]\nOnCalendar={expression}\n"), SERVICE, zone);
    let jobs = jobs(&import);
    assert_eq!(jobs.len(), 1, "{expression}: {:?}", import.files[0]);
    let (schedule, policy) = due::compile(&jobs[0].name, &jobs[0].spec).unwrap();
    let calendar = policy.calendar.clone();
    let next = move |after: &Timestamp| due::next_run(&schedule, &policy, *after);
    std::iter::successors(next(&from), next).filter(move |at| calendar.excluded_until(*at).is_none())
}

#[test]
fn a_calendar_expression_is_due_when_systemd_says() {
    let expressions = [
        "minutely",
        "hourly",
        "daily",
        "monthly",
        "weekly",
        "yearly",
        "quarterly",
        "semiannually",
        "annually",
        "Mon..Fri",
        "Sat,Sun 10:00",
        "Mon-Fri 08:30",
        "Mon,Wed,Fri *-*-* 23:59:59",
        "Sunday 3:05",
        "*-*-1/7",
        "*-*~01",
        "*-*~03",
        "*-02~03",
        "*-*~1..5 06:00",
        "*-*~07/2",
        "Mon *-*~07/1",
        "Sun,Tue *-*~1..7 4:00",
        "Mon *-*-1..7",
        "Thu *-*-22..28 2:15",
        "Tue *-*-1/2",
        "10:00..12:30",
        "*:0/15",
        "*:5/20",
        "8..18/2:00",
        "0..5/2:00",
        "12,14,13,12:20,10,30",
        "*-*-31 00:00:10/15",
        "*:*:*",
        "Sun *-05..10-* 11:13",
        "*-1/3-1",
        "*-1/5-15 7:00",
        "1-1",
        "02-29 12:00",
        "*-*-29..31 1:00",
        "00/6:30",
        "*-*-* 00/3:17:05",
        "6:00:00",
        "*-*-1,15 *:00",
        "2026..2027-*-1",
        "2028-02-29 03:04:05",
        "26-12-24 18:00",
        "08:00,30",
        "daily UTC",
        "*-*-* 02:30",
        "*-*-* 02:00",
        "*-*-* 03:00",
        "Mon *-*-* 04:00:00 Europe/Berlin",
        "*-*-* 23,0..3:45",
        "Fri *-*-13",
        "Mon,Fri *-*~1..3 6:30",
        "Sat *-*-1/5",
        "2026/2-*-1",
        "2027,2030,2026-1,7-1 4:00",
        "bi-annually",
        "*:*:10.0/20.00",
        "@1900000000",
    ];
    let bases = [
        "2026-01-01T00:00:00Z",
        "2026-02-27T11:59:30Z",
        "2026-03-28T20:00:00Z",
        "2026-10-24T20:00:00Z",
    ];
    // systemd leaves out what an interval has in an hour that comes twice; here it fires in both.
    let twice = at("2026-10-25T00:00:00Z")..at("2026-10-25T02:00:00Z");
    let (mut compared, mut wrong) = (0, Vec::new());
    for expression in expressions {
        // systemd 252 leaves out the first instant of a year where days have a step, and of an hour where seconds have one.
        let dates = expression
            .split(' ')
            .filter(|part| part.contains(['-', '~']) && !part.contains(':'));
        let one_year = dates
            .into_iter()
            .any(|date| date.rsplit(['-', '~']).next().unwrap().contains('/'));
        for zone in ["UTC", "Europe/Berlin"] {
            for base in bases {
                let comparable = |list: Vec<Timestamp>| -> Vec<Timestamp> {
                    list.into_iter()
                        .filter(|instant| zone == "UTC" || !twice.contains(instant))
                        .take_while(|instant| !one_year || *instant < at("2026-12-31T00:00:00Z"))
                        .collect()
                };
                let Some(theirs) = systemd(expression, zone, base, 40) else {
                    continue;
                };
                let theirs = comparable(theirs);
                let ours = comparable(farmhand(expression, zone, base, 45));
                let common = theirs.len().min(ours.len());
                let enough = common >= theirs.len().min(30) && common > 0;
                if ours[..common] != theirs[..common] || !enough {
                    wrong.push(format!(
                        "{expression} in {zone} from {base}\n ours {ours:?}\n theirs {theirs:?}"
                    ));
                }
                compared += common;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 10_000, "{compared}");
}

#[test]
fn a_timer_says_how_its_job_is_run_and_what_is_left_out() {
    let timer = "[Unit]\nAfter=network.target\n[Timer]\nOnCalendar=daily\nOnCalendar=Mon 12:00\nPersistent=true\n\
                 RandomizedDelaySec=1h\nAccuracySec=1min\nWakeSystem=yes\n[Install]\nWantedBy=timers.target\n";
    let service = "[Unit]\nDescription=Make a report\nConditionACPower=true\n[Service]\nType=oneshot\nUser=reporter\n\
                   WorkingDirectory=/srv\nEnvironment=\"LANG=C\" \"TITLE=two words\"\nEnvironmentFile=-/etc/default/report\n\
                   ExecStart=/usr/bin/report --title ${TITLE}\nNice=5\nTimeoutStartSec=10min\nMemoryMax=512M\nTasksMax=20\n\
                   UMask=0027\nTimeoutStopSec=20\nProtectSystem=full\n";
    let import = imported(timer, service, "Europe/Berlin");
    let jobs = jobs(&import);
    let spec = &jobs[0].spec;
    assert_eq!(spec.schedule, ["0 0 * * *", "0 12 * * MON"]);
    assert_eq!(
        (spec.timezone.as_str(), spec.spread.as_secs()),
        ("Europe/Berlin", 3600)
    );
    assert_eq!(
        (spec.user.as_deref(), spec.cwd.as_deref()),
        (Some("reporter"), Some("/srv"))
    );
    assert_eq!(spec.env["TITLE"], "two words");
    assert_eq!((spec.timeout.unwrap().as_secs(), spec.grace.as_secs()), (600, 20));
    let value = serde_json::to_value(spec).unwrap();
    assert_eq!(value["command"], "/usr/bin/report --title \"${TITLE}\"");
    assert_eq!(
        (&value["catch_up"]["runs"], &value["overlap"]),
        (&"latest".into(), &"latest".into())
    );
    assert_eq!(
        (&value["nice"], &value["description"]),
        (&5.into(), &"Make a report".into())
    );
    assert_eq!(
        value["limits"],
        serde_json::json!({"memory": 536_870_912_u64, "processes": 20})
    );
    let told = |file: usize, line: usize, part: &str| {
        let notes = &import.files[file].notes;
        assert!(
            notes
                .iter()
                .any(|note| note.line == line && note.text.contains(part)),
            "{part}: {notes:#?}"
        );
    };
    told(0, 2, "After=network.target is not carried over");
    told(0, 7, "became `spread`");
    told(0, 9, "WakeSystem=yes is not carried over");
    told(1, 3, "ConditionACPower=true is not carried over");
    told(
        1,
        9,
        "EnvironmentFile=-/etc/default/report: a job reads no such file",
    );
    told(1, 17, "ProtectSystem=full is not carried over");
    assert_eq!((import.files[0].notes.len(), import.files[1].notes.len()), (3, 3));
}

#[test]
fn timers_without_a_calendar_repeat_or_run_at_boot() {
    let every = imported("[Timer]\nOnBootSec=15min\nOnUnitActiveSec=1d\n", SERVICE, "UTC");
    assert_eq!(jobs(&every)[0].spec.schedule, ["@every 86400s"]);
    assert_eq!(every.files[0].notes.len(), 2, "{:?}", every.files[0]);
    let boot = imported("[Timer]\nOnBootSec=5min\n", SERVICE, "UTC");
    let boot = &jobs(&boot)[0].spec;
    assert_eq!(boot.schedule, ["@reboot"]);
    assert_eq!(serde_json::to_value(boot.run_on).unwrap(), "each-node");
}

#[test]
fn what_cannot_be_a_job_is_told_with_its_line_and_the_rest_is_imported() {
    for (timer, service, line, said) in [
        ("[Timer]\n", SERVICE, 1, "names no time"),
        (
            "[Timer]\nOnCalendar=*:*:0/0.5\n",
            SERVICE,
            2,
            "fractions of a second",
        ),
        ("[Timer]\nOnCalendar=*-02-30\n", SERVICE, 2, "would never fire"),
        (
            "[Timer]\nOnUnitActiveSec=soon\n",
            SERVICE,
            2,
            "not a duration from",
        ),
        (
            "[Timer]\nOnCalendar=daily\nwhat\n",
            SERVICE,
            3,
            "neither a section nor",
        ),
    ] {
        let import = imported(timer, service, "UTC");
        let invalid = &import.files[0].invalid;
        assert!(
            invalid
                .iter()
                .any(|bad| bad.line == line && bad.problem.contains(said)),
            "{said}: {invalid:?}"
        );
        jobs(&import);
    }
    for (service, said) in [
        ("[Service]\n", "no ExecStart"),
        ("[Service]\nExecStart=/bin/a 'b\n", "does not end"),
    ] {
        let import = imported("[Timer]\nOnCalendar=daily\n", service, "UTC");
        assert!(
            import.files[1].invalid[0].problem.contains(said),
            "{:?}",
            import.files[1]
        );
        assert!(jobs(&import).is_empty());
    }
    let mixed = imported(
        "[Timer]\nOnCalendar=daily\nOnCalendar=*:*:0/0.5\n",
        SERVICE,
        "UTC",
    );
    assert_eq!((jobs(&mixed).len(), mixed.files[0].invalid.len()), (1, 1));
    let zones = imported(
        "[Timer]\nOnCalendar=daily UTC\nOnCalendar=daily Asia/Tokyo\n",
        SERVICE,
        "UTC",
    );
    assert_eq!(jobs(&zones).len(), 2);
}
