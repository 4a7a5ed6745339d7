//! Axum's extractors, with rejections that are problem documents.

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use farmhand_control::{Kind, Refusal};
use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use super::Problem;

/// The variable parts of the path.
pub struct Path<T>(pub T);

/// The query, of page and API: the one reader of it. A name that its type does not have is refused, because a filter that
/// is misspelt and dropped shows everything, and what acts on what is shown takes everything.
pub struct Query<T>(pub T);

/// A JSON body, of requests and of answers.
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::bad_request(rejection.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        if let Some(known) = names::<T>() {
            only(pairs(&parts.uri)?.iter().map(|(name, _)| name), known)?;
        }
        match axum::extract::Query::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::bad_request(rejection.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match axum::Json::from_request(request, state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) if rejection.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let refusal = Refusal::new(Kind::NotJson, "the body is not JSON");
                Err(refusal.next("send it with Content-Type: application/json").into())
            }
            Err(rejection) => Err(Problem::bad_request(rejection.body_text())),
        }
    }
}

/// A JSON body, or the default without one.
pub struct MaybeJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        // The guard has read it whole.
        if request.body().size_hint().exact() == Some(0) {
            return Ok(Self(T::default()));
        }
        Json::from_request(request, state)
            .await
            .map(|Json(value)| Self(value))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// What the query of an address says.
pub fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Problem> {
    match axum::extract::Query::try_from_uri(uri) {
        Ok(axum::extract::Query(pairs)) => Ok(pairs),
        Err(rejection) => Err(Problem::bad_request(rejection.body_text())),
    }
}

/// Whether all of these have one of the names.
/// Errors: 400 for the first that has none.
pub fn only<'a>(mut given: impl Iterator<Item = &'a String>, known: &[&str]) -> Result<(), Problem> {
    match given.find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Problem::bad_request(format!(
            "unknown name {name:?}; expected {}",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

/// The names that a type of a query has; none of a type that takes every name.
pub fn names<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    T::deserialize(Names).err().and_then(|Named(names)| names)
}

/// Reads nothing: it fails with the names of the fields that are wanted.
struct Names;

#[derive(Debug)]
struct Named(Option<&'static [&'static str]>);

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Named {}

impl Error for Named {
    fn custom<M: std::fmt::Display>(_: M) -> Self {
        Self(None)
    }
}

impl<'de> Deserializer<'de> for Names {
    type Error = Named;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Named> {
        Err(Named(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Named> {
        Err(Named(Some(fields)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
