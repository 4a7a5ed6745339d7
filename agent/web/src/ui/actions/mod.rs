//! Actions: a page that says what would happen, what the same is on a command line, and asks; then does it.
//!
//! The page works alone, as a link without a script leads to it; `farmhand.js` shows it in a dialog.

mod form;
mod many;

use axum::Form;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use farmhand_store::{Role, reading};
use maud::{Markup, html};
use uuid::Uuid;

use super::layout::Section;
use super::parts::icons::Icon;
use super::parts::time::clock;
use super::parts::{cli, link};
use super::{Made, answer, error};
use crate::api::act;
use crate::{Access, App, Caller, Problem, Query, Routes};
use farmhand_control::{Action, Answer, Picked};
use form::FormInput;
pub use form::Verb;

/// As [`button`], for a job or a run of it, or without a job for what all share.
pub fn button_of(verb: Verb, about: &str, job: Option<&str>, caller: &Caller) -> Markup {
    match caller.beyond(job).filter(|_| caller.may(verb.role())) {
        Some(why) => html! {
            button type="button" disabled title=(why) { (verb.button()) small { " (" (why) ")" } }
        },
        None => button(verb, about, caller.role),
    }
}

/// What leads to an action on a job, a run or a node. To whom it is not allowed it says so.
pub fn button(verb: Verb, about: &str, role: Role) -> Markup {
    let (icon, class, word) = match verb {
        Verb::Run => (Icon::Play, "button main", "Run now"),
        Verb::Pause => (Icon::Pause, "button", "Pause"),
        Verb::Resume | Verb::ResumeNode => (Icon::Play, "button", "Resume"),
        Verb::Cancel => (Icon::Stop, "button bad", "Cancel"),
        Verb::Retry => (Icon::Again, "button", "Run again"),
        Verb::Cordon => (Icon::Pause, "button", "Cordon"),
        Verb::Drain => (Icon::Arrow, "button", "Drain"),
        Verb::CancelMany => (Icon::Stop, "button bad", "Cancel these runs"),
        Verb::RetryMany => (Icon::Again, "button", "Run these again"),
    };
    let needs = verb.role();
    if role < needs {
        // Words, as well as a title: one cannot point at what is disabled with keys or a finger.
        let why = format!("needs the role {needs}; you are {role}");
        return html! {
            button type="button" disabled title=(why) { (icon.markup()) (word) small { " (" (needs) " only)" } }
        };
    }
    let href = link::query(&format!("/act/{}", verb.as_str()), &[(verb.about(), about)]);
    html! { a class=(class) data-ask href=(href) { (icon.markup()) (word) } }
}

/// A page to ask on and one to do it, for each verb.
pub fn router() -> Routes {
    let mut routes = Routes::new();
    for verb in Verb::ALL.iter().copied() {
        let (access, path) = (Access::Page(verb.role()), format!("/act/{}", verb.as_str()));
        let ask = move |app: State<App>, caller: Caller, fields: Query<Vec<(String, String)>>| {
            page(app, caller, verb, fields.0)
        };
        let act = move |app: State<App>, caller: Caller, Form(fields): Form<Vec<(String, String)>>| {
            doing(app, caller, verb, fields)
        };
        routes =
            routes
                .page(access, Method::GET, &path, get(ask))
                .page(access, Method::POST, &path, post(act));
    }
    routes
}

async fn page(State(app): State<App>, caller: Caller, verb: Verb, fields: Vec<(String, String)>) -> Response {
    answer(&app, &caller, made(&app, &caller, verb, &fields).await)
}

async fn made(app: &App, caller: &Caller, verb: Verb, fields: &[(String, String)]) -> Result<Made, Problem> {
    let asked = FormInput::read(app, verb, fields).await?;
    // What is not yet typed right is said in place of the preview.
    let preview = match &asked.action {
        Ok(action) => act(app, caller, action, None, true)
            .await
            .map(|preview| preview.0),
        Err(problem) => Err(problem.clone()),
    };
    let content = html! {
        section class="card ask" { (dialog(&asked, &preview)) }
    };
    let now = reading::now(app.reading.db()).await?;
    Ok(Made::new(asked.title(), Section::Other, now, 0, content))
}

fn dialog(asked: &FormInput, preview: &Result<Answer, Problem>) -> Markup {
    let verb = asked.verb;
    let here = format!("/act/{}", verb.as_str());
    html! {
        div class="inner" {
            h1 { (asked.title()) }
            form class="stack" method="post" action=(here) data-preview=(here) {
                @for (name, value) in asked.carried() { input type="hidden" name=(name) value=(value); }
                // A second click, or a reload, is answered with what the first did.
                input type="hidden" name="key" value=(Uuid::new_v4().to_string());
                (asked.fields())
                div id="preview" data-previewed role="status" {
                    @match preview {
                        Ok(answer) => {
                            p class="callout" { b { "What it does: " } (answer.what) }
                            (chosen(&answer.chosen))
                            @if let Some(why) = &answer.twice {
                                p class="callout warn" { (Icon::Alert.markup()) b { " It may run something twice: " } (why) "." }
                                label class="check" {
                                    input type="checkbox" name="sure" value="yes" required;
                                    "I understand, run it anyway"
                                }
                            }
                        },
                        Err(problem) => p class="callout bad" {
                            b { (problem.title()) }
                            @if let Some(why) = problem.why() { ": " (why) }
                            @if let Some(next) = problem.next() { ". " (next) }
                        },
                    }
                }
                div class="actions" {
                    button class=(if verb.ends() { "bad" } else { "main" }) { (verb.button()) }
                    a class="button" data-close href=(asked.back()) { "Cancel" }
                }
            }
            div id="twin" data-previewed {
                @if let Ok(action) = &asked.action { small { "The same on a command line" } (cli(&action.cli())) }
            }
        }
    }
}

/// Runs that are listed before one agrees.
const LISTED: usize = 20;

fn chosen(runs: &[Picked]) -> Markup {
    html! {
        @if !runs.is_empty() {
            ul {
                @for run in runs.iter().take(LISTED) {
                    li { a href=(link::run(run.run_id)) { "run " (run.run_id) } " of " (run.job_id) ", " (run.state) ", due " (clock(run.due_at)) " UTC" }
                }
                @if runs.len() > LISTED { li { "and " (runs.len() - LISTED) " more" } }
            }
        }
    }
}

async fn doing(
    State(app): State<App>,
    caller: Caller,
    verb: Verb,
    fields: Vec<(String, String)>,
) -> Response {
    match done(&app, &caller, verb, &fields).await {
        Ok(Some(to)) => Redirect::to(&to).into_response(),
        // It may run something twice, and the first question could not say so: it is asked again, with the box.
        Ok(None) => {
            let mut asked = page(State(app), caller, verb, fields).await;
            if asked.status().is_success() {
                *asked.status_mut() = StatusCode::CONFLICT;
            }
            asked
        }
        Err(problem) => error::page(&app, Some(&caller), &problem),
    }
}

/// Where to go then; None when the question has to be asked first.
async fn done(
    app: &App,
    caller: &Caller,
    verb: Verb,
    fields: &[(String, String)],
) -> Result<Option<String>, Problem> {
    let asked = FormInput::read(app, verb, fields).await?;
    let back = asked.back();
    let action = asked.action?;
    let field = |wanted: &str| {
        fields
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    };
    let key = field("key").filter(|key| (1..=200).contains(&key.len()));
    let sure = field("sure") == Some("yes");
    // With the key: what the first click made is no other run.
    if !sure && act(app, caller, &action, key, true).await?.0.twice.is_some() {
        return Ok(None);
    }
    let answer = act(app, caller, &action, key, false).await?.0;
    let new = matches!(action, Action::Submit(_) | Action::Retry(_));
    Ok(Some(match answer.runs.first().filter(|_| new) {
        Some(run) => link::run(*run),
        None => back,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_is_a_link_for_whom_it_is_allowed_and_says_why_not_to_others() {
        for verb in Verb::ALL.iter().copied() {
            for role in [Role::Viewer, Role::Submitter, Role::Operator, Role::Admin] {
                let html = button(verb, "a b", role).into_string();
                let href = format!("/act/{}?{}=a", verb.as_str(), verb.about());
                assert_eq!(
                    html.contains(&href),
                    role >= verb.role(),
                    "{verb:?} {role}: {html}"
                );
                let why = format!("needs the role {}; you are {role}", verb.role());
                assert_eq!(html.contains(&why), role < verb.role(), "{verb:?} {role}: {html}");
            }
        }
    }
}
