//! What stands before every handler: the token, the role, the origin, the limits.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use farmhand_control::{Kind, Refusal, lacks};
use farmhand_store::Role;
use farmhand_store::tokens::Standing;
use tokio::sync::OwnedSemaphorePermit;

use super::token::{self, Shown};
use super::{Caller, Remote, origin, session};
use crate::refusals::Refused;
use crate::{Access, App, Problem};

/// Largest body of a request, in bytes.
pub const BODY: usize = 1 << 20;
/// Largest body of a request without a credential: the login.
const OPEN_BODY: usize = 4_096;
/// A whole body takes no longer than this.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Longest path with its query, in bytes.
const URI: usize = 4_096;

/// One route's guard.
#[derive(Clone)]
pub struct Guard {
    pub app: App,
    pub access: Access,
    /// Largest body, in bytes; above [`BODY`], such requests have their turn.
    pub most: usize,
    /// Whether a credential that was good when the database was last asked does while it cannot be asked.
    pub even_away: bool,
}

/// Why a request was turned away; the words are a metric's label.
#[derive(Clone, Debug)]
pub enum Rejection {
    NoToken,
    BadToken,
    Stale {
        name: String,
        standing: Standing,
    },
    Role {
        name: String,
        has: Role,
        needs: Role,
    },
    CrossSite {
        name: Option<String>,
    },
    TooMany {
        name: Option<String>,
    },
    /// Larger than so many bytes.
    TooLarge(usize),
    TooSlow,
    BadLogin,
    /// The trusted proxy's token from elsewhere.
    NotTheProxy {
        name: String,
    },
    /// The trusted proxy sent no user, or one without a role.
    UnknownUser {
        name: Option<String>,
    },
    Unavailable(Problem),
}

impl Rejection {
    fn word(&self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::BadToken => "bad_token",
            Self::Stale {
                standing: Standing::Revoked,
                ..
            } => "revoked_token",
            Self::Stale { .. } => "expired_token",
            Self::Role { .. } => "role",
            Self::CrossSite { .. } => "cross_site",
            Self::TooMany { .. } => "rate",
            Self::TooLarge(_) => "body_size",
            Self::TooSlow => "body_time",
            Self::BadLogin => "bad_login",
            Self::NotTheProxy { .. } => "not_the_proxy",
            Self::UnknownUser { .. } => "unknown_user",
            Self::Unavailable(_) => "unavailable",
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Stale { name, .. } | Self::Role { name, .. } | Self::NotTheProxy { name } => Some(name),
            Self::CrossSite { name } | Self::TooMany { name } | Self::UnknownUser { name } => name.as_deref(),
            _ => None,
        }
    }

    pub fn problem(self) -> Problem {
        let unauthenticated = |what: &str| {
            Refusal::new(Kind::Unauthenticated, what).next(
                "send Authorization: Bearer fh_…; `farmhand token create NAME --role viewer` makes a token",
            )
        };
        let refusal = match self {
            Self::NoToken => unauthenticated("this needs a token"),
            // Whoever shows an old token learns no more than whoever makes one up.
            Self::BadToken | Self::Stale { .. } | Self::BadLogin | Self::NotTheProxy { .. } => {
                unauthenticated("this token is not good, or not any more")
            }
            Self::Role { has, needs, .. } => lacks(has, needs),
            Self::UnknownUser { .. } => {
                Refusal::new(Kind::Denied, "the proxy names no user who has a role here")
                    .next("the agent's configuration lists users and groups: [trusted_proxy.users], [trusted_proxy.groups]")
            }
            Self::CrossSite { .. } => Refusal::new(Kind::Denied, "the request came from another site")
                .next("act from Farmhand's own page, or send a token in the Authorization header"),
            Self::TooMany { .. } => {
                return Problem::from(Refusal::new(Kind::TooMany, "too many requests")).retry_after(2);
            }
            Self::TooLarge(most) => Refusal::new(
                Kind::TooLarge,
                format!("the request is larger than {most} bytes, or its path than {URI}"),
            ),
            Self::TooSlow => Refusal::new(
                Kind::Late,
                format!("the body did not come within {} s", BODY_TIME.as_secs()),
            ),
            Self::Unavailable(problem) => return problem,
        };
        refusal.into()
    }
}

pub async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let app = &guard.app;
    match admitted(&guard, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(Rejection::NoToken | Rejection::BadToken | Rejection::Stale { .. })
            if matches!(guard.access, Access::Page(_)) && request.method() == Method::GET =>
        {
            Redirect::to("/login").into_response()
        }
        Err(refusal) => {
            record(app, &request, &refusal);
            refusal.problem().into_response()
        }
    }
}

pub(super) fn record(app: &App, request: &Request, refusal: &Rejection) {
    app.refusals.note(Refused {
        reason: refusal.word(),
        token: refusal.name().map(str::to_owned),
        remote: Some(remote(request)),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        times: 1,
    });
}

async fn admitted(guard: &Guard, request: &mut Request) -> Result<(), Rejection> {
    let app = &guard.app;
    if request
        .uri()
        .path_and_query()
        .is_some_and(|p| p.as_str().len() > URI)
    {
        return Err(Rejection::TooLarge(BODY));
    }
    let unsafe_method = !matches!(*request.method(), Method::GET | Method::HEAD);
    match guard.access {
        Access::Open => {
            if unsafe_method && !origin::may_be_own(request.headers()) {
                return Err(Rejection::CrossSite { name: None });
            }
        }
        Access::Api(needs) | Access::Page(needs) => {
            let caller = caller(guard, request.headers(), remote(request)).await?;
            let name = &caller.name;
            // A browser sends a cookie by itself, and to the proxy what the proxy goes by.
            if caller.shown != Shown::Token && unsafe_method && !origin::is_own(request.headers()) {
                return Err(Rejection::CrossSite {
                    name: Some(name.clone()),
                });
            }
            if !caller.may(needs) {
                return Err(Rejection::Role {
                    name: name.clone(),
                    has: caller.role,
                    needs,
                });
            }
            if !app.auth.limits.request((caller.token_id, name.clone())) {
                return Err(Rejection::TooMany {
                    name: Some(name.clone()),
                });
            }
            request.extensions_mut().insert(caller);
        }
    }
    if guard.most > BODY {
        let turn = turn(app).await?;
        request.extensions_mut().insert(turn);
    }
    let most = match guard.access {
        Access::Open => OPEN_BODY,
        Access::Api(_) | Access::Page(_) => guard.most,
    };
    if unsafe_method {
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::from(whole(body, most).await?);
    }
    Ok(())
}

/// The turn of a request whose body may be large: many at once would fill the memory. The handler keeps it for as long as it has
/// the body.
#[derive(Clone)]
pub struct Turn(#[expect(dead_code, reason = "only held")] Arc<OwnedSemaphorePermit>);

async fn turn(app: &App) -> Result<Turn, Rejection> {
    match tokio::time::timeout(BODY_TIME, app.large.clone().acquire_owned()).await {
        Ok(Ok(turn)) => Ok(Turn(Arc::new(turn))),
        _ => {
            let busy = Refusal::new(Kind::Slow, "another such request is being answered");
            Err(Rejection::Unavailable(busy.next("try again").into()))
        }
    }
}

/// The body, read within its bounds before a handler sees anything of it.
async fn whole(body: Body, most: usize) -> Result<axum::body::Bytes, Rejection> {
    match tokio::time::timeout(BODY_TIME, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Rejection::TooLarge(most)),
        Err(_) => Err(Rejection::TooSlow),
    }
}

/// Whose token or session the request shows. A bad token is not made up for by a good cookie.
async fn caller(guard: &Guard, headers: &HeaderMap, remote: IpAddr) -> Result<Caller, Rejection> {
    let app = &guard.app;
    let (shown, text) = match headers.get(header::AUTHORIZATION) {
        Some(value) => (Shown::Token, bearer(value).ok_or(Rejection::BadToken)?),
        None => (
            Shown::Session,
            session::cookie(app, headers).ok_or(Rejection::NoToken)?,
        ),
    };
    match token::known(app, shown, &text, headers, remote).await {
        Err(Rejection::Unavailable(problem)) if guard.even_away => {
            token::was_known(app, shown, &text, headers, remote).ok_or(Rejection::Unavailable(problem))
        }
        answer => answer,
    }
}

fn bearer(value: &header::HeaderValue) -> Option<String> {
    let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| text.trim().to_owned())
}

pub(super) fn remote(request: &Request) -> IpAddr {
    let known = request.extensions().get::<Remote>();
    known.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |remote| remote.0)
}
