//! Which database a command talks to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use farmhand_control::{Asker, Refusal};
use farmhand_store::{Db, DbConfig, PasswordIn, StoreError};

use super::{Failure, settings, terminal};
use farmhand_warden_client::helper::{self, Purpose};

#[derive(Args, Clone, Debug)]
pub(crate) struct DatabaseArgs {
    /// The database [env: FARMHAND_DATABASE_URL, then DATABASE_URL]; no password here, PGPASSFILE can hold one
    #[arg(long, value_name = "URL", global = true)]
    pub database_url: Option<String>,
}

impl DatabaseArgs {
    /// The URL from the flag or the environment.
    /// Errors: Exit code 2 when there is none, or when it would show a password to everyone on the machine.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        url(self.database_url.as_deref(), &settings::environment(), None).map_err(Failure::usage)
    }

    /// The strict form of the URL.
    /// Errors: As [`Self::url`], and when the URL cannot be used.
    pub(crate) fn config(&self) -> Result<DbConfig, Failure> {
        let config = DbConfig::from_url(&self.url()?, PasswordIn::Allowed)?;
        Ok(config.with_application_name("farmhand cli").with_listen(false))
    }

    /// A database whose schema this binary knows. Asks for a password on a terminal when one is missing.
    /// Errors: 5 when it is out of reach, 6 when it denies access, 4 when its schema is another version's.
    pub(crate) async fn connect(&self) -> Result<Db, Failure> {
        with_password(self.config()?, Asker::Person, Db::connect).await
    }
}

/// What `work` makes of the database. On a terminal it is done again with a password, when one is missing.
pub(super) async fn with_password<T>(
    config: DbConfig,
    asker: Asker,
    work: impl AsyncFn(&DbConfig) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    match work(&config).await {
        Err(StoreError::PasswordMissing) if terminal::can_ask() => {
            let question = format!("Password for {}: ", config.target());
            let password = terminal::ask_secret(&question)?;
            let config = config.with_password(&password);
            work(&config).await.map_err(|e| located(e, asker, &config))
        }
        other => other.map_err(|e| located(e, asker, &config)),
    }
}

/// A failure to log in that names the database.
pub(crate) fn located(error: StoreError, asker: Asker, config: &DbConfig) -> Failure {
    Failure::from(Refusal::of(error, asker)).why(format!("database {}", config.target()))
}

/// Flag, then `FARMHAND_DATABASE_URL`, then `DATABASE_URL`, then systemd's credential, then the file.
pub(super) fn url(
    flag: Option<&str>,
    env: &BTreeMap<String, String>,
    in_file: Option<String>,
) -> Result<String, String> {
    if let Some(flag) = flag {
        return without_password(flag, "--database-url", "FARMHAND_DATABASE_URL");
    }
    ["FARMHAND_DATABASE_URL", "DATABASE_URL"]
        .iter()
        .find_map(|name| env.get(*name).filter(|url| !url.is_empty()).cloned())
        .or_else(|| credential(env))
        .or(in_file)
        .ok_or_else(|| {
            "no database is named: set FARMHAND_DATABASE_URL, for example \
             postgresql://farmhand@db.example.com/farmhand"
                .to_owned()
        })
}

/// The URL of a flag.
pub(crate) fn without_password(url: &str, flag: &str, variable: &str) -> Result<String, String> {
    if has_password(url) {
        return Err(format!(
            "{flag} holds a password, and every user of this machine can read command lines: put the URL into {variable}, or \
             the password into a PGPASSFILE"
        ));
    }
    Ok(url.to_owned())
}

/// Where that is.
pub(crate) fn credential_file(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let dir = env.get("CREDENTIALS_DIRECTORY")?;
    Some(Path::new(dir).join("database-url"))
}

/// What a unit's `LoadCredential=database-url:FILE` hands over; an empty one counts as none.
fn credential(env: &BTreeMap<String, String>) -> Option<String> {
    let text = helper::text_of(&credential_file(env)?, Purpose::Database).ok()?;
    Some(text.trim().to_owned()).filter(|url| !url.is_empty())
}

/// Looks at the text, since a URL that does not parse may hold a password all the same.
fn has_password(url: &str) -> bool {
    let names_one = |part: &str| part.trim_start().to_ascii_lowercase().starts_with("password");
    let Some((_, rest)) = url.split_once("://") else {
        return url.split_whitespace().any(names_one);
    };
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = base.split('/').next().unwrap_or(base);
    // Whoever reads the URL takes all before the first @ for user and password, a slash too.
    let found = authority.rsplit_once('@').or_else(|| base.split_once('@'));
    let user = found.map_or("", |(user, _)| user);
    user.contains(':') || query.split('&').any(names_one)
}

#[cfg(test)]
mod tests {
    use super::has_password;

    #[test]
    fn a_password_is_seen_whatever_is_in_it() {
        for url in [
            "postgresql://u:geheim@h/d",
            "postgresql://u:ge/heim@h/d",
            "host=h password = x",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "postgresql://u@h:5432/d",
            "postgresql://h:5432/d?sslrootcert=/etc/a@b",
            "host=h user=u",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }
}
