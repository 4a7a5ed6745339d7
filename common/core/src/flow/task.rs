//! One task, and what a script says about itself.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::command::Command;
use crate::continuous::Rounds;
use crate::document::closest;
use crate::graph::{Member, Place, Reference, Relation};
use crate::retry::Retry;

crate::words! {
    /// Whether things are brought up or taken down; the argument that scripts are called with.
    #[derive(Default)]
    Direction {
        /// Forwards, with `start`.
        #[default]
        Start = "start",
        /// Backwards, with `stop`.
        Stop = "stop",
    }
}

/// What a task does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A script, called with `start` or `stop`.
    Script { path: Arc<str> },
    /// A function of a shell file.
    Function { file: String, name: String },
    /// A command of the job file.
    Command(Command),
    /// A name to wait for, and nothing to do.
    Nothing,
}

/// One task of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, the marks it provides and its relations.
    pub member: Member,
    pub at: Place,
    pub action: Action,
    /// What `skip` and `keep` choose by.
    pub keywords: Vec<String>,
    /// Why it is not executed. Its relations hold all the same, so that what comes after it still comes
    /// after what it comes after.
    pub left_out: Option<String>,
    /// Shared by all that have none of them: boot scripts have none, and thousands may wait.
    pub extras: Arc<Extras>,
    /// Whether it runs again when a flow resumes, although it had succeeded.
    pub always_run: bool,
}

/// What most tasks do not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// Held while it runs.
    pub locks: Vec<String>,
    /// One of its places is taken while the task runs.
    pub pool: Option<String>,
    /// Of one try.
    pub timeout: Option<Duration>,
    /// Tries after a failure.
    pub retry: Retry,
    /// It runs again and again, and ends only with the flow.
    pub rounds: Option<Rounds>,
    pub env: BTreeMap<String, String>,
}

static NO_EXTRAS: LazyLock<Arc<Extras>> = LazyLock::new(Arc::default);

impl Task {
    /// A task that provides nothing and waits for nothing.
    pub fn new(name: impl Into<Arc<str>>, at: Place, action: Action) -> Self {
        Self {
            member: Member {
                name: name.into(),
                provides: Vec::new(),
                aliases: Vec::new(),
                references: Vec::new(),
            },
            at,
            action,
            keywords: Vec::new(),
            left_out: None,
            extras: NO_EXTRAS.clone(),
            always_run: false,
        }
    }

    /// As people know it.
    pub fn name(&self) -> &str {
        &self.member.name
    }
}

/// Why a text cannot be read as tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Malformed {
    pub at: Place,
    /// What is wrong with it.
    pub what: String,
    pub fix: String,
}

impl Malformed {
    /// A key that may have been meant to be one of these.
    pub(super) fn misspelt(
        file: &str,
        line: u32,
        key: &str,
        keys: &[&'static str],
        what: &str,
    ) -> Option<Self> {
        let meant = closest(key, keys.iter().copied())?;
        Some(Self {
            at: Place::new(file, line),
            what: format!("`{key}` is not {what}"),
            fix: format!("write `# {meant}:`"),
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Header {
    pub(super) provides: Vec<(String, Place)>,
    pub(super) start: Vec<Reference>,
    pub(super) stop: Vec<Reference>,
    pub(super) keywords: Vec<String>,
    pub(super) locks: Vec<String>,
    /// The run levels it is started and stopped in, where it names them.
    pub(super) start_levels: Option<Vec<String>>,
    pub(super) stop_levels: Option<Vec<String>>,
}

impl Header {
    /// Whether it says anything about order; locks, conflicts and keywords alone do not.
    pub(super) fn orders(&self) -> bool {
        !self.provides.is_empty() || self.start.iter().any(|r| r.relation != Relation::Conflicts)
    }

    /// Adds what another block of the same script says, which orders nothing.
    pub(super) fn extend(&mut self, other: Self) {
        self.start.extend(other.start);
        self.stop.extend(other.stop);
        self.keywords.extend(other.keywords);
        self.locks.extend(other.locks);
    }
}

pub(super) fn reference(relation: Relation, name: &str, optional: bool, at: &Place) -> Reference {
    Reference {
        relation,
        name: name.to_owned(),
        optional,
        at: at.clone(),
    }
}
