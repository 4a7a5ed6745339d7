//! `[vars]`: values that strings of job files refer to as `${vars.NAME}`, so that one set of files serves several farms.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::defined::Place;
use crate::definition::spec::names::is_variable;
use crate::document::{Sink, closest};

const OPEN: &str = "${vars.";

/// What is wrong, and how to fix it.
type Fault = (String, String);

#[derive(Debug, Default)]
pub(super) struct Vars<'a> {
    values: BTreeMap<String, DeValue<'a>>,
    places: Vec<(String, usize, Range<usize>)>,
    used: BTreeSet<String>,
}

impl<'a> Vars<'a> {
    /// Reads the `[vars]` table of one file.
    pub fn read(&mut self, source: usize, file: &DeTable<'a>, sink: &Sink<'_>) {
        let Some(vars) = file.get("vars") else { return };
        let Some(table) = vars.get_ref().as_table() else {
            let what = format!("`vars`: expected a table, found a {}", vars.get_ref().type_str());
            sink.report(
                vars.span(),
                what,
                "write [vars] on a line of its own, and NAME = \"value\" below it",
            );
            return;
        };
        for (name, value) in table.iter() {
            let text: &str = name.get_ref();
            if !is_variable(text) {
                let what = format!("`{text}` is not a valid variable name");
                sink.report(name.span(), what, "use letters, digits and `_`, no digit first");
            }
            match value.get_ref() {
                DeValue::String(_) | DeValue::Integer(_) | DeValue::Boolean(_) => {}
                other => {
                    let what = format!("`{text}`: no variable has the type {}", other.type_str());
                    sink.report(value.span(), what, "write a string, an integer, or true or false");
                }
            }
            self.values.insert(text.to_owned(), value.get_ref().clone());
            self.places.push((text.to_owned(), source, name.span()));
        }
    }

    /// Values from the command line win.
    pub fn set(&mut self, given: &'a BTreeMap<String, String>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, text) in given {
            let value = match self.values.get(name) {
                Some(declared) if !declared.is_str() => {
                    let read = DeValue::parse(text).ok().map(Spanned::into_inner);
                    let Some(value) = read.filter(|value| value.same_type(declared)) else {
                        let what = format!(
                            "--set {name}={text}: [vars] has a value of the type {} for it",
                            declared.type_str()
                        );
                        faults.push((what, "write one of this type".to_owned()));
                        continue;
                    };
                    value
                }
                _ => DeValue::String(Cow::Borrowed(text)),
            };
            self.values.insert(name.clone(), value);
        }
        faults
    }

    /// Puts values into all strings of a file.
    pub fn fill(&mut self, file: &mut DeTable<'a>, sink: &Sink<'_>) {
        for (key, value) in file.iter_mut() {
            if key.get_ref() != "vars" {
                self.fill_value(value, sink);
            }
        }
    }

    fn fill_value(&mut self, value: &mut Spanned<DeValue<'a>>, sink: &Sink<'_>) {
        let span = value.span();
        match value.get_mut() {
            DeValue::Table(table) => table
                .iter_mut()
                .for_each(|(_, value)| self.fill_value(value, sink)),
            DeValue::Array(items) => items.iter_mut().for_each(|value| self.fill_value(value, sink)),
            DeValue::String(text) if text.contains(OPEN) => match self.filled(text) {
                Ok(filled) => *value.get_mut() = filled,
                Err((what, fix)) => sink.report(span, what, fix),
            },
            _ => {}
        }
    }

    /// A string that is one variable becomes its value, whatever the type.
    fn filled(&mut self, text: &str) -> Result<DeValue<'a>, Fault> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            let (before, after) = (&rest[..at], &rest[at + OPEN.len()..]);
            if let Some(before) = before.strip_suffix('$') {
                out.extend([before, OPEN]);
                rest = after;
                continue;
            }
            let Some((name, after)) = after.split_once('}').filter(|(name, _)| is_variable(name)) else {
                let what = format!("`{OPEN}` stands without a name and `}}`");
                return Err((what, format!("write {OPEN}NAME}}; a literal is written ${OPEN}")));
            };
            let value = self.values.get(name).ok_or_else(|| self.undefined(name))?;
            self.used.insert(name.to_owned());
            if text.len() == OPEN.len() + name.len() + 1 {
                return Ok(value.clone());
            }
            out.push_str(before);
            match value {
                DeValue::String(text) => out.push_str(text),
                DeValue::Integer(number) => out.push_str(&number.to_string()),
                DeValue::Boolean(on) => out.push_str(if *on { "true" } else { "false" }),
                // Reported where it is declared.
                _ => {}
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(DeValue::String(Cow::Owned(out)))
    }

    fn undefined(&self, name: &str) -> Fault {
        let fix = match closest(name, self.values.keys().map(String::as_str)) {
            Some(near) => format!("did you mean {OPEN}{near}}}?"),
            None => format!(
                "write {name} = \"value\" below [vars], or add --set {name}=VALUE to the command; a literal is written ${OPEN}{name}}}"
            ),
        };
        (format!("variable `{name}` is not defined"), fix)
    }

    /// Names from the command line that no file has: those of a typo would change nothing.
    pub fn unknown(&self, given: &BTreeMap<String, String>) -> Vec<Fault> {
        let declared = |name: &String| self.places.iter().any(|(known, ..)| known == name);
        let unknown = given
            .keys()
            .filter(|name| !self.used.contains(*name) && !declared(name));
        let fault = |name: &String| {
            let fix = match closest(name, self.places.iter().map(|(known, ..)| known.as_str())) {
                Some(near) => format!("did you mean --set {near}=…?"),
                None => format!("leave it out, or use {OPEN}{name}}} in a file"),
            };
            (format!("--set {name}: no file has a variable of this name"), fix)
        };
        unknown.map(fault).collect()
    }

    /// Where each is declared.
    pub fn places(&self) -> Vec<Place<'_>> {
        let declared = self.places.iter();
        declared
            .map(|(name, source, span)| Place::new(name, *source, span))
            .collect()
    }
}

/// The text of which `Vars::filled` makes this text.
pub fn escape_variables(text: &str) -> String {
    text.replace(OPEN, &format!("${OPEN}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::definition::{Command, Enabled, JobSpec, load_with};
    use crate::document::Source;

    fn read(text: &str, set: &[(&str, &str)]) -> Result<JobSpec, Vec<String>> {
        let source = Source {
            name: "j".to_owned(),
            text: text.to_owned(),
        };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let set: BTreeMap<String, String> = set.iter().map(owned).collect();
        let all = load_with(&[source], &set, "").map_err(|mistakes| {
            let wrong = mistakes.located().into_iter();
            wrong
                .map(|w| format!("{} {}; {}", w.line, w.what, w.fix))
                .collect::<Vec<_>>()
        })?;
        Ok(all.jobs[0].spec.clone())
    }

    const FILE: &str = "[vars]\nhost = 'db-1'\nshards = 2\non = true\n[defaults]\nowner = '${vars.host}!'\n[job.a]\n\
        command = ['x', '--', '${vars.host}:${vars.shards}', '$${vars.host}', '${HOME} {instance}']\n\
        instances = '${vars.shards}'\nenabled = '${vars.on}'\nenv = { H = '${vars.host}' }\nwhere = { node = ['${vars.host}'] }\n";

    #[test]
    fn strings_get_values_and_a_string_that_is_one_variable_its_type() {
        let spec = read(FILE, &[]).unwrap();
        let words = ["x", "--", "db-1:2", "${vars.host}", "${HOME} {instance}"];
        assert_eq!(
            spec.command,
            Some(Command::Argv(words.map(str::to_owned).to_vec()))
        );
        assert_eq!(
            (spec.instances, spec.enabled, spec.owner.as_deref()),
            (2, Enabled::Yes, Some("db-1!"))
        );
        assert_eq!(
            (spec.env["H"].as_str(), spec.placement.to_string().as_str()),
            ("db-1", "node=db-1")
        );
        let spec = read(FILE, &[("host", "${vars.on}"), ("shards", "8"), ("on", "false")]).unwrap();
        assert_eq!((spec.instances, spec.enabled), (8, Enabled::No));
        assert_eq!(spec.env["H"], "${vars.on}", "a value is taken as it is");
    }

    #[test]
    fn a_variable_without_a_value_in_the_files_must_be_set() {
        let text = "[job.a]\ncommand = 'run ${vars.zone} \"${HOME}\"'\n";
        let spec = read(text, &[("zone", "eu")]).unwrap();
        assert_eq!(
            spec.command,
            Some(Command::Shell("run eu \"${HOME}\"".to_owned()))
        );
        assert_eq!(
            read(text, &[]).unwrap_err(),
            [
                "2 variable `zone` is not defined; write zone = \"value\" below [vars], or add --set zone=VALUE to the command; \
              a literal is written $${vars.zone}"
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let job = "[job.a]\ncommand = 'x'\n";
        for (text, set, said) in [
            (
                "[vars]\nzone = 'a'\n[job.a]\ncommand = '${vars.zonr}'\n",
                &[][..],
                "4 variable `zonr` is not defined; did you mean ${vars.zone}?",
            ),
            (
                "[job.a]\ncommand = '${vars.}'\n",
                &[],
                "2 `${vars.` stands without a name and `}`; write ${vars.NAME}",
            ),
            (
                &format!("[vars]\na-b = 'x'\n{job}"),
                &[],
                "2 `a-b` is not a valid variable name",
            ),
            (
                &format!("[vars]\na = ['x']\n{job}"),
                &[],
                "2 `a`: no variable has the type array",
            ),
            (
                &format!("vars = 1\n{job}"),
                &[],
                "1 `vars`: expected a table, found a integer",
            ),
            (
                &format!("[vars]\nn = 1\n{job}"),
                &[("n", "x")],
                "1 --set n=x: [vars] has a value of the type integer for it",
            ),
            (
                &format!("[vars]\nzone = 'a'\n{job}"),
                &[("zonr", "x")],
                "1 --set zonr: no file has a variable of this name; did you mean --set zone=…?",
            ),
        ] {
            let wrong = read(text, set).unwrap_err();
            assert!(
                wrong.len() == 1 && wrong[0].starts_with(said),
                "{text}: {wrong:#?}"
            );
        }
    }

    #[test]
    fn a_stored_text_that_looks_like_a_variable_comes_back_from_its_file() {
        let text = "[job.a]\ncommand = ['x', '$${vars.y}', 'a$$${vars.y}${b}']\n";
        let spec = read(text, &[]).unwrap();
        let words = ["x", "${vars.y}", "a$${vars.y}${b}"];
        assert_eq!(
            spec.command,
            Some(Command::Argv(words.map(str::to_owned).to_vec()))
        );
        let stored = serde_json::to_value(&spec).unwrap();
        let file = crate::definition::job_file(&[("a", &stored)], &[], &[]);
        assert_eq!(read(&file, &[]).unwrap(), spec, "{file}");
    }

    #[test]
    fn files_read_together_share_variables_and_declare_each_once() {
        let file = |name: &str, text: &str| Source {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let job = file("b", "[job.a]\ncommand = '${vars.x}'\n");
        let none = BTreeMap::new();
        assert!(load_with(&[job.clone(), file("a", "[vars]\nx = 'y'\n")], &none, "").is_ok());
        let twice = [
            job,
            file("a", "[vars]\nx = 'y'\n"),
            file("c", "[vars]\nx = 'z'\n"),
        ];
        let wrong = load_with(&twice, &none, "").unwrap_err().located();
        assert_eq!(wrong[0].what, "variable `x` is already defined in a");
    }
}
