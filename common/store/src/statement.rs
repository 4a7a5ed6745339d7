//! A statement and its name.

use super::version::SCHEMA;

/// One statement: its name for errors and metrics, and its text.
#[derive(Clone, Copy)]
pub(crate) struct Stmt {
    pub op: &'static str,
    pub sql: &'static str,
    /// Prepared where that can be done: for what is said so often that planning it counts. Its plan must be good
    /// whatever the tables hold, because it stays while they change.
    pub often: bool,
}

/// Words of statements that change something.
const CHANGES: [&str; 7] = [
    "INSERT",
    "UPDATE",
    "DELETE",
    "nextval",
    "setval",
    "set_config",
    "pg_notify",
];

impl Stmt {
    /// Whether it changes nothing: none of its words says so, and no function that it calls may. For saying what may have been done
    /// when no answer came.
    pub(crate) fn only_reads(self) -> bool {
        let lines = self.sql.lines();
        let code: String = lines
            .filter(|line| !line.trim_start().starts_with("--"))
            .collect::<Vec<_>>()
            .join("\n");
        let mut words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        !words.any(|word| CHANGES.contains(&word)) && code.split("farmhand.").skip(1).all(stays_as_it_is)
    }
}

/// Whether this is the name of a table or a view, or of a function that the schema says is STABLE or IMMUTABLE.
fn stays_as_it_is(rest: &str) -> bool {
    let name = rest
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    let mut made = SCHEMA.split("CREATE FUNCTION farmhand.").skip(1);
    let heads = made
        .by_ref()
        .filter(|text| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')));
    heads
        .map(|text| text.split("AS $").next().unwrap_or_default())
        .all(|head| head.contains("STABLE") || head.contains("IMMUTABLE"))
}

/// Names the statement of a file in `sql/`.
macro_rules! stmt {
    ($name:literal) => {
        $crate::statement::stmt!($name, false)
    };
    ($name:literal, often) => {
        $crate::statement::stmt!($name, true)
    };
    ($name:literal, $often:literal) => {
        $crate::statement::Stmt {
            op: $name,
            often: $often,
            sql: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/", $name, ".sql")),
        }
    };
}
pub(crate) use stmt;

#[cfg(test)]
mod tests {
    #[test]
    fn what_changes_nothing_is_told_from_what_may_have_been_done() {
        for stmt in [
            stmt!("reading_jobs"),
            stmt!("reading_farm"),
            stmt!("run"),
            stmt!("queue"),
            stmt!("poll"),
            stmt!("check_table"),
        ] {
            assert!(stmt.only_reads(), "{}", stmt.op);
        }
        for stmt in [
            stmt!("submit"),
            stmt!("fire"),
            stmt!("finish"),
            stmt!("lease_acquire"),
            stmt!("session_begin"),
            stmt!("cancel"),
        ] {
            assert!(!stmt.only_reads(), "{}", stmt.op);
        }
    }
}
