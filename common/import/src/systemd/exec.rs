//! `ExecStart=` and its like: systemd's quoting and variables, as an argument list or as a line of a shell.

use std::iter::Peekable;
use std::str::Chars;

use farmhand_core::definition::for_importers::is_variable;

use crate::proposed::{Part, in_shell, parts};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exec {
    pub words: Vec<String>,
    /// `-`: its failure counts as success.
    pub may_fail: bool,
    /// `+`, `!` and `!!`: it keeps rights that the unit gives up.
    pub privileged: bool,
    /// `@`: what the program is told as its name, unless that is its own.
    pub name: Option<String>,
    /// `|`: its one word is for the user's shell.
    script: bool,
    /// `:`: a `$` is only a `$`.
    verbatim: bool,
}

impl Exec {
    /// Without a shell; None if it has variables.
    pub fn argv(&self) -> Option<Vec<String>> {
        if self.script {
            return None;
        }
        let word = |word: &String| match &self.parts(word)[..] {
            _ if self.split_by(word).is_some() => None,
            [] => Some(String::new()),
            [Part::Text(text)] => Some(text.clone()),
            _ => None,
        };
        self.words.iter().map(word).collect()
    }

    /// As a shell reads it.
    pub fn shell(&self) -> String {
        let word = |word: &String| match self.split_by(word) {
            _ if self.script => word.clone(),
            Some(_) => word.clone(),
            None => in_shell(self.parts(word), |name| format!("\"${{{name}}}\"")),
        };
        let line: Vec<String> = self.words.iter().map(word).collect();
        match self.may_fail {
            true => format!("{{ {} || true; }}", line.join(" ")),
            false => line.join(" "),
        }
    }

    /// The variables that are words of their own.
    pub fn split(&self) -> impl Iterator<Item = &str> {
        let words = self.words.iter().filter(|_| !self.script);
        words.filter_map(|word| self.split_by(word))
    }

    /// `$NAME` as a word of its own, which is split into words.
    fn split_by<'w>(&self, word: &'w str) -> Option<&'w str> {
        let name = word.strip_prefix('$').filter(|_| !self.verbatim)?;
        is_variable(name).then_some(name)
    }

    fn parts(&self, word: &str) -> Vec<Part> {
        match self.verbatim {
            true => vec![Part::Text(word.to_owned())],
            false => parts(word, |after| {
                let (name, rest) = after.strip_prefix('{')?.split_once('}')?;
                is_variable(name).then_some((name, rest))
            }),
        }
    }
}

/// What may stand before a program.
const PREFIXES: &str = "@-:+!|";

/// The commands of one line; `;` as a word of its own separates them.
pub(super) fn commands(text: &str) -> Result<Vec<Exec>, String> {
    let line = text.trim_start();
    let (flags, rest) = line.split_at(line.find(|c| !PREFIXES.contains(c)).unwrap_or(line.len()));
    if flags.contains('|') {
        let script = Exec {
            words: vec![rest.trim().to_owned()],
            may_fail: flags.contains('-'),
            privileged: flags.contains(['+', '!']),
            script: true,
            ..Exec::default()
        };
        return Ok(vec![script]);
    }
    let mut all = Vec::new();
    let mut current = Exec::default();
    let mut renamed = false;
    for (raw, mut word) in words(text)? {
        if raw == ";" {
            all.push(std::mem::take(&mut current));
            continue;
        }
        if raw == "\\;" {
            ";".clone_into(&mut word);
        }
        if current.words.is_empty() {
            let prefixes = word.find(|c| !PREFIXES.contains(c)).unwrap_or(word.len());
            let flags: String = word.drain(..prefixes).collect();
            current.may_fail = flags.contains('-');
            current.privileged = flags.contains(['+', '!']);
            current.verbatim = flags.contains(':');
            renamed = flags.contains('@');
        } else if std::mem::take(&mut renamed) {
            let own = current.words[0].rsplit('/').next();
            let whole = &current.words[0];
            current.name = Some(word).filter(|word| own != Some(word) && whole != word);
            continue;
        }
        current.words.push(word);
    }
    all.push(current);
    all.retain(|exec| !exec.words.is_empty());
    Ok(all)
}

/// The variables of `Environment=`, which is quoted in the same way.
pub(super) fn assignments(text: &str) -> Result<Vec<(String, String)>, String> {
    let split = |(_, word): (String, String)| match word.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("\"{word}\" is not NAME=VALUE")),
    };
    words(text)?.into_iter().map(split).collect()
}

/// Splits as systemd does: quotes of both kinds, C's escapes. Each word as written, and as it is meant.
fn words(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(words);
        }
        let (mut raw, mut word, mut quote) = (String::new(), String::new(), None);
        while let Some(c) = chars.next_if(|c| quote.is_some() || !c.is_whitespace()) {
            raw.push(c);
            match (c, quote) {
                ('\\', _) => {
                    raw.extend(chars.peek());
                    escape(&mut chars, &mut word);
                }
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                (c, _) => word.push(c),
            }
        }
        if let Some(open) = quote {
            return Err(format!("a quote ({open}) does not end"));
        }
        words.push((raw, word));
    }
}

/// What follows a backslash; what is no escape stays as it is.
fn escape(chars: &mut Peekable<Chars<'_>>, word: &mut String) {
    let Some(c) = chars.next() else {
        word.push('\\');
        return;
    };
    let (digits, radix) = match c {
        'x' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='3' => (2, 8),
        _ => (0, 0),
    };
    if digits > 0 {
        let code: String = chars.clone().take(digits).collect();
        let whole = if radix == 8 {
            format!("{c}{code}")
        } else {
            code.clone()
        };
        let found = u32::from_str_radix(&whole, radix)
            .ok()
            .filter(|_| code.chars().count() == digits);
        if let Some(found) = found.and_then(char::from_u32).filter(|c| *c != '\0') {
            chars.by_ref().take(digits).for_each(drop);
            word.push(found);
            return;
        }
    }
    match c {
        'a' => word.push('\x07'),
        'b' => word.push('\x08'),
        'f' => word.push('\x0c'),
        'n' => word.push('\n'),
        'r' => word.push('\r'),
        't' => word.push('\t'),
        'v' => word.push('\x0b'),
        's' => word.push(' '),
        '\\' | '"' | '\'' => word.push(c),
        other => word.extend(['\\', other]),
    }
}
