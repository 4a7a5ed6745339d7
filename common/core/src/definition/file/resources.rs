//! `[pool.NAME]`: places that jobs share, defined once for all files read together.

use super::defined::{Defined, unknown};
use super::from_table::stored;
use super::keys::POOL;
use crate::definition::spec::job::JobSpec;
use crate::document::{Reader, Wrong};

/// A pool as a file defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolDefinition {
    /// As in `[pool.NAME]`.
    pub name: String,
    /// Places: of the farm for `pool`, of each node for `node_pool`. With 0 nothing of it starts.
    pub size: u32,
    /// Index of the source.
    pub source: usize,
}

pub(super) type Pools = Defined<PoolDefinition>;

impl Pools {
    /// Reads the `[pool]` table of one file.
    pub fn read(&mut self, source: usize, table: &Reader<'_>) {
        let fix = "write [pool.NAME] on a line of its own, and size = 3 below it";
        self.read_tables(("pool", fix), source, table, |mut reader, name| {
            let keys = stored(&mut reader, POOL);
            if reader.key_span("size").is_none() {
                reader.sink().report(
                    name.span.clone(),
                    format!("pool `{}` has no size", name.value),
                    "add size = 3: how many runs may be in it at once",
                );
            }
            PoolDefinition {
                name: name.value.to_owned(),
                size: keys["size"]
                    .as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .unwrap_or(0),
                source,
            }
        });
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
        Some(self.get(name)?.size)
    }

    pub(super) fn missing(&self, name: &str) -> Option<Wrong> {
        let there = self.get(name).is_some();
        (!there).then(|| unknown("pool", name, self.names()))
    }
}
