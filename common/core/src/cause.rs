//! A cause: the kind of a problem and what it affects, as a short stable name that people can acknowledge.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The default duration of an acknowledgement.
pub const USUAL: Duration = Duration::from_secs(8 * 3600);
/// It holds for so long at most.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Characters of a note, at most.
pub const NOTE: usize = 500;

crate::words! {
    /// What is wrong.
    CauseKind {
        /// A job whose instants no agent fires.
        Late = "late",
        /// A run whose lease is not as it should be.
        Stuck = "stuck",
        /// A job whose runs wait for too long.
        Waiting = "waiting",
        /// A node whose machine refuses to start runs.
        Blocked = "blocked",
        /// A node whose session another node ended.
        Lost = "lost",
        /// A node whose lease is over.
        Expired = "expired",
        /// A node that was lost and came back again and again.
        Flapping = "flapping",
        /// A run that takes longer than usual.
        Slow = "slow",
        /// A job whose last firing failed.
        Failing = "failing",
    }
}

/// What is wrong, and the job, run or node that it is wrong with: `failing:backup`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cause {
    /// What sort of trouble it is.
    pub kind: CauseKind,
    /// Of the job, run or node that has it.
    pub name: String,
}

impl Cause {
    /// The cause of this kind that has this name: of a person, a job, a run.
    pub fn of(kind: CauseKind, name: impl ToString) -> Self {
        Self {
            kind,
            name: name.to_string(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl FromStr for Cause {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = || {
            CauseKind::ALL
                .iter()
                .map(|kind| kind.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let known = (text.split_once(':'))
            .filter(|(_, name)| !name.is_empty())
            .and_then(|(kind, name)| Some(Self::of(kind.parse().ok()?, name)));
        known.ok_or_else(|| {
            format!(
                "{text:?} is not a valid cause: it is KIND:NAME, as in failing:backup; kinds are {}",
                kinds()
            )
        })
    }
}

impl TryFrom<String> for Cause {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.to_string()
    }
}

/// Who knows of a cause, and until when it does not lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// As they were written down: `ann@host`, `api:ann@192.0.2.1`.
    pub by: String,
    /// When it counts again.
    pub until: Timestamp,
    /// What others should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Acknowledged {
    /// In words; `until` as whoever reads it is shown times.
    pub fn told(&self, until: &str) -> String {
        let note = self
            .note
            .as_ref()
            .map_or_else(String::new, |note| format!(": {note}"));
        format!("acknowledged by {} until {until}{note}", self.name())
    }

    /// Without the way that they came by.
    fn name(&self) -> &str {
        let by = (self.by.strip_prefix("api:"))
            .or_else(|| self.by.strip_prefix("header:"))
            .unwrap_or(&self.by);
        match by.rsplit_once('@') {
            Some((name, _)) if !name.is_empty() => name,
            _ => by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_read_as_it_is_written() {
        for text in ["failing:backup", "stuck:7", "lost:db-1:7070", "late:a:b"] {
            let cause: Cause = text.parse().unwrap();
            assert_eq!(cause.to_string(), text);
            let json = serde_json::to_value(&cause).unwrap();
            assert_eq!(json, text);
            assert_eq!(serde_json::from_value::<Cause>(json).unwrap(), cause);
        }
        for text in ["", "failing", "failing:", "broken:backup", ":backup"] {
            let error = text.parse::<Cause>().unwrap_err();
            assert!(
                error.contains("KIND:NAME") && error.contains("waiting"),
                "{error}"
            );
        }
    }

    #[test]
    fn who_acknowledged_is_told_by_name() {
        for (by, name) in [
            ("api:ann@192.0.2.1", "ann"),
            ("header:ann@x.org@192.0.2.1", "ann@x.org"),
            ("ann@host", "ann"),
            ("ann", "ann"),
            ("@host", "@host"),
        ] {
            let known = |note: Option<&str>| Acknowledged {
                by: by.to_owned(),
                until: Timestamp::UNIX_EPOCH,
                note: note.map(str::to_owned),
            };
            assert_eq!(
                known(None).told("06:00Z"),
                format!("acknowledged by {name} until 06:00Z")
            );
            let told = known(Some("disk is ordered")).told("06:00Z");
            assert_eq!(
                told,
                format!("acknowledged by {name} until 06:00Z: disk is ordered")
            );
        }
    }
}
