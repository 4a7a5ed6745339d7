//! Words with variables in them, as systemd and Kubernetes name these.

use farmhand_core::text::shell_word;

pub(crate) enum Part {
    Text(String),
    Variable(String),
}

/// `$$` is a dollar sign. `named` reads what follows another one: the name of a variable and what is behind it, or nothing.
pub(crate) fn parts<'t>(text: &'t str, named: impl Fn(&'t str) -> Option<(&'t str, &'t str)>) -> Vec<Part> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match (after.strip_prefix('$'), named(after)) {
            (None, Some((name, tail))) => {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Variable(name.to_owned()));
                tail
            }
            (dollar, _) => {
                plain.push('$');
                dollar.unwrap_or(after)
            }
        };
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    parts
}

/// As one word of a shell.
pub(crate) fn in_shell(parts: Vec<Part>, variable: impl Fn(&str) -> String) -> String {
    let part = |part: Part| match part {
        Part::Text(text) => shell_word(&text),
        Part::Variable(name) => variable(&name),
    };
    match parts.is_empty() {
        true => "''".to_owned(),
        false => parts.into_iter().map(part).collect(),
    }
}
