//! Placeholders of argument vectors: parameters; `{instance}`, `{slot}` and `{due}` of every job; `{key}` of a table job's row.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::params::{ParamError, ParamErrors, param_text};
use crate::command::Command;
use crate::definition::spec::names::is_param_name;

/// The placeholders that need no declaration. The last one is only for table jobs, and only as a whole argument.
const NAMES: [&str; 4] = ["instance", "slot", "due", "key"];
/// Those of every job.
pub(in crate::definition) const OWN: &[&str] = NAMES.split_at(3).0;
pub(in crate::definition) const KEY: &[&str] = NAMES.split_at(3).1;

/// What placeholders stand for in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filling {
    /// As [`super::params::resolve_params`] returned them.
    pub params: Map<String, Value>,
    /// The run's number among those of its firing.
    pub instance: u32,
    /// The number of the slot that it has on its node.
    pub slot: u32,
    /// RFC 3339, as `FARMHAND_DUE`.
    pub due: String,
    pub key: Option<String>,
}

impl Filling {
    /// `{instance}`, `{slot}` and `{due}` wherever they stand in the text; `{{due}}` is a literal `{due}`. What follows a `$` is
    /// a shell's, and a key is never part of an argument.
    pub fn within(&self, text: &str) -> String {
        let names = if self.key.is_some() { &NAMES[..] } else { OWN };
        scan(text, names, |name, escaped| match (name, escaped) {
            ("instance", false) => self.instance.to_string(),
            ("slot", false) => self.slot.to_string(),
            ("due", false) => self.due.clone(),
            _ => format!("{{{name}}}"),
        })
    }
}

/// What to execute. A string runs under `/bin/sh -c` and never gets anything substituted; a row's key is its `$1`. In an
/// argument vector an element that is wholly `{name}` becomes the parameter's value, and `{{name}}` is how a literal
/// `{name}` is written; for more see [`Filling::within`]. A row's key stands where `{key}` does, or last.
/// Errors: `ParamError::Missing` for a parameter without a value.
pub fn argv(command: &Command, with: &Filling) -> Result<Vec<String>, ParamErrors> {
    let elements = match command {
        Command::Shell(script) => {
            let mut argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
            argv.extend(
                with.key
                    .iter()
                    .flat_map(|key| ["/bin/sh".to_owned(), key.clone()]),
            );
            return Ok(argv);
        }
        Command::Argv(elements) => elements,
    };
    let mut errors = Vec::new();
    let mut key = with.key.as_ref();
    let mut filled: Vec<String> = elements
        .iter()
        .map(|element| match (placeholder(element), &with.key) {
            (Placeholder::None, _) => with.within(element),
            (Placeholder::Literal(text), _) => text.to_owned(),
            (Placeholder::Param(name), _) if OWN.contains(&name) => with.within(element),
            (Placeholder::Param("key"), Some(text)) => {
                key = None;
                text.clone()
            }
            (Placeholder::Param(name), _) => with.params.get(name).map_or_else(
                || {
                    errors.push(ParamError::Missing {
                        name: name.to_owned(),
                    });
                    String::new()
                },
                param_text,
            ),
        })
        .collect();
    filled.extend(key.cloned());
    if errors.is_empty() {
        Ok(filled)
    } else {
        Err(ParamErrors(errors))
    }
}

/// The command with its placeholders filled in, as [`argv`]; a string stays what it is.
pub fn fill(command: &Command, with: &Filling) -> Result<Command, ParamErrors> {
    match command {
        Command::Argv(_) => argv(command, with).map(Command::Argv),
        Command::Shell(_) => Ok(command.clone()),
    }
}

/// What an element of an argument vector is.
pub enum Placeholder<'a> {
    None,
    Literal(&'a str),
    Param(&'a str),
}

/// What an element of an argument vector stands for. Braces around anything but a name are left alone, so
/// that `find -exec … {} ;` and awk programs pass unharmed.
pub fn placeholder(element: &str) -> Placeholder<'_> {
    let inner = |s: &'_ str| -> Option<usize> {
        s.strip_prefix('{')
            .and_then(|s| s.strip_suffix('}'))
            .map(str::len)
    };
    match inner(element) {
        Some(_) if is_param_name(&element[1..element.len() - 1]) => {
            Placeholder::Param(&element[1..element.len() - 1])
        }
        Some(len)
            if len >= 2
                && inner(&element[1..element.len() - 1]).is_some()
                && is_param_name(&element[2..element.len() - 2]) =>
        {
            Placeholder::Literal(&element[1..element.len() - 1])
        }
        _ => Placeholder::None,
    }
}

/// The text that [`Filling::within`] makes this text of.
pub fn escape(text: &str) -> String {
    scan(text, OWN, |name, escaped| match escaped {
        true => format!("{{{{{{{name}}}}}}}"),
        false => format!("{{{{{name}}}}}"),
    })
}

/// The first of these placeholders that the text has.
pub(in crate::definition) fn first(text: &str, names: &'static [&'static str]) -> Option<&'static str> {
    let mut found = None;
    scan(text, names, |name, escaped| {
        found = found.or((!escaped).then_some(name));
        String::new()
    });
    found
}

/// `put` gets the name, and whether it stood in two pairs of braces.
fn scan(
    text: &str,
    names: &'static [&'static str],
    mut put: impl FnMut(&'static str, bool) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let braces = rest.len() - rest.trim_start_matches('{').len();
        let ours = names.iter().find_map(|name| leading(rest, name));
        match ours {
            Some((name, escaped, after)) if !out.ends_with('$') => {
                out.push_str(&put(name, escaped));
                rest = after;
            }
            _ => {
                let kept = if out.ends_with('$') { braces } else { 1 };
                out.push_str(&rest[..kept]);
                rest = &rest[kept..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether the text begins with this placeholder, in how many braces, and what follows it.
fn leading<'a>(text: &'a str, name: &'static str) -> Option<(&'static str, bool, &'a str)> {
    let inside = |open: &str, close: &str| text.strip_prefix(open)?.strip_prefix(name)?.strip_prefix(close);
    let twice = inside("{{", "}}").map(|after| (name, true, after));
    twice.or_else(|| inside("{", "}").map(|after| (name, false, after)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filling() -> Filling {
        Filling {
            instance: 3,
            slot: 2,
            due: "2026-11-25T01:00:00Z".to_owned(),
            ..Filling::default()
        }
    }

    #[test]
    fn only_the_known_names_in_braces_are_replaced() {
        for (text, made) in [
            ("tid={instance}", "tid=3"),
            ("{instance}{slot}", "32"),
            ("at {due}.", "at 2026-11-25T01:00:00Z."),
            ("{{instance}}", "{instance}"),
            ("tid={{slot}};", "tid={slot};"),
            ("{{{slot}}}", "{{slot}}"),
            ("${instance}", "${instance}"),
            ("${{slot}}", "${{slot}}"),
            (
                "{Instance} {instance } {instances} {}",
                "{Instance} {instance } {instances} {}",
            ),
            ("{print $1}", "{print $1}"),
            ("{\"slot\": {slot}}", "{\"slot\": 2}"),
            ("{key} {{key}}", "{key} {{key}}"),
            ("{{", "{{"),
        ] {
            assert_eq!(filling().within(text), made, "{text}");
        }
        let of_a_row = Filling {
            key: Some("k".to_owned()),
            ..filling()
        };
        assert_eq!(of_a_row.within("a{key} {{key}}"), "a{key} {key}");
    }

    #[test]
    fn an_escaped_text_comes_out_as_it_was() {
        for text in [
            "{slot}",
            "{{slot}}",
            "{{{slot}}}",
            "{{{{slot}}}}",
            "${slot}",
            "${{slot}}",
            "a{due}b{{due}}{",
            "{instance{slot}}",
            "plain {} {x}",
        ] {
            assert_eq!(filling().within(&escape(text)), text, "{text}");
        }
    }

    fn with(params: Value) -> Filling {
        Filling {
            params: params.as_object().unwrap().clone(),
            ..Filling::default()
        }
    }

    #[test]
    fn only_a_whole_element_is_a_parameter() {
        let command = Command::Argv(
            [
                "find",
                "{count}",
                "x{count}",
                "{}",
                "{print $1}",
                "{{count}}",
                "{ count }",
            ]
            .map(str::to_owned)
            .to_vec(),
        );
        assert_eq!(
            argv(&command, &with(json!({"count": 3}))).unwrap(),
            [
                "find",
                "3",
                "x{count}",
                "{}",
                "{print $1}",
                "{count}",
                "{ count }"
            ]
        );
    }

    #[test]
    fn a_value_is_never_split_or_interpreted() {
        let command = Command::Argv(vec!["echo".to_owned(), "{a}".to_owned()]);
        let params = with(json!({"a": "x; rm -rf / {b} {slot} $(id)"}));
        assert_eq!(
            argv(&command, &params).unwrap(),
            ["echo", "x; rm -rf / {b} {slot} $(id)"]
        );
    }

    #[test]
    fn a_shell_string_gets_nothing_substituted() {
        let command = Command::Shell("echo {a}".to_owned());
        assert_eq!(
            argv(&command, &with(json!({"a": 1}))).unwrap(),
            ["/bin/sh", "-c", "echo {a}"]
        );
    }

    #[test]
    fn a_key_stands_where_the_command_names_it_or_last() {
        let of_a_row = Filling {
            key: Some("{slot} --x".to_owned()),
            ..Filling::default()
        };
        let list = |words: &[&str]| Command::Argv(words.iter().map(|w| (*w).to_owned()).collect());
        for (words, made) in [
            (&["a", "{key}", "{slot}"][..], &["a", "{slot} --x", "0"][..]),
            (&["a", "b"], &["a", "b", "{slot} --x"]),
            (&["a", "{{key}}"], &["a", "{key}", "{slot} --x"]),
        ] {
            assert_eq!(argv(&list(words), &of_a_row).unwrap(), made, "{words:?}");
        }
        let script = Command::Shell("echo $1".to_owned());
        assert_eq!(
            argv(&script, &of_a_row).unwrap(),
            ["/bin/sh", "-c", "echo $1", "/bin/sh", "{slot} --x"]
        );
    }
}
