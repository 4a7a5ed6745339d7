//! From timers to jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::document::{duration_text, parse_duration};
use farmhand_core::schedule::{ParseContext, Schedule};

use super::calendar::{Calendar, Years, on_calendar};
use super::file::{File, Timer, service_of};
use super::service::Body;
use super::span::span;
use super::unit::{Entry, Unit, left_out};
use crate::proposed::{Draft, Import, Imported, Machine, Names, Piece, Report, Store};

/// Keys of a timer that say nothing about when its job is due, or are read here.
const READ: &[&str] = &[
    "OnCalendar",
    "OnBootSec",
    "OnStartupSec",
    "OnActiveSec",
    "OnUnitActiveSec",
    "OnUnitInactiveSec",
    "Persistent",
    "RandomizedDelaySec",
    "RandomizedOffsetSec",
    "DeferReactivation",
    "FixedRandomDelay",
    "Unit",
    "AccuracySec",
    "RemainAfterElapse",
];

/// How the file begins: what systemd does and most jobs do not want.
const DEFAULTS: &[(Option<&str>, &str)] = &[
    (
        None,
        "# As systemd does it: a service that still runs is started again when it ends, what a timer without Persistent= missed is",
    ),
    (
        None,
        "# not made up for, a time that a change of the clock removes is left out, and what is told to end is killed",
    ),
    (None, "# after 90 seconds."),
    (Some("overlap"), "latest"),
    (Some("catch_up.runs"), "skip"),
    (Some("dst"), "skip"),
    (Some("grace"), "90s"),
];

/// Turns timers into one job file; `user` is whom their services run as where they do not say it.
pub fn import(timers: &[Timer], machine: &Machine<'_>, user: &str) -> Import {
    let mut names = Names::default();
    let (mut jobs, mut reports, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    let mut store = Store::default();
    for timer in timers {
        pieces.push(Piece::File(timer.timer.name.clone()));
        let mut report = report_of(&timer.timer);
        let mut of_service = timer.service.as_ref().map(report_of);
        let made = one(
            timer,
            machine,
            user,
            (&mut report, of_service.as_mut()),
            &mut store,
        );
        let (several, mut lock) = (made.len() > 1, None);
        for (mut imported, years, mut draft) in made {
            draft.name = names.unique(&draft.name);
            imported.name.clone_from(&draft.name);
            if let [_, _, ..] = years[..] {
                let name = format!("{}-years", draft.name);
                draft.texts("calendars", std::slice::from_ref(&name));
                let days = years
                    .iter()
                    .map(|(first, last)| format!("{first}-01-01..{last}-12-31"));
                pieces.push(Piece::Calendar(name, days.collect()));
            }
            if several {
                draft.texts("locks", &[lock.get_or_insert_with(|| draft.name.clone()).clone()]);
            }
            jobs.push(imported);
            report.jobs += 1;
            pieces.push(Piece::Job(Box::new(draft)));
        }
        for bad in &report.invalid {
            pieces.push(Piece::Comment(format!(
                "# NOT IMPORTED, line {}: {}; {}",
                bad.line, bad.problem, bad.fix
            )));
        }
        reports.push(report);
        reports.extend(of_service);
    }
    let mut defaults = vec![(Some("timezone"), machine.timezone)];
    defaults.extend(DEFAULTS);
    Import::new("systemd", &defaults, pieces, reports, jobs, store)
}

fn report_of(file: &File) -> Report {
    let mut report = Report::of(&file.name);
    for note in &file.notes {
        report.note(0, note);
    }
    report
}

fn one(
    timer: &Timer,
    machine: &Machine<'_>,
    user: &str,
    (report, of_service): (&mut Report, Option<&mut Report>),
    store: &mut Store,
) -> Vec<(Imported, Years, Draft)> {
    let File { unit: name, text, .. } = &timer.timer;
    if text.is_empty() {
        report.note(0, "it is masked (empty, or a link to /dev/null), so it is no job");
        return Vec::new();
    }
    let unit = Unit::parse(text);
    for (line, text) in &unit.odd {
        report.refuse(
            *line,
            text,
            "neither a section nor NAME=VALUE",
            "fix or remove the line",
        );
    }
    let stem = name.trim_end_matches(".timer");
    if stem.ends_with('@') {
        let fix = "import an instance of it: name the file NAME@INSTANCE.timer, or link it so";
        report.refuse(1, name, "a template has no instance to run", fix);
        return Vec::new();
    }
    left_out(&unit, "Timer", READ, report);
    let due = Due::read(&unit, report);
    let starts = service_of(&timer.timer);
    if !starts.ends_with(".service") {
        let line = unit.last("Timer", "Unit").map_or(1, |entry| entry.line);
        let problem = format!("it starts {starts}, which is no service");
        report.refuse(
            line,
            name,
            problem,
            "write a job for each service that this unit starts",
        );
        return Vec::new();
    }
    let (Some(service), Some(of_service)) = (&timer.service, of_service) else {
        let problem = format!("its service, {starts}, is not among these files");
        report.refuse(
            1,
            name,
            problem,
            "name the service's file too, or have it in the same directory",
        );
        return Vec::new();
    };
    if service.text.is_empty() {
        let text = "it is masked (empty, or a link to /dev/null): its timer starts nothing, so it is no job";
        of_service.note(0, text);
        return Vec::new();
    }
    let Some(body) = Body::read(service, user, machine, of_service) else {
        return Vec::new();
    };
    if due.is_empty() && report.invalid.is_empty() {
        report.refuse(1, name, "it names no time", "add OnCalendar= or OnUnitActiveSec=");
    }
    let several = due.len() > 1;
    if several {
        report.note(
            0,
            "it became several jobs, since a job has one time zone, one `start` and one `end`. They share a lock: where one of them still \
             runs, the other one waits",
        );
    }
    let made = due.into_iter().map(|group| {
        let mut draft = Draft::new(
            stem,
            &format!("{}, line {}: {}", timer.timer.name, group.line, group.written),
        );
        draft.texts("schedule", &group.expressions);
        if group.at_boot {
            draft.text("run_on", "each-node");
        }
        let zone = group.zone.as_deref().filter(|zone| *zone != machine.timezone);
        draft.maybe("timezone", zone);
        if let (Some((first, _)), Some((_, last))) = (group.years.first(), group.years.last()) {
            draft.text("start", &format!("{first}-01-01"));
            draft.text("end", &format!("{}-01-01", last + 1));
        }
        if group.persistent {
            draft.text("catch_up.runs", "latest");
        }
        draft.maybe("spread", group.spread.as_deref());
        draft.maybe(
            "overlap",
            unit.is_on("Timer", "DeferReactivation").then_some("skip"),
        );
        // By it `import verify` knows the unit's starts in a log.
        draft.texts("tags", std::slice::from_ref(&starts));
        body.write(&mut draft, store);
        let imported = Imported {
            file: timer.timer.name.clone(),
            line: group.line,
            schedule: group.written,
            timezone: group.zone.unwrap_or_else(|| machine.timezone.to_owned()),
            user: body.user.clone(),
            ..Imported::default()
        };
        (imported, group.years, draft)
    });
    made.collect()
}

/// What becomes one job.
#[derive(Default)]
struct Due {
    expressions: Vec<String>,
    at_boot: bool,
    zone: Option<String>,
    years: Years,
    persistent: bool,
    spread: Option<String>,
    /// As in the unit.
    written: String,
    line: usize,
}

impl Due {
    fn read(unit: &Unit, report: &mut Report) -> Vec<Self> {
        let persistent = unit.is_on("Timer", "Persistent");
        let spread = spread(unit, report);
        let mut groups: BTreeMap<(Option<String>, Years), Self> = BTreeMap::new();
        for entry in unit.times("OnCalendar") {
            let Calendar {
                expression,
                timezone,
                years,
            } = match on_calendar(&entry.value) {
                Ok(calendar) => calendar,
                Err(problem) => {
                    let fix = "write the `schedule` of the job by hand, see docs/reference/schedules.md";
                    let problem = format!("OnCalendar={}: {problem}", entry.value);
                    report.refuse(entry.line, &entry.value, problem, fix);
                    continue;
                }
            };
            if let Err(error) = Schedule::parse(&[&expression], &ParseContext::default()) {
                let problem = format!("OnCalendar={} would never fire: {error}", entry.value);
                report.refuse(entry.line, &entry.value, problem, "name a day that comes");
                continue;
            }
            let group = groups.entry((timezone.clone(), years.clone())).or_default();
            group.add(entry, expression);
            (group.zone, group.years) = (timezone, years);
            (group.persistent, group.spread) = (persistent, spread.clone());
        }
        let mut groups: Vec<Self> = groups.into_values().collect();
        for (key, what) in [
            ("OnUnitActiveSec", "the service's last start"),
            ("OnUnitInactiveSec", "its last end"),
        ] {
            for entry in unit.times(key) {
                let every = span(&entry.value).filter(|span| (1..=366 * 86_400).contains(&span.as_secs()));
                let Some(every) = every else {
                    report.refuse(
                        entry.line,
                        &entry.value,
                        format!("{key}={} is not a duration from 1s to 366d", entry.value),
                        "write one",
                    );
                    continue;
                };
                let whole = match every.subsec_nanos() {
                    0 => String::new(),
                    _ => format!(", in whole seconds, so every {}s", every.as_secs()),
                };
                report.note(
                    entry.line,
                    format!(
                        "{key}={} counts from {what}; here the job is due at fixed instants so far apart{whole}",
                        entry.value
                    ),
                );
                let mut group = Self {
                    spread: spread.clone(),
                    ..Self::default()
                };
                group.add(entry, format!("@every {}s", every.as_secs()));
                match groups
                    .last_mut()
                    .filter(|last| last.years.is_empty() && last.zone.is_none())
                {
                    Some(last) => last.add(entry, group.expressions.remove(0)),
                    None => groups.push(group),
                }
            }
        }
        Self::at_boot(unit, &mut groups, report);
        groups
    }

    /// Once per boot of each node, if nothing else makes the job due.
    fn at_boot(unit: &Unit, groups: &mut Vec<Self>, report: &mut Report) {
        for key in ["OnBootSec", "OnStartupSec", "OnActiveSec"] {
            for entry in unit.times(key) {
                if !groups.is_empty() {
                    report.note(
                        entry.line,
                        format!("{key}={} is left out: the job's other times stand alone. `@reboot` in a job of its own does it", entry.value),
                    );
                    continue;
                }
                report.note(
                    entry.line,
                    format!(
                        "{key}={}: the job runs once per boot of each node, at once and not so much later",
                        entry.value
                    ),
                );
                let mut group = Self {
                    at_boot: true,
                    ..Self::default()
                };
                group.add(entry, "@reboot".to_owned());
                groups.push(group);
            }
        }
    }

    fn add(&mut self, entry: &Entry, expression: String) {
        if self.line == 0 {
            self.line = entry.line;
        } else {
            self.written.push_str("; ");
        }
        self.written.push_str(&format!("{}={}", entry.key, entry.value));
        if !self.expressions.contains(&expression) {
            self.expressions.push(expression);
        }
    }
}

fn spread(unit: &Unit, report: &mut Report) -> Option<String> {
    let of = |key| unit.last("Timer", key);
    let entry = of("RandomizedDelaySec").or(of("RandomizedOffsetSec"))?;
    let good = |delay: &Duration| parse_duration(&duration_text(*delay)).is_ok();
    let Some(delay) = span(&entry.value).filter(good) else {
        report.note(
            entry.line,
            format!(
                "{}={} is not a duration of at most a hundred years and is left out",
                entry.key, entry.value
            ),
        );
        return None;
    };
    if !delay.is_zero() && entry.key == "RandomizedDelaySec" && !unit.is_on("Timer", "FixedRandomDelay") {
        report.note(
            entry.line,
            format!("RandomizedDelaySec={} became `spread`: the job is moved by the same time each time, not by another one", entry.value),
        );
    }
    (delay.as_secs() > 0).then(|| duration_text(Duration::from_secs(delay.as_secs())))
}
