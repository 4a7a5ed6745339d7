//! `[job.NAME.table]`: a table of the user's own whose rows are run.

use std::time::Duration;

use toml::de::DeValue;

use crate::definition::spec::job::{JobSpec, Overlap, RunOn};
use crate::definition::spec::table::{SHORTEST_POLL, identifier, parse_table_name};
use crate::document::{Reader, Wrong, filled, positive_duration, require};

/// The most runs that a table job may have under way.
pub(super) const MAX_RUNNING: i64 = 10_000;

/// A function of PostgreSQL makes JSON of that many names and values.
const MAX_COLUMNS: usize = 50;

/// An index of PostgreSQL has at most 32.
const MAX_KEY: usize = 32;

const LONGEST_POLL: Duration = Duration::from_secs(86_400);

pub(super) fn settle(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let Some(read) = &mut spec.table else { return };
    let (Some(span), Some(mut table)) = (job.key_span("table"), job.table("table")) else {
        return;
    };
    let sink = table.sink();
    if let Ok(name) = parse_table_name(&read.name) {
        (read.schema, read.name) = name;
    }
    for (key, most) in [("key", MAX_KEY), ("order_by", MAX_COLUMNS), ("row", MAX_COLUMNS)] {
        if let Some(more) = table.texts(key).get(most) {
            let what = format!("`{key}` has more than {most} columns");
            sink.report(more.span.clone(), what, "name fewer");
        }
    }
    for key in ["name", "key", "dispatch"] {
        if table.raw(key).is_none_or(|found| found.is_empty_list()) {
            sink.report(
                span.clone(),
                format!("`table` has no `{key}`"),
                "it needs `name`, `key` and `dispatch`: the table, its unique column, and the column that is NULL while \
                 a row waits",
            );
        }
    }
    let mut columns: Vec<(&'static str, &String)> = read.key.iter().map(|column| ("key", column)).collect();
    columns.push(("dispatch", &read.dispatch));
    for (key, column) in [
        ("started", &read.started),
        ("finished", &read.finished),
        ("exit_code", &read.exit_code),
        ("message", &read.message),
    ] {
        columns.extend(column.as_ref().map(|c| (key, c)));
    }
    for (i, (key, column)) in columns.iter().enumerate() {
        if let Some((first, _)) = columns[..i].iter().find(|(_, c)| c == column && !c.is_empty()) {
            let what = format!("`{key}` and `{first}` are the same column");
            table.refuse(key, what, "each of them needs a column of its own");
        }
    }
    // What a row's run overlaps with is another row's.
    let inherited = spec.overlap;
    spec.overlap = Overlap::Allow;
    exclusive(job, spec, inherited);
}

/// Keys that say when and where a run is made: the rows say that.
fn exclusive(job: &mut Reader<'_>, spec: &JobSpec, overlap: Overlap) {
    const ROWS: &str =
        "a table job runs when a row's dispatch column is NULL: leave it out, or make two jobs";
    let what = |key: &str| format!("`{key}` and `table` exclude each other");
    for key in ["schedule", "triggered_by", "task", "flow"] {
        job.refuse_own(key, what(key), ROWS);
    }
    if overlap != Overlap::Allow {
        let fix = "each row runs once at a time; `max_running` bounds how many rows do";
        job.refuse_own("overlap", what("overlap"), fix);
    }
    if spec.run_on == RunOn::EachNode {
        job.refuse("run_on", what("run_on"), "a row is run once, on one node");
    }
    if spec.instances > 1 {
        let fix = "a row is run once; `max_running` bounds how many rows run";
        job.refuse("instances", what("instances"), fix);
    }
}

pub(super) fn qualified(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    parse_table_name(&name).map(|_| name)
}

pub(super) fn poll(value: &DeValue<'_>) -> Result<Duration, Wrong> {
    let poll = positive_duration(value)?;
    let fix = "for example \"5s\"; NOTIFY and SIGALRM make the farm look at once";
    let good = (SHORTEST_POLL..=LONGEST_POLL).contains(&poll);
    require(good, "it is not between 100ms and a day", fix)?;
    Ok(poll)
}

pub(super) fn column(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    identifier(&name)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use crate::definition::{JobSpec, Overlap, load};
    use crate::document::{Located, Source};

    const TABLE: &str = "name = 'app.orders'\nkey = 'id'\ndispatch = 'sent_at'\n";

    fn read(text: &str) -> Result<JobSpec, Vec<Located>> {
        let source = Source {
            name: "j".to_owned(),
            text: text.to_owned(),
        };
        let jobs = load(&[source]).map_err(|mistakes| mistakes.located())?;
        Ok(jobs[0].spec.clone())
    }

    fn named(name: &str) -> Result<(String, String), String> {
        let text =
            format!("[job.a]\ncommand = ['x']\ntable = {{ name = {name}, key = 'k', dispatch = 'd' }}\n");
        read(&text)
            .map(|spec| spec.table.map(|t| (t.schema, t.name)).unwrap())
            .map_err(|wrong| wrong[0].what.clone())
    }

    #[test]
    fn a_table_is_read_with_its_defaults_and_never_waits_for_another_row() {
        let spec = read(&format!("[job.a]\ncommand = ['x']\n[job.a.table]\n{TABLE}")).unwrap();
        let table = spec.table.unwrap();
        assert_eq!((table.schema.as_str(), table.name.as_str()), ("app", "orders"));
        assert_eq!((table.poll.as_secs(), table.max_running), (5, 10));
        assert_eq!(spec.overlap, Overlap::Allow);
    }

    #[test]
    fn names_are_taken_as_they_are_written() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(named("'Orders'"), pair("public", "Orders"));
        assert_eq!(named("'My Shop.or\"ders'"), pair("My Shop", "or\"ders"));
        assert_eq!(named("'\"a.b\".\"c\"\"d\"'"), pair("a.b", "c\"d"));
        assert!(named("'a.b.c'").unwrap_err().contains("more than two parts"));
        assert!(named("'a.'").unwrap_err().contains("empty"));
        assert!(named("'\"a'").unwrap_err().contains("not closed"));
        assert!(
            named("'\"a\"b'")
                .unwrap_err()
                .contains("follows the closing quote")
        );
    }

    #[test]
    fn what_makes_no_sense_for_rows_is_refused_one_by_one() {
        let cases = [
            ("schedule = '@daily'\n", "`schedule` and `table`"),
            ("overlap = 'skip'\n", "`overlap` and `table`"),
            ("run_on = 'each-node'\n", "`run_on` and `table`"),
            (
                "params = { p = { type = 'string', required = true } }\n",
                "is required, and a row gives none",
            ),
        ];
        for (line, what) in cases {
            let text = format!("[job.a]\ncommand = ['x']\n{line}[job.a.table]\n{TABLE}");
            let wrong = read(&text).unwrap_err();
            assert!(wrong.iter().any(|w| w.what.contains(what)), "{text}{wrong:#?}");
        }
        let text = format!("[job.a]\nflow = '/x'\n[job.a.table]\n{TABLE}");
        assert!(read(&text).unwrap_err()[0].what.contains("`flow` and `table`"));
        // What a file's defaults say of other jobs is not said of this one.
        let text = format!("[defaults]\noverlap = 'skip'\n[job.a]\ncommand = ['x']\n[job.a.table]\n{TABLE}");
        assert_eq!(read(&text).unwrap().overlap, Overlap::Allow);
    }

    #[test]
    fn missing_doubled_and_unknown_keys_are_named() {
        let cases = [
            ("name = 'a'\nkey = 'k'\n", "`table` has no `dispatch`"),
            ("name = 'a'\nkey = 'k'\ndispatch = 'k'\n", "the same column"),
            (
                "name = 'a'\nkey = 'k'\ndispatch = 'd'\nlimit = 3\n",
                "unknown key `limit`",
            ),
            (
                "name = 'a'\nkey = ['k', 'k']\ndispatch = 'd'\n",
                "the same column",
            ),
            ("name = 'a'\nkey = []\ndispatch = 'd'\n", "has no `key`"),
            (
                "name = 'a'\nkey = 'k'\ndispatch = 'd'\nmax_running = 0\n",
                "`max_running`",
            ),
            (
                "name = 'a'\nkey = 'k'\ndispatch = 'd'\npoll = '1ms'\n",
                "between 100ms and a day",
            ),
        ];
        for (table, what) in cases {
            let text = format!("[job.a]\ncommand = ['x']\n[job.a.table]\n{table}");
            let wrong = read(&text).unwrap_err();
            assert!(wrong.iter().any(|w| w.what.contains(what)), "{text}{wrong:#?}");
        }
    }
}
