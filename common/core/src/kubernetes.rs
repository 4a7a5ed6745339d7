//! Kubernetes' CronJobs, and the job files that say the same.
//!
//! Pure: parsed manifests come in, a job file and a report come out. A CronJob runs a container and a job a process of
//! the node: what the image holds must be installed there, and the report says so.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::import::{
    Draft, Import, Imported, Machine, Names, Piece, Report, is_secret, is_variable, secret_note,
};
use crate::schedule::{ParseContext, Schedule};

/// A file of manifests, a value for each document in it.
#[derive(Clone, Debug)]
pub struct File {
    /// As people know it: its path.
    pub name: String,
    /// Its YAML documents, as JSON.
    pub documents: Vec<Value>,
}

/// What Kubernetes does where a CronJob does not say it.
const BACKOFF_LIMIT: u64 = 6;
const GRACE_SECONDS: u64 = 30;

/// Turns CronJobs into one job file. Other kinds of objects are noted.
pub fn import(files: &[File], machine: &Machine<'_>) -> Import {
    let mut names = Names::default();
    let (mut jobs, mut reports, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    let mut secret = false;
    for file in files {
        pieces.push(Piece::File(file.name.clone()));
        let mut report = Report::of(&file.name);
        for object in file.documents.iter().flat_map(items) {
            match object["kind"].as_str() {
                Some("CronJob") => {}
                Some(kind) => {
                    report.note(
                        0,
                        format!("{kind} {}: only CronJobs are imported", name_of(object)),
                    );
                    continue;
                }
                None if object.is_null() => continue,
                None => {
                    report.refuse(1, "", "an object without a kind", "is it a manifest?");
                    continue;
                }
            }
            let mut reading = Reading {
                object,
                machine,
                report: &mut report,
            };
            match reading.draft() {
                Ok((mut draft, schedule, timezone)) => {
                    draft.name = names.unique(&draft.name);
                    jobs.push(Imported {
                        name: draft.name.clone(),
                        file: file.name.clone(),
                        line: 0,
                        schedule,
                        timezone,
                        user: None,
                        never: false,
                        nodes: Vec::new(),
                    });
                    report.jobs += 1;
                    secret |= draft.secret;
                    pieces.push(Piece::Job(Box::new(draft)));
                }
                Err((problem, fix)) => {
                    let problem = format!("CronJob {}: {problem}", name_of(object));
                    pieces.push(Piece::Comment(format!("# NOT IMPORTED: {problem}; {fix}")));
                    report.refuse(1, name_of(object), problem, fix);
                }
            }
        }
        reports.push(report);
    }
    let defaults = [
        (Some("timezone"), machine.timezone),
        (
            None,
            "# As Kubernetes does it: the latest instant that was missed is run.",
        ),
        (Some("missed"), "latest"),
    ];
    Import::new("k8s", &defaults, &pieces, reports, jobs, secret)
}

/// The objects of a list, as `kubectl get` prints it, or the one itself.
fn items(object: &Value) -> Vec<&Value> {
    let list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object["items"].as_array().filter(|_| list) {
        Some(objects) => objects.iter().flat_map(items).collect(),
        None => vec![object],
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("?")
}

struct Reading<'a> {
    object: &'a Value,
    machine: &'a Machine<'a>,
    report: &'a mut Report,
}

type Refused = (String, &'static str);

impl Reading<'_> {
    fn note(&mut self, text: &str) {
        let text = format!("CronJob {}: {text}", name_of(self.object));
        self.report.note(0, text);
    }

    /// The job, its schedule as written, and its zone.
    fn draft(&mut self) -> Result<(Draft, String, String), Refused> {
        let spec = &self.object["spec"];
        let job = &spec["jobTemplate"]["spec"];
        let pod = &job["template"]["spec"];
        let written = spec["schedule"].as_str().ok_or((
            "it has no `spec.schedule`".to_owned(),
            "a template must be rendered first, as with `helm template`",
        ))?;
        // Kubernetes once took the zone from here.
        let (in_schedule, schedule) = match written.split_once(' ') {
            Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => {
                (zone.split_once('=').map(|(_, zone)| zone), rest.trim())
            }
            _ => (None, written),
        };
        let zone = spec["timeZone"].as_str().or(in_schedule);
        if zone.is_none() {
            let text = format!("it names no time zone: {} is taken", self.machine.timezone);
            self.note(&text);
        }
        let timezone = zone.unwrap_or(self.machine.timezone);
        let context = ParseContext {
            timezone,
            ..ParseContext::default()
        };
        if let Err(error) = Schedule::parse(&[schedule], &context) {
            return Err((
                format!("schedule \"{written}\": {error}"),
                "write the `schedule` by hand",
            ));
        }
        if schedule.starts_with("@every") {
            self.note("@every counts from 1970-01-01 here, so that all nodes mean the same instants");
        }
        let namespace = self.object["metadata"]["namespace"].as_str();
        let origin = match namespace {
            Some(namespace) => format!("CronJob {namespace}/{}", name_of(self.object)),
            None => format!("CronJob {}", name_of(self.object)),
        };
        let mut draft = Draft::new(name_of(self.object), &origin);
        draft.text("schedule", schedule);
        draft.maybe(
            "timezone",
            Some(timezone).filter(|zone| *zone != self.machine.timezone),
        );
        if spec["suspend"] == true {
            draft.raw("enabled", "false");
        }
        draft.text(
            "overlap",
            match spec["concurrencyPolicy"].as_str() {
                Some("Forbid") => "skip",
                Some("Replace") => "replace",
                _ => "allow",
            },
        );
        if let Some(seconds) = spec["startingDeadlineSeconds"].as_u64() {
            draft.text("missed_within", &format!("{seconds}s"));
        }
        self.container(pod, &mut draft)?;
        self.limits(job, pod, &mut draft);
        Ok((draft, written.to_owned(), timezone.to_owned()))
    }

    /// What runs.
    fn container(&mut self, pod: &Value, draft: &mut Draft) -> Result<(), Refused> {
        let containers = pod["containers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let [container] = containers else {
            let problem = format!(
                "its pod has {} containers, and a job runs one command",
                containers.len()
            );
            return Err((problem, "write a job for each, or a flow"));
        };
        let image = container["image"].as_str().unwrap_or("?");
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap_or_default();
            let from = variable["valueFrom"]
                .as_object()
                .and_then(|from| from.keys().next());
            match (from, is_variable(name) && !name.starts_with("FARMHAND_")) {
                (Some(from), _) if from == "secretKeyRef" => self.note(&format!(
                    "variable {name} comes from a Secret: put it into the nodes' store and name it in `secrets`"
                )),
                (Some(from), _) => self.note(&format!("variable {name} comes from {from}: write its value into `env`")),
                (None, false) => self.note(&format!("`{name}` cannot be the name of a job's variable and is left out")),
                (None, true) => {
                    let value = expanded(variable["value"].as_str().unwrap_or_default(), &env);
                    if is_secret(name, &value) {
                        self.note(&secret_note(name));
                    }
                    env.insert(name.to_owned(), value);
                }
            }
        }
        let words = |key: &str| -> Vec<String> {
            (container[key].as_array().into_iter().flatten())
                .map(|word| expanded(word.as_str().unwrap_or_default(), &env))
                .collect()
        };
        let (command, args) = (words("command"), words("args"));
        if command.is_empty() && args.is_empty() {
            let problem =
                format!("it has neither command nor args: the program is the entry point of {image}");
            return Err((problem, "write the job by hand, with that program as its command"));
        }
        if command.is_empty() {
            self.note(&format!(
                "it has args alone: put the entry point of {image} before them"
            ));
        }
        self.note(&format!("it ran in {image}: the nodes must have what that holds"));
        draft.argv(&[command, args].concat());
        draft.maybe(
            "cwd",
            container["workingDir"]
                .as_str()
                .filter(|dir| dir.starts_with('/')),
        );
        draft.table("env", &env);
        self.left_out(pod, container);
        Ok(())
    }

    /// Deadlines, retries and resources.
    fn limits(&mut self, job: &Value, pod: &Value, draft: &mut Draft) {
        let retries = job["backoffLimit"].as_u64().unwrap_or(BACKOFF_LIMIT);
        let whole = job["activeDeadlineSeconds"].as_u64();
        let attempt = pod["activeDeadlineSeconds"].as_u64();
        if whole.is_some() && retries > 0 {
            self.note("activeDeadlineSeconds bounds all attempts together; `timeout` bounds each of them");
        }
        if let Some(seconds) = [whole, attempt].into_iter().flatten().min() {
            draft.text("timeout", &format!("{seconds}s"));
        }
        if retries > 0 {
            draft.raw(
                "retry",
                format!("{{ max = {retries}, base = \"10s\", cap = \"6m\" }}"),
            );
        }
        let grace = pod["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(GRACE_SECONDS);
        draft.text("grace", &format!("{grace}s"));
        if ["parallelism", "completions"]
            .iter()
            .any(|key| job[key].as_u64().is_some_and(|n| n > 1))
        {
            self.note(
                "it has several completions: `instances` makes as many runs, numbered by FARMHAND_INSTANCE",
            );
        }
        let memory = &pod["containers"][0]["resources"]["limits"]["memory"];
        match memory.as_str().map(size) {
            Some(Some(size)) => draft.raw("limits", format!("{{ memory = \"{size}\" }}")),
            Some(None) => self.note(&format!("the memory limit {memory} is not carried over")),
            None => {}
        }
    }

    /// What a job has no word for.
    fn left_out(&mut self, pod: &Value, container: &Value) {
        const POD: &[&str] = &[
            "affinity",
            "hostAliases",
            "hostNetwork",
            "imagePullSecrets",
            "initContainers",
            "nodeName",
            "nodeSelector",
            "priorityClassName",
            "securityContext",
            "serviceAccount",
            "serviceAccountName",
            "tolerations",
            "volumes",
        ];
        const CONTAINER: &[&str] = &[
            "envFrom",
            "lifecycle",
            "livenessProbe",
            "securityContext",
            "volumeMounts",
        ];
        let hint = |key: &str| match key {
            "nodeSelector" | "affinity" | "nodeName" => "; `where` names labels of nodes here",
            "securityContext" => "; `user` and the node's policy say what a job may do here",
            "initContainers" => "; a flow runs tasks in order",
            "envFrom" => "; write the variables into `env`, and what is secret into `secrets`",
            _ => "",
        };
        for (of, keys) in [(pod, POD), (container, CONTAINER)] {
            for key in keys.iter().filter(|key| is_there(&of[**key])) {
                self.note(&format!("{key} is not carried over{}", hint(key)));
            }
        }
    }
}

fn is_there(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// `$(NAME)` of the variables so far; `$$(NAME)` is none.
fn expanded(text: &str, env: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
            continue;
        }
        let named = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        match named.and_then(|(name, tail)| Some((env.get(name)?, tail))) {
            Some((value, tail)) => {
                out.push_str(value);
                rest = tail;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out + rest
}

/// A quantity as a size: `512Mi`, `1G`, `1000`.
fn size(quantity: &str) -> Option<String> {
    let digits = quantity
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(digits);
    let unit = match unit {
        "" => "B",
        "Ki" => "KiB",
        "Mi" => "MiB",
        "Gi" => "GiB",
        "Ti" => "TiB",
        "k" => "kB",
        "M" => "MB",
        "G" => "GB",
        "T" => "TB",
        _ => return None,
    };
    number.parse::<u64>().ok().map(|n| format!("{n}{unit}"))
}
