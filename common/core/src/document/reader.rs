//! Reads tables key by key, and knows which keys nobody asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Problem, Wrong, closest, filled};

/// Where the mistakes of one source go.
#[derive(Debug)]
pub struct Sink<'s> {
    source: usize,
    text: &'s str,
    problems: RefCell<Vec<Problem>>,
}

impl<'s> Sink<'s> {
    /// `source` is the index that the problems will carry.
    pub fn new(source: usize, text: &'s str) -> Self {
        Self {
            source,
            text,
            problems: RefCell::default(),
        }
    }

    /// Adds a mistake that stands at these bytes.
    pub fn report(&self, span: Range<usize>, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.borrow_mut().push(Problem {
            source: self.source,
            span,
            what: what.into(),
            fix: fix.into(),
            related: None,
        });
    }

    /// Reports a value; points into a string where that is known and the string has no escapes.
    pub fn wrong(&self, span: Range<usize>, key: &str, wrong: Wrong) {
        let at = wrong
            .within
            .and_then(|within| self.inside(&span, &within))
            .unwrap_or(span);
        self.report(at, format!("`{key}`: {}", wrong.what), wrong.fix);
    }

    /// Everything that was reported.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    fn inside(&self, span: &Range<usize>, within: &Range<usize>) -> Option<Range<usize>> {
        let raw = self.text.get(span.clone())?;
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|q| raw.len() >= 2 * q.len() && raw.starts_with(q) && raw.ends_with(q))?;
        let body = &raw[quote.len()..raw.len() - quote.len()];
        let escaped = quote.starts_with('"') && body.contains('\\');
        if escaped || body.starts_with(['\n', '\r']) || within.end > body.len() {
            return None;
        }
        let start = span.start + quote.len();
        Some(start + within.start..start + within.end)
    }
}

/// Reads a TOML text as far as it can be read.
pub fn parse_table<'i>(sink: &Sink<'_>, text: &'i str) -> DeTable<'i> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let fix = if error.message().contains("duplicate") {
            "each name may stand here once: rename one of them, or merge the two"
        } else {
            "see toml.io for how TOML is written"
        };
        let span = error.span().unwrap_or(0..0);
        sink.report(span, error.message().trim().to_owned(), fix);
    }
    table.into_inner()
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    pub value: T,
    /// The bytes where it stands.
    pub span: Range<usize>,
}

impl Spanned<&DeValue<'_>> {
    /// Whether it is `[]`.
    pub fn is_empty_list(&self) -> bool {
        self.value.as_array().is_some_and(|list| list.is_empty())
    }
}

/// A table being read. Later layers stand in for keys that earlier ones lack.
pub struct Reader<'a> {
    layers: Vec<&'a DeTable<'a>>,
    sink: &'a Sink<'a>,
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// A reader of these layers, the first of which wins.
    pub fn new(layers: Vec<&'a DeTable<'a>>, sink: &'a Sink<'a>) -> Self {
        Self {
            layers,
            sink,
            known: Vec::new(),
        }
    }

    /// Where the mistakes of this table go.
    pub fn sink(&self) -> &'a Sink<'a> {
        self.sink
    }

    /// The raw value of a key.
    pub fn raw(&mut self, key: &'static str) -> Option<Spanned<&'a DeValue<'a>>> {
        self.known.push(key);
        self.layers.iter().find_map(|layer| {
            layer
                .iter()
                .find(|(k, _)| k.get_ref() == key)
                .map(|(_, v)| Spanned {
                    value: v.get_ref(),
                    span: v.span(),
                })
        })
    }

    /// Where a key stands, if it does.
    pub fn key_span(&mut self, key: &'static str) -> Option<Range<usize>> {
        self.known.push(key);
        self.layers.iter().find_map(|layer| {
            layer
                .iter()
                .find(|(k, _)| k.get_ref() == key)
                .map(|(k, _)| k.span())
        })
    }

    /// Reports a key where it stands, if it does.
    pub fn refuse(&mut self, key: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        if let Some(span) = self.key_span(key) {
            self.sink.report(span, what, fix);
        }
    }

    /// The same of the first layer, not of what it inherits.
    pub fn refuse_own(&mut self, key: &'static str, what: impl Into<String>, fix: impl Into<String>) {
        self.known.push(key);
        let own = self.layers.first().into_iter().flat_map(|layer| layer.iter());
        if let Some((key, _)) = own.into_iter().find(|(k, _)| k.get_ref() == key) {
            self.sink.report(key.span(), what, fix);
        }
    }

    /// The value of a key, or nothing when it is absent or wrong (then it has been reported).
    pub fn read<T>(
        &mut self,
        key: &'static str,
        convert: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Option<Spanned<T>> {
        let found = self.raw(key)?;
        match convert(found.value) {
            Ok(value) => Some(Spanned {
                value,
                span: found.span,
            }),
            Err(wrong) => {
                self.sink.wrong(found.span, key, wrong);
                None
            }
        }
    }

    /// A list; every wrong element is reported by itself. With `or_one`, a lone value is a list of one.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        or_one: bool,
        convert: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> Option<Vec<Spanned<T>>> {
        let found = self.raw(key)?;
        let one = |value: &DeValue<'_>, span: Range<usize>| match convert(value) {
            Ok(value) => Some(Spanned { value, span }),
            Err(wrong) => {
                self.sink.wrong(span, key, wrong);
                None
            }
        };
        match found.value {
            DeValue::Array(items) => Some(
                items
                    .iter()
                    .filter_map(|item| one(item.get_ref(), item.span()))
                    .collect(),
            ),
            other if or_one => Some(one(other, found.span).into_iter().collect()),
            other => {
                let what = format!("expected a list, found a {}", other.type_str());
                self.sink
                    .wrong(found.span, key, Wrong::new(what, "put it in brackets: [\"…\"]"));
                None
            }
        }
    }

    /// The texts of a key that has one or a list of them, with their places; whatever else stands there is passed over.
    pub fn texts(&mut self, key: &'static str) -> Vec<Spanned<&'a str>> {
        let Some(Spanned { value, span }) = self.raw(key) else {
            return Vec::new();
        };
        let listed = value.as_array().into_iter().flatten();
        let all = listed.map(|item| (item.get_ref(), item.span()));
        all.chain([(value, span)])
            .filter(|(value, _)| filled(value).is_ok())
            .filter_map(|(value, span)| {
                let value = value.as_str()?;
                Some(Spanned { value, span })
            })
            .collect()
    }

    /// A table inside; its layers are the tables of that name in all of this one's layers.
    pub fn table(&mut self, key: &'static str) -> Option<Reader<'a>> {
        self.table_like(key, "…")
    }

    /// The same; `inside` is what it may hold, for who wrote something else.
    pub fn table_like(&mut self, key: &'static str, inside: &str) -> Option<Reader<'a>> {
        self.known.push(key);
        let mut layers = Vec::new();
        for layer in &self.layers {
            for (_, value) in layer.iter().filter(|(k, _)| k.get_ref() == key) {
                match value.get_ref() {
                    DeValue::Table(table) => layers.push(table),
                    other => self.sink.wrong(
                        value.span(),
                        key,
                        Wrong::new(
                            format!("expected a table, found a {}", other.type_str()),
                            format!("write {key} = {{ {inside} }}"),
                        ),
                    ),
                }
            }
        }
        (!layers.is_empty()).then(|| Reader::new(layers, self.sink))
    }

    /// The first layer's table of a name, to become a layer of other readers.
    pub fn layer(&mut self, key: &'static str) -> Option<&'a DeTable<'a>> {
        self.table(key).map(|reader| reader.layers[0])
    }

    /// Values by names that people choose (labels, an environment), those of all layers together.
    pub fn values<T>(
        self,
        convert: impl Fn(&DeValue<'_>) -> Result<T, Wrong>,
    ) -> BTreeMap<String, Spanned<T>> {
        let mut all = BTreeMap::new();
        for layer in self.layers.iter().rev() {
            for (key, value) in layer.iter() {
                match convert(value.get_ref()) {
                    Ok(value) => {
                        let span = key.span();
                        let found = Spanned { value, span };
                        all.insert(key.get_ref().to_string(), found);
                    }
                    Err(wrong) => self.sink.wrong(value.span(), key.get_ref(), wrong),
                }
            }
        }
        all
    }

    /// All entries of the first layer, for tables whose keys are names that people choose.
    pub fn entries(&self) -> impl Iterator<Item = (Spanned<&'a str>, Spanned<&'a DeValue<'a>>)> + use<'a> {
        self.layers[0].iter().map(|(k, v)| {
            (
                Spanned {
                    value: k.get_ref().as_ref(),
                    span: k.span(),
                },
                Spanned {
                    value: v.get_ref(),
                    span: v.span(),
                },
            )
        })
    }

    /// The tables among them, each with its name. What is none is reported as one of this kind.
    pub fn tables(&self, kind: &str, fix: &str) -> Vec<(Spanned<&'a str>, Reader<'a>)> {
        let mut tables = Vec::new();
        for (name, value) in self.entries() {
            match value.value.as_table() {
                Some(table) => tables.push((name, Reader::new(vec![table], self.sink))),
                None => {
                    let what = format!("{kind} `{}`: expected a table", name.value);
                    self.sink.report(value.span, what, fix);
                }
            }
        }
        tables
    }

    /// Reports the keys that were never asked for. `hints` maps words from elsewhere to what is meant here.
    pub fn finish(&self, hints: &[(&str, &str)]) {
        for layer in &self.layers {
            for (key, _) in layer.iter() {
                let name: &str = key.get_ref();
                if self.known.contains(&name) {
                    continue;
                }
                let hint = hints.iter().find(|(word, _)| *word == name);
                let near = closest(name, self.known.iter().copied());
                let fix = match (hint, near) {
                    (Some((_, hint)), _) => (*hint).to_owned(),
                    (None, Some(near)) => format!("did you mean `{near}`?"),
                    (None, None) => {
                        let mut known = self.known.clone();
                        known.sort_unstable();
                        known.dedup();
                        format!("the keys here are {}", known.join(", "))
                    }
                };
                self.sink.report(key.span(), format!("unknown key `{name}`"), fix);
            }
        }
    }
}
