//! A table of the user's own whose rows are run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::defaults::with_defaults;
use crate::document::Wrong;
use crate::serde_list::one_or_many;
use crate::serde_time::millis;

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

with_defaults! {
    /// Which rows a table job runs, and where it writes what became of them. Names are as in PostgreSQL's
    /// catalogs: nothing is folded, everything is quoted.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct TableSpec {
        pub schema: String = "public".to_owned(),
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
        pub poll: Duration = Duration::from_secs(5),
        /// Runs of the job that have not ended, on the whole farm, at most.
        pub max_running: u32 = 10,
    }
}

/// Bytes of `FARMHAND_ROW`: a variable has 128 KiB at most.
pub const MAX_ROW: usize = 65_536;

/// A table is looked at no more often.
pub const SHORTEST_POLL: Duration = Duration::from_millis(100);

/// The schema and name of `table` or `schema.table`; a name with a dot in it stands in double quotes.
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

pub(in crate::definition) fn identifier(name: &str) -> Result<(), Wrong> {
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
