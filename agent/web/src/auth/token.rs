//! Bearer tokens: 256 random bits that are stored as their SHA-256 alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use farmhand_store::tokens::{self, Known, Standing};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::{Caller, Rejection, proxy};
use crate::App;

const PREFIX: &str = "fh_";
/// A credential that was good is asked for again after this: so long a revoked one may go on.
pub const TRUSTED_FOR: Duration = Duration::from_secs(2);
/// Credentials remembered at most.
const REMEMBERED: usize = 1_024;

/// A credential's SHA-256: all that is stored or compared.
pub type Hash = [u8; 32];

/// A new token, or a new session's secret.
pub fn fresh() -> Result<String, ring::error::Unspecified> {
    let mut bits = [0; 32];
    SystemRandom::new().fill(&mut bits)?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bits)))
}

/// What is stored of a credential; None when it cannot be one (an empty one, say).
pub fn hash(text: &str) -> Option<Hash> {
    let bits = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
    if bits.len() != 32 {
        return None;
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().try_into().ok()
}

/// What a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// A token, in the header.
    Token,
    /// The page's cookie. It is no token.
    Session,
    /// The trusted proxy's token, with the name of a user.
    User,
}

/// Credentials that were good a moment ago, so that a page with twenty requests asks the database once.
#[derive(Default)]
pub struct Cache(Mutex<HashMap<(Shown, Hash), (Known, Instant)>>);

impl Cache {
    fn get(&self, key: &(Shown, Hash), now: Instant) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (row, until) = known.get(key)?;
        (now < *until).then(|| row.clone())
    }

    /// As it was when the database was last asked, if it was good then: others who guess do not keep it out.
    fn last(&self, key: &(Shown, Hash)) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).map(|(row, _)| row.clone())
    }

    fn put(&self, key: (Shown, Hash), row: Known, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() < REMEMBERED {
            known.insert(key, (row, now + TRUSTED_FOR));
        }
    }

    pub(super) fn forget(&self, key: &(Shown, Hash)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Whose credential it is, if it is good. The trusted proxy's own is good only for the user whom `headers` name.
pub async fn known(
    app: &App,
    shown: Shown,
    text: &str,
    headers: &HeaderMap,
    remote: IpAddr,
) -> Result<Caller, Rejection> {
    let now = Instant::now();
    let key = (shown, hash(text).ok_or(Rejection::BadToken)?);
    let row = match app.auth.known.get(&key, now) {
        Some(row) => row,
        None => {
            let row = asked(app, key, remote).await?;
            // Only from the database: what is believed is not believed for longer because it is used.
            app.auth.known.put(key, row.clone(), now);
            row
        }
    };
    caller(app, shown, row, headers, remote)
}

/// Whose credential it was when the database was last asked, if it was good then: for what may be told while it cannot be asked.
pub fn was_known(app: &App, shown: Shown, text: &str, headers: &HeaderMap, remote: IpAddr) -> Option<Caller> {
    let row = app.auth.known.last(&(shown, hash(text)?))?;
    caller(app, shown, row, headers, remote).ok()
}

/// What the database says of a credential; one that is not good any more is forgotten.
async fn asked(app: &App, key: (Shown, Hash), remote: IpAddr) -> Result<Known, Rejection> {
    let (shown, hash) = key;
    // Each guess costs the database a statement; those that are known cost none. Where an address has guessed too
    // often, its credentials are looked at one at a time: a good one behind the same address still comes through.
    let guesses = app.auth.known.last(&key).is_none() && !app.auth.limits.may_guess(remote);
    let _turn = match guesses {
        true => app.auth.doubted.acquire().await.ok(),
        false => None,
    };
    let found = app
        .credentials(async |db| match shown {
            Shown::Token | Shown::User => tokens::find_token(db, &hash).await,
            Shown::Session => tokens::find_session(db, &hash).await,
        })
        .await
        .map_err(|error| Rejection::Unavailable(error.into()))?;
    let refusal = match found {
        Some(row) if !is_of(&row, &hash) => return Err(Rejection::BadToken),
        Some(row) if row.standing == Standing::Good => return Ok(row),
        Some(row) => Rejection::Stale {
            name: row.name,
            standing: row.standing,
        },
        None if guesses => return Err(Rejection::TooMany { name: None }),
        None => Rejection::BadToken,
    };
    app.auth.known.forget(&key);
    app.auth.limits.guessed(remote);
    Err(refusal)
}

fn is_of(row: &Known, hash: &Hash) -> bool {
    hex::encode(hash).as_bytes().ct_eq(row.hash.as_bytes()).into()
}

fn caller(
    app: &App,
    shown: Shown,
    row: Known,
    headers: &HeaderMap,
    remote: IpAddr,
) -> Result<Caller, Rejection> {
    if let Some(proxy) = app.proxy.as_ref().filter(|proxy| proxy.token_name == row.name) {
        return proxy::user(proxy, &row, shown, headers, remote);
    }
    Ok(Caller {
        name: row.name,
        role: row.role,
        jobs: row.jobs,
        remote,
        token_id: row.token_id,
        shown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_256_bits_and_nothing_else_is_one() {
        let token = fresh().unwrap();
        assert_eq!(token.len(), PREFIX.len() + 43);
        assert!(hash(&token).is_some());
        assert_ne!(hash(&token), hash(&fresh().unwrap()));
        for bad in [
            "",
            "fh_",
            "fh_AAAA",
            &token[3..],
            &format!("{token}A"),
            &format!("{token}="),
        ] {
            assert!(hash(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_was_good_a_moment_ago_is_believed_for_a_moment_only() {
        let (cache, now) = (Cache::default(), Instant::now());
        let row = Known {
            token_id: 1,
            name: "n".to_owned(),
            role: farmhand_store::Role::Viewer,
            hash: String::new(),
            standing: Standing::Good,
            jobs: None,
        };
        let key = (Shown::Token, [0; 32]);
        cache.put(key, row, now);
        assert!(cache.get(&key, now + TRUSTED_FOR / 2).is_some());
        assert!(cache.get(&key, now + TRUSTED_FOR).is_none());
        assert!(cache.get(&(Shown::Session, key.1), now).is_none());
        assert!(cache.last(&key).is_some(), "it was good then");
        cache.forget(&key);
        assert!(cache.last(&key).is_none());
    }
}
