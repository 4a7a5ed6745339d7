use serde_json::Value;

use crate::definition::*;
use crate::document::Source;

const FILE: &str = r#"
[defaults]
timezone = "Europe/Berlin"
[calendar.de]
exclude = ["2026-12-24..2026-12-26", "2027-01-01"]
[calendar.shop]
exclude = ["2026-11-27"]
[pool.mailer]
size = 3
[pool.disk]
size = 1
[notify.ops]
webhook_file = "ops.url"
email = ["a@example.org"]
on = ["failure", "deadline"]

[job.once]
command = ["take"]
schedule = "@daily"
[job.once.stream]
file = "/l/%F"
follow = false
[job.closed]
schedule = "@daily"
calendars = ["de"]
command = "echo"
[job.mail]
schedule = ["*/5 8-18 * * MON-FRI", "0 3 * * *"]
dst = "both"
calendars = ["de", "shop"]
start = "2026-12-01"
end = "2027-12-01T08:00:00Z"
spread = "1m30s"
catch_up = { runs = "all", within = "1d12h", max = 7 }
command = ["send", "--since", "{since}", "a \"quoted\" \\ word\n"]
params = { since = { type = "duration", default = "5m" } }
[job.asked]
command = "echo"
params = { n = { type = "integer", required = true } }
[job.mail2]
command = "echo"
timeout = "1h0m1s500ms"
progress_timeout = "30s"
child_limits = [{ name = "wget", max_age = "1h", max_memory = "64MiB" }]
grace = "1ms"
retry = { max = 3, base = "3h", backoff = "linear" }
instances = 4
on_lost = "fail"
overlap = "queue"
priority = -5
pool = "mailer"
node_pool = "disk"
locks = ["b", "a"]
rate = "10/1m"
where = { zone = "eu", FALSE = "" }
run_on = "one"
notify = "ops"
user = "mailer"
cwd = "/srv/mail"
umask = "007"
nice = -3
limits = { memory = "1000001kB", processes = 64 }
isolation = "pid"
output = { keep = "3B" }
env = { LANG = "C.UTF-8", EMPTY = "" }
secrets = { token = "mail-token" }
stdin = "two\nlines\n"
description = "Sends 'mail'."
owner = "team"
tags = ["a", "b"]
runbook = "https://example.org/mail"
enabled = false
[job.each]
command = "df"
run_on = "each-node"
triggered_by = "closed"
trigger_on = "finish"
[job.loop]
command = ["work", "{instance}"]
schedule = "@continuous"
retry = { base = "10s" }
idle_exit = [250, 3]
idle_delay = "5s"
[job.rows]
command = ["send", "--", "{key}"]
[job.rows.table]
name = "\"a.b\".\"Or\"\"ders\""
key = ["tenant", "id"]
dispatch = "sent"
order_by = "created"
row = ["address"]
message = "text"
poll = "300ms"
max_running = 2
[job.lines]
command = ["take"]
schedule = "@daily"
[job.lines.stream]
command = ["list"]
workers = 3
progress_timeout = "9s"
[job.followed]
command = ["take"]
schedule = "@daily"
[job.followed.stream]
file = "/l/%F"
follow = true
max_item_failures = 1
[job.boot]
flow = { dir = "/etc/rc.d", stop = true, skip = "nostart", missing = "warn", jobs = 4 }
resume = "skip-finished"
[job.plain]
flow = "/etc/rc.d"
preload = "/etc/rc.subr"
[job.tasks.task.fetch]
command = "fetch"
provides = "data"
pool = "disk"
timeout = "5m"
retry = { max = 1 }
[job.tasks.task.load]
command = ["load", "it"]
requires = "data"
locks = "db"
env = { A = "b" }
always_run = true
[job.tasks.task.done]
after = "load"
"#;

fn read(text: &str) -> Definitions {
    let source = Source {
        name: "jobs.toml".to_owned(),
        text: text.to_owned(),
    };
    load_all(&[source]).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn written(read: &Definitions) -> String {
    let specs: Vec<(&str, Value)> = (read.jobs.iter())
        .map(|job| (job.name.as_str(), serde_json::to_value(&job.spec).unwrap()))
        .collect();
    let specs: Vec<(&str, &Value)> = specs.iter().map(|(name, spec)| (*name, spec)).collect();
    let targets: Vec<_> = read.targets.iter().map(|t| (t.name.as_str(), &t.spec)).collect();
    job_file(&specs, &read.pools, &targets)
}

#[test]
fn what_is_stored_is_written_as_a_file_that_defines_the_same() {
    let before = read(FILE);
    let text = written(&before);
    let after = read(&text);
    for (before, after) in before.jobs.iter().zip(&after.jobs) {
        assert_eq!((&before.name, &before.spec), (&after.name, &after.spec), "{text}");
    }
    assert_eq!(before.jobs.len(), after.jobs.len());
    assert_eq!((before.pools, before.targets), (after.pools, after.targets));
    assert_eq!(text, written(&read(&text)));
}

#[test]
fn only_what_is_not_as_by_default_is_written() {
    let jobs = read("[pool.unused]\nsize = 1\n[job.a]\ncommand = 'x'\ntimeout = '90s'\n");
    assert_eq!(written(&jobs), "[job.a]\ncommand = \"x\"\ntimeout = \"1m30s\"\n");
}

#[test]
fn what_a_continuous_job_inherits_without_a_meaning_is_left_out() {
    let jobs = read("[defaults]\noverlap = 'queue'\n[job.a]\ncommand = 'x'\nschedule = '@continuous'\n");
    assert_eq!(
        written(&jobs),
        "[job.a]\ncommand = \"x\"\nschedule = [\"@continuous\"]\n"
    );
}

#[test]
fn the_keys_of_a_job_have_the_days_that_its_calendars_exclude() {
    let spec = serde_json::json!({"calendars": ["de"], "exclude": ["2026-12-24"]});
    assert_eq!(
        job_keys(&spec),
        "calendars = [\"de\"]\nexclude = [\"2026-12-24\"]\n"
    );
}

#[test]
fn a_key_of_a_newer_version_is_written_as_it_is_stored() {
    let spec = serde_json::json!({"command": "x", "later": {"a": 1}, "timeout": null});
    assert_eq!(job_keys(&spec), "command = \"x\"\n\n[later]\na = 1\n");
}
