//! Names that files read together define more than once.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::document::{Problem, Related, Source};

/// Where a name is defined.
pub(super) struct Place<'a> {
    pub name: &'a str,
    /// Index of the source.
    pub source: usize,
    pub span: &'a Range<usize>,
}

/// A problem for every definition of a name but its first.
pub(super) fn defined_twice<'a>(
    kind: &str,
    places: impl IntoIterator<Item = Place<'a>>,
    sources: &[Source],
) -> Vec<Problem> {
    let mut first: BTreeMap<&str, Place<'_>> = BTreeMap::new();
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
