//! Causes that are known: they do not lead the verdict for a while.

use std::time::Duration;

use farmhand_core::cause::{Cause, LONGEST, NOTE, USUAL};
use farmhand_core::document::parse_duration;
use farmhand_core::text::{span, time};
use farmhand_store::{Db, acknowledgements as store, reading};
use jiff::SignedDuration;

use crate::{Kind, Refusal};

/// Acknowledges what is wrong at this moment, again if it was; how long and why may be left out.
///
/// # Errors
/// 2 for what is not a cause, a duration or a note, 3 for a cause that is not there.
pub async fn acknowledge(
    db: &Db,
    cause: &str,
    (lasts, note): (Option<&str>, Option<&str>),
    by: &str,
    commit: bool,
) -> Result<String, Refusal> {
    let (cause, lasts, note) = (parsed(cause)?, duration(lasts)?, line("note", note)?);
    let farm = reading::whole_farm(db).await?;
    if !farm.findings.iter().any(|found| found.causes.contains(&cause)) {
        return Err(
            Refusal::new(Kind::NotFound, format!("{cause} is not a cause at this moment"))
                .next("`farmhand status` shows the causes"),
        );
    }
    let until = if commit {
        store::acknowledge(db, &cause, by, lasts, note).await?
    } else {
        let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
        reading::now(db).await?.checked_add(lasts).unwrap_or(farm.db_now)
    };
    Ok(format!(
        "{cause} does not lead until {}, or until it occurs anew; metrics and alerts stay as they are",
        time(until)
    ))
}

/// Takes it back.
///
/// # Errors
/// 2 when the text is not a cause, 3 when the cause is not acknowledged.
pub async fn unacknowledge(db: &Db, cause: &str, by: &str, commit: bool) -> Result<String, Refusal> {
    let cause = parsed(cause)?;
    let done = if commit {
        store::unacknowledge(db, &cause, by).await?
    } else {
        (store::acknowledgements(db).await?.iter()).any(|known| known.cause == cause)
    };
    if !done {
        return Err(
            Refusal::new(Kind::NotFound, format!("{cause} is not acknowledged"))
                .next("`farmhand ack --list` shows what is acknowledged"),
        );
    }
    Ok(format!(
        "{cause} is not acknowledged any more: while it lasts it is shown as any other"
    ))
}

fn parsed(text: &str) -> Result<Cause, Refusal> {
    text.parse()
        .map_err(|why: String| Refusal::usage(why).next("`farmhand status` shows the causes"))
}

fn duration(text: Option<&str>) -> Result<Duration, Refusal> {
    let Some(text) = text else {
        return Ok(USUAL);
    };
    let given = parse_duration(text)
        .map_err(|why| Refusal::usage(format!("{text:?} is not a valid duration")).why(why))?;
    if given.is_zero() || given > LONGEST {
        return Err(
            Refusal::usage(format!("{text} is too long or too short")).why(format!(
                "an acknowledgement lasts for more than 0 s and at most {}",
                span(LONGEST)
            )),
        );
    }
    Ok(given)
}

/// What people write for the others; none of an empty one.
///
/// # Errors
/// 2 for more than a line.
pub(crate) fn line<'a>(what: &str, text: Option<&'a str>) -> Result<Option<&'a str>, Refusal> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    if let Some(text) = text
        && (text.chars().count() > NOTE || text.chars().any(char::is_control))
    {
        return Err(Refusal::usage(format!(
            "a {what} is one line of at most {NOTE} characters"
        )));
    }
    Ok(text)
}
