//! A password from a file or the environment: from the file that `FARMHAND_DATABASE_PASSWORD_FILE` names, else as libpq
//! finds it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio_postgres::config::Host;

use super::error::StoreError;

/// Names a file that holds the password and nothing else.
const FILE: &str = "FARMHAND_DATABASE_PASSWORD_FILE";

/// The password for the first host of `pg`, if the environment or a file has one. `passfile` is the URL's own.
///
/// # Errors
/// A file that was named and cannot be used.
pub(crate) fn lookup(
    pg: &tokio_postgres::Config,
    passfile: Option<&Path>,
) -> Result<Option<String>, StoreError> {
    if let Some(path) = std::env::var_os(FILE).filter(|p| !p.is_empty()) {
        return alone(Path::new(&path)).map(Some);
    }
    if passfile.is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        return Ok(Some(password));
    }
    let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
    let named = passfile
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("PGPASSFILE").map(PathBuf::from));
    let Some(path) = named.or_else(of_home) else {
        return Ok(None);
    };
    let Ok(about) = std::fs::metadata(&path) else {
        return match passfile {
            Some(path) => Err(unfit(path, "cannot be read")),
            None => Ok(None),
        };
    };
    if about.mode() & 0o077 != 0 {
        if passfile.is_some() {
            return Err(unfit(&path, "may be read by others (chmod 0600)"));
        }
        tracing::warn!(file = %path.display(), "password file ignored: others may read it (chmod 0600)");
        return Ok(None);
    }
    let Ok(content) = std::fs::read_to_string(&path) else {
        return Ok(None);
    };
    let host = match pg.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) => "localhost".to_owned(),
        None => return Ok(None),
    };
    let port = pg.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = pg.get_user().unwrap_or_default();
    let database = pg.get_dbname().unwrap_or(user);
    Ok(find(&content, [&host, &port, database, user]))
}

/// A file that is the password. Its group may read it, because secrets are mounted so.
fn alone(path: &Path) -> Result<String, StoreError> {
    let about = std::fs::metadata(path).map_err(|e| unfit(path, &e.to_string()))?;
    if about.mode() & 0o007 != 0 {
        return Err(unfit(path, "may be read by everybody (chmod 0640)"));
    }
    let text = std::fs::read_to_string(path).map_err(|e| unfit(path, &e.to_string()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(unfit(path, "is empty"));
    }
    Ok(password.to_owned())
}

fn unfit(path: &Path, why: &str) -> StoreError {
    StoreError::Config(format!("the password file {} {why}", path.display()))
}

fn find(content: &str, wanted: [&str; 4]) -> Option<String> {
    content
        .lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let fields = split(line);
            let [host, port, database, user, password] = fields.as_slice() else {
                return None;
            };
            let matches = [host, port, database, user]
                .iter()
                .zip(wanted)
                .all(|(have, want)| have.as_str() == "*" || have.as_str() == want);
            matches.then(|| password.clone())
        })
}

/// Fields between colons; a backslash keeps the next character as it is.
fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = fields.len() - 1;
        match c {
            ':' => fields.push(String::new()),
            '\\' => fields[last].extend(chars.next()),
            c => fields[last].push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn the_first_matching_line_wins_and_escapes_count() {
        let file = "# farm\nother:5432:*:*:no\n*:5432:f:u:a\\:b\\\\c\n*:*:*:*:last\n";
        assert_eq!(find(file, ["db", "5432", "f", "u"]).as_deref(), Some("a:b\\c"));
        assert_eq!(find(file, ["db", "5433", "f", "u"]).as_deref(), Some("last"));
    }
}
