//! The example jobs of `deploy/examples`, made to fit one farm.

use std::path::Path;

/// File name and text of each example.
const FILES: &[(&str, &str)] = &[
    (
        "checksum-sweep.toml",
        include_str!("../../../deploy/examples/checksum-sweep.toml"),
    ),
    (
        "database-dump.toml",
        include_str!("../../../deploy/examples/database-dump.toml"),
    ),
    (
        "flaky-import.toml",
        include_str!("../../../deploy/examples/flaky-import.toml"),
    ),
    (
        "heartbeat.toml",
        include_str!("../../../deploy/examples/heartbeat.toml"),
    ),
    (
        "inbox-worker.toml",
        include_str!("../../../deploy/examples/inbox-worker.toml"),
    ),
    (
        "load-sampler.toml",
        include_str!("../../../deploy/examples/load-sampler.toml"),
    ),
    (
        "log-compressor.toml",
        include_str!("../../../deploy/examples/log-compressor.toml"),
    ),
    (
        "read-all.toml",
        include_str!("../../../deploy/examples/read-all.toml"),
    ),
    (
        "slow-verify.toml",
        include_str!("../../../deploy/examples/slow-verify.toml"),
    ),
];

/// A table job, and the table that it is for. Made by whoever tries it.
const TABLE: &[(&str, &str)] = &[
    (
        "outbox.sql",
        include_str!("../../../deploy/examples/table/outbox.sql"),
    ),
    (
        "outbox.toml",
        include_str!("../../../deploy/examples/table/outbox.toml"),
    ),
];

/// What the files say where a farm has its own database and its own directory.
const DATABASE: &str = "\"postgresql:///farmhand\"";
const WORK: &str = "\"/var/tmp/farmhand-examples\"";

/// The examples as files: name and text.
pub fn fitted(database_url: &str, work: &Path) -> Vec<(&'static str, String)> {
    fit(FILES, database_url, work)
}

/// The example of a table job, likewise.
pub(crate) fn fitted_table(database_url: &str, work: &Path) -> Vec<(&'static str, String)> {
    fit(TABLE, database_url, work)
}

fn fit(
    files: &[(&'static str, &'static str)],
    database_url: &str,
    work: &Path,
) -> Vec<(&'static str, String)> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let (database, work) = (quoted(database_url), quoted(&work.to_string_lossy()));
    let fit = |text: &str| text.replace(DATABASE, &database).replace(WORK, &work);
    files.iter().map(|(name, text)| (*name, fit(text))).collect()
}

/// Writes examples into `dir`, unless it is there: then they were written before, perhaps changed since,
/// and are left alone.
pub fn write(dir: &Path, files: &[(&str, String)]) -> std::io::Result<()> {
    if dir.exists() {
        return Ok(());
    }
    // Made aside, so that an interrupted first start is not taken for a complete one.
    let aside = dir.with_extension("unfinished");
    std::fs::create_dir_all(&aside)?;
    for (name, text) in files {
        std::fs::write(aside.join(name), text)?;
    }
    std::fs::rename(&aside, dir)
}
