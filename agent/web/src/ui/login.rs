//! Where a token is pasted.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use maud::html;

use super::layout::{Made, Section};
use super::parts::cli;
use super::parts::icons::Icon;
use crate::App;

pub async fn page(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    let wrong = query.is_some_and(|q| q.starts_with("wrong"));
    let content = html! {
        section class="card ask" {
            div class="inner" {
                h1 { "Sign in" }
                @if wrong {
                    p class="callout bad" role="alert" { (Icon::Alert.markup()) " This token is not good, or not any more." }
                }
                form class="stack" method="post" action="/login" {
                    div class="field" {
                        label for="token" { "Token" }
                        input id="token" name="token" type="password" autocomplete="current-password" required autofocus
                            placeholder="fh_…" spellcheck="false";
                    }
                    div class="actions" { button class="main" { "Sign in" } }
                }
                p { "No token? Whoever can reach the database makes one. It is shown once:" }
                (cli("farmhand token create you --role operator"))
                p class="muted" { "viewer looks, submitter also runs jobs, operator also pauses, cancels and drains, admin does everything." }
            }
        }
    };
    Made::new("Sign in", Section::Login, None::<Timestamp>, 0, content).response(&app, None, StatusCode::OK)
}
