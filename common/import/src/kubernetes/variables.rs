//! The variables of a container, and where its command names them as `$(NAME)`.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::definition::for_importers::is_variable;
use farmhand_core::text::redact::SHORTEST;
use farmhand_core::text::shell_word;
use serde_json::Value;

use super::left_out::is_on;
use super::reading::{CronJob, name_of, text};
use crate::proposed::{MOST, Part, in_shell, is_secret, parts, secret_note, stored};

#[derive(Default)]
pub(super) struct Variables {
    /// Those whose values stand in the manifest.
    pub values: BTreeMap<String, String>,
    /// Those whose values stand in Secrets, each with the entry of the nodes' store that shall have it.
    pub elsewhere: BTreeMap<String, String>,
    /// Those of the first that go to the store as well.
    stored: BTreeSet<String>,
}

impl Variables {
    /// With the values that stand in the manifest.
    pub fn expanded(&self, word: &str) -> String {
        let part = |part: Part| match part {
            Part::Text(text) => text,
            Part::Variable(name) => match self.values.get(&name) {
                Some(value) => value.clone(),
                None => format!("$({name})"),
            },
        };
        self.parts(word).into_iter().map(part).collect()
    }

    /// Whether a variable in it is in the store.
    pub fn in_store(&self, word: &str) -> bool {
        let stored = |part: &Part| matches!(part, Part::Variable(name) if self.is_stored(name));
        self.parts(word).iter().any(stored)
    }

    fn is_stored(&self, name: &str) -> bool {
        self.stored.contains(name) || self.elsewhere.contains_key(name)
    }

    /// As a shell reads it that has the variables of the store.
    pub fn shell(&self, word: &str) -> String {
        in_shell(self.parts(word), |name| match self.is_stored(name) {
            true => format!("\"${name}\""),
            false => shell_word(self.values.get(name).map_or("", String::as_str)),
        })
    }

    /// `$(NAME)` of the variables so far; `$$(NAME)` is none.
    fn parts(&self, text: &str) -> Vec<Part> {
        let known = |name: &str| self.values.contains_key(name) || self.elsewhere.contains_key(name);
        parts(text, |after| {
            let (name, rest) = after.strip_prefix('(')?.split_once(')')?;
            known(name).then_some((name, rest))
        })
    }
}

/// The store's entry for a key of something, if it may have that name. Secrets of two namespaces may have one name.
fn entry(object: &Value, many_namespaces: bool, of: &str, key: &str) -> Option<String> {
    let namespace = object["metadata"]["namespace"].as_str();
    let entry = match namespace.filter(|_| many_namespaces) {
        Some(namespace) => format!("{namespace}.{of}.{key}"),
        None => format!("{of}.{key}"),
    };
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let first = entry.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    (first && entry.len() <= 100 && entry.bytes().all(good)).then_some(entry)
}

/// That of a variable whose value a Secret must have.
fn of_secret(object: &Value, many_namespaces: bool, variable: &Value) -> Option<String> {
    let reference = &variable["valueFrom"]["secretKeyRef"];
    let (name, key) = (reference["name"].as_str()?, reference["key"].as_str()?);
    let entry = entry(object, many_namespaces, name, key)?;
    (is_on(&reference["optional"]) == Some(false)).then_some(entry)
}

/// Those of all such variables of a CronJob.
pub(super) fn entries_of_secrets(object: &Value, many_namespaces: bool) -> Vec<String> {
    let pod = &object["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let containers = pod["containers"].as_array().into_iter().flatten();
    let variables = containers
        .filter_map(|container| container["env"].as_array())
        .flatten();
    variables
        .filter_map(|variable| of_secret(object, many_namespaces, variable))
        .collect()
}

impl CronJob<'_> {
    pub(super) fn variables(&mut self, container: &Value) -> Variables {
        let mut all = Variables::default();
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap_or_default();
            let from = &variable["valueFrom"];
            let kind = from.as_object().and_then(|from| from.keys().next());
            let entry = of_secret(self.object, self.many_namespaces, variable)
                .filter(|_| all.elsewhere.len() < MOST && name.len() <= 100);
            match (kind, is_variable(name) && !name.starts_with("FARMHAND_"), entry) {
                (Some(_), true, Some(entry)) => {
                    self.note(&format!(
                        "variable {name} comes from a Secret: put its value into the nodes' store as {entry}; the command reads it from there. \
                         The store takes no fewer than {SHORTEST} bytes: write a shorter one into `env`, and take it out of `secrets`"
                    ));
                    all.elsewhere.insert(name.to_owned(), entry);
                }
                (Some(from), _, _) if from == "secretKeyRef" => self.note(&format!(
                    "variable {name} comes from a Secret: put it into the nodes' store and name it in `secrets`"
                )),
                (Some(from), _, _) => {
                    self.note(&format!("variable {name} comes from {from}: write its value into `env`"));
                }
                (None, false, _) => self.note(&format!(
                    "`{name}` cannot be the name of a job's variable and is left out"
                )),
                (None, true, _) => self.value(name, &text(&variable["value"]), &mut all),
            }
        }
        all.stored = stored(&all.values);
        all
    }

    fn value(&mut self, name: &str, value: &str, all: &mut Variables) {
        let is_secret_part =
            |part: &Part| matches!(part, Part::Variable(name) if all.elsewhere.contains_key(name));
        if all.parts(value).iter().any(is_secret_part)
            && let job = name_of(self.object)
            && let Some(entry) = entry(self.object, self.many_namespaces, job, name)
            && all.elsewhere.len() < MOST
        {
            let entry = self.store.unique(&entry);
            self.note(&format!(
                "variable {name} has a part that comes from a Secret: put all of its value into the nodes' store as {entry}"
            ));
            all.elsewhere.insert(name.to_owned(), entry);
            return;
        }
        let value = all.expanded(value);
        if is_secret(name, &value) {
            self.note(&secret_note(name, &value));
        }
        all.values.insert(name.to_owned(), value);
    }

    /// Kubernetes replaces `$(NAME)` also where the value is not in the manifest; a shell would run NAME.
    pub(super) fn unset(&mut self, container: &Value, argv: &[String], variables: &Variables) {
        let elsewhere = |name: &str| {
            let mut named = container["env"].as_array().into_iter().flatten();
            named.any(|variable| variable["name"] == name && variable["valueFrom"].is_object())
        };
        let (mut told, all) = (Vec::new(), container["envFrom"].is_array());
        for part in argv.iter().flat_map(|word| word.split("$(").skip(1)) {
            let Some((name, _)) = part.split_once(')') else {
                continue;
            };
            let known = variables.elsewhere.contains_key(name);
            if is_variable(name) && (all || elsewhere(name)) && !known && !told.contains(&name) {
                told.push(name);
                self.note(&format!(
                    "$({name}) in the command is not replaced: write its value there, or ${name} in a command for a shell"
                ));
            }
        }
    }
}
