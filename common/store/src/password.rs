//! Where a connection's password comes from. It is asked again for each connection, because passwords are replaced and
//! tokens expire: what `FARMHAND_DATABASE_PASSWORD_COMMAND` prints, the file that `FARMHAND_DATABASE_PASSWORD_FILE` names,
//! else as libpq finds it. The logins for users' rows and for definitions have variables of their own
//! (`FARMHAND_ROWS_DATABASE_…`, `FARMHAND_DEFINITIONS_DATABASE_…`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_postgres::config::Host;

use super::command;
use super::error::StoreError;
use super::files::{self, AsRoot};

/// One of an agent's logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// With which it runs the farm.
    Own,
    Rows,
    /// That with which the API changes definitions.
    Definitions,
}

impl Login {
    /// A command that prints the password.
    fn command(self) -> &'static str {
        match self {
            Self::Own => "FARMHAND_DATABASE_PASSWORD_COMMAND",
            Self::Rows => "FARMHAND_ROWS_DATABASE_PASSWORD_COMMAND",
            Self::Definitions => "FARMHAND_DEFINITIONS_DATABASE_PASSWORD_COMMAND",
        }
    }

    /// Names a file that holds the password and nothing else.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Own => "FARMHAND_DATABASE_PASSWORD_FILE",
            Self::Rows => "FARMHAND_ROWS_DATABASE_PASSWORD_FILE",
            Self::Definitions => "FARMHAND_DEFINITIONS_DATABASE_PASSWORD_FILE",
        }
    }

    /// What its URL is set with.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Own => "--database-url (FARMHAND_DATABASE_URL)",
            Self::Rows => "--rows-database-url (FARMHAND_ROWS_DATABASE_URL)",
            Self::Definitions => "--definitions-database-url (FARMHAND_DEFINITIONS_DATABASE_URL)",
        }
    }
}

#[derive(Clone, Debug)]
enum Source {
    /// The URL or the environment has it, or it was asked for, or there is none.
    Given,
    Command {
        line: String,
        variable: &'static str,
    },
    /// A file that is the password.
    Alone(PathBuf),
    /// A file of lines as libpq reads it; whether the URL names it.
    Lines {
        path: PathBuf,
        named: bool,
    },
}

/// The source, and what its file held last.
#[derive(Clone, Debug)]
pub(crate) struct Password {
    source: Source,
    last: Arc<Mutex<Option<String>>>,
}

impl Password {
    pub(crate) fn given() -> Self {
        Self {
            source: Source::Given,
            last: Arc::default(),
        }
    }

    /// The source for `pg`, which gets a password that the environment holds. `passfile` is the URL's own.
    pub(crate) fn find(
        pg: &mut tokio_postgres::Config,
        passfile: Option<PathBuf>,
        login: Login,
    ) -> Result<Self, StoreError> {
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let source = if pg.get_password().is_some() {
            Source::Given
        } else if let Some(command) = of(login.command()) {
            let variable = login.command();
            let line = command
                .into_string()
                .map_err(|_| StoreError::Config(format!("{variable} is not UTF-8")))?;
            Source::Command { line, variable }
        } else if let Some(path) = of(login.file()) {
            Source::Alone(path.into())
        } else if let Some(path) = passfile {
            Source::Lines { path, named: true }
        } else if let (Login::Own, Ok(password)) = (login, std::env::var("PGPASSWORD")) {
            pg.password(password);
            Source::Given
        } else {
            let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
            let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
            named
                .or_else(of_home)
                .map_or(Source::Given, |path| Source::Lines { path, named: false })
        };
        let found = Self {
            source,
            last: Arc::default(),
        };
        if let Some(read) = found.read(None) {
            match (read, &found.source) {
                (Ok(text), _) => found.keep(text),
                (
                    Err(why),
                    Source::Alone(file)
                    | Source::Lines {
                        path: file,
                        named: true,
                    },
                ) => {
                    let file = file.clone();
                    return Err(StoreError::File { file, why });
                }
                (Err(error), Source::Lines { path, .. }) if path.exists() => {
                    tracing::warn!("password file ignored: {error}");
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Its file.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::Alone(path) | Source::Lines { path, .. } => Some(path),
            Source::Given | Source::Command { .. } => None,
        }
    }

    /// The password of this moment for the one server of `pg`, where that has not got it already; a command has `limit` to
    /// print it.
    pub(crate) async fn now(
        &self,
        pg: &tokio_postgres::Config,
        as_root: Option<AsRoot>,
        limit: Duration,
    ) -> Result<Option<String>, StoreError> {
        let server = Server::of(pg);
        match &self.source {
            Source::Given => Ok(None),
            Source::Command { line, variable } => {
                let asked = command::output(line, &server.environment(), limit).await;
                asked.map(Some).map_err(|why| {
                    StoreError::Unreachable(format!("no password: the command of {variable} {why}"))
                })
            }
            Source::Alone(_) | Source::Lines { .. } => {
                let this = self.clone();
                let read = tokio::task::spawn_blocking(move || this.read(as_root)).await;
                match read {
                    Ok(Some(Ok(text))) => self.keep(text),
                    Ok(Some(Err(error))) if self.last().is_some() => {
                        tracing::warn!("what the password file held before is used: {error}");
                    }
                    _ => {}
                }
                let text = self.last();
                Ok(text.and_then(|text| match self.source {
                    Source::Alone(_) => Some(text),
                    _ => find(
                        &text,
                        [&server.host, &server.port, &server.database, &server.user],
                    ),
                }))
            }
        }
    }

    fn read(&self, as_root: Option<AsRoot>) -> Option<Result<String, String>> {
        let (path, closed_to, mode) = match &self.source {
            // Its group may read it, because secrets are mounted so.
            Source::Alone(path) => (path, 0o007, "0640"),
            Source::Lines { path, .. } => (path, 0o077, "0600"),
            Source::Given | Source::Command { .. } => return None,
        };
        let unfit = |why: &str| format!("the password file {} {why}", path.display());
        let text = files::secret(path, |_| closed_to, as_root).map_err(|e| match e {
            files::Unfit::Open => unfit(&format!("may be read by others (chmod {mode})")),
            files::Unfit::Io(e) => unfit(&format!("cannot be read: {e}")),
        });
        Some(text.and_then(|text| {
            let text = String::from_utf8(text).map_err(|_| unfit("is not UTF-8"))?;
            let Source::Alone(_) = self.source else {
                return Ok(text);
            };
            match text.trim_end_matches(['\r', '\n']) {
                "" => Err(unfit("is empty")),
                password => Ok(password.to_owned()),
            }
        }))
    }

    fn keep(&self, text: String) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a password is for.
struct Server {
    host: String,
    port: String,
    database: String,
    user: String,
}

impl Server {
    fn of(pg: &tokio_postgres::Config) -> Self {
        let user = pg.get_user().unwrap_or_default();
        Self {
            host: match pg.get_hosts().first() {
                Some(Host::Tcp(name)) => name.clone(),
                _ => "localhost".to_owned(),
            },
            port: pg.get_ports().first().copied().unwrap_or(5432).to_string(),
            database: pg.get_dbname().unwrap_or(user).to_owned(),
            user: user.to_owned(),
        }
    }

    fn environment(&self) -> [(&'static str, &str); 4] {
        [
            ("PGHOST", &self.host),
            ("PGPORT", &self.port),
            ("PGDATABASE", &self.database),
            ("PGUSER", &self.user),
        ]
    }
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
