//! Where crontabs lie, on a machine and in copies of many machines' files.

use std::path::{Path, PathBuf};

use farmhand_core::crontab::{Owner, Place};

use super::{Failure, out};

/// Where cron looks for users' crontabs: Debian, Red Hat, SUSE.
const SPOOLS: [&str; 3] = ["spool/cron/crontabs", "spool/cron", "spool/cron/tabs"];

/// Whose crontab it is, as its path says; of copies too, as hosts/web1/etc/cron.d/x.
pub(super) fn owner(path: &Path) -> Option<Owner> {
    let dir = path.parent()?;
    if path.ends_with("etc/crontab") || dir.ends_with("etc/cron.d") {
        return Some(Owner::System);
    }
    let user = path.file_name()?.to_str()?;
    let in_spool = SPOOLS.iter().any(|spool| dir.ends_with(spool));
    in_spool.then(|| Owner::User(Some(user.to_owned())))
}

/// The crontabs in a directory of hosts, by host.
///
/// # Errors
/// It cannot be read, or there is none.
pub(super) fn crontabs(dir: &Path) -> Result<Vec<(PathBuf, Place)>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be read; nothing was written", dir.display())).why(error)
    };
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for host in entries(dir).map_err(failed)? {
        let Some(name) = host.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let mut files = Vec::new();
        if host.is_dir() {
            walk(&host, &mut files).map_err(failed)?;
            let crontab = |path: &PathBuf| owner(path).is_some() || path.parent() == Some(host.as_path());
            let (crontabs, rest): (Vec<_>, Vec<_>) = files.into_iter().partition(crontab);
            files = crontabs;
            others.extend(rest);
        } else {
            files.push(host.clone());
        }
        let place = Place::Node(name.to_owned());
        found.extend(files.into_iter().map(|path| (path, place.clone())));
    }
    if let [first, ..] = &others[..] {
        out::note(&format!(
            "{} and others below {}, {} in all, do not lie where cron has crontabs, and were not read",
            first.display(),
            dir.display(),
            out::count(others.len(), "file")
        ));
    }
    if found.is_empty() {
        return Err(
            Failure::usage(format!("there is no crontab in {}", dir.display())).next(
                "copy each node's crontab to DIR/NODE, or its files to DIR/NODE/etc/cron.d and the like",
            ),
        );
    }
    Ok(found)
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for path in entries(dir)? {
        match path.is_dir() {
            // A link to a directory is none here, so that every walk ends.
            true if path.is_symlink() => {}
            true => walk(&path, files)?,
            false if is_left_over(&path) => {}
            false => files.push(path),
        }
    }
    Ok(())
}

/// By name, without hidden ones.
fn entries(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What editors and packages leave beside crontabs, and cron passes over.
fn is_left_over(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with('~') || [".dpkg-", ".rpm"].iter().any(|part| name.contains(part))
}
