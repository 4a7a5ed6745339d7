//! Who asks, and whether they may.

mod limits;
pub(super) mod middleware;
mod origin;
mod proxy;
pub(super) mod session;
pub mod token;

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use farmhand_control::Token;
use farmhand_core::patterns;
use farmhand_store::Role;
use tokio::sync::Semaphore;

use super::Problem;

use self::limits::Limits;
pub(super) use self::limits::network;
pub(super) use self::middleware::Rejection;
use self::token::{Cache, Shown};

/// Where a connection comes from; the listener puts it into each request.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub IpAddr);

/// Who asks. A handler that takes it cannot be reached without.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The token's name, or that of the user whom the trusted proxy names.
    pub name: String,
    pub role: Role,
    /// The jobs that the token may act on; None: all.
    pub jobs: Option<Vec<String>>,
    /// The address that the request comes from.
    pub remote: IpAddr,
    pub(super) token_id: i64,
    pub(super) shown: Shown,
}

impl Caller {
    /// As actions and events name whoever did it.
    pub fn who(&self) -> String {
        let kind = match self.shown {
            Shown::User => "header",
            Shown::Token | Shown::Session => "api",
        };
        format!("{kind}:{}@{}", self.name, self.remote)
    }

    /// What they may do.
    pub(crate) fn token(&self) -> Token {
        Token {
            token_id: self.token_id,
            name: self.name.clone(),
            role: self.role,
            jobs: self.jobs.clone(),
        }
    }

    /// Why they may not act on this job, or on what is not of one job, for a page; an action asks [`farmhand_control::By::may`].
    pub fn beyond(&self, job: Option<&str>) -> Option<String> {
        let jobs = self.jobs.as_ref()?;
        let covered = job.is_some_and(|job| patterns::covers(jobs, job));
        (!covered).then(|| format!("you are restricted to {}", jobs.join(", ")))
    }

    /// Whether they may do what needs this role.
    pub fn may(&self, role: Role) -> bool {
        self.role >= role
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The guard put it there; a route without a guard has no caller.
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(|| Rejection::NoToken.problem())
    }
}

/// What the guards of all routes share.
pub(super) struct Auth {
    known: Cache,
    limits: Limits,
    /// The turn of credentials from addresses that have guessed too often.
    doubted: Semaphore,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            known: Cache::default(),
            limits: Limits::default(),
            doubted: Semaphore::new(1),
        }
    }
}
