//! `[job.NAME.table]`: a table of the user's own whose rows are run.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use super::JobSpec;
use super::spec::{Overlap, RunOn, millis};
use crate::document::{Found, Reader, Wrong, filled, positive_duration};
use crate::serde_list::one_or_many;

/// A column of a user's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// As it is in the catalog.
    pub name: String,
    /// As PostgreSQL writes it.
    pub kind: String,
    /// The category of its type, `i` for integers that are too small for the number of a run.
    pub category: String,
    pub nullable: bool,
    /// Cannot be set.
    pub generated: bool,
    /// By itself.
    pub unique: bool,
    /// One of several that are the primary key.
    pub primary: bool,
}

/// Which rows a table job runs, and where it writes what became of them. Names are as in PostgreSQL's
/// catalogs: nothing is folded, everything is quoted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableSpec {
    pub schema: String,
    pub name: String,
    /// A column with a unique index, whose text is handed to the command; of several, a JSON array of their texts is.
    #[serde(with = "one_or_many")]
    pub key: Vec<String>,
    /// NULL: the row is to be run.
    pub dispatch: String,
    /// Columns by which rows are taken, before their key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order_by: Vec<String>,
    /// Columns that the command finds in `FARMHAND_ROW`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub row: Vec<String>,
    /// Gets the start of the row's run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Gets the end of the row's run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// Gets the command's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<String>,
    /// Gets the outcome and its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often the farm looks for rows when nothing tells it to.
    #[serde(with = "millis")]
    pub poll: Duration,
    /// Runs of the job that have not ended, on the whole farm, at most.
    pub max_running: u32,
}

impl Default for TableSpec {
    fn default() -> Self {
        Self {
            schema: "public".to_owned(),
            name: String::new(),
            key: Vec::new(),
            dispatch: String::new(),
            order_by: Vec::new(),
            row: Vec::new(),
            started: None,
            finished: None,
            exit_code: None,
            message: None,
            poll: Duration::from_secs(5),
            max_running: 10,
        }
    }
}

/// The most runs that a table job may have under way.
pub(super) const MAX_RUNNING: i64 = 10_000;

/// Bytes of `FARMHAND_ROW`: a variable has 128 KiB at most.
pub const MAX_ROW: usize = 65_536;

/// A function of PostgreSQL makes JSON of that many names and values.
const MAX_COLUMNS: usize = 50;

/// An index of PostgreSQL has at most 32.
const MAX_KEY: usize = 32;

/// A table is looked at no more often.
pub const SHORTEST_POLL: Duration = Duration::from_millis(100);

const LONGEST_POLL: Duration = Duration::from_secs(86_400);

/// What makes a job a table job.
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
    let none = |found: Found<&DeValue<'_>>| found.value.as_array().is_some_and(|list| list.is_empty());
    for key in ["name", "key", "dispatch"] {
        if table.raw(key).is_none_or(none) {
            sink.report(
                span.clone(),
                format!("`table` has no `{key}`"),
                "it needs `name`, `key` and `dispatch`: the table, its unique column, and the column that is NULL while \
                 a row waits",
            );
        }
    }
    let mut columns: Vec<(&str, &String)> = read.key.iter().map(|column| ("key", column)).collect();
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
        let twin = columns[..i].iter().find(|(_, c)| c == column && !c.is_empty());
        if let (Some((first, _)), Some(span)) = (twin, table.key_span(key)) {
            sink.report(
                span,
                format!("`{key}` and `{first}` are the same column"),
                "each of them needs a column of its own",
            );
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
    let mut found: Vec<(Range<usize>, &str, &str)> = Vec::new();
    for key in ["schedule", "triggered_by", "task", "flow"] {
        found.extend(job.own_span(key).map(|span| (span, key, ROWS)));
    }
    if overlap != Overlap::Allow {
        let fix = "each row runs once at a time; `max_running` bounds how many rows do";
        found.extend(job.own_span("overlap").map(|span| (span, "overlap", fix)));
    }
    if spec.run_on == RunOn::EachNode {
        let fix = "a row is run once, on one node";
        found.extend(job.key_span("run_on").map(|span| (span, "run_on", fix)));
    }
    if spec.instances > 1 {
        let fix = "a row is run once; `max_running` bounds how many rows run";
        found.extend(job.key_span("instances").map(|span| (span, "instances", fix)));
    }
    for (span, key, fix) in found {
        let what = format!("`{key}` and `table` exclude each other");
        job.sink().report(span, what, fix);
    }
}

pub(super) fn qualified(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    parse_table_name(&name).map(|_| name)
}

pub(super) fn poll(value: &DeValue<'_>) -> Result<Duration, Wrong> {
    let poll = positive_duration(value)?;
    if (SHORTEST_POLL..=LONGEST_POLL).contains(&poll) {
        return Ok(poll);
    }
    Err(Wrong::new(
        "it is not between 100ms and a day",
        "for example \"5s\"; NOTIFY and SIGALRM make the farm look at once",
    ))
}

/// The schema and name of `table` or `schema.table`; a name with a dot in it stands in double quotes.
///
/// # Errors
/// What is wrong with it.
pub fn parse_table_name(text: &str) -> Result<(String, String), Wrong> {
    let wrong = |what: &str| {
        Wrong::new(
            what,
            "write \"table\" or \"schema.table\", and a name that has a dot in it as '\"a.b\".c'",
        )
    };
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let part;
        (part, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or_else(|| wrong("a quote is not closed"))?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        identifier(&part)?;
        parts.push(part);
        match rest.strip_prefix('.') {
            Some(more) => rest = more,
            None if rest.is_empty() => break,
            None => return Err(wrong("something follows the closing quote")),
        }
    }
    let name = parts.pop().unwrap_or_default();
    match (parts.pop(), parts.pop()) {
        (schema, None) => Ok((schema.unwrap_or_else(|| "public".to_owned()), name)),
        _ => Err(wrong("it has more than two parts")),
    }
}

/// As [`parse_table_name`] reads it.
pub fn table_name(schema: &str, name: &str) -> String {
    let part = |name: &str| match name.contains(['.', '"']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    };
    format!("{}.{}", part(schema), part(name))
}

/// The name up to the closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, rest)),
        }
    }
}

pub(super) fn column(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = filled(value)?;
    identifier(&name)?;
    Ok(name)
}

fn identifier(name: &str) -> Result<(), Wrong> {
    const LONGEST: usize = 63;
    if name.is_empty() {
        return Err(Wrong::new(
            "a name is empty",
            "write its name as it is in the table",
        ));
    }
    if name.contains('\0') || name.len() > LONGEST {
        let what = format!("`{}` is not a name that PostgreSQL allows", name.escape_debug());
        return Err(Wrong::new(
            what,
            "names have at most 63 bytes, and none of them is NUL",
        ));
    }
    Ok(())
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
