//! A page's content, and its frame.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;
use maud::Markup;

use super::error;
use super::layout::{Frame, Section, Who};
use crate::{App, Caller, Problem};

/// A page's content.
pub(super) struct Made {
    pub(super) title: String,
    pub(super) section: Section,
    pub(super) now: Timestamp,
    /// Seconds; see [`Frame::tick`].
    pub(super) tick: u32,
    pub(super) content: Markup,
}

/// The content in its frame, or the page that says why there is none.
pub(super) fn answer(app: &App, caller: &Caller, made: Result<Made, Problem>) -> Response {
    match made {
        Ok(made) => {
            let frame = Frame {
                title: made.title,
                section: made.section,
                now: Some(made.now),
                who: Some(Who {
                    name: caller.name.clone(),
                    role: caller.role,
                }),
                address: app.address.clone(),
                tick: made.tick,
            };
            html(StatusCode::OK, &frame.page(&made.content))
        }
        Err(problem) => error::shown(app, caller, &problem),
    }
}

pub(super) fn html(status: StatusCode, page: &Markup) -> Response {
    (status, Html(page.0.clone())).into_response()
}
