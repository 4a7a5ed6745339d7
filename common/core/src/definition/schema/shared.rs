//! What jobs refer to.

use super::{Key, Kind, key};

pub(super) const CALENDAR: &[Key] = &[key(
    "exclude",
    Kind::Texts("2026-12-24..2026-12-26"),
    "Days, and ranges of days with both ends included.",
)];

pub(super) const POOL: &[Key] = &[key(
    "size",
    Kind::Integer(0, 1_000_000),
    "Places; with 0 nothing of it starts.",
)];

pub(in super::super) const NOTIFY: &[Key] = &[
    key(
        "webhook",
        Kind::TextLike("https://hooks.example.org/farm"),
        "Gets each message as a POST of JSON.",
    ),
    key(
        "webhook_file",
        Kind::TextLike("ops.url"),
        "A file in the agents' `secrets_dir` that holds the URL.",
    ),
    key(
        "headers_file",
        Kind::TextLike("ops.headers"),
        "A file in the agents' `secrets_dir`: further headers, one `Name: value` on each line.",
    ),
    key(
        "email",
        Kind::Texts("ops@example.org"),
        "Gets each message as a mail; the agents need [smtp].",
    ),
    key(
        "on",
        Kind::Texts("failure"),
        "Of failure, recovery, takeover, deadline; all of them by default.",
    ),
];
