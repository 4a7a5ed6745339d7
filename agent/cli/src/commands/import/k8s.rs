//! `farmhand import k8s`.

use std::path::PathBuf;

use clap::Args;
use farmhand_import::Machine;
use farmhand_import::kubernetes::{self, File};
use saphyr::{LoadableYamlNode, Scalar, ScanError, Yaml};
use serde_json::{Map, Value};

use super::{Failure, Outcome, Target, text_of, zone};

#[derive(Args, Debug)]
pub(super) struct K8sArgs {
    /// Manifests in YAML or JSON, as `kubectl get cronjob -o yaml` writes them; - is standard input
    #[arg(required = true)]
    file: Vec<PathBuf>,
    /// The zone of the cluster's clock, where a CronJob names none
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(args: &K8sArgs, as_json: bool) -> Outcome {
    let timezone = zone(Some(&args.tz))?;
    let machine = Machine {
        timezone: &timezone,
        home: &|_| None,
    };
    let mut files = Vec::new();
    for path in &args.file {
        let text = text_of(path)?;
        let documents = documents(&text).map_err(|error| {
            Failure::usage(format!("{} is not YAML; nothing was written", path.display()))
                .why(error)
                .next("render a template first, as with `helm template`")
        })?;
        files.push(File {
            name: path.display().to_string(),
            documents,
        });
    }
    args.target
        .take(kubernetes::import(&files, &machine), None, as_json)
}

/// Deeper than any key.
const DEEP: usize = 100;

/// As kubectl reads them, which lets the bracket that ends a list stand below the key; YAML wants it further in.
fn documents(text: &str) -> Result<Vec<Value>, ScanError> {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    loop {
        let error = match Yaml::load_from_str(&lines.concat()) {
            Ok(documents) => return Ok(documents.iter().map(value).collect()),
            Err(error) => error,
        };
        let ends = |line: &&mut String| {
            let rest = line.trim_start();
            rest.starts_with([']', '}']) && line.len() - rest.len() < DEEP
        };
        let at = error.marker().line().saturating_sub(1);
        match lines.get_mut(at).filter(ends) {
            Some(line) => line.insert_str(0, &" ".repeat(DEEP)),
            None => return Err(error),
        }
    }
}

/// A mapping with what `<<` names, a mapping or several; its own keys count first.
fn merged(mut map: Map<String, Value>) -> Value {
    let others = match map.remove("<<") {
        Some(Value::Array(list)) => list,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    for (key, of) in others.iter().filter_map(Value::as_object).flatten() {
        map.entry(key).or_insert_with(|| of.clone());
    }
    Value::Object(map)
}

/// Tags and keys that are no text have no meaning in a manifest.
fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Boolean(on)) => Value::Bool(*on),
        Yaml::Value(Scalar::Integer(n)) => Value::from(*n),
        Yaml::Value(Scalar::FloatingPoint(n)) => Value::from(n.into_inner()),
        Yaml::Value(Scalar::String(text)) => Value::from(text.as_ref()),
        Yaml::Sequence(list) => list.iter().map(value).collect(),
        Yaml::Mapping(map) => {
            let entry = |(key, of): (&Yaml<'_>, &Yaml<'_>)| Some((key.as_str()?.to_owned(), value(of)));
            merged(map.iter().filter_map(entry).collect())
        }
        Yaml::Tagged(_, of) => value(of),
        _ => Value::Null,
    }
}
