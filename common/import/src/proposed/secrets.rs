//! Variables that look like passwords: their values go to the nodes' store, and commands read them from there.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::definition::for_importers::is_variable;
use farmhand_core::text::redact::SHORTEST;

use super::names::Names;

/// What stands for a value.
const HIDDEN: &str = "***";

/// What the agent gives a job.
const LONGEST: usize = 64 << 10;
const LONGEST_NAME: usize = 100;
/// Of one job.
pub(crate) const MOST: usize = 64;

/// The values of one import, by variable and value; those that are the same are one entry.
#[derive(Debug, Default)]
pub(crate) struct Store {
    entries: BTreeMap<(String, String), String>,
    names: Names,
}

impl Store {
    /// The entry for a job's variable.
    pub fn entry(&mut self, job: &str, variable: &str, value: &str) -> String {
        let key = (variable.to_owned(), value.to_owned());
        let name = || self.names.unique(&format!("{job}.{variable}"));
        self.entries.entry(key).or_insert_with(name).clone()
    }

    /// An entry of this name, or with a number behind it, whose value is not known here.
    pub fn unique(&mut self, entry: &str) -> String {
        self.names.unique(entry)
    }

    /// No other value gets this entry.
    pub fn reserve(&mut self, entry: String) {
        self.names.reserve(entry);
    }

    /// Values by entry.
    pub fn into_values(self) -> BTreeMap<String, String> {
        (self.entries.into_iter())
            .map(|((_, value), entry)| (entry, value))
            .collect()
    }
}

/// Whether a variable goes to the store; what is too short there could not be hidden in the output.
pub(crate) fn is_stored(name: &str, value: &str) -> bool {
    is_secret(name, value)
        && (SHORTEST..=LONGEST).contains(&value.len())
        && name.len() <= LONGEST_NAME
        && !value.ends_with('\n')
}

/// The variables that go to the store: those that look like passwords, and those that hold one of them.
pub(crate) fn stored(env: &BTreeMap<String, String>) -> BTreeSet<String> {
    let values: Vec<&String> = (env.iter().filter(|(name, value)| is_stored(name, value)))
        .map(|(_, value)| value)
        .collect();
    let holds = |value: &String| values.iter().any(|secret| value.contains(*secret));
    let fits = |name: &str, value: &String| {
        name.len() <= LONGEST_NAME && value.len() <= LONGEST && !value.ends_with('\n')
    };
    (env.iter()
        .filter(|(name, value)| holds(value) && fits(name, value)))
    .map(|(name, _)| name.clone())
    .collect()
}

/// What to say of a variable that looks like a password.
pub(crate) fn secret_note(name: &str, value: &str) -> String {
    match is_stored(name, value) {
        true => format!(
            "{name} looks like a secret: its value is for the nodes' store and not in the job file, which names it in `secrets`; \
             the command reads it from there"
        ),
        false => format!(
            "{name} looks like a secret, and the nodes' store takes {SHORTEST} bytes to {} KiB: it stands in the job file, and after \
             `job apply` in the database",
            LONGEST >> 10
        ),
    }
}

/// Programs that read a variable which their command line does not name.
const CLIENTS: &[(&str, &[&str])] = &[
    (
        "PGPASSWORD",
        &[
            "psql",
            "pg_dump",
            "pg_dumpall",
            "pg_restore",
            "pg_basebackup",
            "pgbench",
            "vacuumdb",
            "reindexdb",
            "createdb",
            "dropdb",
            "clusterdb",
        ],
    ),
    (
        "MYSQL_PWD",
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlcheck",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
        ],
    ),
    ("REDISCLI_AUTH", &["redis-cli"]),
    ("RESTIC_PASSWORD", &["restic"]),
    ("BORG_PASSPHRASE", &["borg"]),
    ("SSHPASS", &["sshpass"]),
    ("VAULT_TOKEN", &["vault"]),
    ("AWS_SECRET_ACCESS_KEY", &["aws", "s3cmd", "restic", "rclone"]),
];

/// Whether a command names a variable, or runs a program that is known to read it.
pub(crate) fn uses(command: &str, variable: &str) -> bool {
    let clients = CLIENTS.iter().find(|(name, _)| *name == variable);
    let is = |word: &str| {
        let program = word.rsplit('/').next().unwrap_or(word);
        word == variable || clients.is_some_and(|(_, programs)| programs.contains(&program))
    };
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c));
    command.split(ends).any(is)
}

/// Where a shell puts a list of arguments.
const ARGUMENTS: &str = "exec \"$@\"";

fn read(variable: &str) -> String {
    format!("{variable}=\"$(/bin/cat \"$FARMHAND_SECRET_{variable}_FILE\")\"; ")
}

/// A line for a shell that has these variables of the store.
pub(crate) fn with_variables<'a>(variables: impl IntoIterator<Item = &'a String>, line: &str) -> String {
    let exports = variables.into_iter().map(|name| format!("export {}", read(name)));
    exports.collect::<String>() + line
}

/// The same for a command that no shell reads.
pub(crate) fn argv_with_variables<'a>(
    variables: impl IntoIterator<Item = &'a String>,
    argv: &[String],
) -> Vec<String> {
    let line = with_variables(variables, ARGUMENTS);
    let shell = ["/bin/sh".to_owned(), "-c".to_owned(), line, "sh".to_owned()];
    [&shell[..], argv].concat()
}

/// The line as it was before.
pub(crate) fn without_variables(line: &str) -> &str {
    let mut rest = line;
    while let Some(export) = rest.strip_prefix("export ")
        && let Some((name, _)) = export.split_once('=')
        && let Some(after) = export.strip_prefix(&read(name))
    {
        rest = after;
    }
    rest
}

/// The command as it was before.
pub(crate) fn argv_without_variables(argv: &[String]) -> &[String] {
    match argv {
        [_, flag, line, _, inner @ ..]
            if flag == "-c" && line != ARGUMENTS && without_variables(line) == ARGUMENTS =>
        {
            inner
        }
        _ => argv,
    }
}

pub(crate) fn hide(text: &mut String, values: &BTreeMap<String, String>) {
    let mut values: Vec<&String> = values.values().collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        if text.contains(value) {
            *text = text.replace(value, HIDDEN);
        }
    }
}

/// The line of a variable, without a value that looks like a password: a job may have it below, or none.
pub(crate) fn hide_variable(line: &str, name: &str, value: &str) -> String {
    match line.split_once('=') {
        Some((left, right)) if is_secret(name, value) => format!("{left}={}", right.replace(value, HIDDEN)),
        _ => line.to_owned(),
    }
}

/// Whether a comment has what looks like a password and is not hidden, as a line that was switched off may.
pub(super) fn tells_secret(comment: &str) -> bool {
    has_secret(&comment.trim_start_matches('#').replace(HIDDEN, ""))
}

/// Whether a variable looks like a password, by its name or by a password in a web address. What a secret is called, or where it
/// lies, is none.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    const PLACES: [&str; 4] = ["NAME", "FILE", "PATH", "DIR"];
    const WORDS: [&str; 8] = [
        "PASS",
        "PWD",
        "SECRET",
        "TOKEN",
        "APIKEY",
        "API_KEY",
        "ACCESS_KEY",
        "CREDENTIAL",
    ];
    let name = name.to_ascii_uppercase();
    let user = value
        .split_once("://")
        .and_then(|(_, rest)| rest.split(['/', '?']).next()?.rsplit_once('@'));
    let in_address =
        user.is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, word)| !word.is_empty()));
    !value.is_empty()
        && !is_path(value)
        && (in_address
            || WORDS.iter().any(|word| name.contains(word)) && !PLACES.iter().any(|end| name.ends_with(end)))
}

/// A path, and no key in base64, which may begin with a slash as well.
fn is_path(value: &str) -> bool {
    let has = |of: fn(&u8) -> bool| value.as_bytes().iter().any(of);
    let is_key = value.len() >= 32
        && (value.bytes()).all(|b| b.is_ascii_alphanumeric() || b"/+=".contains(&b))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit);
    value.starts_with('/') && !is_key
}

/// Whether a command holds what looks like a password: of a variable before a program, of an option, in a web address.
pub(crate) fn has_secret(command: &str) -> bool {
    const QUOTES: [char; 2] = ['"', '\''];
    let words = command.split(|c: char| c.is_whitespace() || "`;|&()?".contains(c));
    let mut words = words.map(|word| word.trim_matches(QUOTES));
    words.any(|word| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if is_variable(&name.trim_start_matches('-').replace('-', "_")) => {
                (name, value)
            }
            _ => ("", word),
        };
        let value = value.trim_start_matches(QUOTES);
        // A shell puts it there.
        !value.contains('$') && is_secret(name, value)
    })
}

/// What to say of such a command.
pub(crate) const SECRET_COMMAND: &str = "its command holds what looks like a password: that stands in the job file, after `job apply` \
    in the database, and while it runs in the node's list of processes; put it into the nodes' store and name it in `secrets`";
