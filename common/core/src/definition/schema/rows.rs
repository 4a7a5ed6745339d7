//! Keys of jobs whose command runs once for each row or line of something.

use super::super::stream::{MAX_FAILURES, MAX_WORKERS};
use super::super::table::MAX_RUNNING;
use super::{Key, Kind, key};

pub(super) const TABLE: &[Key] = &[
    key(
        "name",
        Kind::TextLike("app.orders"),
        "A table of your own; public is the schema by default.",
    ),
    key(
        "key",
        Kind::Texts("id"),
        "Its unique column, handed to the command; or several that are unique together.",
    ),
    key(
        "dispatch",
        Kind::TextLike("dispatched_at"),
        "The column that is NULL while a row waits.",
    ),
    key(
        "order_by",
        Kind::Texts("created_at"),
        "Columns by which rows are taken, smallest first; their key alone by default.",
    ),
    key(
        "row",
        Kind::Texts("address"),
        "Columns that the command finds in FARMHAND_ROW, as JSON.",
    ),
    key(
        "started",
        Kind::TextLike("started_at"),
        "Set when the row was run.",
    ),
    key(
        "finished",
        Kind::TextLike("finished_at"),
        "Set when the row was run.",
    ),
    key(
        "exit_code",
        Kind::TextLike("exit_code"),
        "Set when the row was run.",
    ),
    key(
        "message",
        Kind::TextLike("message"),
        "Set to the outcome and its reason.",
    ),
    key("poll", Kind::Duration, "How often the farm looks for rows."),
    key(
        "max_running",
        Kind::Integer(1, MAX_RUNNING),
        "Rows under way on the whole farm.",
    ),
];

pub(super) const STREAM: &[Key] = &[
    key(
        "file",
        Kind::TextLike("/srv/lists/%F.txt"),
        "The list; strftime directives are of the due instant in the job's zone.",
    ),
    key("command", Kind::Command, "Prints the list, instead of a file."),
    key(
        "follow",
        Kind::Boolean,
        "Whether a run waits for lines that are appended, until the next due instant.",
    ),
    key("workers", Kind::Integer(1, MAX_WORKERS), "Lines at a time."),
    key(
        "progress_timeout",
        Kind::Duration,
        "What handles a line and is silent for so long is killed.",
    ),
    key(
        "max_item_failures",
        Kind::Integer(1, MAX_FAILURES),
        "A line that failed so often is recorded and passed over.",
    ),
];

pub(super) const FLOW: &[Key] = &[
    key(
        "dir",
        Kind::TextLike("/etc/rc.d"),
        "A directory of annotated scripts, or one shell file.",
    ),
    key("stop", Kind::Boolean, "Backwards, each called with `stop`."),
    key(
        "skip",
        Kind::Texts("nostart"),
        "Scripts with one of these keywords are left out.",
    ),
    key(
        "keep",
        Kind::Texts("shutdown"),
        "Scripts without any of these keywords are left out.",
    ),
    key(
        "missing",
        Kind::Words(&["error", "warn"]),
        "What a name that nobody provides is.",
    ),
    key(
        "facilities",
        Kind::Texts("/etc/insserv.conf"),
        "More `$facilities`: files in the form of insserv.conf.",
    ),
    key(
        "extract",
        Kind::TextLike("describe-script"),
        "Called as `CMD SCRIPT` for each script, prints its annotations, one `KEY: value` a line.",
    ),
    key("jobs", Kind::Integer(1, 65_535), "At most so many at a time."),
];
