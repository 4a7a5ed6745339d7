//! The keys of a table job, proposed from the columns that a table has.

use farmhand_core::definition::for_importers::table_name;
use farmhand_core::definition::{Column, TableSpec};

use crate::proposed::{quoted, text_or_list};

/// A table job for a table, as far as its columns say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The keys of the table job.
    pub table: TableSpec,
    /// Columns that have no part in it, for `row`.
    pub others: Vec<String>,
    /// What the table lacks, and what adds it.
    pub missing: Vec<(String, String)>,
}

/// Words in the names of columns, the likelier ones first.
const DISPATCH: &[&str] = &[
    "dispatch", "pick", "taken", "claim", "sent", "process", "handled", "executed", "run_at", "ran",
];
const STARTED: &[&str] = &["start", "began", "begin"];
const FINISHED: &[&str] = &["finish", "ended", "done", "complete"];
const EXIT_CODE: &[&str] = &["exit", "return_code", "result_code"];
const MESSAGE: &[&str] = &["error", "outcome", "reason", "result"];
const ORDER: &[&str] = &["creat", "insert", "queue", "added", "submit", "enter"];

impl Proposal {
    /// Of the columns that may be set, only those that are NULL at first and whose names say what they are for: a job
    /// overwrites them.
    pub fn new(schema: String, name: String, columns: &[Column]) -> Self {
        let t = format!("{}.{}", identifier(&schema), identifier(&name));
        let mut used: Vec<String> = Vec::new();
        let mut take = |words: &[&str], categories: &str, written: bool| {
            let fits = |c: &&Column| {
                categories.contains(&c.category)
                    && (!written || c.nullable && !c.generated)
                    && !used.contains(&c.name)
            };
            let has = |word: &&str| {
                columns
                    .iter()
                    .filter(fits)
                    .find(|c| c.name.to_lowercase().contains(*word))
            };
            let found = words.iter().find_map(has)?.name.clone();
            used.push(found.clone());
            Some(found)
        };
        let keys = || columns.iter().filter(|c| c.unique);
        let key = keys().find(|c| !c.nullable).or_else(|| keys().next());
        let primary: Vec<String> = columns
            .iter()
            .filter(|c| c.primary)
            .map(|c| c.name.clone())
            .collect();
        let dispatch = take(DISPATCH, "DB", true);
        let mut table = TableSpec {
            schema,
            name,
            started: take(STARTED, "D", true),
            finished: take(FINISHED, "D", true),
            exit_code: take(EXIT_CODE, "NSi", true),
            message: take(MESSAGE, "S", true),
            order_by: take(ORDER, "D", false).into_iter().collect(),
            ..TableSpec::default()
        };
        let mut missing = Vec::new();
        match dispatch.or_else(|| table.finished.take()) {
            Some(found) => table.dispatch = found,
            None => {
                table.dispatch = "dispatched_at".to_owned();
                missing.push((
                    "no column is seen to be NULL while a row waits (`dispatch`)".to_owned(),
                    format!("ALTER TABLE {t} ADD COLUMN dispatched_at timestamptz;"),
                ));
            }
        }
        match key {
            Some(found) => table.key = vec![found.name.clone()],
            None if primary.len() > 1 => table.key = primary,
            None => {
                table.key = vec!["id".to_owned()];
                missing.push((
                    "no column is unique by itself (`key`)".to_owned(),
                    format!("ALTER TABLE {t} ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE;"),
                ));
            }
        }
        let others = columns.iter().map(|c| c.name.clone());
        let others = others
            .filter(|name| !used.contains(name) && !table.key.contains(name) && table.dispatch != *name)
            .collect();
        Self {
            table,
            others,
            missing,
        }
    }

    /// A job file that is whole but for its command.
    pub fn toml(&self) -> String {
        let table = &self.table;
        let job: String = table
            .name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let job = Some(job.trim_matches('-'))
            .filter(|job| !job.is_empty())
            .unwrap_or("rows");
        let name = table_name(&table.schema, &table.name);
        let mut lines = vec![
            format!("[job.{job}]"),
            "command = [\"echo\", \"{key}\"]".to_owned(),
            String::new(),
            format!("[job.{job}.table]"),
            format!("name = {}", quoted(name)),
            format!("key = {}", text_or_list(&table.key)),
            format!("dispatch = {}", quoted(&table.dispatch)),
        ];
        for (key, column) in [
            ("started", &table.started),
            ("finished", &table.finished),
            ("exit_code", &table.exit_code),
            ("message", &table.message),
            ("order_by", &table.order_by.first().cloned()),
        ] {
            lines.extend(
                column
                    .as_ref()
                    .map(|column| format!("{key} = {}", quoted(column))),
            );
        }
        if !self.others.is_empty() {
            let others: Vec<String> = self.others.iter().map(quoted).collect();
            lines.push(format!("# row = [{}]", others.join(", ")));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// For SQL.
fn identifier(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use farmhand_core::definition::load;
    use farmhand_core::document::Source;

    use super::*;

    fn column(name: &str, category: &str, more: &str) -> Column {
        Column {
            name: name.to_owned(),
            category: category.to_owned(),
            nullable: !more.contains("not null"),
            unique: more.contains("unique"),
            ..Column::default()
        }
    }

    fn read(proposal: &Proposal) -> TableSpec {
        let source = Source {
            name: "j".to_owned(),
            text: proposal.toml(),
        };
        let jobs = load(&[source]).unwrap_or_else(|wrong| panic!("{wrong}\n{}", proposal.toml()));
        jobs[0].spec.table.clone().unwrap()
    }

    #[test]
    fn an_outbox_is_recognized_whole() {
        let proposal = Proposal::new(
            "shop".to_owned(),
            "outbox".to_owned(),
            &[
                column("id", "N", "not null unique"),
                column("created_at", "D", "not null"),
                column("address", "S", "not null"),
                column("sent_at", "D", ""),
                column("started_at", "D", ""),
                column("finished_at", "D", ""),
                column("exit_code", "i", ""),
                column("last_error", "S", ""),
                column("message", "S", ""),
            ],
        );
        let text = "[job.outbox]\ncommand = [\"echo\", \"{key}\"]\n\n[job.outbox.table]\nname = \"shop.outbox\"\n\
            key = \"id\"\ndispatch = \"sent_at\"\nstarted = \"started_at\"\nfinished = \"finished_at\"\n\
            exit_code = \"exit_code\"\nmessage = \"last_error\"\norder_by = \"created_at\"\n# row = [\"address\", \"message\"]\n";
        assert_eq!(proposal.toml(), text);
        assert_eq!((read(&proposal), proposal.missing), (proposal.table, vec![]));
    }

    #[test]
    fn what_is_missing_is_named_with_a_statement_and_odd_names_are_quoted() {
        let proposal = Proposal::new(
            "My.Shop".to_owned(),
            "a\"b".to_owned(),
            &[
                column("tenant", "N", "not null"),
                column("sent_at", "D", "not null"),
            ],
        );
        let fixes: Vec<&str> = proposal.missing.iter().map(|(_, fix)| fix.as_str()).collect();
        assert_eq!(
            fixes,
            [
                "ALTER TABLE \"My.Shop\".\"a\"\"b\" ADD COLUMN dispatched_at timestamptz;",
                "ALTER TABLE \"My.Shop\".\"a\"\"b\" ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE;"
            ]
        );
        assert_eq!(read(&proposal), proposal.table);
    }
}
