//! The files of values for the nodes' stores, beside the job file that names them.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::{Failure, out};

/// Writes a file for each entry into `jobs.secrets` of `jobs.toml`; says where they are, and never what they hold.
pub(super) fn write(jobs: &Path, values: &BTreeMap<String, String>) -> Result<(), Failure> {
    if values.is_empty() {
        return Ok(());
    }
    let dir = jobs.with_extension("secrets");
    let failed = |error: std::io::Error| {
        Failure::broken(format!("{} cannot be written", dir.display()))
            .why(error)
            .next("the job file was not written either")
    };
    let made = DirBuilder::new().mode(0o700).create(&dir);
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {
            std::fs::set_permissions(&dir, Permissions::from_mode(0o700))
        }
        made => made,
    }
    .map_err(failed)?;
    for (entry, value) in values {
        let path = dir.join(entry);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        // New, so that it is neither a link nor open to others.
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(failed)?;
    }
    out::note(&format!(
        "{}: {} that only you can read. Put the files into secrets_dir of each node that runs these jobs, as `install -m 0600` does, \
         let its policy give them to the jobs' users, and delete them here",
        dir.display(),
        out::count(values.len(), "secret")
    ));
    Ok(())
}
