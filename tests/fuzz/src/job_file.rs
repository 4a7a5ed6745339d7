//! Job files. What is accepted is stored as JSON, signed, planned and started; what is refused says where.

use farmhand_core::definition::{Filling, JobSpec, argv, differences, load_all, resolve_params};
use farmhand_core::document::{Mistakes, Source};
use farmhand_core::schedule::{ParseContext, Schedule};
use farmhand_policy::trust::Document;
use jiff::Timestamp;
use serde_json::Map;

use super::input::{number, parts, text};

pub fn run(data: &[u8]) {
    let parts = parts(data, 1);
    let sources: Vec<Source> = parts
        .iter()
        .zip(0..)
        .map(|(part, nth)| Source {
            name: format!("jobs-{nth}.toml"),
            text: text(part).to_owned(),
        })
        .collect();
    match load_all(&sources) {
        Ok(all) => {
            let names: Vec<&str> = all.jobs.iter().map(|job| job.name.as_str()).collect();
            assert!(names.is_sorted_by(|a, b| a < b), "each once, by name: {names:?}");
            for job in &all.jobs {
                assert!(job.source < sources.len() && job.span.end <= sources[job.source].text.len());
                accepted(&job.name, &job.spec);
            }
        }
        Err(mistakes) => refused(&mistakes, &sources, number(data)),
    }
}

fn accepted(name: &str, spec: &JobSpec) {
    assert!(
        !name.is_empty() && name.len() <= 100 && !name.contains(['/', '\0', '\n']),
        "{name:?}"
    );
    let stored = serde_json::to_string(spec).expect("a definition is JSON");
    let read: JobSpec = serde_json::from_str(&stored).expect("and is read again");
    assert_eq!(&read, spec, "what is stored is what was read");
    assert!(differences(&stored_value(spec), &stored_value(&read)).is_empty());
    // PostgreSQL's jsonb takes no NUL.
    assert!(!stored.contains("\\u0000"), "{stored}");
    let signed = Document::new(name, 1, spec)
        .and_then(|d| d.text())
        .expect("it can be signed");
    let document = Document::parse(&signed).expect("and the text be read");
    let vouched: JobSpec = serde_json::from_value(document.spec).expect("of a definition");
    assert_eq!(&vouched, spec, "what is signed is what is stored");
    let context = ParseContext {
        job: name,
        timezone: &spec.timezone,
        dst: spec.dst,
        spread: spec.spread,
    };
    let schedule = Schedule::parse(&spec.schedule, &context).expect("its schedule is one");
    assert!(!schedule.describe().is_empty() || spec.schedule.is_empty());
    let from = Timestamp::from_second(1_800_000_000).expect("a time");
    assert!(schedule.next_after(from).is_none_or(|next| next > from));
    if let (Some(command), Ok(params)) = (&spec.command, resolve_params(spec, &Map::new())) {
        // Only optional parameters can lack a value, and those may not be arguments.
        let filling = Filling {
            params,
            key: spec.table.as_ref().map(|_| "k".to_owned()),
            ..Filling::default()
        };
        let words = argv(command, &filling).expect("its arguments");
        assert!(
            !words.is_empty() && words.iter().all(|word| !word.contains('\0')),
            "{words:?}"
        );
    }
}

fn stored_value(spec: &JobSpec) -> serde_json::Value {
    serde_json::to_value(spec).expect("a definition is JSON")
}

fn refused(mistakes: &Mistakes, sources: &[Source], seed: u64) {
    assert!(!mistakes.is_empty());
    for at in mistakes.located() {
        let source = sources
            .iter()
            .find(|s| s.name == at.file)
            .expect("of one of the files");
        let line = source
            .text
            .split('\n')
            .nth(at.line - 1)
            .expect("the line is there");
        assert!(
            (1..=line.chars().count() + 1).contains(&at.column),
            "{at:?} in {line:?}"
        );
        assert!(!at.what.is_empty() && !at.fix.is_empty(), "{at:?}");
    }
    let shown = mistakes.render(seed & 1 == 1, 20 + (seed >> 8) as usize % 180);
    assert!(!shown.is_empty() && !mistakes.to_string().is_empty());
}
