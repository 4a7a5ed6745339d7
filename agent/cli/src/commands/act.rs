//! What the API and the page do, too: one action, with one text.

use farmhand_control::{Action, Answer, By, perform};
use farmhand_store::Db;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::jobs::Once;

use super::{Failure, Outcome, out, who};

/// Does it, and prints what was done.
pub(super) async fn run(db: &Db, action: &Action, as_json: bool) -> Outcome {
    let answer = act(db, action, None).await?;
    out::done(as_json, &answer, &out::in_zone(&answer.what))
}

/// Does it; with a key, once.
pub(super) async fn act(db: &Db, action: &Action, key: Option<&str>) -> Result<Answer, Failure> {
    let who = who();
    let by = By {
        // Runs are made once for a key, whoever sends it.
        once: key.map(|key| Once { token_id: 0, key }),
        ..By::login(&who)
    };
    Ok(perform(db, action, by, true).await?)
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
