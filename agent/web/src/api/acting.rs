//! What callers do: each through [`farmhand_control`], as the command line does it.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::{MethodRouter, on};
use farmhand_control::actions::Act;
use farmhand_control::{Action, Answer, By, Kind, perform};
use farmhand_store::jobs::Once;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::IntoParams;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa_axum::PathItemExt;

use crate::definitions::missing;
use crate::extract::{MaybeJson, names, only};
use crate::question::{Schemas, answered, declared};
use crate::refusals::Refused;
use crate::{App, Caller, Json, Path, Problem, Query};

/// Longest `Idempotency-Key`, in bytes.
const KEY: usize = 200;

pub(super) type Answered = Result<Json<Answer>, Problem>;

/// Does it as the caller, or only says what it would do.
pub async fn act(app: &App, caller: &Caller, action: &Action, key: Option<&str>, preview: bool) -> Answered {
    let (who, token) = (caller.who(), caller.token());
    let by = By {
        who: &who,
        token: Some(&token),
        once: key.map(|key| Once {
            token_id: caller.token_id,
            key,
        }),
    };
    let answer = if action.is_operators() {
        let login = app.definitions.as_ref().ok_or_else(missing)?;
        let db = login.db(&app.db).await?;
        perform(db, action, by, !preview).await
    } else {
        app.acting(async |db| perform(db, action, by, !preview).await)
            .await
    };
    let answer = answer.map_err(Problem::from);
    if answer.as_ref().is_err_and(|problem| problem.kind == Kind::Denied) {
        // The route admits the role, and what is asked for may need a higher one.
        let why = if caller.may(action.role()) {
            "restricted"
        } else {
            "role"
        };
        note(app, caller, action.cli(), why);
    }
    let answer = answer?;
    if !preview {
        app.changes.wake();
    }
    Ok(Json(answer))
}

/// Writes down that what the caller wanted to do is refused.
pub(super) fn note(app: &App, caller: &Caller, what: String, reason: &'static str) {
    app.refusals.note(Refused {
        reason,
        token: Some(caller.name.clone()),
        remote: Some(caller.remote),
        method: String::new(),
        path: what,
        times: 1,
    });
}

/// The key that makes a repetition harmless.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let good = |key: &&str| (1..=KEY).contains(&key.len());
    value.to_str().ok().filter(good).map(Some).ok_or_else(|| {
        Problem::bad_request(format!(
            "Idempotency-Key has 1 to {KEY} printable ASCII characters"
        ))
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Plain {
    /// Only say what it would do
    #[serde(default)]
    pub preview: bool,
}

/// What does it.
pub fn handler<A: Act + 'static>() -> MethodRouter<App> {
    on(A::METHOD.to_method_filter(), done::<A>)
}

async fn done<A: Act>(
    State(app): State<App>,
    caller: Caller,
    Path(in_path): Path<Vec<(String, String)>>,
    Query(query): Query<Plain>,
    headers: HeaderMap,
    MaybeJson(body): MaybeJson<Map<String, Value>>,
) -> Answered {
    let fields: A = fields(in_path, body)?;
    let key = if A::ONCE { key(&headers)? } else { None };
    act(&app, &caller, &fields.action()?, key, query.preview).await
}

/// The fields of an action, from path and body.
fn fields<A: Act>(in_path: Vec<(String, String)>, mut body: Map<String, Value>) -> Result<A, Problem> {
    let known = names::<A>().unwrap_or_default().iter().copied();
    let known: Vec<&str> = known
        .filter(|name| in_path.iter().all(|(in_path, _)| in_path != name))
        .collect();
    only(body.keys(), &known)?;
    for (name, text) in in_path {
        // Only runs are named by numbers.
        let number = text.parse::<i64>().ok().filter(|_| name == "run");
        body.insert(name, number.map_or(Value::String(text), Value::from));
    }
    serde_json::from_value(Value::Object(body)).map_err(Problem::bad_request)
}

/// What the API's description says of it, and the schemas that this names.
pub fn described<A: Act>(tag: &str) -> (Operation, Schemas) {
    let (mut said, mut schemas, mut fields) = declared::<A>(A::PATH, tag);
    if !fields.properties.is_empty() {
        let name = format!("{}Fields", A::name());
        said["requestBody"] = json!({
            "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}},
            "required": !fields.required.is_empty(),
        });
        fields.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        schemas.push((name, fields.into()));
    }
    let mut more = vec![json!({"name": "preview", "in": "query", "required": false,
        "description": "Only say what it would do", "schema": {"type": "boolean"}})];
    if A::ONCE {
        more.push(
            json!({"name": "Idempotency-Key", "in": "header", "required": false,
            "description": "With the same key again, no second run is made and the first one is answered",
            "schema": {"type": "string", "minLength": 1, "maxLength": KEY, "pattern": "^[ -~]+$"}}),
        );
    }
    if let Some(all) = said["parameters"].as_array_mut() {
        all.extend(more);
    }
    answered::<Answer>(&mut said, &mut schemas);
    (serde_json::from_value(said).unwrap_or_default(), schemas)
}
