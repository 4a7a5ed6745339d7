//! The routes of the login; the page with the form is the page's own.

use axum::http::Method;
use axum::routing::post;
use farmhand_store::Role;

use crate::auth::session;
use crate::{Access, Routes};

/// The login and its end; the page with the form is the page's own.
pub(crate) fn router() -> Routes {
    Routes::new()
        .page(Access::Open, Method::POST, "/login", post(session::login))
        .page(
            Access::Page(Role::Viewer),
            Method::POST,
            "/logout",
            post(session::logout),
        )
}
