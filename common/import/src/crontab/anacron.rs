//! Anacrontabs: a period in days, a delay in minutes, a name, and the command.

use super::dialect::{Dialect, is_field};
use super::file::File;
use super::line::{At, Line, Task, each_line, next_word};
use crate::proposed::Invalid;

/// The hour from which anacron starts jobs, where START_HOURS_RANGE does not say it: anacron starts them when the machine does, and a
/// farm always runs.
const FIRST_HOUR: u32 = 3;

/// Whether it has an anacrontab's name, or no line but such as an anacrontab has.
pub(super) fn is_anacrontab(file: &File) -> bool {
    let tasks = || {
        file.text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
    };
    let of_anacron = |line: &str| {
        let (period, rest) = next_word(line);
        let (delay, rest) = next_word(rest);
        let (name, _) = next_word(rest);
        days(period).is_some() && delay.parse::<u32>().is_ok() && !name.is_empty() && !is_field(name)
    };
    let mut lines = tasks()
        .filter(|line| !line.split(' ').next().is_some_and(|word| word.contains('=')))
        .peekable();
    file.name.rsplit('/').next() == Some("anacrontab") || lines.peek().is_some() && lines.all(of_anacron)
}

/// The days between two runs, and the day that stands for them.
fn days(period: &str) -> Option<(u32, Option<&'static str>)> {
    match period {
        "1" | "@daily" => Some((1, Some("* * *"))),
        "7" | "@weekly" => Some((7, Some("* * 7"))),
        "@monthly" => Some((30, Some("1 * *"))),
        "@yearly" | "@annually" => Some((365, Some("1 1 *"))),
        number => (number.parse().ok().filter(|days| (1..=366).contains(days))).map(|days| (days, None)),
    }
}

pub(super) fn parse(text: &str) -> Vec<Line> {
    let range = (text.lines()).find_map(|line| {
        line.trim()
            .strip_prefix("START_HOURS_RANGE=")?
            .split('-')
            .next()?
            .parse()
            .ok()
    });
    let first = range.filter(|hour| *hour < 24).unwrap_or(FIRST_HOUR);
    each_line(text, |at, body| task(at, body, first))
}

fn task(at: &At<'_>, body: &str, first: u32) -> Result<Task, Invalid> {
    const FIX: &str = "write a period (days, @daily, @weekly, @monthly, @yearly), a delay in minutes, a name, then the command";
    let (period, rest) = next_word(body);
    let (delay, rest) = next_word(rest);
    let (name, rest) = next_word(rest);
    let command = rest.trim();
    let wrong = |rest: &str, problem: &str| at.invalid(at.column(rest.trim_start()), problem, FIX);
    let Some((between, day)) = days(period) else {
        return Err(wrong(body, &format!("`{period}` is no period of an anacrontab")));
    };
    let delay: u32 = (delay.parse().ok().filter(|minutes| *minutes < 24 * 60)).ok_or_else(|| {
        wrong(
            &body[period.len()..],
            &format!("`{delay}` is no delay of less than a day in minutes"),
        )
    })?;
    if name.is_empty() || command.is_empty() {
        return Err(wrong(rest, "the name or the command is missing"));
    }
    let minutes = first * 60 + delay;
    let (schedule, when) = match day {
        Some(day) => (
            format!("{} {} {day}", minutes % 60, minutes / 60 % 24),
            "at a fixed time",
        ),
        None => (
            format!("@every {}h", between * 24),
            "at fixed instants so far apart",
        ),
    };
    let dialect = Dialect {
        notes: vec![format!(
            "anacron runs {name} {delay} minutes after a start of the machine, once in {period}; here it is due {when}, and what a farm that was \
             off missed is made up for"
        )],
        name: Some(name.to_owned()),
        makes_up: true,
        ..Dialect::default()
    };
    Ok(Task {
        schedule,
        never: false,
        user: Some("root".to_owned()),
        group: None,
        command: command.to_owned(),
        stdin: None,
        quiet: false,
        dialect,
    })
}
