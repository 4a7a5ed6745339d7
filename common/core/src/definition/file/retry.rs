//! `retry = { … }` of a job and of a task: what its keys mean together.

use std::time::Duration;

use crate::document::{Reader, Spanned, duration};
use crate::retry::Retry;

/// What the table may hold.
pub(super) const EXAMPLE: &str = "max = 3";

/// `base` is the default of that key.
pub(super) fn settle(within: &mut Reader<'_>, retry: &mut Retry, base: Duration) {
    let mut table = within.table_like("retry", EXAMPLE);
    let mut given = |key| table.as_mut().and_then(|table| table.read(key, duration));
    if given("base").is_none() {
        retry.base = base;
    }
    match given("cap") {
        Some(Spanned { value, span }) if value < retry.base => within.sink().report(
            span,
            "`cap`: it is below `base`",
            "make the cap at least as long as the base",
        ),
        Some(_) => {}
        // A base above the default cap, with no cap given, means the base.
        None => retry.cap = retry.cap.max(retry.base),
    }
}
