//! The one table of the keys of job files. Reader, JSON Schema and the way back from what is stored to files go by it.

use std::collections::BTreeMap;
use std::time::Duration as Time;

use toml::de::DeValue;

use super::retry::EXAMPLE;
use super::secrets::entries;
use super::stream::{MAX_FAILURES, MAX_WORKERS, file};
use super::table::{MAX_RUNNING, column, poll, qualified};
use super::value_rules::{
    absolute_path, address, child_name, days, environment, expression, file_name, memory, rate,
    resource_name, stdin, timezone, topic, url, user_name, web_address,
};
use crate::document::{Reader, Wrong, duration, filled, positive_duration, size};

/// Reads and checks a single value.
type Rule<T> = fn(&DeValue<'_>) -> Result<T, Wrong>;

pub(super) enum Kind {
    /// A string, with examples.
    Text(&'static [&'static str], Rule<String>),
    /// A string or a list of them, with an example.
    Texts(&'static str, Rule<String>),
    /// The same, each once and in no order. The last is what to say of a second one.
    Set(&'static str, Rule<String>, &'static str),
    Duration(Rule<Time>),
    Size(Rule<u64>),
    Boolean,
    Integer(i64, i64),
    Words(&'static [&'static str]),
    Command,
    /// An exit code or a list of them.
    Codes,
    /// A mask of file modes, octal, as a string.
    Mask,
    Instant,
    /// Any value that is not a table or a list.
    Any,
    /// By labels' names, a value or a list of them.
    Labels,
    /// Strings by names that people choose.
    Strings(fn(Reader<'_>) -> BTreeMap<String, String>),
    /// With what it may hold, for who wrote something else.
    Table(&'static str, &'static Keys),
    /// A string like this, which is the table's first key, or a table.
    TextOr(&'static str, Rule<String>, &'static Keys),
    List(&'static Keys),
    /// Tables by names that people choose.
    Tables(&'static Keys),
}

pub(super) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub doc: &'static str,
}

pub(super) struct Keys {
    pub keys: &'static [Key],
    /// Words from elsewhere, and what is meant here.
    pub hints: &'static [(&'static str, &'static str)],
}

macro_rules! keys {
    ($($name:literal: $kind:expr, $doc:literal;)* $(unknown $word:literal: $hint:literal;)*) => {
        &Keys { keys: &[$(Key { name: $name, kind: $kind, doc: $doc }),*], hints: &[$(($word, $hint)),*] }
    };
}

use Kind::*;

pub(super) const JOB: &Keys = keys! {
    "table": Table("…", TABLE), "Run the command once for each row whose dispatch column is NULL.";
    "stream": Table("…", STREAM), "Run the command once for each line of a growing list.";
    "task": Tables(TASK), "Tasks in dependency order, instead of a command.";
    "flow": TextOr("/etc/rc.d", absolute_path, FLOW),
        "A directory of annotated scripts, or one shell file, instead of a command.";
    "resume": Words(&["restart", "skip-finished"]), "What a flow does after a takeover.";
    "preload": Text(&["/etc/rc.subr"], absolute_path), "A shell library.";
    "command": Command, "A list is executed as it is, a string runs under /bin/sh -c.";
    "params": Tables(PARAM), "Parameters of the job.";
    "stdin": Text(&[], stdin), "What the command reads.";
    "env": Strings(environment), "Variables of the command.";
    "secrets": Strings(entries),
        "By name, what each is called in the node's store; found in the file that FARMHAND_SECRET_NAME_FILE names.";
    "cwd": Text(&["/srv/mail"], absolute_path), "Where it starts; absolute.";
    "user": Text(&["mailer"], user_name), "Who it runs as; the agent's own user by default.";
    "description": Text(&[], filled), "What the job is for.";
    "owner": Text(&["team-billing"], filled), "Whose it is.";
    "tags": Texts("billing", filled), "Words to find it by.";
    "runbook": Text(&["https://wiki.example.org/runbooks/import"], web_address), "What to do when it fails.";
    "umask": Mask, "Octal, as a string.";
    "nice": Integer(-20, 19), "Scheduling priority.";
    "limits": Table("…", LIMITS), "What an attempt may use.";
    "isolation": Words(&["cgroup", "pid"]), "pid: a PID namespace of its own.";
    "output": Table("…", OUTPUT), "How much output is kept.";
    "schedule": Texts("*/5 8-18 * * MON-FRI", expression), "Cron expressions of 5 or 6 fields, macros, \"@every 90s\".";
    "triggered_by": Texts("price-import", filled), "Jobs whose end starts this one; of several, all.";
    "trigger_on": Words(&["success", "failure", "finish"]), "Which ends.";
    "timezone": Text(&["Europe/Berlin"], timezone), "IANA name.";
    "dst": Words(&["once", "skip", "both"]), "What a clock change does to fixed times.";
    "calendars": Texts("de", filled), "Names of [calendar.NAME]: no runs on their days.";
    "start": Instant, "No instant before it.";
    "end": Instant, "No instant from it on.";
    "spread": Duration(duration), "A fixed delay below this, chosen by the job's name.";
    "catch_up": Table("runs = \"skip\"", CATCH_UP), "What becomes of missed instants.";
    "enabled": Boolean, "Whether it fires and takes submissions.";
    "observe": Boolean, "Its instants are recorded as skipped, and nothing of it is executed.";
    "timeout": Duration(positive_duration), "Of an attempt, from its start.";
    "progress_timeout": Duration(positive_duration), "Silence on the progress descriptor for so long ends an attempt.";
    "child_limits": List(CHILD_LIMIT), "Children that are ended by name when they grow too old or too large.";
    "grace": Duration(duration), "Between SIGTERM and SIGKILL.";
    "overlap": Words(&["skip", "queue", "latest", "replace", "allow"]), "When an earlier run has not ended.";
    "retry": Table(EXAMPLE, RETRY), "After a failure.";
    "idle_exit": Codes, "Exit codes by which a continuous job says that it found nothing to do.";
    "idle_delay": Duration(positive_duration), "The pause after one of them.";
    "instances": Integer(1, 10_000), "How many runs each firing makes, or how many loops a continuous job has.";
    "on_lost": Words(&["rerun", "fail"]), "When its node dies.";
    "priority": Integer(-1_000_000, 1_000_000), "Higher is claimed first.";
    "pool": Text(&["mailer"], resource_name), "A [pool.NAME]: a run takes one of its places on the farm.";
    "node_pool": Text(&["disk"], resource_name), "A [pool.NAME]: a run takes one of its places on the node.";
    "locks": Set("stock-db", resource_name, "once is enough: a lock is held or it is not"),
        "Taken all at once, or none.";
    "rate": Text(&["10/1m"], rate), "At most so many starts in any such time, retries and takeovers counted.";
    "where": Labels, "Labels that a node must have, each with this value or one of these.";
    "notify": Set("ops", resource_name, "once is enough: it is told once"),
        "[notify.NAME]: who is told of failure, recovery, takeover and a missed deadline.";
    "run_on": Words(&["one", "each-node"]), "One node, or each.";
    unknown "cmd": "did you mean `command`?";
    unknown "exec": "did you mean `command`?";
    unknown "run": "did you mean `command`?";
    unknown "script": "did you mean `command`?";
    unknown "args": "put the arguments into `command`: [\"program\", \"argument\"]";
    unknown "cron": "did you mean `schedule`?";
    unknown "every": "write schedule = \"@every 5m\"";
    unknown "interval": "write schedule = \"@every 5m\"";
    unknown "at": "did you mean `schedule`?";
    unknown "tz": "did you mean `timezone`?";
    unknown "zone": "did you mean `timezone`?";
    unknown "retries": "write retry = { max = 3 }";
    unknown "max_retries": "write retry = { max = 3 }";
    unknown "environment": "did you mean `env`?";
    unknown "dir": "did you mean `cwd`?";
    unknown "workdir": "did you mean `cwd`?";
    unknown "working_directory": "did you mean `cwd`?";
    unknown "concurrency": "did you mean `overlap`?";
    unknown "missed": "did you mean `catch_up`?";
    unknown "misfire": "did you mean `catch_up`?";
    unknown "catchup": "did you mean `catch_up`?";
    unknown "shadow": "did you mean `observe`?";
    unknown "dry_run": "did you mean `observe`?";
    unknown "disabled": "write enabled = false";
    unknown "memory": "write limits = { memory = \"512MiB\" }";
    unknown "labels": "did you mean `where`?";
    unknown "calendar": "did you mean `calendars`?";
    unknown "exclude": "write [calendar.NAME] with the days, and calendars = [\"NAME\"] here";
};

/// Keys of one job alone: they are not inherited.
pub(super) const OWN_KEYS: &[&str] = &[
    "command",
    "flow",
    "task",
    "table",
    "stream",
    "preload",
    "schedule",
    "params",
    "stdin",
    "idle_exit",
    "idle_delay",
    "triggered_by",
];

const CATCH_UP: &Keys = keys! {
    "runs": Words(&["latest", "all", "skip"]), "Which missed instants are still run.";
    "max": Integer(1, 10_000), "At most so many with runs = \"all\".";
    "within": Duration(positive_duration), "An older scheduled time is skipped; so is a run that no node claims within this time.";
    unknown "limit": "did you mean `max`?";
};

const RETRY: &Keys = keys! {
    "max": Integer(0, 1_000_000), "Retries, not attempts.";
    "backoff": Words(&["constant", "linear", "exponential"]), "How the pause grows.";
    "base": Duration(duration), "The first pause's bound.";
    "cap": Duration(duration), "The bound of every pause.";
    unknown "delay": "did you mean `base`?";
    unknown "limit": "did you mean `max`?";
};

const LIMITS: &Keys = keys! {
    "memory": Size(memory), "Of all processes of an attempt together.";
    "processes": Integer(1, 4_194_304), "At most so many at once.";
};

const OUTPUT: &Keys = keys! {
    "keep": Size(size), "Of an attempt's output, in the database.";
    "local": Size(size), "Of an attempt's output, on the node.";
};

pub(super) const CHILD_LIMIT: &Keys = keys! {
    "name": Text(&["wget"], child_name), "As `ps -o comm` shows it.";
    "max_age": Duration(positive_duration), "Older ones are ended.";
    "max_memory": Size(memory), "Ones with more resident memory are ended.";
    unknown "age": "did you mean `max_age`?";
    unknown "memory": "did you mean `max_memory`?";
};

pub(super) const PARAM: &Keys = keys! {
    "type": Words(&["string", "integer", "number", "boolean", "duration", "date"]), "What its values are.";
    "default": Any, "The value of a run that is given none.";
    "required": Boolean, "Whether a run must be given one.";
};

pub(super) const TASK: &Keys = keys! {
    "command": Command, "As a job's; a task without one is a name to wait for.";
    "requires": Texts("db", filled), "After these, and only if they succeeded.";
    "after": Texts("db", filled), "After these, however they ended.";
    "before": Texts("db", filled), "These come later.";
    "provides": Texts("storage", filled), "Further names; one that several tasks provide has ended when all have.";
    "locks": Texts("disk", filled), "Taken all at once, or none.";
    "pool": Text(&["disk"], filled), "Bounds the flow's tasks in it.";
    "conflicts": Texts("backup", filled), "Never at the same time as these.";
    "timeout": Duration(positive_duration), "Of a try.";
    "retry": Table(EXAMPLE, RETRY), "After a failure.";
    "env": Strings(environment), "Further variables.";
    "always_run": Boolean, "Again, although it had succeeded before the flow was resumed.";
    unknown "cmd": "did you mean `command`?";
    unknown "depends": "did you mean `requires`?";
    unknown "depends_on": "did you mean `requires`?";
    unknown "always-run": "did you mean `always_run`?";
};

const TABLE: &Keys = keys! {
    "name": Text(&["app.orders"], qualified), "A table of your own; public is the schema by default.";
    "key": Texts("id", column), "Its unique column, handed to the command; or several that are unique together.";
    "dispatch": Text(&["dispatched_at"], column), "The column that is NULL while a row waits.";
    "order_by": Texts("created_at", column),
        "Columns by which rows are taken, smallest first; their key alone by default.";
    "row": Texts("address", column), "Columns that the command finds in FARMHAND_ROW, as JSON.";
    "started": Text(&["started_at"], column), "Set when the row was run.";
    "finished": Text(&["finished_at"], column), "Set when the row was run.";
    "exit_code": Text(&["exit_code"], column), "Set when the row was run.";
    "message": Text(&["message"], column), "Set to the outcome and its reason.";
    "poll": Duration(poll), "How often the farm looks for rows.";
    "max_running": Integer(1, MAX_RUNNING), "Rows under way on the whole farm.";
    unknown "table": "did you mean `name`?";
    unknown "concurrency": "did you mean `max_running`?";
    unknown "limit": "did you mean `max_running`?";
    unknown "interval": "did you mean `poll`?";
    unknown "id": "did you mean `key`?";
    unknown "order": "did you mean `order_by`?";
    unknown "columns": "did you mean `row`?";
    unknown "schema": "write name = \"SCHEMA.TABLE\"";
};

const STREAM: &Keys = keys! {
    "file": Text(&["/srv/lists/%F.txt"], file),
        "The list; strftime directives are of the due instant in the job's zone.";
    "command": Command, "Prints the list, instead of a file.";
    "follow": Boolean, "Whether a run waits for lines that are appended, until the next due instant.";
    "workers": Integer(1, MAX_WORKERS), "Lines at a time.";
    "progress_timeout": Duration(positive_duration), "What handles a line and is silent for so long is killed.";
    "max_item_failures": Integer(1, MAX_FAILURES), "A line that failed so often is recorded and passed over.";
    unknown "path": "did you mean `file`?";
    unknown "list": "did you mean `file` or `command`?";
    unknown "concurrency": "did you mean `workers`?";
    unknown "jobs": "did you mean `workers`?";
    unknown "timeout": "did you mean `progress_timeout`?";
    unknown "max_failures": "did you mean `max_item_failures`?";
    unknown "retries": "did you mean `max_item_failures`?";
};

const FLOW: &Keys = keys! {
    "dir": Text(&["/etc/rc.d"], absolute_path), "A directory of annotated scripts, or one shell file.";
    "stop": Boolean, "Backwards, each called with `stop`.";
    "skip": Texts("nostart", filled), "Scripts with one of these keywords are left out.";
    "keep": Texts("shutdown", filled), "Scripts without any of these keywords are left out.";
    "missing": Words(&["error", "warn"]), "How a name that no task provides counts: an error, or a warning.";
    "facilities": Texts("/etc/insserv.conf", absolute_path), "More `$facilities`: files in the form of insserv.conf.";
    "extract": Text(&["describe-script"], filled),
        "Called as `CMD SCRIPT` for each script, prints its annotations, one `KEY: value` a line.";
    "jobs": Integer(1, 65_535), "At most so many at a time.";
    unknown "path": "did you mean `dir`?";
    unknown "direction": "did you mean `stop`?";
};

pub(super) const CALENDAR: &Keys = keys! {
    "exclude": Texts("2026-12-24..2026-12-26", days), "Days, and ranges of days with both ends included.";
    "include": Texts("2026-12-31", days), "Likewise: the only days on which jobs run.";
    unknown "includes": "did you mean `include`?";
    unknown "excludes": "did you mean `exclude`?";
    unknown "dates": "did you mean `exclude`?";
};

pub(super) const POOL: &Keys = keys! {
    "size": Integer(0, 1_000_000), "Places; with 0 nothing of it starts.";
    unknown "slots": "did you mean `size`?";
    unknown "limit": "did you mean `size`?";
};

pub(super) const NOTIFY: &Keys = keys! {
    "webhook": Text(&["https://hooks.example.org/farm"], url), "Gets each message as a POST of JSON.";
    "webhook_file": Text(&["ops.url"], file_name), "A file in the agents' `secrets_dir` that holds the URL.";
    "headers_file": Text(&["ops.headers"], file_name),
        "A file in the agents' `secrets_dir`: further headers, one `Name: value` on each line.";
    "format": Words(&["slack", "teams", "pagerduty", "opsgenie", "ntfy"]), "The service that the webhook leads to, which gets the message in its own form.";
    "email": Texts("ops@example.org", address), "Gets each message as a mail; the agents need [smtp].";
    "on": Texts("failure", topic), "Of failure, recovery, takeover, deadline; all of them by default.";
    unknown "url": "did you mean `webhook`?";
    unknown "url_file": "did you mean `webhook_file`?";
    unknown "headers": "put them into a file on the agents: `headers_file`";
    unknown "mail": "did you mean `email`?";
    unknown "to": "did you mean `email`?";
    unknown "events": "did you mean `on`?";
};
