//! What the API and the page do, too: one action, with one text.

use farmhand_control::{Action, Answer, By, perform};
use farmhand_store::Db;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::jobs::Once;

use super::{Failure, Outcome, out, terminal, who};

/// Does it, and prints what was done.
pub(super) async fn run(db: &Db, action: impl Into<Action>, as_json: bool) -> Outcome {
    let answer = act(db, action, None).await?;
    done(&answer, as_json)
}

/// Prints what was done, or would be.
pub(super) fn done(answer: &Answer, as_json: bool) -> Outcome {
    out::done(as_json, answer, &out::in_zone(&answer.what))
}

/// Does it; with a key, once.
pub(super) async fn act(db: &Db, action: impl Into<Action>, key: Option<&str>) -> Result<Answer, Failure> {
    performed(db, &action.into(), key, true).await
}

/// What it would do.
pub(super) async fn preview(db: &Db, action: &Action) -> Result<Answer, Failure> {
    performed(db, action, None, false).await
}

async fn performed(db: &Db, action: &Action, key: Option<&str>, commit: bool) -> Result<Answer, Failure> {
    let who = who();
    let by = By {
        // Runs are made once for a key, whoever sends it.
        once: key.map(|key| Once { token_id: 0, key }),
        ..By::login(&who)
    };
    Ok(perform(db, action, by, commit).await?)
}

/// Does it after a person has agreed to what it would do.
pub(super) async fn agreed(db: &Db, action: Action, yes: bool, as_json: bool) -> Outcome {
    if !yes {
        let what = preview(db, &action).await?.what;
        let unasked = Failure::refused("nothing was done").why(format!("it would do this: {what}"));
        terminal::agree(
            &format!("{what}. Go on?"),
            "nothing was done",
            unasked.next("add --yes"),
        )?;
    }
    run(db, action, as_json).await
}

/// For what a command does by itself, not as an [`Action`]; `what` is the command without its first word.
pub(super) fn acting(db: &Db, action: &'static str, what: &str) -> Acting {
    Acting::begin(db, Deed::of(&who(), action, format!("farmhand {what}")))
}

pub(super) fn say(answer: &Answer) {
    out::line(&out::in_zone(&answer.what));
}

/// The run that was made: one, or the first of its firing.
pub(super) fn made(answer: &Answer) -> i64 {
    answer.runs.first().copied().unwrap_or_default()
}
