//! What tasks say about each other, and where.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Where a relation is written. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Its path or name.
    #[serde(serialize_with = "as_text")]
    pub file: Arc<str>,
    /// From 1; 0 for the whole file.
    pub line: u32,
}

impl Place {
    /// A line counts from 1; 0 is the whole file.
    pub fn new(file: impl Into<Arc<str>>, line: u32) -> Self {
        let file = file.into();
        Self { file, line }
    }
}

fn as_text<S: Serializer>(text: &Arc<str>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(text)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What one task says about another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// After it, and only if it succeeded.
    Requires,
    /// After it, however it ended.
    After,
    /// It comes later.
    Before,
    /// Never at the same time.
    Conflicts,
}

/// What a task says about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it says about the other.
    pub relation: Relation,
    /// The other: a task or a mark.
    pub name: String,
    /// Whether it may be that nobody provides it.
    pub optional: bool,
    pub at: Place,
}

/// A task as the graph sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: Arc<str>,
    /// Names others use for it, and where it says so.
    pub provides: Vec<(String, Place)>,
    /// Names that mean it when nobody provides them.
    pub aliases: Vec<String>,
    pub references: Vec<Reference>,
}
