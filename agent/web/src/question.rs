//! Questions over HTTP: the struct of a question says what its route takes, and what the API's description says of it.

use axum::extract::{FromRequestParts, State};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::routing::{MethodRouter, get};
use farmhand_control::ask::Question;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Object, RefOr, Schema};

use crate::extract::{Json, Path, names, only, pairs};
use crate::{App, Problem};

/// Schemas by their names.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// What answers it.
pub fn handler<Q: Question<Answer: Send> + 'static>() -> MethodRouter<App> {
    get(answer::<Q>)
}

async fn answer<Q: Question<Answer: Send>>(
    State(app): State<App>,
    Asked(question): Asked<Q>,
) -> Result<Json<Q::Answer>, Problem> {
    Ok(Json(app.ask(&question).await?))
}

/// A question, from path and query.
struct Asked<Q>(Q);

impl<S: Send + Sync, Q: Question> FromRequestParts<S> for Asked<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(in_path) = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await?;
        let known = names::<Q>().unwrap_or_default();
        let in_query = known
            .iter()
            .filter(|name| in_path.iter().all(|(in_path, _)| in_path != *name));
        let given = pairs(&parts.uri)?;
        only(
            given.iter().map(|(name, _)| name),
            &in_query.copied().collect::<Vec<_>>(),
        )?;
        let mut all = format!("/?{}", parts.uri.query().unwrap_or_default());
        for (name, value) in &in_path {
            all.push_str(&format!(
                "&{name}={}",
                utf8_percent_encode(value, NON_ALPHANUMERIC)
            ));
        }
        let all: Uri = all.parse().map_err(Problem::bad_request)?;
        match axum::extract::Query::try_from_uri(&all) {
            Ok(axum::extract::Query(question)) => Ok(Self(question)),
            Err(rejection) => {
                let why = rejection.body_text();
                let why = why.replace("Failed to deserialize query string: ", "");
                let value = in_path
                    .iter()
                    .find(|(name, _)| why.starts_with(&format!("{name}: ")));
                let value = value.map_or_else(String::new, |(_, value)| format!(": {value:?}"));
                Err(Problem::bad_request(format!("{why}{value}")))
            }
        }
    }
}

/// What the API's description says of it, and the schemas that this names.
pub fn described<Q: Question>(tag: &str) -> (Operation, Schemas) {
    let (mut said, mut schemas, fields) = declared::<Q>(Q::PATH, tag);
    let in_query = (fields.properties.iter())
        .map(|(name, schema)| parameter("query", name, json!(schema), fields.required.contains(name)));
    if let Some(all) = said["parameters"].as_array_mut() {
        all.extend(in_query);
    }
    answered::<Q::Answer>(&mut said, &mut schemas);
    (serde_json::from_value(said).unwrap_or_default(), schemas)
}

/// Adds what is answered.
pub fn answered<A: ToSchema>(said: &mut Value, schemas: &mut Schemas) {
    let name = A::name();
    said["responses"] = json!({"200": {"description": "", "content": {
        "application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}}});
    schemas.push((name.into_owned(), A::schema()));
    A::schemas(schemas);
}

/// What an operation takes: the fields of `T` that are in its path, as parameters, and the others.
pub fn declared<T: ToSchema>(path: &str, tag: &str) -> (Value, Schemas, Object) {
    let mut schemas = Vec::new();
    T::schemas(&mut schemas);
    let mut others = match T::schema() {
        RefOr::T(Schema::Object(fields)) => fields,
        _ => Object::new(),
    };
    let text = others.description.take().unwrap_or_default();
    let (summary, more) = text.split_once("\n\n").unwrap_or((&text, ""));
    let is_in_path = |name: &String| path.contains(&format!("{{{name}}}"));
    let in_path: Vec<Value> = (others.properties.iter())
        .filter(|(name, _)| is_in_path(name))
        .map(|(name, schema)| parameter("path", name, json!(schema), true))
        .collect();
    others.properties.retain(|name, _| !is_in_path(name));
    others.required.retain(|name| !is_in_path(name));
    let mut said = json!({"tags": [tag], "summary": summary, "parameters": in_path, "responses": {}});
    if !more.is_empty() {
        said["description"] = json!(more);
    }
    (said, schemas, others)
}

/// One field of a question. It is left out, and never null.
fn parameter(place: &str, name: &str, mut schema: Value, needed: bool) -> Value {
    let description = schema["description"].take();
    if let Some(any) = schema["oneOf"].as_array_mut() {
        any.retain(|schema| schema["type"] != "null");
        schema = any.pop().unwrap_or_default();
    }
    if let Some(kinds) = schema["type"].as_array_mut() {
        kinds.retain(|kind| kind != "null");
        schema["type"] = kinds.pop().unwrap_or_default();
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.retain(|_, value| !value.is_null());
    }
    let mut said = json!({"name": name, "in": place, "required": needed});
    if description.is_string() {
        said["description"] = description;
    }
    // Words have commas between them.
    if schema["type"] == "array" {
        said["style"] = json!("form");
        said["explode"] = json!(false);
    }
    said["schema"] = schema;
    said
}
