//! The timers of Debian's packages, each with its service: `data/timers`, with sources and licences in its SOURCES.tsv.

use std::collections::BTreeSet;
use std::path::Path;

use farmhand_import::systemd::{File, Timer, import, service_of};
use farmhand_import::{Import, Machine};

use super::systemd::jobs;

/// They start a target, a group of services: no single job does that.
const NOT_IMPORTED: [&str; 5] = [
    "cron-daily.timer",
    "cron-hourly.timer",
    "cron-monthly.timer",
    "cron-weekly.timer",
    "cron-yearly.timer",
];

/// A template is run as an instance of it.
pub(super) fn timers() -> Vec<Timer> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/timers");
    let mut names: Vec<String> = (dir.read_dir().unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".timer"))
        .collect();
    names.sort();
    let read = |name: &str| std::fs::read_to_string(dir.join(name));
    let timer = |name: String| {
        let timer = File {
            unit: name.replace('@', "@main-disk"),
            text: read(&name).unwrap(),
            name,
            notes: Vec::new(),
        };
        let unit = service_of(&timer);
        let name = unit.replace("@main-disk", "@");
        let service = read(&name).ok().map(|text| File {
            name,
            unit,
            text,
            notes: Vec::new(),
        });
        Timer { timer, service }
    };
    names.into_iter().map(timer).collect()
}

fn imported(timer: &Timer) -> Import {
    let machine = Machine {
        timezone: "UTC",
        home: &|_| None,
    };
    import(std::slice::from_ref(timer), &machine, "root")
}

#[test]
fn of_the_timers_of_packages_95_in_100_import_without_an_edit() {
    let timers = timers();
    assert!(timers.len() >= 100, "{} timers", timers.len());
    let mut refused = BTreeSet::new();
    for timer in &timers {
        let (name, import) = (&timer.timer.name, imported(timer));
        let jobs = jobs(&import);
        let invalid: Vec<_> = import.files.iter().flat_map(|report| &report.invalid).collect();
        assert_eq!(jobs.is_empty(), !invalid.is_empty(), "{name}: {invalid:#?}");
        if let [bad] = invalid[..] {
            assert!(bad.problem.contains("which is no service"), "{name}: {bad:?}");
            refused.insert(name.as_str());
        }
        for job in &jobs {
            assert!(
                !job.spec.schedule.is_empty() && job.spec.command.is_some(),
                "{name}: {job:?}"
            );
        }
    }
    assert_eq!(refused, BTreeSet::from(NOT_IMPORTED));
    let without_an_edit = timers.len() - refused.len();
    assert!(
        without_an_edit * 100 >= timers.len() * 95,
        "{without_an_edit} of {}",
        timers.len()
    );
}

/// Each key of the files is in the job, says nothing about it, or is told.
#[test]
fn what_a_timer_of_a_package_loses_is_told() {
    let told = |key: &str, import: &Import| {
        let notes = import.files.iter().flat_map(|report| &report.notes);
        notes
            .into_iter()
            .any(|note| note.text.starts_with(&format!("{key}=")))
    };
    let loses = [
        "After",
        "AmbientCapabilities",
        "CapabilityBoundingSet",
        "ConditionACPower",
        "ConditionPathExists",
        "EnvironmentFile",
        "Group",
        "IOSchedulingClass",
        "KillMode",
        "OnFailure",
        "PrivateTmp",
        "ProtectSystem",
        "Restart",
        "StateDirectory",
        "SuccessExitStatus",
    ];
    let mut found = BTreeSet::new();
    for timer in timers() {
        let import = imported(&timer);
        let Some(service) = &timer.service else { continue };
        for line in service.text.lines().filter(|line| !line.starts_with(['#', ';'])) {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            if let Some(key) = loses
                .iter()
                .find(|lost| **lost == key.trim() && !value.trim().is_empty())
            {
                assert!(
                    told(key, &import),
                    "{}: {line}: {:#?}",
                    timer.timer.name,
                    import.files
                );
                found.insert(*key);
            }
        }
    }
    assert_eq!(found.len(), loses.len(), "{found:?}");
}
