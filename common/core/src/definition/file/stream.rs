//! `[job.NAME.stream]`: a growing list; the job's command runs once for each of its lines.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use toml::de::DeValue;

use super::arguments;
use super::value_rules::absolute_path;
use crate::command::Command;
use crate::definition::spec::job::{JobSpec, Overlap};
use crate::definition::spec::stream::{StreamSpec, path};
use crate::document::{Reader, Wrong};

/// A checkpoint has room for what so many lines left behind.
pub(super) const MAX_WORKERS: i64 = 64;
pub(super) const MAX_FAILURES: i64 = 100;

pub(super) fn settle(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let Some(mut read) = spec.stream.take() else {
        return;
    };
    let (Some(span), Some(mut stream)) = (job.key_span("stream"), job.table("stream")) else {
        return;
    };
    let sink = stream.sink();
    let has_file = stream.key_span("file").is_some();
    let list_span = stream.key_span("command");
    if let (Some(Command::Argv(words)), Some(span)) = (&read.list, &list_span) {
        if words.first().is_none_or(String::is_empty) {
            let what = "`command`: it names no program";
            sink.report(span.clone(), what, "begin with the program");
        }
        for (what, fix) in words
            .iter()
            .skip(1)
            .filter_map(|word| arguments::argument(word, spec))
        {
            sink.report(span.clone(), what, fix);
        }
    }
    match (has_file, &list_span) {
        (false, None) => sink.report(
            span,
            "`stream` has no list",
            "add file = \"/srv/lists/%F.txt\", or a `command` that prints the list",
        ),
        (true, Some(second)) => sink.report(
            second.clone(),
            "`command` and `file` exclude each other",
            "keep the one that has the lines; what runs for each line is the job's own `command`",
        ),
        _ => {}
    }
    if stream.key_span("follow").is_none() {
        read.follow = has_file && follows_by_nature(spec, &read);
    }
    if read.follow && list_span.is_some() {
        let what = "`follow` is for a `file`";
        stream.refuse("follow", what, "leave it out: a command is read until it ends");
    } else if read.follow && is_scheduled(spec) && !has_directive(&read) {
        stream.refuse(
            "follow",
            "`follow`: each due instant would begin with the first line of the same file",
            "put the instant into the name (\"%F\"), or write schedule = \"@continuous\", or follow = false",
        );
    }
    exclusive(job, spec, &read);
    if read.follow && is_scheduled(spec) {
        // A run ends about when the next one begins, which must not be left out for that.
        spec.overlap = match spec.overlap {
            Overlap::Skip => Overlap::Queue,
            other => other,
        };
    }
    spec.stream = Some(read);
}

fn is_scheduled(spec: &JobSpec) -> bool {
    !spec.schedule.is_empty() && !spec.is_continuous()
}

fn has_directive(stream: &StreamSpec) -> bool {
    // `%%` is a percent sign.
    stream
        .file
        .as_ref()
        .is_some_and(|f| f.replace("%%", "").contains('%'))
}

/// A loop has nothing else to do than to follow; the file of an instant grows until the next one.
fn follows_by_nature(spec: &JobSpec, stream: &StreamSpec) -> bool {
    spec.is_continuous() || (is_scheduled(spec) && has_directive(stream))
}

pub(super) fn file(value: &DeValue<'_>) -> Result<String, Wrong> {
    let pattern = absolute_path(value)?;
    match path(&pattern, Timestamp::UNIX_EPOCH, TimeZone::UTC) {
        Ok(_) => Ok(pattern),
        Err(why) => Err(Wrong::new(
            format!("`{pattern}` is not a valid file name: {why}"),
            "% begins a directive of strftime, as in \"/srv/lists/%Y-%m-%d.txt\"; write %% for a percent sign",
        )),
    }
}

/// What a stream has no use for.
fn exclusive(job: &mut Reader<'_>, spec: &JobSpec, stream: &StreamSpec) {
    const COMMAND: &str = "a line is handled by a command: leave it out, or make two jobs";
    let what = |key: &str| format!("`{key}` and `stream` exclude each other");
    for (key, fix) in [
        ("flow", COMMAND),
        ("task", COMMAND),
        ("table", "a list or a table: make two jobs"),
        ("stdin", "the command reads its line on stdin"),
    ] {
        job.refuse(key, what(key), fix);
    }
    if spec.instances > 1 {
        let fix = "each run would handle every line: `workers` handle several at a time";
        job.refuse("instances", what("instances"), fix);
    }
    if spec.overlap == Overlap::Skip && stream.follow && is_scheduled(spec) {
        let fix = "a run follows its file until the next instant, which would then be skipped: write overlap = \"queue\"";
        job.refuse_own("overlap", what("overlap = \"skip\""), fix);
    }
}

#[cfg(test)]
mod tests {
    use crate::definition::{Command, JobSpec, Overlap, load};
    use crate::document::{Located, Source};

    fn read(keys: &str, stream: &str) -> Result<JobSpec, Vec<Located>> {
        let source = Source {
            name: "j".to_owned(),
            text: format!("[job.a]\ncommand = ['x']\n{keys}\n[job.a.stream]\n{stream}\n"),
        };
        let jobs = load(&[source]).map_err(|mistakes| mistakes.located())?;
        Ok(jobs[0].spec.clone())
    }

    #[test]
    fn a_stream_is_read_with_its_defaults() {
        let spec = read("", "file = '/l'").unwrap();
        let stream = spec.stream.unwrap();
        assert_eq!(
            (stream.workers, stream.max_item_failures, stream.follow),
            (1, 3, false)
        );
        let stream = read("", "command = 'seq 9'").unwrap().stream.unwrap();
        assert_eq!(stream.list, Some(Command::Shell("seq 9".to_owned())));
        let stream = read("", "command = ['seq', '9']").unwrap().stream.unwrap();
        assert!(matches!(stream.list, Some(Command::Argv(words)) if words == ["seq", "9"]));
    }

    #[test]
    fn the_file_of_an_instant_is_followed_until_the_next_which_waits_for_the_end() {
        let follow = |keys: &str, stream: &str| {
            let spec = read(keys, stream).unwrap();
            (spec.stream.unwrap().follow, spec.overlap)
        };
        let daily = "schedule = '@daily'";
        assert_eq!(follow(daily, "file = '/l/%F'"), (true, Overlap::Queue));
        assert_eq!(follow(daily, "file = '/l/100%%'"), (false, Overlap::Skip));
        assert_eq!(
            follow(daily, "file = '/l/%F'\nfollow = false"),
            (false, Overlap::Skip)
        );
        assert!(follow("schedule = '@continuous'", "file = '/l'").0);
        assert!(!follow("", "file = '/l/%F'").0);
        assert!(follow("", "file = '/l'\nfollow = true").0);
        assert_eq!(
            follow(&format!("{daily}\noverlap = 'allow'"), "file = '/l/%F'").1,
            Overlap::Allow
        );
    }

    #[test]
    fn the_name_of_the_file_is_of_the_instant_in_the_zone_of_the_job() {
        let stream = read("timezone = 'Asia/Tokyo'", "file = '/l/%Y%m%d-%H'")
            .unwrap()
            .stream
            .unwrap();
        let due = "2026-11-21T20:00:00Z".parse().unwrap();
        let path = stream.path_at(due, "Asia/Tokyo");
        assert_eq!(path, Ok(Some("/l/20261122-05".to_owned())));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do_instead() {
        let daily = "schedule = '@daily'";
        let cases = [
            ("", "workers = 2", "`stream` has no list"),
            (
                "",
                "file = '/l'\ncommand = 'x'",
                "`command` and `file` exclude each other",
            ),
            ("", "file = '/l'\nworkers = 0", "`workers`: 0 is out of range"),
            ("", "file = '/l'\nworkers = 65", "`workers`: 65 is out of range"),
            ("", "file = '/l'\nmax_item_failures = 0", "0 is out of range"),
            ("", "file = '/l'\nprogress_timeout = '0s'", "longer than nothing"),
            ("", "file = 'l'", "is not absolute"),
            ("", "file = '/l/%!'", "is not a valid file name"),
            ("", "command = []", "it names no program"),
            ("", "command = 'x'\nfollow = true", "`follow` is for a `file`"),
            (
                daily,
                "file = '/l'\nfollow = true",
                "the first line of the same file",
            ),
            ("stdin = 'x'", "file = '/l'", "`stdin` and `stream` exclude"),
            ("instances = 2", "file = '/l'", "`instances` and `stream` exclude"),
            (
                "schedule = '@daily'\noverlap = 'skip'",
                "file = '/l/%F'",
                "`overlap = \"skip\"` and `stream`",
            ),
            ("", "path = '/l'\nfile = '/l'", "unknown key `path`"),
        ];
        for (keys, stream, what) in cases {
            let wrong = read(keys, stream).unwrap_err();
            assert!(
                wrong.iter().any(|w| w.what.contains(what)),
                "{keys}\n{stream}\n{wrong:#?}"
            );
        }
    }
}
