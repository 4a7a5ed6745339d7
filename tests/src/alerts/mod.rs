//! `grafana/alerts.toml`, and what is written from it: Prometheus's rules and their unit tests, Grafana's rules.

mod managed;
mod rules;
mod time;
mod yaml;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

pub use managed::managed;
pub use rules::{rules, unit_tests};
pub use time::{Scale, seconds};

/// Where runbooks are read, by their names.
pub const RUNBOOKS: &str = "https://github.com/farmhand/farmhand/blob/main/docs/runbooks";

/// Whose the job of an alert is, and what its own runbook is, where it has them.
const JOB_INFO: &str = "topk by (job, job_name) (1, farmhand_farm_job_info)";
const OF_JOB: &str = "{{ with $labels.owner }} Its owner: {{ . }}.{{ end }}\
    {{ with $labels.runbook }} Its runbook: {{ . }}{{ end }}";

/// The whole source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    #[serde(rename = "record")]
    pub records: Vec<Record>,
    #[serde(rename = "alert")]
    pub alerts: Vec<Alert>,
}

/// A query that is evaluated once for several.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub name: String,
    pub expr: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    pub name: String,
    pub severity: String,
    /// A file of `docs/runbooks`, without its ending.
    pub runbook: String,
    pub expr: String,
    #[serde(rename = "for")]
    pub hold: String,
    pub summary: String,
    pub description: String,
    /// Series under which it fires, and under which it does not although it might.
    pub fires: Case,
    /// Others under which it fires.
    pub fires_too: Option<Case>,
    pub quiet: Case,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub at: String,
    pub series: BTreeMap<String, String>,
}

impl Alert {
    fn is_of_jobs(&self) -> bool {
        self.summary.contains("$labels.job_name")
    }

    /// With the labels of the job's definition. One without any, or with no series of its own, is told as well.
    fn expr(&self) -> String {
        let expr = self.expr.trim();
        if !self.is_of_jobs() {
            return expr.to_owned();
        }
        let by = "on (job, job_name)";
        format!("({expr})\n* {by} group_left (owner, runbook) {JOB_INFO}\nor {by} ({expr})")
    }

    fn description(&self) -> String {
        let of_job = if self.is_of_jobs() { OF_JOB } else { "" };
        format!("{}{of_job}", self.description)
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads the source.
///
/// # Panics
/// When it is not as it should be.
pub fn source() -> Source {
    let path = root().join("grafana/alerts.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file that is written from the source, by its path from the root.
pub fn written() -> Vec<(&'static str, String)> {
    let source = source();
    vec![
        (
            "grafana/prometheus/farmhand.rules.yml",
            rules(&source, Scale::NONE),
        ),
        ("grafana/prometheus/farmhand.test.yml", unit_tests(&source)),
        ("grafana/provisioning/alerting/farmhand.yml", managed(&source)),
    ]
}
