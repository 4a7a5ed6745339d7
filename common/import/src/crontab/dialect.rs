//! What other crons have in their crontabs: OpenBSD's, FreeBSD's, macOS's, dcron, fcron, systemd-cron, supercronic, Quartz, anacron.

use std::collections::BTreeMap;

use super::line::{Line, Task, next_word};

/// The first year and the last.
pub(super) type Years = (u16, u16);

/// What a line says in another cron's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    pub(super) notes: Vec<String>,
    pub(super) overlap: Option<&'static str>,
    /// Anacron's name of the job.
    pub(super) name: Option<String>,
    /// Anacron makes up for a machine that was off.
    pub(super) makes_up: bool,
    pub(super) years: Option<Years>,
    /// dcron's name of the job, and those whose end it waits for.
    pub(super) id: Option<String>,
    pub(super) waits: Vec<String>,
}

/// What a line begins with that no cron but this one reads.
const LINES: &[(&str, &str)] = &[("%", "fcron"), ("!", "fcron"), ("&", "fcron")];

/// The cron whose line this is, of those that nothing here can read.
pub(super) fn foreign(body: &str) -> Option<&'static str> {
    (LINES.iter()).find_map(|(begin, whose)| body.starts_with(begin).then_some(*whose))
}

/// Variables that a cron reads and gives to no command: the name, the cron, and what takes its place here.
const VARIABLES: &[(&str, &str, &str)] = &[
    (
        "PERSISTENT",
        "systemd-cron",
        "`catch_up.runs = \"latest\"` makes up for a farm that was off",
    ),
    ("DELAY", "systemd-cron", "nothing here waits so long after a boot"),
    (
        "START_HOURS_RANGE",
        "anacron",
        "jobs are due from its first hour on",
    ),
];

/// What to say of such a variable.
pub(super) fn variable(name: &str) -> Option<String> {
    let (_, whose, instead) = VARIABLES.iter().find(|(known, ..)| *known == name)?;
    Some(format!(
        "{name} is for {whose} and is not given to the commands: {instead}"
    ))
}

/// Flags before the command, letters behind a `-`: OpenBSD's and FreeBSD's crons take them off it.
const FLAGS: &[(char, &str)] = &[
    (
        'n',
        "no mail of a run that succeeds; `notify` tells of none, either",
    ),
    ('q', "no line in cron's log; runs are recorded here"),
    ('s', "one at a time: it became overlap = \"skip\""),
];

impl Dialect {
    /// Takes off the command what another cron would.
    pub(super) fn take<'c>(&mut self, mut command: &'c str) -> &'c str {
        loop {
            let (word, rest) = next_word(command);
            let flags = word.strip_prefix('-').filter(|flags| !flags.is_empty());
            let known = |flags: &str| {
                flags
                    .chars()
                    .all(|flag| FLAGS.iter().any(|(known, _)| *known == flag))
            };
            if let Some(flags) = flags.filter(|flags| known(flags)) {
                for (flag, meaning) in FLAGS.iter().filter(|(flag, _)| flags.contains(*flag)) {
                    self.notes.push(format!(
                        "`-{flag}` of OpenBSD's and FreeBSD's cron is left out: {meaning}"
                    ));
                }
                self.overlap = self.overlap.or(flags.contains('s').then_some("skip"));
            } else if word == "@AppleNotOnBattery" {
                let text = "`@AppleNotOnBattery` of macOS is left out: the job runs on a battery, too";
                self.notes.push(text.to_owned());
            } else {
                return command;
            }
            command = rest.trim_start_matches([' ', '\t']);
        }
    }
}

/// Whether a word has the form of a schedule's field and not of a program: `*`, `?`, a number, a list, a range or a step of these.
pub(super) fn is_field(word: &str) -> bool {
    let value = |text: &str| {
        let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let name = text.len() == 3 && (super::grammar::value(text).is_some());
        text == "*" || text == "?" || number || name
    };
    !word.is_empty()
        && (word.split(',')).all(|item| item.split(['-', '/']).all(value))
        // A program may be called `sun`.
        && word.contains(|c: char| !c.is_ascii_alphabetic())
}

/// The fields of a line that has seconds before its five or a year behind them: the schedule, and the years.
pub(super) fn long(fields: &[&str]) -> Result<(String, Option<Years>), &'static str> {
    let is_year = |word: &&str| word.len() >= 4 && word.starts_with(|c: char| c.is_ascii_digit());
    let (fields, year) = match fields {
        [fields @ .., year] if fields.len() == 6 || fields.len() == 5 && is_year(year) => (fields, *year),
        fields => (fields, "*"),
    };
    let years = match year {
        "*" | "?" => None,
        year => {
            let (first, last) = year.split_once('-').unwrap_or((year, year));
            let parse = |text: &str| {
                text.parse::<u16>()
                    .ok()
                    .filter(|year| (1970..=2200).contains(year))
            };
            Some(
                parse(first)
                    .zip(parse(last))
                    .ok_or("its years are neither one nor a range")?,
            )
        }
    };
    Ok((
        fields
            .iter()
            .map(|field| if *field == "?" { "*" } else { *field })
            .collect::<Vec<_>>()
            .join(" "),
        years,
    ))
}

/// What to say of numbers for weekdays in a line with a `?`.
pub(super) fn counts_from_sunday(fields: &[&str]) -> Option<String> {
    let weekdays = fields.get(5)?;
    let numbers = weekdays.contains(|c: char| c.is_ascii_digit());
    (numbers && fields.contains(&"?")).then(|| {
        format!("`{weekdays}`: `?` is Quartz's, which counts weekdays from 1 for Sunday; here 0 and 7 are Sunday: write their names")
    })
}

/// Cronie's random values (`0~59`, `~`, `9~17/2`) as values chosen by the job's name.
pub(super) fn random(field: &str, nth: usize) -> Option<String> {
    const BOUNDS: [(&str, &str); 5] = [("0", "59"), ("0", "23"), ("1", "31"), ("1", "12"), ("0", "6")];
    if !field.contains('~') {
        return None;
    }
    let (low, high) = BOUNDS.get(nth)?;
    let item = |item: &str| {
        let (range, step) = item.split_at(item.find('/').unwrap_or(item.len()));
        let Some((first, last)) = range.split_once('~') else {
            return item.to_owned();
        };
        let or = |text: &str, bound: &str| {
            if text.is_empty() {
                bound.to_owned()
            } else {
                text.to_owned()
            }
        };
        format!("H({}-{}){step}", or(first, low), or(last, high))
    };
    Some(field.split(',').map(item).collect::<Vec<_>>().join(","))
}

/// Whether a quote in it is open at its end.
pub(super) fn is_cut(command: &str) -> bool {
    let (mut quote, mut chars) = (None, command.chars());
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    quote.is_some()
}

/// Keeps dcron's `ID=` and `WAIT=` where a line waits for another one of the file, so that they are certain to be dcron's; elsewhere
/// they are variables that a shell reads.
pub(super) fn of_dcron(lines: &mut [Line]) {
    let words = |task: &Task| -> (Option<String>, Vec<String>, usize) {
        let (mut id, mut waits, mut rest) = (None, Vec::new(), task.command.as_str());
        loop {
            let (word, after) = next_word(rest);
            if let Some(name) = word.strip_prefix("ID=") {
                id = Some(name.to_owned());
            } else if let Some(names) = word.strip_prefix("WAIT=") {
                // `WAIT=job/2h` waits no longer than that.
                waits.extend(
                    names
                        .split(',')
                        .map(|name| name.split('/').next().unwrap_or(name).to_owned()),
                );
            } else {
                return (id, waits, task.command.len() - rest.trim_start().len());
            }
            rest = after;
        }
    };
    let ids: BTreeMap<String, String> = (lines.iter())
        .filter_map(|line| match line {
            Line::Task(task) => Some((words(task).0?, task.schedule.clone())),
            _ => None,
        })
        .collect();
    let waits = lines.iter().any(
        |line| matches!(line, Line::Task(task) if words(task).1.iter().any(|name| ids.contains_key(name))),
    );
    for line in lines.iter_mut().filter(|_| waits) {
        let Line::Task(task) = line else { continue };
        let (id, waits, length) = words(task);
        task.command.drain(..length);
        for name in &waits {
            if ids.get(name) != Some(&task.schedule) {
                task.dialect.notes.push(format!(
                    "`WAIT={name}` of dcron is left out, since the two lines have different schedules: `triggered_by` starts a job when another one has ended well"
                ));
            }
        }
        let alike = waits
            .into_iter()
            .filter(|name| ids.get(name) == Some(&task.schedule));
        (task.dialect.waits, task.dialect.id) = (alike.collect(), id);
    }
}
