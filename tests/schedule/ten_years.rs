//! Ten years of each imported schedule, held against programs that share nothing with ours: systemd itself for timers, croniter
//! for crontabs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use farmhand_core::due;
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::at;
use super::crontab::{imported, samples, specs};
use super::systemd::{instants, systemd};
use super::systemd_packages::timers;

const ZONES: [&str; 2] = ["UTC", "Europe/Berlin"];

/// The parts of ten years that are compared, by the wall clock: all of them, or, of what is due more than twice a day, the first
/// three days of each quarter.
fn parts(often: bool) -> Vec<(DateTime, DateTime)> {
    let start = date(2026, 1, 1).at(0, 0, 0, 0);
    if !often {
        return vec![(start, start + 10.years())];
    }
    let quarters = (0..40).map(|nth: i64| start + (3 * nth).months());
    quarters.map(|from| (from, from + 3.days())).collect()
}

fn instant(local: DateTime, zone: &TimeZone) -> Timestamp {
    local.to_zoned(zone.clone()).unwrap().timestamp()
}

/// More than twice a day.
fn is_often(mut instants: impl Iterator<Item = Timestamp>) -> bool {
    instants
        .nth(20)
        .is_some_and(|last| last < at("2026-01-11T00:00:00Z"))
}

/// Whether another instant has the same local time.
fn repeated(at: Timestamp, zone: &TimeZone) -> bool {
    zone.to_ambiguous_timestamp(zone.to_datetime(at)).is_ambiguous()
}

#[test]
fn timers_of_packages_are_due_for_ten_years_when_systemd_says() {
    let expressions: BTreeSet<String> = (timers().iter())
        .flat_map(|timer| timer.timer.text.lines())
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| key.trim() == "OnCalendar")
        .map(|(_, value)| value.trim().to_owned())
        .collect();
    assert!(expressions.len() >= 25, "{expressions:?}");
    let compared = compare(expressions.iter().map(String::as_str));
    assert!(compared > 150_000, "{compared}");
}

/// Weekdays with days of the month, and years one by one.
#[test]
fn pairs_of_days_and_single_years_are_due_for_ten_years_when_systemd_says() {
    let compared = compare([
        "Fri *-*-13",
        "Mon..Fri *-*-28..31 18:00",
        "Sat *-*-1,15 2:30",
        "Mon *-*~02",
        "Tue,Thu *-*~1..3 7:00,30",
        "Fri *-02,06-13 23:59:59",
        "Sun *-02-29",
        "Mon..Thu *-*-1..3 *:00",
        "Fri *-*-13 03:00 America/New_York",
        "2026,2028,2030..2031-*-1",
        "Wed 2027/3-06..08-1,2,3 12:00",
        "@1900000000",
    ]);
    assert!(compared > 4_000, "{compared}");
}

/// How many instants both have; a difference fails the test.
fn compare<'a>(expressions: impl IntoIterator<Item = &'a str>) -> usize {
    let (mut compared, mut wrong) = (0, Vec::new());
    for expression in expressions {
        for name in ZONES {
            let zone = TimeZone::get(name).unwrap();
            let often = is_often(instants(expression, name, at("2026-01-01T00:00:00Z")));
            for (from, to) in parts(often) {
                // Both begin strictly after what they are given.
                let before = instant(from, &zone) - 1.second();
                let to = instant(to, &zone);
                let mut ours: Vec<_> = instants(expression, name, before)
                    .take_while(|at| *at < to)
                    .collect();
                let asked = ours.len() + 100;
                let theirs = systemd(expression, name, &before.to_string(), asked);
                let mut theirs =
                    theirs.unwrap_or_else(|| panic!("systemd gives up on {expression} in {name}"));
                assert!(
                    theirs.len() < asked || theirs.last() >= Some(&to),
                    "{expression} in {name}: systemd has more"
                );
                // Of an hour that comes twice an interval has both, and systemd the first.
                for list in [&mut ours, &mut theirs] {
                    list.retain(|at| *at < to && !repeated(*at, &zone));
                }
                compared += theirs.len();
                if ours != theirs {
                    let at = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
                    wrong.push(format!(
                        "{expression} in {name}: {at:?}, {} and {}",
                        ours.len(),
                        theirs.len()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    compared
}

/// The Python of the environment that `./test` makes from `tests/schedule/requirements.txt`.
fn python() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let python = std::path::absolute(target.join("schedule-tools/bin/python")).unwrap();
    assert!(
        python.exists(),
        "{} is missing: `./test core` makes it, with python3 -m venv and pip from tests/schedule/requirements.txt; \
         read there why it could not",
        python.display()
    );
    let mut command = Command::new(python);
    command.arg("-B");
    command
}

/// The instants of each expression within the time after it, all by a wall clock.
fn croniter(asked: &[(&str, DateTime, DateTime)]) -> Vec<Vec<DateTime>> {
    let mut child = python()
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("schedule/instants.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let question = serde_json::to_vec(asked).unwrap();
    child.stdin.take().unwrap().write_all(&question).unwrap();
    let answer = child.wait_with_output().unwrap();
    assert!(answer.status.success(), "{answer:?}");
    serde_json::from_slice(&answer.stdout).unwrap()
}

#[test]
fn imported_crontabs_are_due_for_ten_years_when_croniter_says() {
    let mut schedules: BTreeMap<String, _> = BTreeMap::new();
    for (_, crontab) in samples() {
        let import = imported(&[crontab]);
        let specs = specs(&import);
        for line in import.jobs.iter().filter(|line| line.schedule != "@reboot") {
            let (_, spec) = specs.iter().find(|(name, _)| *name == line.name).unwrap();
            schedules.insert(line.schedule.clone(), spec.clone());
        }
    }
    assert!(schedules.len() >= 15, "{schedules:?}");
    let utc = TimeZone::UTC;
    let often = |spec| {
        let (schedule, policy) = due::compile("j", spec).unwrap();
        let next = |after: &Timestamp| due::next_run(&schedule, &policy, *after);
        is_often(std::iter::successors(next(&at("2026-01-01T00:00:00Z")), next))
    };
    let asked: Vec<(&str, DateTime, DateTime)> = (schedules.iter())
        .flat_map(|(expression, spec)| {
            let parts = parts(often(spec)).into_iter();
            parts.map(move |(from, to)| (expression.as_str(), from, to))
        })
        .collect();
    let answers = croniter(&asked);
    let mut compared = 0;
    for ((expression, from, to), theirs) in asked.iter().zip(answers) {
        for name in ZONES {
            let mut spec = schedules[*expression].clone();
            name.clone_into(&mut spec.timezone);
            let (schedule, policy) = due::compile("j", &spec).unwrap();
            let zone = TimeZone::get(name).unwrap();
            let to = instant(*to, &zone);
            let next = |after: &Timestamp| due::next_run(&schedule, &policy, *after);
            let ours: Vec<DateTime> =
                std::iter::successors(next(&(instant(*from, &zone) - 1.second())), next)
                    .take_while(|at| *at < to)
                    .map(|at| zone.to_datetime(at))
                    .collect();
            // A wall clock without a zone has no changes. What ours does on their days is tested elsewhere.
            let offset = |at: DateTime| instant(at, &zone).as_second() - instant(at, &utc).as_second();
            let changes = |at: &DateTime| {
                let day = at.date();
                offset(day.at(0, 0, 0, 0)) != offset(day.at(23, 59, 59, 0))
            };
            let same: BTreeSet<&DateTime> = ours.iter().filter(|at| !changes(at)).collect();
            let theirs: BTreeSet<&DateTime> = theirs.iter().filter(|at| !changes(at)).collect();
            compared += theirs.len();
            let differs: Vec<_> = same.symmetric_difference(&theirs).take(3).collect();
            assert!(differs.is_empty(), "{expression} in {name}: {differs:?}");
        }
    }
    assert!(compared > 100_000, "{compared}");
}
