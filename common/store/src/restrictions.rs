//! Which jobs a login or a token may act on. The database checks it (`schema/restriction.sql`), whoever asks.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::db::{Db, stmt};
use super::error::StoreError;

/// What one login or token is restricted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restriction {
    /// `login` or `token`.
    pub kind: String,
    /// The login's name, or the token's.
    pub name: String,
    /// Names of jobs, or how they begin, with a `*` behind.
    pub jobs: Vec<String>,
    pub set_by: String,
    pub set_at: Timestamp,
}

/// Every restriction of a login, or of a token that is good.
pub async fn restrictions(db: &Db) -> Result<Vec<Restriction>, StoreError> {
    db.rows(stmt!("restrictions"), &[]).await
}

/// Restricts a login to these jobs, in place of those of before.
/// Errors: `Refused` for a login that is not there or that cannot be restricted.
pub async fn restrict(db: &Db, login: &str, jobs: &[String], by: &str) -> Result<(), StoreError> {
    let _: Vec<Value> = db
        .rows(
            stmt!("restriction_set"),
            &[
                (&"login", Type::TEXT),
                (&login, Type::TEXT),
                (&jobs, Type::TEXT_ARRAY),
                (&by, Type::TEXT),
            ],
        )
        .await?;
    Ok(())
}

/// Lifts the restriction of a login; false when it has none.
pub async fn lift(db: &Db, login: &str) -> Result<bool, StoreError> {
    let gone: Option<Value> = db.row(stmt!("restriction_lift"), &[(&login, Type::TEXT)]).await?;
    Ok(gone.is_some())
}

/// What this login is restricted to, and the token for which `db` is; none for each that is not.
pub async fn in_force(db: &Db) -> Result<Vec<Vec<String>>, StoreError> {
    let rows: Vec<(Vec<String>,)> = db.rows(stmt!("restriction_own"), &[]).await?;
    Ok(rows.into_iter().map(|(jobs,)| jobs).collect())
}

/// What an action is done to.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// One job, by its name.
    Job(&'a str),
    /// One run, by its number.
    Run(i64),
    /// Not of one job: only who is not restricted may.
    Shared(&'a str),
}

/// Refuses what the login, or the token that it acts for, is not allowed.
/// Errors: `Restricted`.
pub async fn allow(db: &Db, about: About<'_>) -> Result<(), StoreError> {
    let (job, run, shared) = match about {
        About::Job(job) => (Some(job), None, None),
        About::Run(run) => (None, Some(run), None),
        About::Shared(what) => (None, None, Some(what)),
    };
    let _: Vec<Value> = db
        .rows(
            stmt!("restriction_allow"),
            &[(&job, Type::TEXT), (&run, Type::INT8), (&shared, Type::TEXT)],
        )
        .await?;
    Ok(())
}

/// Of these jobs, those that are allowed.
pub async fn allowed(db: &Db, jobs: &[&str]) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String,)> = db
        .rows(stmt!("restriction_allowed"), &[(&jobs, Type::TEXT_ARRAY)])
        .await?;
    Ok(rows.into_iter().map(|(job_id,)| job_id).collect())
}

/// Whether these names, or beginnings, are of this job: `farmhand.may` is the same decision.
pub fn covers(jobs: &[String], job: &str) -> bool {
    jobs.iter().any(|of| match of.strip_suffix('*') {
        Some(begins) => job.starts_with(begins),
        None => job == of,
    })
}

/// Names of jobs as a restriction has them: a name, or how names begin and a `*` behind.
pub fn pattern(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    if name.is_empty() || name.contains('*') || name.chars().any(char::is_control) {
        return Err(
            "write the name of a job, or how names begin and a * behind it, as in 'team-a.*'".to_owned(),
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_itself_and_a_beginning_what_begins_so() {
        let jobs = ["team-a.*".to_owned(), "nightly".to_owned()];
        for (job, covered) in [
            ("team-a.x", true),
            ("team-a.", true),
            ("team-a", false),
            ("team-ab.x", false),
            ("nightly", true),
            ("nightly2", false),
        ] {
            assert_eq!(covers(&jobs, job), covered, "{job}");
        }
        for bad in ["", "*", "a*b", "a**", "a\n*"] {
            assert!(pattern(bad).is_err(), "{bad:?}");
        }
        assert_eq!(pattern("team-a.*").as_deref(), Ok("team-a.*"));
    }
}
