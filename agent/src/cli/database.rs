//! Which database a command talks to.

use std::collections::BTreeMap;

use clap::Args;

use super::{Failure, settings};

#[derive(Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// The database [env: FARMHAND_DATABASE_URL, then DATABASE_URL]; no password here, PGPASSFILE can hold one
    #[arg(long, value_name = "URL", global = true)]
    pub database_url: Option<String>,
}

impl DatabaseArgs {
    /// The URL from the flag or the environment.
    ///
    /// # Errors
    /// Exit code 2 when there is none, or when it would show a password to everyone on the machine.
    pub fn url(&self) -> Result<String, Failure> {
        url(self.database_url.as_deref(), &settings::environment(), None).map_err(Failure::usage)
    }
}

/// Flag, then `FARMHAND_DATABASE_URL`, then `DATABASE_URL`, then the file.
///
/// # Errors
/// What is wrong, with what to do.
pub fn url(
    flag: Option<&str>,
    env: &BTreeMap<String, String>,
    in_file: Option<String>,
) -> Result<String, String> {
    if let Some(flag) = flag {
        if has_password(flag) {
            return Err(
                "--database-url holds a password, and every user of this machine can read command lines: \
                 put the URL into FARMHAND_DATABASE_URL, or the password into a PGPASSFILE"
                    .to_owned(),
            );
        }
        return Ok(flag.to_owned());
    }
    ["FARMHAND_DATABASE_URL", "DATABASE_URL"]
        .iter()
        .find_map(|name| env.get(*name).filter(|url| !url.is_empty()).cloned())
        .or(in_file)
        .ok_or_else(|| {
            "no database is named: set FARMHAND_DATABASE_URL, for example \
             postgresql://farmhand@db.example.com/farmhand"
                .to_owned()
        })
}

/// Looks at the text, since a URL that does not parse may hold a password all the same.
fn has_password(url: &str) -> bool {
    let names_one = |part: &str| part.trim_start().to_ascii_lowercase().starts_with("password");
    let Some((_, rest)) = url.split_once("://") else {
        return url.split_whitespace().any(names_one);
    };
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = base.split('/').next().unwrap_or(base);
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || query.split('&').any(names_one)
}
