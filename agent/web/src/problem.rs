//! Errors of the API: RFC 9457 problem documents that say what to do next.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use farmhand_core::document::{Located, Mistakes};
use farmhand_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

use farmhand_control::{Asker, Kind, Refusal, of_store};

/// Mistakes of job files that are told at most.
const MISTAKES: usize = 1_000;

/// Why a request was not done (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A name for this sort of problem; programs go by it.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    /// What is wrong.
    title: String,
    /// The HTTP status.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u16)]
    status: StatusCode,
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
    #[schema(required = false)]
    mistakes: Box<[Located]>,
    /// Seconds after which to try again.
    #[serde(skip)]
    retry_after: Option<u32>,
    /// The database is away, which is more than that this cannot be answered now.
    #[serde(skip)]
    away: bool,
}

fn as_number<S: serde::Serializer>(status: &StatusCode, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u16(status.as_u16())
}

impl Problem {
    /// An answer of this status, with one sentence for people.
    pub fn new(status: StatusCode, title: impl Into<String>) -> Self {
        Self {
            kind: kind(status),
            title: title.into(),
            status,
            detail: None,
            instance: None,
            hint: None,
            mistakes: Box::default(),
            retry_after: None,
            away: false,
        }
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "the request cannot be understood")
            .detail(detail)
            .hint("/api/v1/openapi.json says what each route takes")
    }

    /// 404.
    pub fn not_found(title: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, title)
    }

    /// 409: it makes sense, but not now.
    pub fn refused(title: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, title)
    }

    /// Adds why.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into().into());
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// Adds when to come again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The HTTP status of the answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether it is because the database is away.
    pub fn is_away(&self) -> bool {
        self.away
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

/// The sort of problem, by its status: a closed set.
fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "urn:farmhand:bad-request",
        StatusCode::UNAUTHORIZED => "urn:farmhand:unauthenticated",
        StatusCode::FORBIDDEN => "urn:farmhand:forbidden",
        StatusCode::NOT_FOUND => "urn:farmhand:not-found",
        StatusCode::METHOD_NOT_ALLOWED => "urn:farmhand:method-not-allowed",
        StatusCode::REQUEST_TIMEOUT => "urn:farmhand:too-slow",
        StatusCode::CONFLICT => "urn:farmhand:refused",
        StatusCode::PAYLOAD_TOO_LARGE => "urn:farmhand:too-large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "urn:farmhand:unsupported-media-type",
        StatusCode::UNPROCESSABLE_ENTITY => "urn:farmhand:mistakes",
        StatusCode::TOO_MANY_REQUESTS => "urn:farmhand:too-many-requests",
        StatusCode::SERVICE_UNAVAILABLE => "urn:farmhand:unavailable",
        _ => "urn:farmhand:internal",
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if self.status == StatusCode::UNAUTHORIZED {
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

/// Job files that cannot be applied as they are.
impl From<Mistakes> for Problem {
    fn from(mistakes: Mistakes) -> Self {
        let title = match mistakes.len() {
            1 => "the job files have a mistake".to_owned(),
            n if n > MISTAKES => {
                format!("the job files have {n} mistakes, of which these are the first {MISTAKES}")
            }
            n => format!("the job files have {n} mistakes"),
        };
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, title);
        problem.mistakes = mistakes.first(MISTAKES).into();
        problem.hint("nothing was applied; fix these errors")
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            // A function of the schema says it, of what was asked for.
            StoreError::Refused(why) => return Self::bad_request(why),
            // What a defect says of its insides is for the log.
            StoreError::Sql { .. } | StoreError::Decode { .. }
                if !error.is_bad_value() && !error.is_too_slow() =>
            {
                tracing::error!("API: {error}");
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
                    .hint("the agent's log says why; it may be a defect worth reporting");
            }
            _ => {}
        }
        of_store(&error, Asker::Token).into()
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (kind, what, why, next) = match refusal {
            Refusal::Store(error) => return error.into(),
            Refusal::Partly { done, error } => return Self::from(error).detail(done),
            Refusal::Said {
                kind,
                what,
                why,
                next,
            } => (kind, what, why, next),
        };
        let status = match kind {
            Kind::Usage => StatusCode::BAD_REQUEST,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Refused => StatusCode::CONFLICT,
            Kind::Denied => StatusCode::FORBIDDEN,
            Kind::Away | Kind::Slow => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut problem = Self::new(status, what);
        problem.hint = next.map(Into::into);
        problem.away = kind == Kind::Away;
        if matches!(kind, Kind::Away | Kind::Slow) {
            // Where the database is, and what it says, is not for everybody.
            return problem.retry_after(5);
        }
        problem.detail = (!why.is_empty()).then(|| why.join("\n").into());
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_slow_is_not_away() {
        let slow = StoreError::Sql {
            op: "reading_farm",
            code: "57014".to_owned(),
            message: "canceling statement due to statement timeout".to_owned(),
        };
        let gone = StoreError::Unreachable("no route".to_owned());
        for (error, away) in [(slow, false), (gone, true)] {
            let problem = Problem::from(error);
            assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE, "{problem:?}");
            assert_eq!(problem.is_away(), away, "{problem:?}");
        }
    }
}
