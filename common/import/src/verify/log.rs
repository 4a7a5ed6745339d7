//! What cron and systemd wrote to the system's log: which command or unit they started, when, where and as whom.
//!
//! Three forms: syslog's (`Nov 26 10:00:01 web-1 CRON[123]: (root) CMD (backup)`), the same with an RFC 3339 time, and
//! the lines of `journalctl -o json`.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::schedule::MONTHS;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A command or a unit that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// By the log's clock.
    pub at: Timestamp,
    /// As the log calls the machine.
    pub host: String,
    pub what: What,
}

/// What was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// By cron.
    Command {
        user: String,
        /// As cron wrote it, without the blanks around it.
        command: String,
    },
    /// By systemd: a service.
    Unit(String),
}

impl What {
    /// Who it ran as, where the log says so.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Command { user, .. } => Some(user),
            Self::Unit(_) => None,
        }
    }

    /// The command or the unit.
    pub fn text(&self) -> &str {
        match self {
            Self::Command { command, .. } => command,
            Self::Unit(unit) => unit,
        }
    }
}

/// What was read so far.
#[derive(Debug)]
pub struct Log {
    /// In the order of the lines.
    pub started: Vec<Started>,
    /// The first and the last line of each host, whoever wrote it.
    pub hosts: BTreeMap<String, (Timestamp, Timestamp)>,
    zone: TimeZone,
    now: Timestamp,
    /// The line before, of each host: where the clock was put back, it says which of two hours is meant.
    before: BTreeMap<String, Timestamp>,
    /// Units of hosts that are being started, and whose start was told.
    starting: BTreeSet<(String, String)>,
}

/// Years looked back for one that has the day: two leap years may be eight years apart.
const YEARS: i16 = 9;

struct Entry<'a> {
    at: Timestamp,
    host: String,
    tag: &'a str,
    message: &'a str,
    /// The unit that systemd speaks of; only the journal has it apart from the message.
    unit: Option<&'a str>,
}

impl Log {
    /// `zone` is that of times without an offset, of which none is after `now`.
    pub fn new(zone: TimeZone, now: Timestamp) -> Self {
        Self {
            started: Vec::new(),
            hosts: BTreeMap::new(),
            zone,
            now,
            before: BTreeMap::new(),
            starting: BTreeSet::new(),
        }
    }

    /// Another file begins, whose lines may be older.
    pub fn next_file(&mut self) {
        self.before.clear();
    }

    /// Takes a line in. What is no line of a log is passed over.
    pub fn line(&mut self, line: &str) {
        let value: Option<Value> = line
            .starts_with('{')
            .then(|| serde_json::from_str(line).ok())
            .flatten();
        let entry = match &value {
            Some(value) => of_journal(value),
            None => self.of_text(line.trim_end()),
        };
        let Some(entry) = entry else {
            return;
        };
        self.before.insert(entry.host.clone(), entry.at);
        let seen = self
            .hosts
            .entry(entry.host.clone())
            .or_insert((entry.at, entry.at));
        *seen = (seen.0.min(entry.at), seen.1.max(entry.at));
        let what = if is_by(entry.tag, &["cron", "crond"]) {
            command(entry.message).map(|(user, command)| What::Command {
                user: user.to_owned(),
                command: command.to_owned(),
            })
        } else if is_by(entry.tag, &["systemd"]) {
            self.unit(&entry)
        } else {
            None
        };
        if let Some(what) = what {
            let (at, host) = (entry.at, entry.host);
            self.started.push(Started { at, host, what });
        }
    }

    /// Of `Starting backup.service - …` and `Started`, which follows it but for units that are up at once.
    fn unit(&mut self, entry: &Entry<'_>) -> Option<What> {
        let (verb, rest) = word(entry.message)?;
        let unit = entry.unit.or_else(|| Some(word(rest)?.0))?;
        let unit = unit.strip_suffix('.').unwrap_or(unit);
        if !unit.ends_with(".service") {
            return None;
        }
        let key = (entry.host.clone(), unit.to_owned());
        let begins = match verb {
            "Starting" => {
                self.starting.insert(key);
                true
            }
            "Started" => !self.starting.remove(&key),
            // A oneshot's.
            "Finished" => {
                self.starting.remove(&key);
                false
            }
            _ => false,
        };
        begins.then(|| What::Unit(unit.to_owned()))
    }

    fn of_text<'a>(&self, line: &'a str) -> Option<Entry<'a>> {
        let (first, rest) = word(line)?;
        let (local, rest) = match instant(first) {
            Some(at) => (Err(at), rest),
            None => {
                let month = MONTHS.iter().position(|month| month[..3] == *first)?;
                let (day, rest) = word(rest)?;
                let (time, rest) = word(rest)?;
                (Ok((i8::try_from(month).ok()? + 1, day.parse().ok()?, time)), rest)
            }
        };
        let (host, rest) = word(rest)?;
        let at = match local {
            Err(at) => at,
            Ok((month, day, time)) => self.local(month, day, time.parse().ok()?, self.before.get(host))?,
        };
        let (tag, message) = rest.split_once(':').unwrap_or((rest, ""));
        Some(Entry {
            at,
            host: host.to_owned(),
            tag,
            message,
            unit: None,
        })
    }

    /// The newest such time that is not to come.
    fn local(&self, month: i8, day: i8, time: Time, before: Option<&Timestamp>) -> Option<Timestamp> {
        // A machine's clock may be a little ahead.
        let latest = self.now + SignedDuration::from_mins(10);
        let year = latest.to_zoned(self.zone.clone()).year();
        (0..YEARS).find_map(|ago| {
            let local = Date::new(year - ago, month, day).ok()?.to_datetime(time);
            let moment = self.zone.to_ambiguous_timestamp(local);
            let earlier = moment.earlier().ok()?;
            // Of an hour that comes twice the second, once the log would go back otherwise.
            let at = match before {
                Some(before) if earlier + SignedDuration::from_mins(10) < *before => moment.later().ok()?,
                _ => earlier,
            };
            (at <= latest).then_some(at)
        })
    }
}

/// The next word, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let (word, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
    (!word.is_empty()).then_some((word, rest))
}

/// A time with an offset. journalctl writes that without a colon.
fn instant(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let (head, offset) = text.split_at_checked(text.len().checked_sub(5)?)?;
    let plain = offset.starts_with(['+', '-']) && offset[1..].bytes().all(|b| b.is_ascii_digit());
    let (hours, minutes) = offset.split_at_checked(3)?;
    plain
        .then(|| format!("{head}{hours}:{minutes}").parse().ok())
        .flatten()
}

fn of_journal(line: &Value) -> Option<Entry<'_>> {
    let text = |key: &str| line.get(key).and_then(Value::as_str);
    let at = text("__REALTIME_TIMESTAMP")?.parse().ok()?;
    Some(Entry {
        at: Timestamp::from_microsecond(at).ok()?,
        host: text("_HOSTNAME")?.to_owned(),
        tag: text("SYSLOG_IDENTIFIER").unwrap_or_default(),
        // What is not UTF-8 stands there as numbers: no line of cron, which writes what is not ASCII in octal.
        message: text("MESSAGE").unwrap_or_default(),
        unit: text("UNIT"),
    })
}

/// `CRON[123]`, `crond`, `/usr/sbin/cron[123]`, `systemd[1]`.
fn is_by(tag: &str, programs: &[&str]) -> bool {
    let name = tag.split('[').next().unwrap_or_default().trim();
    let name = name.rsplit('/').next().unwrap_or_default();
    programs.iter().any(|program| name.eq_ignore_ascii_case(program))
}

/// User and command of `(root) CMD (  /usr/bin/backup)`.
fn command(message: &str) -> Option<(&str, &str)> {
    let (user, rest) = message.trim_start().strip_prefix('(')?.split_once(") CMD (")?;
    // A logger may have cut the end off.
    Some((user, rest.strip_suffix(')').unwrap_or(rest).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(zone: &str, lines: &[&str]) -> Log {
        let now = "2026-11-26T12:00:00Z".parse().unwrap();
        let mut log = Log::new(TimeZone::get(zone).unwrap(), now);
        lines.iter().for_each(|line| log.line(line));
        log
    }

    fn starts(log: &Log) -> Vec<(String, &str, &str, &str)> {
        let of = |s: &'_ Started| s.at.to_string();
        (log.started.iter())
            .map(|s| (of(s), s.host.as_str(), s.what.user().unwrap_or(""), s.what.text()))
            .collect()
    }

    #[test]
    fn every_form_gives_the_same() {
        let lines = [
            "Nov 26 10:00:01 web-1 CRON[123]: (root) CMD (  /usr/bin/backup --all)",
            "Nov 26 10:00:01.500000 web-1 /usr/sbin/cron[123]: (root) CMD (/usr/bin/backup --all )",
            "2026-11-26T10:00:01.123456+00:00 web-1 CROND[123]: (root) CMD (/usr/bin/backup --all)",
            "2026-11-26T11:00:01+0100 web-1 crond[123]: (root) CMD (/usr/bin/backup --all)",
            r#"{"__REALTIME_TIMESTAMP":"1795687201123456","_HOSTNAME":"web-1","SYSLOG_IDENTIFIER":"CRON","MESSAGE":"(root) CMD (/usr/bin/backup --all)"}"#,
        ];
        for line in lines {
            let log = read("UTC", &[line]);
            let found = starts(&log);
            assert_eq!(found.len(), 1, "{line}");
            assert!(found[0].0.starts_with("2026-11-26T10:00:01"), "{line}: {found:?}");
            assert_eq!(
                (found[0].1, found[0].2, found[0].3),
                ("web-1", "root", "/usr/bin/backup --all"),
                "{line}"
            );
        }
    }

    #[test]
    fn other_lines_say_from_when_to_when_the_log_is() {
        let log = read(
            "UTC",
            &[
                "-- Logs begin at Thu 2026-11-19 00:00:00 UTC. --",
                "Nov 19 00:00:07 web-1 systemd[1]: Started Daily apt upgrade.",
                "Nov 20 10:17:01 web-1 CRON[9]: pam_unix(cron:session): session opened for user root",
                "Nov 20 10:17:01 web-1 sudo: (root) CMD (id)",
                "Nov 21 09:00:00 web-2 CRON[9]: (root) CMDEND (true)",
                "Nov 25 23:59:59 web-1 kernel: done",
                "rubbish",
            ],
        );
        assert!(log.started.is_empty());
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(
            log.hosts["web-1"],
            (at("2026-11-19T00:00:07Z"), at("2026-11-25T23:59:59Z"))
        );
        assert_eq!(log.hosts.len(), 2);
    }

    #[test]
    fn a_unit_starts_once_however_systemd_tells_it() {
        let journal = |verb: &str| {
            format!(
                r#"{{"__REALTIME_TIMESTAMP":"1795687201123456","_HOSTNAME":"h","SYSLOG_IDENTIFIER":"systemd","UNIT":"a.service","MESSAGE":"{verb} A."}}"#
            )
        };
        let (starting, finished) = (journal("Starting"), journal("Finished"));
        let log = read(
            "UTC",
            &[
                "Nov 20 10:00:01 h systemd[1]: Starting a.service - Daily A...",
                "Nov 20 10:00:03 h systemd[1]: a.service: Deactivated successfully.",
                "Nov 20 10:00:03 h systemd[1]: Finished a.service - Daily A.",
                "Nov 21 10:00:01 h systemd[1]: Starting a.service - Daily A...",
                "Nov 21 10:00:02 h systemd[1]: Started a.service - Daily A.",
                "Nov 22 10:00:01 h systemd[1]: Started a.service - Daily A.",
                "Nov 22 10:00:01 h systemd[1]: Started session-3.scope - Session 3 of root.",
                "Nov 22 10:00:02 h systemd[1]: Started Daily apt upgrade.",
                &starting,
                &finished,
            ],
        );
        let units: Vec<&str> = log.started.iter().map(|start| start.what.text()).collect();
        assert_eq!(units, ["a.service"; 4]);
    }

    #[test]
    fn a_time_without_a_year_is_the_last_that_was() {
        let year = |line: &str| starts(&read("UTC", &[line]))[0].0[..10].to_owned();
        assert_eq!(year("Dec 31 10:00:01 h cron: (a) CMD (b)"), "2025-12-31");
        assert_eq!(year("Nov 26 11:59:59 h cron: (a) CMD (b)"), "2026-11-26");
        assert_eq!(year("Nov 26 13:00:00 h cron: (a) CMD (b)"), "2025-11-26");
        assert_eq!(year("Feb 29 10:00:00 h cron: (a) CMD (b)"), "2024-02-29");
        assert_eq!(year("Nov  6 10:00:00 h cron: (a) CMD (b)"), "2026-11-06");
    }

    #[test]
    fn an_hour_that_comes_twice_is_told_apart_by_the_order_of_the_lines() {
        let lines = ["02:30", "02:45", "02:00", "02:30", "03:00"]
            .map(|time| format!("Oct 25 {time}:01 h CRON[1]: (a) CMD (b)"));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let log = read("Europe/Berlin", &lines);
        let times: Vec<String> = starts(&log).iter().map(|s| s.0[11..16].to_owned()).collect();
        assert_eq!(times, ["00:30", "00:45", "01:00", "01:30", "02:00"]);
    }
}
