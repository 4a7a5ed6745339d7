//! A statement and its name.

/// One statement: its name for errors and metrics, and its text.
#[derive(Clone, Copy)]
pub(crate) struct Stmt {
    pub op: &'static str,
    pub sql: &'static str,
    /// Prepared where that can be done: for what is said so often that planning it counts. Its plan must be good
    /// whatever the tables hold, because it stays while they change.
    pub often: bool,
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
