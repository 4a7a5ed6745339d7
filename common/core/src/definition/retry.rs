//! `retry = { … }` of a job and of a task.

use super::spec::{Backoff, Retry};
use crate::document::{Found, Reader, count, duration, one_of};

pub(super) fn read_retry(within: &mut Reader<'_>, into: &mut Retry) {
    let Some(mut retry) = within.table_like("retry", "max = 3") else {
        return;
    };
    retry.set("max", &mut into.max, count(1_000_000));
    retry.set(
        "backoff",
        &mut into.backoff,
        one_of(&[
            ("constant", Backoff::Constant),
            ("linear", Backoff::Linear),
            ("exponential", Backoff::Exponential),
        ]),
    );
    retry.set("base", &mut into.base, duration);
    // A base above the default cap, with no cap given, means the base.
    into.cap = into.cap.max(into.base);
    let cap = retry.read("cap", duration);
    if let Some(Found { value, span }) = cap {
        into.cap = value;
        if value < into.base {
            retry.sink().report(
                span,
                "`cap`: it is below `base`",
                "make the cap at least as long as the base",
            );
        }
    }
    retry.finish(&[
        ("delay", "did you mean `base`?"),
        ("limit", "did you mean `max`?"),
    ]);
}
