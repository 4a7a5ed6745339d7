//! Tokens of the HTTP API and the sessions of its page. Only SHA-256 hashes get here, never a token.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use super::acting::Acting;
use super::db::{Db, stmt};
use super::error::StoreError;

pub use super::text::Role;

/// A token as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Its number, which is never used twice.
    pub token_id: i64,
    /// Unique among those that are not revoked.
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub created_by: String,
    /// When it ceases to be good.
    pub expires_at: Timestamp,
    /// To the minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked; none when it was not.
    pub revoked_at: Option<Timestamp>,
    /// The jobs that it may act on, as [`farmhand_core::patterns`] has them; None: all.
    pub jobs: Option<Vec<String>>,
}

/// Stores a new token's hash, good for `valid` (whole seconds) and for these jobs, or without any for all; None when a good
/// token has the name.
pub async fn create_token(
    acting: &Acting,
    name: &str,
    (role, jobs): (Role, &[String]),
    hash: &[u8; 32],
    valid: Duration,
    by: &str,
) -> Result<Option<TokenRow>, StoreError> {
    let seconds = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
    let mut tx = acting.transaction("token_create").await?;
    let _: Vec<Value> = tx.rows(stmt!("token_retire"), &[(&name, Type::TEXT)]).await?;
    let jobs = Some(jobs).filter(|jobs| !jobs.is_empty());
    let made: Option<TokenRow> = tx
        .row(
            stmt!("token_create"),
            &[
                (&name, Type::TEXT),
                (&hash.as_slice(), Type::BYTEA),
                (&role.as_str(), Type::TEXT),
                (&jobs, Type::TEXT_ARRAY),
                (&by, Type::TEXT),
                (&seconds, Type::INT8),
            ],
        )
        .await?;
    match made.is_some() {
        true => tx.commit().await?,
        false => tx.rollback().await?,
    }
    Ok(made)
}

/// Those that are good, with `all` the others too, by name; at most 1,000.
pub async fn tokens(db: &Db, all: bool) -> Result<Vec<TokenRow>, StoreError> {
    db.rows(stmt!("tokens"), &[(&all, Type::BOOL)]).await
}

/// Revokes the token of a name and ends its sessions; None when there is none.
pub async fn revoke_token(acting: &Acting, name: &str, by: &str) -> Result<Option<TokenRow>, StoreError> {
    acting
        .row(stmt!("token_revoke"), &[(&name, Type::TEXT), (&by, Type::TEXT)])
        .await
}

/// Whether a credential that is known is any good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It can be used.
    Good,
    /// Its time is over.
    Expired,
    Revoked,
}

/// Whose credential it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Known {
    pub token_id: i64,
    pub name: String,
    pub role: Role,
    /// The hash that was found, in hex.
    pub hash: String,
    pub standing: Standing,
    /// The jobs that it may act on; None: all.
    pub jobs: Option<Vec<String>>,
}

/// The token with this hash, good or not. Notes its use, once a minute.
pub async fn find_token(db: &Db, hash: &[u8; 32]) -> Result<Option<Known>, StoreError> {
    db.row(stmt!("token_find"), &[(&hash.as_slice(), Type::BYTEA)])
        .await
}

/// The token of the page's session with this hash, good or not.
pub async fn find_session(db: &Db, hash: &[u8; 32]) -> Result<Option<Known>, StoreError> {
    db.row(stmt!("session_find"), &[(&hash.as_slice(), Type::BYTEA)])
        .await
}

/// Begins a session of the token with this hash, for at most `valid`; false when the token is good no more.
pub async fn begin_session(
    db: &Db,
    hash: &[u8; 32],
    token: &[u8; 32],
    remote: &str,
    valid: Duration,
) -> Result<bool, StoreError> {
    let seconds = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
    let made: Option<Value> = db
        .row(
            stmt!("session_begin"),
            &[
                (&hash.as_slice(), Type::BYTEA),
                (&token.as_slice(), Type::BYTEA),
                (&remote, Type::TEXT),
                (&seconds, Type::INT8),
            ],
        )
        .await?;
    Ok(made.is_some())
}

/// Ends a session, if there is such a one.
pub async fn end_session(db: &Db, hash: &[u8; 32]) -> Result<(), StoreError> {
    let _: Vec<Value> = db
        .rows(stmt!("session_end"), &[(&hash.as_slice(), Type::BYTEA)])
        .await?;
    Ok(())
}
