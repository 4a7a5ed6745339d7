//! From CronJobs to jobs.

use std::collections::BTreeSet;

use farmhand_core::schedule::{ExpressionError, ParseContext, Schedule};
use serde_json::Value;

use super::days::either_day;
use super::left_out::{is_on, size};
use super::reading::{CronJob, name_of, text};
use super::variables::entries_of_secrets;
use crate::proposed::{
    Draft, Import, Imported, LONG, Machine, Names, Piece, Report, SECRET_COMMAND, Store, has_secret,
};

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

/// More retries than a job file may say are as good as endless.
const MOST_RETRIES: u64 = 1_000_000;

/// Whom a container runs as is in its image, and means nothing on a node.
const USERLESS: &str = "its jobs have no `user`, and run as the nodes' `default_user` or as the agent's own, whomever their \
    containers ran as: write `user` into `[defaults]` or into each";

const RENDER: &str = "render it first, as with `helm template` or `kubectl kustomize`";

/// Turns CronJobs into one job file. Other kinds of objects are noted.
pub fn import(files: &[File], machine: &Machine<'_>) -> Import {
    let mut names = Names::default();
    let (mut jobs, mut reports, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    let mut store = Store::default();
    let objects = files
        .iter()
        .flat_map(|file| file.documents.iter().flat_map(items));
    let objects: Vec<&Value> = objects.filter(|object| object["kind"] == "CronJob").collect();
    let namespaces: BTreeSet<Option<&str>> = (objects.iter())
        .map(|object| object["metadata"]["namespace"].as_str())
        .collect();
    let many_namespaces = namespaces.len() > 1;
    for entry in (objects.iter()).flat_map(|object| entries_of_secrets(object, many_namespaces)) {
        store.reserve(entry);
    }
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
            let mut reading = CronJob {
                object,
                machine,
                many_namespaces,
                report: &mut report,
                store: &mut store,
            };
            match reading.draft() {
                Ok((mut draft, mut imported)) => {
                    draft.name = names.unique(&draft.name);
                    imported.name.clone_from(&draft.name);
                    imported.file.clone_from(&file.name);
                    jobs.push(imported);
                    report.jobs += 1;
                    pieces.push(Piece::Job(Box::new(draft)));
                }
                Err((problem, fix)) => {
                    let problem = format!("CronJob {}: {problem}", name_of(object));
                    pieces.push(Piece::Comment(format!("# NOT IMPORTED: {problem}; {fix}")));
                    report.refuse(1, name_of(object), problem, fix);
                }
            }
        }
        if report.jobs > 0 {
            report.note(0, USERLESS);
        }
        reports.push(report);
    }
    let defaults = [
        (Some("timezone"), machine.timezone),
        (
            None,
            "# As Kubernetes does it: the latest instant that was missed is run, and a time that a change of the clock",
        ),
        (
            None,
            "# removes is left out. One that it repeats is run once; Kubernetes runs it twice.",
        ),
        (Some("catch_up.runs"), "latest"),
        (Some("dst"), "skip"),
    ];
    Import::new("k8s", &defaults, pieces, reports, jobs, store)
}

/// The objects of a list, as `kubectl get` prints it, or the one itself.
fn items(object: &Value) -> Vec<&Value> {
    let list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object["items"].as_array().filter(|_| list) {
        Some(objects) => objects.iter().flat_map(items).collect(),
        None => vec![object],
    }
}

type Refused = (String, &'static str);

impl CronJob<'_> {
    fn draft(&mut self) -> Result<(Draft, Imported), Refused> {
        let spec = &self.object["spec"];
        let job = &spec["jobTemplate"]["spec"];
        let pod = &job["template"]["spec"];
        let written = spec["schedule"]
            .as_str()
            .ok_or(("it has no `spec.schedule`".to_owned(), RENDER))?;
        // Kubernetes once took the zone from here.
        let (in_schedule, schedule) = match written.split_once(' ') {
            Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => {
                (zone.split_once('=').map(|(_, zone)| zone), rest.trim())
            }
            _ => (None, written),
        };
        let zone = spec["timeZone"].as_str().or(in_schedule);
        if let (Some(taken), Some(other)) = (spec["timeZone"].as_str(), in_schedule) {
            self.note(&format!(
                "its schedule names {other} and `timeZone` names {taken}: {taken} is taken"
            ));
        }
        if zone.is_none() {
            let text = format!("it names no time zone: {} is taken", self.machine.timezone);
            self.note(&text);
        }
        let timezone = zone.unwrap_or(self.machine.timezone);
        let context = ParseContext {
            timezone,
            ..ParseContext::default()
        };
        let schedule = either_day(schedule);
        let schedule = schedule.as_str();
        let mut never = false;
        if let Err(error) = Schedule::parse(&[schedule], &context) {
            // How people switch a CronJob off, and leave it to be run by hand.
            never = error.expression().is_some_and(ExpressionError::never_fires);
            if !never {
                let fix = match written.contains("{{") {
                    true => RENDER,
                    false => "write the `schedule` by hand",
                };
                return Err((format!("schedule \"{written}\": {error}"), fix));
            }
            self.note(&format!(
                "`{written}` names a day that never comes: the job has no schedule"
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
        match never {
            true => draft.comment(&format!("# schedule = \"{schedule}\" never fires")),
            false => draft.text("schedule", schedule),
        }
        draft.maybe(
            "timezone",
            Some(timezone).filter(|zone| *zone != self.machine.timezone),
        );
        match is_on(&spec["suspend"]) {
            Some(true) => draft.raw("enabled", "false"),
            Some(false) => {}
            None => self.note("suspend is neither true nor false, so its job is enabled"),
        }
        draft.text(
            "overlap",
            match spec["concurrencyPolicy"].as_str() {
                Some("Forbid") => "latest",
                Some("Replace") => "replace",
                _ => "allow",
            },
        );
        match spec["startingDeadlineSeconds"].as_u64() {
            Some(0) => self
                .note("startingDeadlineSeconds is 0, with which Kubernetes starts nothing; it is left out"),
            Some(seconds) => {
                let within = self.seconds("startingDeadlineSeconds", seconds);
                draft.maybe("catch_up.within", within.as_deref());
            }
            None => {}
        }
        self.container(pod, &mut draft)?;
        self.limits(job, pod, &mut draft);
        let imported = Imported {
            schedule: written.to_owned(),
            timezone: timezone.to_owned(),
            never,
            ..Imported::default()
        };
        Ok((draft, imported))
    }

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
        let Some(image) = container["image"].as_str() else {
            let problem = "its container has no image, as in a patch for kustomize".to_owned();
            return Err((problem, RENDER));
        };
        let variables = self.variables(container);
        let words = |key: &str| -> Result<Vec<String>, Refused> {
            let word = |(nth, value): (usize, &Value)| match value {
                Value::Null | Value::Array(_) | Value::Object(_) => Err((
                    format!("{key}[{nth}] of its container is {value}, which is no text"),
                    "write it as a text, in quotes",
                )),
                scalar => Ok(text(scalar)),
            };
            (container[key].as_array().into_iter().flatten().enumerate())
                .map(word)
                .collect()
        };
        let (command, args) = (words("command")?, words("args")?);
        let is_program = |word: &String| {
            let name = word.rsplit('/').next().unwrap_or_default();
            let end = name.rsplit_once('.').map_or("sh", |(_, end)| end);
            let runs = word.starts_with('/') && ["sh", "py", "pl", "rb", "js", "php"].contains(&end);
            runs || ["sh", "bash", "ash"].contains(&word.as_str())
        };
        match (command.first(), args.first()) {
            (None, None) => {
                let problem =
                    format!("it has neither command nor args: the program is the entry point of {image}");
                return Err((problem, "write the job by hand, with that program as its command"));
            }
            (None, Some(first)) if !is_program(first) => {
                let problem = format!("it has args alone: the program is the entry point of {image}");
                return Err((problem, "add `command` with that program, and import it again"));
            }
            (None, Some(first)) => self.note(&format!(
                "{first} is taken for the program, since it has args alone; if {image} has an entry point, put that before it"
            )),
            (Some(_), _) => {}
        }
        let written = [command, args].concat();
        let argv: Vec<String> = written.iter().map(|word| variables.expanded(word)).collect();
        self.unset(container, &argv, &variables);
        // What is in the store is known to a shell alone.
        let line = written.iter().any(|word| variables.in_store(word)).then(|| {
            let words: Vec<String> = written.iter().map(|word| variables.shell(word)).collect();
            format!("exec {}", words.join(" "))
        });
        let command = line.as_ref().map_or(&argv[..], std::slice::from_ref);
        if command.iter().any(|word| has_secret(word)) {
            self.note(SECRET_COMMAND);
        }
        self.note(&format!("it ran in {image}: the nodes must have what that holds"));
        match line {
            Some(line) => draft.script(&line),
            None => draft.argv(&argv),
        }
        draft.maybe(
            "cwd",
            container["workingDir"]
                .as_str()
                .filter(|dir| dir.starts_with('/')),
        );
        draft.env(&variables.values, variables.elsewhere, self.store);
        self.left_out();
        Ok(())
    }

    fn limits(&mut self, job: &Value, pod: &Value, draft: &mut Draft) {
        let retries = job["backoffLimit"]
            .as_u64()
            .unwrap_or(BACKOFF_LIMIT)
            .min(MOST_RETRIES);
        let whole = job["activeDeadlineSeconds"].as_u64();
        let attempt = pod["activeDeadlineSeconds"].as_u64();
        if whole.is_some() && retries > 0 {
            self.note("activeDeadlineSeconds bounds all attempts together; `timeout` bounds each of them");
        }
        if let Some(seconds) = [whole, attempt].into_iter().flatten().filter(|n| *n > 0).min() {
            let timeout = self.seconds("activeDeadlineSeconds", seconds);
            draft.maybe("timeout", timeout.as_deref());
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
        let grace = self.seconds("terminationGracePeriodSeconds", grace);
        draft.text("grace", grace.as_deref().unwrap_or(LONG));
        if ["parallelism", "completions"]
            .iter()
            .any(|key| job[key].as_u64().is_some_and(|n| n > 1))
        {
            self.note(
                "it has several completions: `instances` makes as many runs, numbered by FARMHAND_INSTANCE",
            );
        }
        let memory = &pod["containers"][0]["resources"]["limits"]["memory"];
        match (memory.is_null(), size(&text(memory))) {
            (true, _) => {}
            (false, Some(size)) => draft.raw("limits", format!("{{ memory = \"{size}\" }}")),
            (false, None) => self.note(&format!("the memory limit {memory} is not carried over")),
        }
    }
}
