//! The parameters that a job declares.

use serde::{Deserialize, Serialize};

/// A parameter that runs of a job may be given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParamSpec {
    #[serde(rename = "type")]
    pub kind: ParamType,
    /// The value of a run that is given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// Whether a run must be given one.
    pub required: bool,
}

/// What a parameter's values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamType {
    /// Any text.
    #[default]
    String,
    /// An integer of 64 bits.
    Integer,
    /// An integer or a fraction.
    Number,
    /// True or false.
    Boolean,
    /// As in `1h30m`.
    Duration,
    /// As in `2026-12-31`.
    Date,
}
