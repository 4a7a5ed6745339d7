//! The page's session: a token is shown once, and a cookie stands for it from then on.
//!
//! The cookie holds 256 random bits; their hash lies in the database, so that every agent knows it.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, RequestExt};
use farmhand_control::Refusal;
use farmhand_store::tokens;
use serde::Deserialize;

use super::middleware::{record, remote};
use super::token::{self, Shown};
use super::{Caller, Rejection};
use crate::{App, Problem};

/// A session lives no longer than this, nor than its token.
const VALID: Duration = Duration::from_secs(12 * 3_600);

#[derive(Deserialize)]
struct Login {
    token: String,
}

/// The session's secret, when the browser sent one.
pub fn cookie(app: &App, headers: &HeaderMap) -> Option<String> {
    let wanted = name(app);
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == wanted).then(|| value.to_owned()))
}

/// The prefix makes the browser refuse a cookie of this name from anybody but this host by TLS.
fn name(app: &App) -> &'static str {
    if app.tls { "__Host-farmhand" } else { "farmhand" }
}

fn set_cookie(app: &App, secret: &str, seconds: u64) -> Result<HeaderValue, Problem> {
    let secure = if app.tls { "; Secure" } else { "" };
    let text = format!(
        "{}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
        name(app)
    );
    HeaderValue::from_str(&text).map_err(|_| Refusal::broken("the cookie cannot be made").into())
}

/// `POST /login`: a form with `token`. Answers with the page, or with the login again.
pub async fn login(State(app): State<App>, request: Request) -> Response {
    let remote = remote(&request);
    let (parts, body) = request.into_parts();
    let asked = Request::from_parts(parts.clone(), axum::body::Body::empty());
    let form = Request::from_parts(parts, body).extract::<Form<Login>, _>().await;
    let Ok(Form(login)) = form else {
        return Problem::bad_request("the form has a field named token").into_response();
    };
    match begin(&app, login.token.trim(), remote).await {
        Ok(response) => response,
        Err(Rejection::Unavailable(problem)) => problem.into_response(),
        Err(refusal) => {
            // What it was exactly is written down, and not told.
            record(&app, &asked, &refusal);
            match refusal {
                Rejection::TooMany { .. } => refusal.problem().into_response(),
                _ => {
                    record(&app, &asked, &Rejection::BadLogin);
                    Redirect::to("/login?wrong").into_response()
                }
            }
        }
    }
}

async fn begin(app: &App, text: &str, remote: IpAddr) -> Result<Response, Rejection> {
    // Without headers: the trusted proxy's token begins no session.
    let caller = token::known(app, Shown::Token, text, &HeaderMap::new(), remote).await?;
    if !app.auth.limits.session(caller.token_id) {
        let name = Some(caller.name);
        return Err(Rejection::TooMany { name });
    }
    let no_randomness = |_| Rejection::Unavailable(Refusal::broken("there is no randomness").into());
    let secret = token::fresh().map_err(no_randomness)?;
    let hash = token::hash(&secret).ok_or(Rejection::BadToken)?;
    let shown = token::hash(text).ok_or(Rejection::BadToken)?;
    let begun = app
        .credentials(async |db| tokens::begin_session(db, &hash, &shown, &remote.to_string(), VALID).await)
        .await
        .map_err(|error| Rejection::Unavailable(error.into()))?;
    if !begun {
        return Err(Rejection::BadToken);
    }
    let cookie = set_cookie(app, &secret, VALID.as_secs()).map_err(Rejection::Unavailable)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// `POST /logout`: ends the session in the database, so on every agent.
pub async fn logout(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Result<Response, Problem> {
    if let (true, Some(hash)) = (
        caller.shown == Shown::Session,
        cookie(&app, &headers).and_then(|text| token::hash(&text)),
    ) {
        app.credentials(async |db| tokens::end_session(db, &hash).await)
            .await?;
        app.auth.known.forget(&(Shown::Session, hash));
    }
    let gone = set_cookie(&app, "", 0)?;
    Ok(([(header::SET_COOKIE, gone)], Redirect::to("/login")).into_response())
}
