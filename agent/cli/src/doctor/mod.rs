//! What a machine and a database allow, and what it costs where they do not. Looking and judging are apart:
//! [`machine::look`] and the store's survey look, the rest only decides.

pub(crate) mod availability;
pub(crate) mod database;
pub(crate) mod definitions;
pub(crate) mod epoch;
pub(crate) mod machine;
pub(crate) mod notify;
pub(crate) mod rights;
pub(crate) mod tables;

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Ok,
    /// Good to know; nothing to fix unless wanted.
    Note,
    /// It works, with less than is promised elsewhere.
    Warning,
    /// Do not run a farm on it.
    Failure,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub check: &'static str,
    pub level: Level,
    pub found: String,
    /// What does not work, or works worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    /// A check that found nothing to complain of.
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            found: found.into(),
            impact: None,
            fix: None,
        }
    }

    /// Something that is not as it could be: what that costs, and what to do about it.
    pub(crate) fn bad(
        level: Level,
        check: &'static str,
        found: impl Into<String>,
        impact: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level,
            impact: Some(impact.into()),
            fix: Some(fix.into()),
            ..Self::ok(check, found)
        }
    }
}

pub(crate) fn worst(checks: &[Check]) -> Level {
    checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok)
}
