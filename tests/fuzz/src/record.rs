//! What jobs and callers say in short texts: checkpoints, lines of a stream's record, parameters, durations, addresses,
//! patterns. Each line is tried as each of them.

use farmhand_core::definition::{
    Command, Filling, JobSpec, ParamSpec, ParamType, argv, param_text, param_variable, parse_params,
    resolve_params,
};
use farmhand_core::document::{duration_text, parse_duration, parse_size, size_text};
use farmhand_core::notify::Url;
use farmhand_core::stream::{Checkpoint, WINDOW};
use farmhand_engine::stream::recorded_end;
use farmhand_policy::matches;

use super::input::text;

pub fn run(data: &[u8]) {
    for line in data.split(|b| *b == b'\n') {
        ended(line);
        let line = text(line);
        checkpoint(line);
        units(line);
        address(line);
        if let Some((name, value)) = line.split_once('=') {
            parameter(name, value);
            if name.len() * value.len() < 10_000 {
                pattern(name, value);
            }
        }
    }
}

fn checkpoint(line: &str) {
    let Ok(read) = Checkpoint::parse(line) else { return };
    assert!(read.line >= 1);
    let text = read.text();
    assert!(!text.contains('\n'));
    // One that a command made up may be too long for what it says; ours is not (its own test).
    let again = Checkpoint::parse(&text).expect("it is read again");
    assert_eq!(
        (again.line, again.at, again.mark, again.list),
        (read.line, read.at, read.mark, read.list)
    );
    if read.line < 10_000 {
        let above = read.finished().into_iter().filter(|n| *n >= read.line).count();
        assert!(above <= WINDOW);
    }
}

/// What is taken from a job's own file fits the database.
fn ended(line: &[u8]) {
    let Some(end) = recorded_end(line) else { return };
    assert!(end.item > 0 && end.failures >= 0);
    let hex = |text: &str| text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(hex(&end.line) && end.output.as_deref().is_none_or(hex));
    assert!(end.reason.is_none_or(|why| !why.contains('\0')));
}

fn units(line: &str) {
    if let Ok(duration) = parse_duration(line) {
        assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
    }
    if let Ok(size) = parse_size(line) {
        assert!(i64::try_from(size).is_ok());
        assert_eq!(parse_size(&size_text(size)), Ok(size));
    }
}

/// What is sent as a request has no line ends, and no user's password in it.
fn address(line: &str) {
    let Ok(url) = Url::parse(line) else { return };
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_graphic());
    assert!(plain(&url.host) && plain(&url.path) && plain(&url.authority) && url.path.starts_with('/'));
    assert!(!url.host.is_empty() && !url.authority.contains('@'));
    assert_eq!(Url::parse(&format!("{}{}", url.shown(), url.path)), Ok(url));
}

/// Every value stays one argument, and the very one.
fn parameter(name: &str, value: &str) {
    let kinds = [
        ParamType::String,
        ParamType::Integer,
        ParamType::Number,
        ParamType::Boolean,
        ParamType::Duration,
        ParamType::Date,
    ];
    for kind in kinds {
        let param = ParamSpec {
            kind,
            default: None,
            required: true,
        };
        let spec = JobSpec {
            params: [("p".to_owned(), param)].into(),
            ..JobSpec::default()
        };
        let given = [("p".to_owned(), value.to_owned())];
        let Ok(params) = parse_params(&spec, &given) else {
            continue;
        };
        assert_eq!(resolve_params(&spec, &params), Ok(params.clone()));
        // As the database gives it back.
        let stored: serde_json::Map<_, _> =
            serde_json::from_str(&serde_json::to_string(&params).expect("JSON")).expect("JSON");
        assert_eq!(resolve_params(&spec, &stored).as_ref(), Ok(&stored));
        let command = Command::Argv(["run", "{p}", "x{p}"].map(str::to_owned).to_vec());
        let filling = Filling {
            params,
            ..Filling::default()
        };
        let words = argv(&command, &filling).expect("it has a value");
        assert_eq!((words.len(), words[2].as_str()), (3, "x{p}"));
        assert_eq!(words[1], param_text(&filling.params["p"]));
        assert!(!words[1].contains('\0'));
        if kind == ParamType::String {
            assert_eq!(words[1], value);
        }
    }
    assert!(!param_variable(name).is_empty());
}

/// Without a star or a question mark a pattern fits itself alone.
fn pattern(pattern: &str, path: &str) {
    let fits = matches(pattern, path);
    if !pattern.contains(['*', '?']) {
        assert_eq!(fits, pattern == path);
    }
    if !pattern.contains("**") && fits {
        let slashes = |s: &str| s.matches('/').count();
        assert_eq!(slashes(pattern), slashes(path), "a star stays in its directory");
    }
}
