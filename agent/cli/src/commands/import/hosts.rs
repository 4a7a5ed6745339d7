//! Where crontabs lie, on a machine and in copies of many machines' files.

use std::path::{Path, PathBuf};

use farmhand_import::crontab::{Owner, Place};

use super::{Failure, out};

/// Where cron looks for users' crontabs: Debian, Red Hat, SUSE.
const SPOOLS: [&str; 3] = ["spool/cron/crontabs", "spool/cron", "spool/cron/tabs"];

/// Variables of every command, here too.
const COMMON: [&str; 5] = ["HOME", "LOGNAME", "PATH", "SHELL", "USER"];

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

/// Debian's cron reads no such name: that is how people switch a file of /etc/cron.d off.
pub(super) fn is_ignored(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-".contains(b);
    path.parent().is_some_and(|dir| dir.ends_with("etc/cron.d")) && !name.iter().all(plain)
}

/// The root of the machine whose file it is, or of a copy of that machine's files.
pub(super) fn root(path: &Path) -> Option<&Path> {
    let holds = |dir: &&Path| path.starts_with(dir.join("etc")) || path.starts_with(dir.join("var/spool"));
    path.ancestors().skip(1).find(holds)
}

/// What PAM gives the commands of cron.
pub(super) const ENVIRONMENTS: [&str; 2] = ["etc/environment", "etc/default/locale"];

/// What these files of the machine with this root set, and no agent gives to its jobs; `given` says who does.
pub(super) fn environment(root: &Path, files: &[&str], given: &str) -> Vec<String> {
    let told = |file: &&str| {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).ok()?;
        let names =
            (text.lines()).filter_map(|line| line.trim().trim_start_matches("export ").split_once('='));
        let names: Vec<&str> = (names.map(|(name, _)| name.trim()))
            .filter(|name| !name.is_empty() && !name.starts_with('#') && !COMMON.contains(name))
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} sets {}: {given}, an agent does not. Put what they need into `env`",
                path.display(),
                names.join(", ")
            )
        })
    };
    files.iter().filter_map(told).collect()
}

/// The crontabs in a directory of hosts, by host.
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
            let is_read = |path: &PathBuf| ENVIRONMENTS.iter().any(|end| path.ends_with(end));
            others.extend(rest.into_iter().filter(|path| !is_read(path)));
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
                "copy each node's files to DIR/NODE/etc/cron.d, DIR/NODE/var/spool/cron/crontabs and the like, or one crontab to DIR/NODE",
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
