//! What the API's documents say of types that live in `core`, which knows nothing of OpenAPI: named in
//! `#[schema(value_type = …)]` where a row has such a field.

use farmhand_core::claimed;
use farmhand_core::event;
use farmhand_core::explain;
use farmhand_core::health;
use farmhand_core::run;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Describes a type whose values are words.
macro_rules! as_words {
    ($name:ident, $all:expr) => {
        // Derived it would not see names that come through a macro.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let kind = utoipa::openapi::schema::SchemaType::Type(utoipa::openapi::schema::Type::String);
                let words: Vec<String> = $all.iter().map(ToString::to_string).collect();
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(kind)
                    .enum_values(Some(words))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

pub(crate) use as_words;

/// [`run::RunState`].
#[derive(Debug)]
pub struct RunState;

as_words!(RunState, run::RunState::ALL);

/// [`event::EventKind`].
#[derive(Debug)]
pub struct EventKind;

as_words!(EventKind, event::EventKind::ALL);

/// [`health::JobHealth`].
#[derive(Debug)]
pub struct JobHealth;

as_words!(JobHealth, health::JobHealth::ALL);

/// [`health::NodeState`].
#[derive(Debug)]
pub struct NodeState;

as_words!(NodeState, health::NodeState::ALL);

/// [`health::Level`].
#[derive(Debug, Serialize)]
pub struct Level;

as_words!(Level, health::Level::ALL);

/// [`claimed::Kind`].
#[derive(Debug)]
pub struct Kind;

as_words!(Kind, claimed::Kind::ALL);

/// [`explain::Gate`].
#[derive(Debug, Serialize)]
pub struct Gate;

as_words!(Gate, explain::Gate::ALL);

/// One gate.
#[derive(Debug, Serialize, ToSchema)]
pub struct Finding {
    /// Which one.
    pub gate: Gate,
    /// Whether it lets the run pass.
    pub open: bool,
    /// One sentence about it.
    pub what: String,
    /// Since when it is closed, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What would open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frees: Option<String>,
}

/// One thing that is not well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FarmFinding {
    /// How bad it is.
    pub level: Level,
    /// One sentence.
    pub text: String,
    /// Where more of it is shown.
    pub about: About,
    /// What it names, each by itself, as in `failing:backup`; none where the whole farm stands still.
    pub causes: Vec<String>,
}

/// What a finding is about, by one key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A run, by its number.
    Run(i64),
    /// A job, by its name.
    Job(String),
    /// A node, by its address.
    Node(String),
    /// Jobs in a state, as the list of jobs takes it.
    Jobs(String),
    /// Nodes in a state; all of them when it is empty.
    Nodes(String),
    /// The database.
    Epoch,
}

/// Every gate that was looked at.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explanation {
    /// The job.
    pub job_id: String,
    /// The instant that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The first closed gate; None when nothing holds it back.
    pub held_by: Option<Gate>,
    /// One sentence.
    pub answer: String,
    /// In the order in which a run passes them.
    pub gates: Vec<Finding>,
}

/// One key of a definition, before and after; null where it was not there.
#[derive(Debug, Serialize, ToSchema)]
pub struct Change {
    /// The value before; null when there was none.
    pub old: Value,
    /// The value now; null when there is none.
    pub new: Value,
}

/// [`farmhand_core::document::Located`]: a mistake of a job file. Lines and columns count from 1, columns in characters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Located {
    /// The file.
    pub file: String,
    /// Where it begins.
    pub line: usize,
    /// Where in that line.
    pub column: usize,
    /// Where it ends.
    pub end_line: usize,
    /// Behind its last character.
    pub end_column: usize,
    /// What is wrong.
    pub what: String,
    /// How to fix it.
    pub fix: String,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use farmhand_core::{definition, document, usual, verdict};
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;

    /// The keys of what core writes, and those of what the documents say of it.
    fn keys<T: PartialSchema>(written: &impl Serialize) -> (BTreeSet<String>, BTreeSet<String>) {
        let of = |value: &Value| value.as_object().unwrap().keys().cloned().collect();
        let described = serde_json::to_value(T::schema()).unwrap();
        (
            of(&serde_json::to_value(written).unwrap()),
            of(&described["properties"]),
        )
    }

    #[test]
    fn what_the_documents_describe_has_the_keys_that_core_writes() {
        let finding = explain::Finding {
            gate: explain::Gate::Pool,
            open: false,
            what: String::new(),
            since: Some(Timestamp::UNIX_EPOCH),
            frees: Some(String::new()),
        };
        let explanation = explain::Explanation {
            job_id: String::new(),
            at: Some(Timestamp::UNIX_EPOCH),
            held_by: Some(explain::Gate::Pool),
            answer: String::new(),
            gates: Vec::new(),
        };
        let change = definition::Change {
            old: json!(1),
            new: json!(2),
        };
        let found = verdict::Finding {
            level: health::Level::Well,
            text: String::new(),
            about: verdict::About::Epoch,
            causes: Vec::new(),
        };
        let exceeded = usual::Exceeded {
            p95: std::time::Duration::ZERO,
            runs: 5,
        };
        let located = document::Located {
            file: String::new(),
            line: 1,
            column: 1,
            end_line: 1,
            end_column: 1,
            what: String::new(),
            fix: String::new(),
        };
        for (written, described) in [
            keys::<Located>(&located),
            keys::<FarmFinding>(&found),
            keys::<Finding>(&finding),
            keys::<Explanation>(&explanation),
            keys::<Change>(&change),
            keys::<Exceeded>(&exceeded),
        ] {
            assert_eq!(written, described);
        }
    }
}

/// [`farmhand_core::usual::Usual`]: how long runs that succeeded took.
#[derive(Debug, Serialize, ToSchema)]
pub struct Usual {
    /// Half of them took no longer.
    pub p50_ms: u64,
    /// 95 of 100 took no longer.
    pub p95_ms: u64,
    /// The longest of them.
    pub longest_ms: u64,
    /// How many there were.
    pub count: usize,
}

/// [`farmhand_core::usual::Exceeded`]: what a run that takes longer than usual is measured by.
#[derive(Debug, Serialize, ToSchema)]
pub struct Exceeded {
    /// 95 of 100 took no longer.
    pub p95_ms: u64,
    /// How many runs of its job that is of: the last that succeeded.
    pub runs: usize,
}
