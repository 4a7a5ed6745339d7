//! `[pool.NAME]`: places that jobs share, defined once for all files read together.

use std::collections::BTreeMap;
use std::ops::Range;

use super::JobSpec;
use super::needs::{NAME_RULE, is_resource_name, unknown};
use super::twice::{Place, defined_twice};
use crate::document::{Problem, Reader, Source, Wrong, integer};

/// A pool as a file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDefinition {
    pub name: String,
    /// Places: of the farm for `pool`, of each node for `node_pool`. With 0 nothing of it starts.
    pub size: u32,
    /// Index of the source.
    pub source: usize,
}

/// The pools of all files.
#[derive(Debug, Default)]
pub(super) struct Pools(BTreeMap<String, Vec<(PoolDefinition, Range<usize>)>>);

impl Pools {
    /// Reads the `[pool]` table of one file.
    pub fn read(&mut self, source: usize, table: &Reader<'_>) {
        let sink = table.sink();
        for (name, value) in table.entries() {
            if !is_resource_name(name.value) {
                sink.report(
                    name.span.clone(),
                    format!("`{}` is not a valid pool name", name.value),
                    NAME_RULE,
                );
            }
            let Some(own) = value.value.as_table() else {
                sink.report(
                    value.span,
                    format!("pool `{}`: expected a table", name.value),
                    "write [pool.NAME] on a line of its own, and size = 3 below it",
                );
                continue;
            };
            let mut reader = Reader::new(vec![own], sink);
            let size = reader.read("size", integer(0..=1_000_000));
            if size.is_none() && reader.key_span("size").is_none() {
                sink.report(
                    name.span.clone(),
                    format!("pool `{}` has no size", name.value),
                    "add size = 3: how many runs may be in it at once",
                );
            }
            reader.finish(&[
                ("slots", "did you mean `size`?"),
                ("limit", "did you mean `size`?"),
            ]);
            let pool = PoolDefinition {
                name: name.value.to_owned(),
                size: size.map_or(0, |found| u32::try_from(found.value).unwrap_or(0)),
                source,
            };
            self.0
                .entry(name.value.to_owned())
                .or_default()
                .push((pool, name.span));
        }
    }

    /// Pools that two files define.
    pub fn duplicates(&self, sources: &[Source]) -> Vec<Problem> {
        let places = self.0.iter().flat_map(|(name, all)| {
            all.iter().map(move |(pool, span)| Place {
                name,
                source: pool.source,
                span,
            })
        });
        defined_twice("pool", places, sources)
    }

    /// Reports the pools that a job names and no file defines.
    pub fn check(&self, job: &mut Reader<'_>, spec: &JobSpec) {
        for (key, named) in [("pool", &spec.pool), ("node_pool", &spec.node_pool)] {
            let Some(name) = named else { continue };
            if let (Some(wrong), Some(found)) = (self.missing(name), job.raw(key)) {
                job.sink().wrong(found.span, key, wrong);
            }
        }
    }

    /// Places of a pool, if a file defines it.
    pub fn size(&self, name: &str) -> Option<u32> {
        Some(self.0.get(name)?.first()?.0.size)
    }

    pub(super) fn missing(&self, name: &str) -> Option<Wrong> {
        if self.0.contains_key(name) {
            return None;
        }
        Some(unknown("pool", name, self.0.keys().map(String::as_str)))
    }

    /// Each pool once, by name.
    pub fn into_definitions(self) -> Vec<PoolDefinition> {
        self.0
            .into_values()
            .filter_map(|all| all.into_iter().next().map(|(pool, _)| pool))
            .collect()
    }
}
