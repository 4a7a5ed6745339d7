//! Changing definitions, as `farmhand job apply` does it, with the texts of the files in the request.

use std::collections::{BTreeMap, BTreeSet};

use axum::Extension;
use axum::extract::State;
use farmhand_control::actions::DEFINES;
use farmhand_control::definitions::{self, Changes, Diff, Files, Present, Request, Signatures};
use farmhand_control::{By, Kind, Refusal};
use farmhand_core::definition::{check_prefix, load_with};
use farmhand_core::document::Source;
use farmhand_core::text::shell_word;
use farmhand_store::jobs::Change;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::acting::{Plain, note};
use crate::auth::middleware::Turn;
use crate::definitions::missing;
use crate::{App, Caller, Json, Problem, Query, Routes};

/// Largest body, in bytes: ten thousand definitions.
const BODY: usize = 4 << 20;
/// Files of one request, and variables.
const MOST: usize = 1_000;

pub(super) fn router() -> Routes {
    Routes::new().large_api(DEFINES, BODY, routes!(apply))
}

/// One job file.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct JobFile {
    /// What mistakes and signatures call it; nothing is read there
    #[schema(min_length = 1, max_length = 1000)]
    path: String,
    /// All of it
    text: String,
    /// All of its FILE.sig, as `farmhand job sign` writes it
    signatures: Option<String>,
}

/// What `farmhand job apply` takes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct JobFiles {
    /// The source that the files are applied as, such as a repository's name
    #[schema(min_length = 1, max_length = 200)]
    source: String,
    /// At most 1,000
    #[schema(min_items = 1, max_items = 1000)]
    files: Vec<JobFile>,
    /// Values of variables, which the files refer to as `${vars.NAME}`; they win over `[vars]`
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Before the names of all jobs, pools and targets that the files define or name
    #[serde(default)]
    #[schema(max_length = 100)]
    prefix: String,
    /// Delete what this source defined before and does not define any more; other sources' jobs stay
    #[serde(default)]
    prune: bool,
    /// Take over what another source defines
    #[serde(default)]
    take_over: bool,
}

/// What was changed, or would be.
#[derive(Serialize, ToSchema)]
#[schema(as = DefinitionsApplied)]
struct Applied {
    /// As `farmhand job apply --json` prints it
    #[serde(flatten)]
    changes: Changes,
    /// As `farmhand job diff --json` prints it, of what differs: value by value
    diff: Vec<Diff>,
    /// Of tables of table jobs: what will be slow
    warnings: Vec<String>,
}

/// Check job files, show what they change, and store their jobs; needs an agent with a database login for it
#[utoipa::path(post, path = "/api/v1/definitions", tag = "jobs", request_body = JobFiles, params(Plain),
    responses((status = 200, body = Applied),
        (status = 422, body = Problem, description = "The job files have mistakes", content_type = "application/problem+json")))]
async fn apply(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<Plain>,
    turn: Option<Extension<Turn>>,
    Json(body): Json<JobFiles>,
) -> Result<Json<Applied>, Problem> {
    let mut command = format!("farmhand job apply --source {}", shell_word(&body.source));
    if !body.prefix.is_empty() {
        command.push_str(&format!(" --prefix {}", shell_word(&body.prefix)));
    }
    let done = change(&app, &caller, body, query.preview, turn).await;
    if let Err(problem) = &done
        && problem.kind == Kind::Denied
    {
        note(&app, &caller, command, "restricted");
    }
    done.map(Json)
}

/// As `farmhand job apply` does it.
async fn change(
    app: &App,
    caller: &Caller,
    body: JobFiles,
    preview: bool,
    turn: Option<Extension<Turn>>,
) -> Result<Applied, Problem> {
    let login = app.definitions.as_ref().ok_or_else(missing)?;
    let db = login.db(&app.db).await?;
    let (who, token) = (caller.who(), caller.token());
    let by = By {
        token: Some(&token),
        ..By::login(&who)
    };
    let ValidFiles {
        request,
        sources,
        signatures,
        set,
    } = ValidFiles::of(body)?;
    let prefix = request.prefix.clone();
    // Thousands of definitions take a while, and the agent's own work does not wait for it.
    let held = turn.clone();
    let read = tokio::task::spawn_blocking(move || {
        let _held = held;
        load_with(&sources, &set, &prefix).map(|all| (sources, all))
    });
    let (sources, all) = read.await.map_err(|error| {
        tracing::error!("API: {error}");
        Refusal::broken("internal error")
    })??;
    let present = Present::read(db, by).await?;
    present.check_triggers(&sources, &all, &request)?;
    let mut wanted = Files::of(&sources, all);
    definitions::attach(&mut wanted.jobs, |file| match signatures.get(file) {
        Some(text) => definitions::parse_signatures(&format!("{file}.sig"), text),
        None => Ok(Signatures::new()),
    })?;
    definitions::must_be_trusted(&wanted.jobs, &login.trust())?;
    let mut plan = present.plan(db, wanted, request, by).await?;
    let tables = plan.check_tables(db).await?;
    if let Some(refusal) = tables.refusal {
        return Err(refusal.into());
    }
    let applied = plan.changes() && !preview;
    if applied {
        plan.apply(db, by).await?;
        app.changes.wake();
    }
    let mut diff = std::mem::take(&mut plan.diffs);
    diff.retain(|diff| diff.change != Change::Unchanged);
    Ok(Applied {
        changes: plan.into_changes(applied),
        diff,
        warnings: tables.warnings,
    })
}

/// A body that makes sense.
struct ValidFiles {
    request: Request,
    sources: Vec<Source>,
    /// By the path of the file that they are of.
    signatures: BTreeMap<String, String>,
    set: BTreeMap<String, String>,
}

impl ValidFiles {
    fn of(body: JobFiles) -> Result<Self, Problem> {
        let name = definitions::source_name(&body.source).filter(|name| is_name(name, 200));
        let name = name.ok_or_else(|| Problem::bad_request("source is a name of 1 to 200 characters"))?;
        check_prefix(&body.prefix).map_err(|wrong| Problem::bad_request(format!("prefix: {wrong}")))?;
        if !(1..=MOST).contains(&body.files.len()) || body.set.len() > MOST {
            let most = format!("files has 1 to {MOST} entries, and set at most {MOST}");
            return Err(Problem::bad_request(most));
        }
        let (mut sources, mut signatures) = (Vec::new(), BTreeMap::new());
        let mut seen = BTreeSet::new();
        for file in body.files {
            if !is_name(&file.path, 1_000) {
                return Err(Problem::bad_request("a path has 1 to 1000 characters"));
            }
            if !seen.insert(file.path.clone()) {
                return Err(Problem::bad_request(format!("{} is there twice", file.path)));
            }
            signatures.extend(file.signatures.map(|text| (file.path.clone(), text)));
            sources.push(Source {
                name: file.path,
                text: file.text,
            });
        }
        let request = Request {
            prune: body.prune,
            take_over: body.take_over,
            ..Request::of(&[name], true, &body.prefix)
        };
        Ok(Self {
            request,
            sources,
            signatures,
            set: body.set,
        })
    }
}

fn is_name(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}
