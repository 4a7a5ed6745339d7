//! The JSON Schema of job files, for editors. A test holds its keys against those that the reader knows.

mod rows;
mod shared;

use serde_json::{Map, Value, json};

use super::JobSpec;
use super::job::OWN_KEYS;
use rows::{FLOW, STREAM, TABLE};
pub(super) use shared::NOTIFY;
use shared::{CALENDAR, POOL};

/// What a value looks like.
pub(super) enum Kind {
    Text,
    /// With an example of it.
    TextLike(&'static str),
    Duration,
    Size,
    Boolean,
    Integer(i64, i64),
    Words(&'static [&'static str]),
    /// A string or a list of them.
    Texts(&'static str),
    Command,
    /// An exit code or a list of them.
    Codes,
    Instant,
    /// Strings by names that people choose.
    Strings,
    Table(&'static [Key]),
    /// A string like this, or a table.
    TextOr(&'static str, &'static [Key]),
    /// A list of tables.
    List(&'static [Key]),
    /// Tables by names that people choose.
    Tables(&'static [Key]),
    Params,
}

pub(super) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    doc: &'static str,
}

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, doc }
}

const RETRY: &[Key] = &[
    key("max", Kind::Integer(0, 1_000_000), "Retries, not attempts."),
    key(
        "backoff",
        Kind::Words(&["constant", "linear", "exponential"]),
        "How the pause grows.",
    ),
    key("base", Kind::Duration, "The first pause's bound."),
    key("cap", Kind::Duration, "The bound of every pause."),
];

const LIMITS: &[Key] = &[
    key("memory", Kind::Size, "Of all processes of an attempt together."),
    key(
        "processes",
        Kind::Integer(1, 4_194_304),
        "At most so many at once.",
    ),
];

const CHILD_LIMIT: &[Key] = &[
    key("name", Kind::TextLike("wget"), "As `ps -o comm` shows it."),
    key("max_age", Kind::Duration, "Older ones are ended."),
    key(
        "max_memory",
        Kind::Size,
        "Ones with more resident memory are ended.",
    ),
];

const OUTPUT: &[Key] = &[
    key("keep", Kind::Size, "Of an attempt's output, in the database."),
    key("local", Kind::Size, "Of an attempt's output, on the node."),
];

const TASK: &[Key] = &[
    key(
        "command",
        Kind::Command,
        "As a job's; a task without one is a name to wait for.",
    ),
    key(
        "requires",
        Kind::Texts("db"),
        "After these, and only if they succeeded.",
    ),
    key("after", Kind::Texts("db"), "After these, however they ended."),
    key("before", Kind::Texts("db"), "These come later."),
    key(
        "provides",
        Kind::Texts("storage"),
        "Further names; one that several tasks provide has ended when all have.",
    ),
    key("locks", Kind::Texts("disk"), "Taken all at once, or none."),
    key("pool", Kind::TextLike("disk"), "Bounds the flow's tasks in it."),
    key(
        "conflicts",
        Kind::Texts("backup"),
        "Never at the same time as these.",
    ),
    key("timeout", Kind::Duration, "Of a try."),
    key("retry", Kind::Table(RETRY), "After a failure."),
    key("env", Kind::Strings, "Further variables."),
    key(
        "always_run",
        Kind::Boolean,
        "Again, although it had succeeded before the flow was resumed.",
    ),
];

pub(super) const JOB: &[Key] = &[
    key(
        "table",
        Kind::Table(TABLE),
        "Run the command once for each row whose dispatch column is NULL.",
    ),
    key(
        "stream",
        Kind::Table(STREAM),
        "Run the command once for each line of a growing list.",
    ),
    key(
        "task",
        Kind::Tables(TASK),
        "Tasks in dependency order, instead of a command.",
    ),
    key(
        "flow",
        Kind::TextOr("/etc/rc.d", FLOW),
        "A directory of annotated scripts, or one shell file, instead of a command.",
    ),
    key(
        "resume",
        Kind::Words(&["restart", "skip-finished"]),
        "What a flow does after a takeover.",
    ),
    key("preload", Kind::TextLike("/etc/rc.subr"), "A shell library."),
    key(
        "command",
        Kind::Command,
        "A list is executed as it is, a string runs under /bin/sh -c.",
    ),
    key("params", Kind::Params, "Parameters of the job."),
    key("stdin", Kind::Text, "What the command reads."),
    key("env", Kind::Strings, "Variables of the command."),
    key(
        "secrets",
        Kind::Strings,
        "By name, what each is called in the node's store; found in the file that FARMHAND_SECRET_NAME_FILE names.",
    ),
    key("cwd", Kind::TextLike("/srv/mail"), "Where it starts; absolute."),
    key(
        "user",
        Kind::TextLike("mailer"),
        "Who it runs as; the agent's own user by default.",
    ),
    key(
        "renamed_from",
        Kind::TextLike("import"),
        "What the job was called before: it keeps its history.",
    ),
    key("description", Kind::Text, "What the job is for."),
    key("owner", Kind::TextLike("team-billing"), "Whose it is."),
    key("tags", Kind::Texts("billing"), "Words to find it by."),
    key(
        "runbook",
        Kind::TextLike("https://wiki.example.org/runbooks/import"),
        "What to do when it fails.",
    ),
    key("umask", Kind::TextLike("022"), "Octal, as a string."),
    key("nice", Kind::Integer(-20, 19), "Scheduling priority."),
    key("limits", Kind::Table(LIMITS), "What an attempt may use."),
    key(
        "isolation",
        Kind::Words(&["cgroup", "pid"]),
        "pid: a PID namespace of its own.",
    ),
    key("output", Kind::Table(OUTPUT), "How much output is kept."),
    key(
        "schedule",
        Kind::Texts("*/5 8-18 * * MON-FRI"),
        "Cron expressions of 5 or 6 fields, macros, \"@every 90s\".",
    ),
    key(
        "triggered_by",
        Kind::Texts("price-import"),
        "Jobs whose end starts this one; of several, all.",
    ),
    key(
        "trigger_on",
        Kind::Words(&["success", "failure", "finish"]),
        "Which ends.",
    ),
    key("timezone", Kind::TextLike("Europe/Berlin"), "IANA name."),
    key(
        "dst",
        Kind::Words(&["once", "skip", "both"]),
        "What a clock change does to fixed times.",
    ),
    key(
        "calendars",
        Kind::Texts("de"),
        "Names of [calendar.NAME]: no runs on their days.",
    ),
    key("start", Kind::Instant, "No instant before it."),
    key("end", Kind::Instant, "No instant from it on."),
    key(
        "spread",
        Kind::Duration,
        "A fixed delay below this, chosen by the job's name.",
    ),
    key(
        "missed",
        Kind::Words(&["latest", "all", "skip"]),
        "Which missed instants are still run.",
    ),
    key("missed_within", Kind::Duration, "Older ones are skipped."),
    key(
        "missed_max",
        Kind::Integer(1, 10_000),
        "At most so many with missed = \"all\".",
    ),
    key(
        "enabled",
        Kind::Boolean,
        "Whether it fires and takes submissions.",
    ),
    key("timeout", Kind::Duration, "Of an attempt, from its start."),
    key(
        "progress_timeout",
        Kind::Duration,
        "Silence on the progress descriptor for so long ends an attempt.",
    ),
    key(
        "child_limits",
        Kind::List(CHILD_LIMIT),
        "Children that are ended by name when they grow too old or too large.",
    ),
    key("grace", Kind::Duration, "Between SIGTERM and SIGKILL."),
    key(
        "overlap",
        Kind::Words(&["skip", "queue", "replace", "allow"]),
        "When an earlier run has not ended.",
    ),
    key("retry", Kind::Table(RETRY), "After a failure."),
    key(
        "idle_exit",
        Kind::Codes,
        "Exit codes by which a continuous job says that it found nothing to do.",
    ),
    key("idle_delay", Kind::Duration, "The pause after one of them."),
    key(
        "instances",
        Kind::Integer(1, 10_000),
        "How many runs each firing makes, or how many loops a continuous job has.",
    ),
    key("on_lost", Kind::Words(&["rerun", "fail"]), "When its node dies."),
    key("hold", Kind::Duration, "How long it may outlive its lease."),
    key(
        "priority",
        Kind::Integer(-1_000_000, 1_000_000),
        "Higher is claimed first.",
    ),
    key(
        "pool",
        Kind::TextLike("mailer"),
        "A [pool.NAME]: a run takes one of its places on the farm.",
    ),
    key(
        "node_pool",
        Kind::TextLike("disk"),
        "A [pool.NAME]: a run takes one of its places on the node.",
    ),
    key("locks", Kind::Texts("stock-db"), "Taken all at once, or none."),
    key(
        "rate",
        Kind::TextLike("10/1m"),
        "At most so many starts in any such time, retries and takeovers counted.",
    ),
    key("where", Kind::Strings, "Labels that a node must have."),
    key(
        "notify",
        Kind::Texts("ops"),
        "[notify.NAME]: who is told of failure, recovery, takeover and a missed deadline.",
    ),
    key("run_on", Kind::Words(&["one", "each-node"]), "One node, or each."),
];

/// The schema, draft 2020-12.
pub fn json_schema() -> Value {
    let spec = serde_json::to_value(JobSpec::default()).unwrap_or(Value::Null);
    let mut job = table(JOB, Some(&spec));
    job["oneOf"] = json!([{"required": ["command"]}, {"required": ["task"]}, {"required": ["flow"]}]);
    let inherited: Vec<&Key> = JOB.iter().filter(|key| !OWN_KEYS.contains(&key.name)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Farmhand job file",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "defaults": of_keys(&inherited, None),
            "job": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
                "additionalProperties": job,
            },
            "calendar": {"type": "object", "additionalProperties": table(CALENDAR, None)},
            "pool": {"type": "object", "additionalProperties": table(POOL, None)},
            "notify": {"type": "object", "additionalProperties": table(NOTIFY, None)},
        },
    })
}

fn table(keys: &[Key], defaults: Option<&Value>) -> Value {
    of_keys(&keys.iter().collect::<Vec<_>>(), defaults)
}

fn of_keys(keys: &[&Key], defaults: Option<&Value>) -> Value {
    let properties: Map<String, Value> = (keys.iter())
        .map(|key| (key.name.to_owned(), property(key, defaults)))
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn property(key: &Key, defaults: Option<&Value>) -> Value {
    let mut value = match &key.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::TextLike(example) => json!({"type": "string", "examples": [example]}),
        Kind::Duration => json!({"type": "string", "examples": ["90s", "1h30m"],
            "pattern": "^([0-9]+(w|d|h|ms|m|s))+$"}),
        Kind::Size => json!({"type": "string", "examples": ["512MiB"],
            "pattern": "^[0-9]+(B|[KMGT]iB|[kKMGT]B)$"}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Words(words) => json!({"enum": words}),
        Kind::Texts(example) => {
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "examples": [example]})
        }
        Kind::Command => json!({"anyOf": [{"type": "string", "minLength": 1},
            {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
        Kind::Codes => {
            let code = json!({"type": "integer", "minimum": 1, "maximum": 255});
            json!({"anyOf": [code.clone(), {"type": "array", "items": code}], "examples": [[250]]})
        }
        Kind::Instant => json!({"type": "string", "examples": ["2026-12-01", "2026-12-01T08:00:00Z"]}),
        Kind::Strings => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Kind::Table(keys) => table(keys, None),
        Kind::TextOr(example, keys) => {
            json!({"anyOf": [{"type": "string"}, table(keys, None)], "examples": [example]})
        }
        Kind::List(keys) => json!({"type": "array", "items": table(keys, None)}),
        Kind::Tables(keys) => json!({"type": "object", "additionalProperties": table(keys, None)}),
        Kind::Params => json!({"type": "object", "additionalProperties": {
            "type": "object", "additionalProperties": false, "required": ["type"],
            "properties": {
                "type": {"enum": ["string", "integer", "number", "boolean", "duration", "date"]},
                "default": true,
                "required": {"type": "boolean"},
            },
        }}),
    };
    value["description"] = key.doc.into();
    // Where the file's form is the stored form.
    let plain = matches!(key.kind, Kind::Words(_) | Kind::Boolean | Kind::Integer(..));
    if let Some(default) = defaults
        .and_then(|d| d.get(key.name))
        .filter(|d| plain && !d.is_null())
    {
        value["default"] = default.clone();
    }
    value
}
