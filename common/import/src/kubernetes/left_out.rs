//! What a job has no word for.

use farmhand_core::document::{parse_duration, parse_size};
use serde_json::Value;

use super::reading::CronJob;

/// Keys that are read, and those that say nothing about what runs when: history, labels, what `kubectl get` fills in.
const CRON_JOB: &[&str] = &[
    "concurrencyPolicy",
    "failedJobsHistoryLimit",
    "jobTemplate",
    "schedule",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "suspend",
    "timeZone",
];
const JOB: &[&str] = &[
    "activeDeadlineSeconds",
    "backoffLimit",
    "completions",
    "parallelism",
    "template",
    "ttlSecondsAfterFinished",
];
const POD: &[&str] = &[
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "containers",
    "dnsPolicy",
    "enableServiceLinks",
    "restartPolicy",
    "schedulerName",
    "terminationGracePeriodSeconds",
];
const CONTAINER: &[&str] = &[
    "args",
    "command",
    "env",
    "image",
    "imagePullPolicy",
    "name",
    "resources",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "workingDir",
];

impl CronJob<'_> {
    /// Notes every key that was not read.
    pub(super) fn left_out(&mut self) {
        let spec = &self.object["spec"];
        let job = &spec["jobTemplate"]["spec"];
        let pod = &job["template"]["spec"];
        let container = &pod["containers"][0];
        for (of, quiet) in [(spec, CRON_JOB), (job, JOB), (pod, POD), (container, CONTAINER)] {
            for (key, value) in of.as_object().into_iter().flatten() {
                if !quiet.contains(&key.as_str()) && is_there(value) {
                    self.note(&format!(
                        "{key}{} is not carried over{}",
                        names(key, value),
                        hint(key)
                    ));
                }
            }
        }
        let limits = container["resources"]["limits"].as_object();
        for (name, _) in limits.into_iter().flatten().filter(|(name, _)| *name != "memory") {
            self.note(&format!("the limit of {name} is not carried over"));
        }
    }

    /// As a duration, if a job may have it.
    pub(super) fn seconds(&mut self, key: &str, seconds: u64) -> Option<String> {
        let text = format!("{seconds}s");
        let good = parse_duration(&text).is_ok();
        if !good {
            self.note(&format!(
                "{key} is more than a hundred years, which no job can say"
            ));
        }
        good.then_some(text)
    }
}

fn hint(key: &str) -> &'static str {
    match key {
        "nodeSelector" | "affinity" | "nodeName" => "; `where` names labels of nodes here",
        "securityContext" => "; `user` and the node's policy say what a job may do here",
        "initContainers" => "; a flow runs tasks in order",
        "envFrom" => "; write the variables into `env`, and what is secret into `secrets`",
        "volumes" => "; the nodes must have the files that the command needs",
        _ => "",
    }
}

/// Volumes with what they are, since a command may be a file of one.
fn names(key: &str, value: &Value) -> String {
    let volume = |volume: &Value| {
        let kind = volume.as_object()?.keys().find(|key| *key != "name");
        let name = volume["name"].as_str()?;
        Some(kind.map_or_else(|| name.to_owned(), |kind| format!("{name}: {kind}")))
    };
    let volumes = value.as_array().filter(|_| key == "volumes");
    let list: Vec<String> = volumes.into_iter().flatten().filter_map(volume).collect();
    match list.is_empty() {
        true => String::new(),
        false => format!(" ({})", list.join(", ")),
    }
}

fn is_there(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// A boolean as kubectl reads it: by YAML 1.1, which has `yes` and `on` too. Unset it is false.
pub(super) fn is_on(value: &Value) -> Option<bool> {
    match value {
        Value::Null => Some(false),
        Value::Bool(on) => Some(*on),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "on" | "true" => Some(true),
            "n" | "no" | "off" | "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// A quantity as a size that `limits` takes: `512Mi`, `1G`, `1000`.
pub(super) fn size(quantity: &str) -> Option<String> {
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
    Some(format!("{number}{unit}")).filter(|size| parse_size(size).is_ok_and(|bytes| bytes >= 1 << 20))
}
