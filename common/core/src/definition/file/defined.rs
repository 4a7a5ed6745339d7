//! Names that files read together define, each with a table: once, or more than once.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::definition::spec::names::{NAME_RULE, is_resource_name};
use crate::document::{Problem, Reader, Related, Source, Spanned, Wrong, closest};

/// What all files define below `[pool.NAME]`, say.
#[derive(Debug, Default)]
pub(super) struct Defined<T>(BTreeMap<String, Vec<(T, usize, Range<usize>)>>);

impl<T> Defined<T> {
    /// Reads the table of one file. A `kind` is what people call such a thing; `fix` is for one that is no table.
    pub fn read_tables(
        &mut self,
        (kind, fix): (&str, &str),
        source: usize,
        table: &Reader<'_>,
        one: impl Fn(Reader<'_>, &Spanned<&str>) -> T,
    ) {
        // A calendar's name leaves no file.
        let odd = |name: &Spanned<&str>| kind != "calendar" && !is_resource_name(name.value);
        for name in table.entries().map(|(name, _)| name).filter(odd) {
            let what = format!("`{}` is not a valid {kind} name", name.value);
            table.sink().report(name.span, what, NAME_RULE);
        }
        for (name, own) in table.tables(kind, fix) {
            let defined = one(own, &name);
            let all = self.0.entry(name.value.to_owned()).or_default();
            all.push((defined, source, name.span));
        }
    }

    /// Where each stands.
    pub fn places(&self) -> Vec<Place<'_>> {
        let each = self
            .0
            .iter()
            .flat_map(|(name, all)| all.iter().map(move |one| (name, one)));
        each.map(|(name, (_, source, span))| Place::new(name, *source, span))
            .collect()
    }

    /// The first of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        Some(&self.0.get(name)?.first()?.0)
    }

    /// All of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Each once, by name.
    pub fn into_definitions(self) -> Vec<T> {
        let all = self.0.into_values();
        all.filter_map(|all| Some(all.into_iter().next()?.0)).collect()
    }
}

pub(super) struct Place<'a> {
    pub name: &'a str,
    /// Index of the source.
    pub source: usize,
    pub span: &'a Range<usize>,
}

impl<'a> Place<'a> {
    /// In a source, by its bytes.
    pub fn new(name: &'a str, source: usize, span: &'a Range<usize>) -> Self {
        Self { name, source, span }
    }
}

/// A problem for every definition of a name but its first.
pub(super) fn defined_twice(kind: &str, places: &[Place<'_>], sources: &[Source]) -> Vec<Problem> {
    let mut first: BTreeMap<&str, &Place<'_>> = BTreeMap::new();
    let mut problems = Vec::new();
    for place in places {
        let Some(earlier) = first.get(place.name) else {
            first.insert(place.name, place);
            continue;
        };
        problems.push(Problem {
            source: place.source,
            span: place.span.clone(),
            what: format!(
                "{kind} `{}` is already defined in {}",
                place.name, sources[earlier.source].name
            ),
            fix: "rename one of them, or delete one".to_owned(),
            related: Some(Related {
                source: earlier.source,
                span: earlier.span.clone(),
                label: "defined here first".to_owned(),
            }),
        });
    }
    problems
}

/// Names that the prefix makes too long.
pub(super) fn too_long(prefix: &str, kind: &str, places: &[Place<'_>]) -> Vec<Problem> {
    let long = |place: &&Place<'_>| {
        is_resource_name(place.name)
            && is_resource_name(prefix)
            && !is_resource_name(&format!("{prefix}{}", place.name))
    };
    let problem = |place: &Place<'_>| Problem {
        source: place.source,
        span: place.span.clone(),
        what: format!(
            "{kind} `{}` has {} characters with the prefix `{prefix}`",
            place.name,
            prefix.len() + place.name.len()
        ),
        fix: format!("use a shorter name or a shorter prefix: {NAME_RULE}"),
        related: None,
    };
    places.iter().filter(long).map(problem).collect()
}

/// What to say about a name that nobody defines.
pub(super) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Wrong {
    let fix = match closest(name, known) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("define [{what}.{name}] in one of the files that are applied together"),
    };
    Wrong::new(format!("there is no {what} \"{name}\""), fix)
}
