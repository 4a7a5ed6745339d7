//! Whether commands say what can be executed, and their placeholders what there is.

use std::ops::Range;

use toml::de::DeValue;

use crate::command::Command;
use crate::definition::fill::params::{may_be_absent, param_variable};
use crate::definition::fill::placeholders::{KEY, OWN, Placeholder, first, placeholder};
use crate::definition::spec::job::JobSpec;
use crate::document::{Reader, closest};

/// The command of a job, and what its placeholders stand for.
pub(super) fn check(job: &mut Reader<'_>, spec: &JobSpec) {
    let sink = job.sink();
    let Some(command) = &spec.command else { return };
    let Some(found) = job.raw("command") else { return };
    let elements = match command {
        Command::Shell(script) => {
            let used = spec.params.keys().find(|p| script.contains(&format!("{{{p}}}")));
            let own = || {
                let key = first(script, KEY).filter(|_| spec.table.is_some());
                let name = first(script, OWN).or(key)?;
                Some((name, format!("FARMHAND_{}", name.to_ascii_uppercase())))
            };
            let used = used.map(|p| (p.as_str(), param_variable(p))).or_else(own);
            if let Some((name, variable)) = used {
                sink.report(
                    found.span,
                    format!("`{{{name}}}` would not be substituted in a string"),
                    format!("write \"${variable}\" in it, or use a list"),
                );
            }
            return;
        }
        Command::Argv(elements) => elements,
    };
    let spans: Vec<Range<usize>> = match found.value {
        DeValue::Array(items) => items.iter().map(toml::Spanned::span).collect(),
        _ => Vec::new(),
    };
    let place = |i: usize| spans.get(i).unwrap_or(&found.span).clone();
    match elements.first() {
        None if spans.is_empty() => {
            sink.report(
                found.span.clone(),
                "`command`: it is empty",
                "begin with the program",
            );
        }
        Some(program) if program.is_empty() => {
            sink.report(
                place(0),
                "`command`: the program is empty",
                "begin with the program",
            );
        }
        Some(program) if matches!(placeholder(program), Placeholder::Param(_)) => sink.report(
            place(0),
            "`command`: the program cannot be a parameter",
            "name the program; parameters are arguments",
        ),
        _ => {}
    }
    // A wrong element has been reported and is missing here, so the places no longer match.
    if elements.len() != spans.len() {
        return;
    }
    for (i, element) in elements.iter().enumerate().skip(1) {
        if let Some((what, fix)) = argument(element, spec) {
            sink.report(place(i), what, fix);
        }
    }
}

/// What is wrong with an element of a list, and what to do about it.
pub(super) fn argument(element: &str, spec: &JobSpec) -> Option<(String, String)> {
    match placeholder(element) {
        Placeholder::Literal(_) => None,
        Placeholder::Param(name) if OWN.contains(&name) || spec.table.is_some() && KEY.contains(&name) => {
            None
        }
        Placeholder::Param(name) => match spec.params.get(name) {
            None => {
                let known = spec.params.keys().map(String::as_str);
                let fix = match closest(name, known.chain(OWN.iter().copied())) {
                    _ if KEY.contains(&name) => {
                        "only a table job has a row's key; a literal is written {{key}}".to_owned()
                    }
                    Some(near) => format!("did you mean {{{near}}}?"),
                    None => format!(
                        "declare it: params = {{ {name} = {{ type = \"string\" }} }}; a literal is written {{{{{name}}}}}"
                    ),
                };
                Some((format!("there is no parameter `{name}`"), fix))
            }
            Some(param) if may_be_absent(param) => Some((
                format!("parameter `{name}` may be absent, its argument not"),
                "give it a default, or required = true".to_owned(),
            )),
            Some(_) => None,
        },
        Placeholder::None => spec
            .params
            .keys()
            .map(String::as_str)
            .find(|p| element.contains(&format!("{{{p}}}")))
            .or_else(|| first(element, KEY).filter(|_| spec.table.is_some()))
            .map(|p| {
                (
                    format!("`{{{p}}}` is only part of an argument and would not be substituted"),
                    format!("make it an argument of its own: \"{{{p}}}\""),
                )
            }),
    }
}

#[cfg(test)]
mod tests {
    use crate::definition::load;
    use crate::document::Source;

    /// The mistakes of a job with these lines, each as "LINE what; fix".
    fn mistakes(lines: &str) -> Vec<String> {
        let source = Source {
            name: "j".to_owned(),
            text: format!("[job.a]\n{lines}\n"),
        };
        let wrong = load(&[source]).err().map(|mistakes| mistakes.located());
        let wrong = wrong.into_iter().flatten();
        wrong
            .map(|w| format!("{} {}; {}", w.line, w.what, w.fix))
            .collect()
    }

    const TABLE: &str = "table = { name = 't', key = 'k', dispatch = 'd' }";

    #[test]
    fn the_known_placeholders_need_no_declaration() {
        for lines in [
            "command = ['x', '{instance}', 'n={instance}/{slot}@{due}', '{{due}}']",
            "command = ['sh', '-c', 'echo ${instance} {print} {} {\"slot\":1}']",
            "command = 'echo ${instance} {key}'",
            "command = ['x', 'a={key}']",
            &format!("command = ['x', '--', '{{key}}', 'k={{{{key}}}}']\n{TABLE}"),
        ] {
            assert_eq!(mistakes(lines), [""; 0], "{lines}");
        }
    }

    #[test]
    fn others_are_told_with_their_line_and_what_was_meant() {
        for (lines, said) in [
            (
                "command = ['x', '{instnace}']",
                "2 there is no parameter `instnace`; did you mean {instance}?",
            ),
            (
                "command = ['x',\n '{key}']",
                "3 there is no parameter `key`; only a table job has a row's key",
            ),
            (
                "command = 'x {due}'",
                "2 `{due}` would not be substituted in a string; write \"$FARMHAND_DUE\" in it",
            ),
            (
                "command = ['{slot}']",
                "2 `command`: the program cannot be a parameter",
            ),
            (
                &format!("command = ['x', 'k={{key}}']\n{TABLE}"),
                "2 `{key}` is only part of an argument and would not be substituted; make it an argument of its own",
            ),
            (
                &format!("command = 'x {{key}}'\n{TABLE}"),
                "2 `{key}` would not be substituted in a string; write \"$FARMHAND_KEY\" in it",
            ),
            (
                "command = ['x']\nparams = { due = { type = 'date' } }",
                "3 `{due}` stands for something else in every job; rename the parameter",
            ),
            (
                &format!("command = ['x']\nparams = {{ key = {{ type = 'date' }} }}\n{TABLE}"),
                "3 `{key}` is the row's key in a table job; rename the parameter",
            ),
        ] {
            let wrong = mistakes(lines);
            assert!(
                wrong.len() == 1 && wrong[0].starts_with(said),
                "{lines}: {wrong:#?}"
            );
        }
    }
}
