//! A password from `PGPASSWORD` or the password file, as libpq finds it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tokio_postgres::config::Host;

/// The password for the first host of `pg`, if the environment or the file has one.
pub(crate) fn lookup(pg: &tokio_postgres::Config) -> Option<String> {
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Some(password);
    }
    let path = match std::env::var_os("PGPASSFILE") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"),
    };
    let mode = std::fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(file = %path.display(), "password file ignored: others may read it (chmod 0600)");
        return None;
    }
    let content = std::fs::read_to_string(&path).ok()?;
    let host = match pg.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = pg.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = pg.get_user().unwrap_or_default();
    let database = pg.get_dbname().unwrap_or(user);
    find(&content, [&host, &port, database, user])
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
