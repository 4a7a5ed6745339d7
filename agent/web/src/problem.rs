//! Errors of the API: RFC 9457 problem documents that say what to do next.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use farmhand_control::{Asker, Kind, Refusal};
use farmhand_core::document::Located;
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request was not done (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A name for this sort of problem; programs go by it.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    urn: &'static str,
    /// What is wrong.
    title: String,
    /// The HTTP status.
    status: u16,
    /// Why, or where.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    detail: Option<Box<str>>,
    /// The path that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    instance: Option<Box<str>>,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    hint: Option<Box<str>>,
    /// Mistakes of job files, each with its place.
    #[serde(skip_serializing_if = "<[Located]>::is_empty")]
    #[schema(value_type = Vec<Located>, required = false)]
    mistakes: Box<[Located]>,
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// Seconds after which to try again.
    #[serde(skip)]
    retry_after: Option<u32>,
}

impl Problem {
    /// 400: the request cannot be understood.
    pub fn bad_request(why: impl std::fmt::Display) -> Self {
        Refusal::not_understood(why).into()
    }

    /// Adds when to come again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The HTTP status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or_default()
    }

    /// What went wrong, in one sentence.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Why, if that is known.
    pub fn why(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What to do about it, if anything.
    pub fn next(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same, about a path.
    pub(super) fn about(mut self, path: &str) -> Self {
        self.instance = Some(path.into());
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if self.kind == Kind::Unauthenticated {
            let bearer = HeaderValue::from_static("Bearer realm=\"farmhand\"");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        // Whoever dresses the response knows the path; a page may show it its own way.
        response.extensions_mut().insert(self);
        response
    }
}

impl<E: Into<Refusal>> From<E> for Problem {
    fn from(error: E) -> Self {
        let refusal = error.into().to(Asker::Token);
        if let (Kind::Broken, Some(error)) = (refusal.kind, refusal.cause()) {
            tracing::error!("API: {error}");
        }
        Self {
            urn: refusal.kind.urn(),
            title: refusal.what,
            status: refusal.kind.status(),
            detail: (!refusal.why.is_empty()).then(|| refusal.why.join("\n").into()),
            instance: None,
            hint: refusal.next.map(Into::into),
            mistakes: refusal.mistakes,
            kind: refusal.kind,
            retry_after: matches!(refusal.kind, Kind::Away | Kind::Slow).then_some(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use farmhand_store::StoreError;

    use super::*;

    #[test]
    fn a_database_that_is_slow_is_not_away() {
        let slow = StoreError::Sql {
            op: "reading_farm",
            code: "57014".to_owned(),
            message: "canceling statement due to statement timeout".to_owned(),
        };
        let gone = StoreError::Unreachable("no route".to_owned());
        for (error, kind) in [(slow, Kind::Slow), (gone, Kind::Away)] {
            let problem = Problem::from(error);
            assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE, "{problem:?}");
            assert_eq!(problem.kind, kind, "{problem:?}");
            assert_eq!(problem.why(), None, "{problem:?}");
        }
    }
}
