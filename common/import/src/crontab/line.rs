//! One line of a crontab.

use farmhand_core::definition::for_importers::is_user_name;
use farmhand_core::schedule::{ParseContext, Schedule};

use super::dialect::{self, Dialect};
use crate::proposed::Invalid;

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing, or a comment.
    Blank,
    /// With its `#`.
    Comment(String),
    /// Holds for the lines below it.
    Variable {
        name: String,
        /// Its value, without quotes.
        value: String,
    },
    /// Something to run, and when.
    Task(Task),
    /// Something that cron would not take.
    Invalid(Invalid),
}

/// A line that cron runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// As written, its fields separated by one blank.
    pub schedule: String,
    /// Cron accepts the schedule, and it has no instant.
    pub never: bool,
    /// Of a system crontab.
    pub user: Option<String>,
    /// `user:group` or `user/class`: what follows the user.
    pub group: Option<String>,
    pub command: String,
    /// What stands after the first `%`.
    pub stdin: Option<String>,
    /// A leading `-`: cronie then logs nothing.
    pub quiet: bool,
    pub dialect: Dialect,
}

/// Reads every line; `system` crontabs have a user before the command, with `seconds` a line may have six and seven fields. Line
/// numbers are positions from 1.
pub fn parse(text: &str, system: bool, seconds: bool) -> Vec<Line> {
    let mut lines = each_line(text, |at, body| task(at, body, system, seconds));
    dialect::of_dcron(&mut lines);
    lines
}

/// Reads every line; `task` reads those that run something.
pub(super) fn each_line(text: &str, task: impl Fn(&At<'_>, &str) -> Result<Task, Invalid>) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..)
        .zip(text.lines())
        .map(|(number, line)| read(line.trim_end_matches('\r'), number, &task))
        .collect()
}

/// Where a line stands, and what it says.
pub(super) struct At<'l> {
    number: usize,
    line: &'l str,
}

impl At<'_> {
    pub(super) fn invalid(
        &self,
        column: usize,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Invalid {
        Invalid {
            line: self.number,
            column,
            problem: problem.into(),
            fix: fix.into(),
            text: self.line.to_owned(),
        }
    }

    pub(super) fn column(&self, rest: &str) -> usize {
        self.line.chars().count() - rest.chars().count() + 1
    }
}

fn read(line: &str, number: usize, task: impl Fn(&At<'_>, &str) -> Result<Task, Invalid>) -> Line {
    let at = At { number, line };
    let body = line.trim_start_matches([' ', '\t']);
    if body.trim_end().is_empty() {
        return Line::Blank;
    }
    if body.starts_with('#') {
        return Line::Comment(body.trim_end().to_owned());
    }
    if let Some(nul) = line.find('\0') {
        let fix = "remove it: no command and no variable can hold one";
        return Line::Invalid(at.invalid(at.column(&line[nul..]), "a NUL byte", fix));
    }
    if let Some((name, value)) = variable(body) {
        return Line::Variable { name, value };
    }
    task(&at, body).map_or_else(Line::Invalid, Line::Task)
}

/// `NAME = value`; name and value may be quoted, blanks around the `=` are free.
fn variable(body: &str) -> Option<(String, String)> {
    let (name, rest) = match body.chars().next()? {
        quote @ ('"' | '\'') => {
            let (name, rest) = body[1..].split_once(quote)?;
            (name, rest)
        }
        _ => {
            let end = body.find(|c: char| c == '=' || c.is_whitespace())?;
            body.split_at(end)
        }
    };
    let value = rest.trim_start().strip_prefix('=')?.trim();
    if name.is_empty() {
        return None;
    }
    let unquoted = ['"', '\'']
        .into_iter()
        .find_map(|q| value.strip_prefix(q)?.strip_suffix(q))
        .unwrap_or(value);
    Some((name.to_owned(), unquoted.to_owned()))
}

fn task(at: &At<'_>, body: &str, system: bool, seconds: bool) -> Result<Task, Invalid> {
    let wrong = |rest: &str, problem: &str, fix: &str| at.invalid(at.column(rest), problem, fix);
    let mut dialect = Dialect::default();
    if let Some(whose) = dialect::foreign(body) {
        let problem = format!("a line of {whose}");
        return Err(wrong(
            body,
            &problem,
            "write minute hour day-of-month month day-of-week, then the command",
        ));
    }
    let (quiet, body) = match body.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, body),
    };
    let mut rest = body;
    let mut fields = Vec::new();
    let wanted = if body.starts_with('@') { 1 } else { 5 };
    for _ in 0..wanted {
        let (word, after) = next_word(rest);
        if word.is_empty() {
            return Err(wrong(
                rest,
                &format!("{} of 5 schedule fields, and then nothing", fields.len()),
                "write minute hour day-of-month month day-of-week, then the command",
            ));
        }
        fields.push(word);
        rest = after;
    }
    while seconds && wanted == 5 && fields.len() < 7 && dialect::is_field(next_word(rest).0) {
        let (word, after) = next_word(rest);
        fields.push(word);
        rest = after;
    }
    let (word, _) = next_word(rest);
    if wanted == 5 && dialect::is_field(word) {
        return Err(wrong(
            rest.trim_start_matches([' ', '\t']),
            &format!("the command begins with `{word}`, as if it were a field of the schedule"),
            "with --seconds lines have six and seven fields, seconds first and a year last; a program of that name is written with its path",
        ));
    }
    let (schedule, never);
    if fields.len() > 5 {
        let long = dialect::long(&fields)
            .map_err(|problem| wrong(body, problem, "write `start` and `end` by hand"))?;
        dialect.notes.extend(dialect::counts_from_sunday(&fields));
        (schedule, dialect.years) = long;
        never = check(&schedule, &schedule.split(' ').collect::<Vec<_>>(), at, body)?;
    } else {
        let random = fields
            .iter()
            .enumerate()
            .map(|(nth, field)| dialect::random(field, nth));
        let random: Vec<Option<String>> = random.filter(|_| wanted == 5).collect();
        if random.iter().any(Option::is_some) {
            let words = fields
                .iter()
                .zip(random)
                .map(|(field, random)| random.unwrap_or_else(|| (*field).to_owned()));
            schedule = words.collect::<Vec<_>>().join(" ");
            let was = fields.join(" ");
            dialect.notes.push(format!(
                "`{was}`: cronie takes another value each time it starts; `{schedule}` is one value, always the same for the job"
            ));
        } else {
            schedule = fields.join(" ");
        }
        never = check(&schedule, &fields, at, body)?;
    }
    let user_at = rest.trim_start_matches([' ', '\t']);
    let user = if system {
        let (word, after) = next_word(rest);
        if word.is_empty() {
            return Err(wrong(
                rest,
                "the user is missing",
                "a system crontab has a user before the command; without --system the file is a user's own",
            ));
        }
        rest = after;
        Some(word)
    } else {
        None
    };
    let (user, group) = match user.and_then(|u| Some((u, u.find([':', '/'])?))) {
        Some((word, at)) => (Some(word[..at].to_owned()), Some(word[at..].to_owned())),
        None => (user.map(str::to_owned), None),
    };
    if let Some(name) = user.as_deref().filter(|name| !is_user_name(name)) {
        return Err(wrong(
            user_at,
            &format!("`{name}` is not a valid user name"),
            "a system crontab has a user before the command; without --system the file is a user's own",
        ));
    }
    let rest = dialect.take(rest.trim_start_matches([' ', '\t']));
    let (command, stdin) = percent(rest);
    if dialect::is_cut(&command) && !dialect::is_cut(&rest.replace("\\%", "%")) {
        let text = "the first `%` ends the command within a quoted text, as cron has it: the shell refuses that; write `\\%`";
        dialect.notes.push(text.to_owned());
    }
    if command.trim().is_empty() {
        return Err(wrong(
            rest,
            "the command is missing",
            "write the command after the schedule, and in a system crontab after the user",
        ));
    }
    Ok(Task {
        schedule,
        never,
        user,
        group,
        command: command.trim_end().to_owned(),
        stdin,
        quiet,
        dialect,
    })
}

pub(super) fn next_word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    text.split_at(text.find([' ', '\t']).unwrap_or(text.len()))
}

/// The schedule as an expression here: macros that only some crons have are spelled out. Behind a value Debian's cron skips `#` and
/// the rest of the field.
pub(super) fn expression(schedule: &str) -> &str {
    match schedule.to_ascii_lowercase().as_str() {
        "@every_minute" => "* * * * *",
        "@every_second" => "@every 1s",
        _ => match schedule.split_once('#') {
            Some((before, rest)) if !before.ends_with(' ') && !rest.contains(' ') => before,
            _ => schedule,
        },
    }
}

/// Whether it never fires; an error points into the line.
fn check(schedule: &str, fields: &[&str], within: &At<'_>, body: &str) -> Result<bool, Invalid> {
    let start = within.column(body) - 1;
    if schedule.eq_ignore_ascii_case("@continuous") {
        let fix = "write a job by hand, see docs/reference/job-files.md";
        return Err(within.invalid(start + 1, "cron knows no @continuous", fix));
    }
    let Err(error) = Schedule::parse(&[expression(schedule)], &ParseContext::default()) else {
        return Ok(false);
    };
    let Some(at) = error.expression() else {
        return Ok(false);
    };
    if at.never_fires() {
        return Ok(true);
    }
    // From a column of the fields joined by one blank to one of the line.
    let (mut joined, mut rest, mut place) = (0, body, start);
    for field in fields {
        let (_, after) = next_word(rest);
        let lead = rest.chars().count() - rest.trim_start_matches([' ', '\t']).chars().count();
        let length = field.chars().count();
        if at.column - 1 <= joined + length {
            let problem = (at.field).map_or_else(|| at.problem.clone(), |f| format!("{f}: {}", at.problem));
            return Err(within.invalid(place + lead + at.column - joined, problem, &at.fix));
        }
        joined += length + 1;
        place += lead + length;
        rest = after;
    }
    Err(within.invalid(place + 1, &at.problem, &at.fix))
}

/// The first bare `%` ends the command, what follows is its input, further ones are line ends; `\%` is a percent
/// sign. Other backslashes are the shell's.
pub(super) fn percent(text: &str) -> (String, Option<String>) {
    let (mut command, mut input) = (String::new(), None::<String>);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '%' && input.is_none() {
            input = Some(String::new());
            continue;
        }
        let to = input.as_mut().unwrap_or(&mut command);
        match c {
            '\\' => match chars.next() {
                Some('%') => to.push('%'),
                Some(other) => to.extend(['\\', other]),
                None => to.push('\\'),
            },
            '%' => to.push('\n'),
            c => to.push(c),
        }
    }
    if let Some(input) = &mut input
        && !input.is_empty()
        && !input.ends_with('\n')
    {
        input.push('\n');
    }
    (command, input.filter(|text| !text.is_empty()))
}
