//! What every response gets, whoever made it: headers that keep browsers on the safe side, and a count.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use farmhand_control::{Kind, Refusal};
use tower_http::compression::CompressionLayer;

use super::{App, Problem, ui};
use farmhand_telemetry::events::Event;

/// Nothing from elsewhere, nothing inline, nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

pub(super) fn finished(router: Router, app: &App) -> Router {
    router
        .fallback(async || refused(Kind::NotFound, "there is nothing under this path"))
        .method_not_allowed_fallback(async || refused(Kind::Method, "this path does not take this method"))
        .layer(middleware::from_fn_with_state(app.clone(), finish))
        // Not what a stream of events sends, nor what is small.
        .layer(CompressionLayer::new())
}

fn refused(kind: Kind, what: &str) -> Problem {
    Refusal::new(kind, what).into()
}

/// Whether a person with a browser asked, rather than a program.
fn is_for_people(request: &Request<Body>) -> bool {
    let accept = request.headers().get(header::ACCEPT);
    let html = accept.is_some_and(|a| a.to_str().is_ok_and(|a| a.contains("text/html")));
    html && !request.uri().path().starts_with("/api/")
}

async fn finish(State(app): State<App>, request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let for_people = is_for_people(&request);
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allow = response.headers().get(header::ALLOW).cloned();
        response = if for_people {
            ui::problem(&app, &problem)
        } else {
            problem.about(&path).into_response()
        };
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }
    app.events.emit(Event::Answered {
        status: response.status().as_u16(),
    });
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Assets say for themselves how long they keep.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
