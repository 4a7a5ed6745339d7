//! `schedule = "@continuous"` and the keys that only such a job has.

use super::retry;
use crate::continuous::BASE;
use crate::definition::spec::job::{JobSpec, RunOn};
use crate::document::Reader;
use crate::retry::Retry;

/// Keys that speak of due instants, of which a continuous job has none beforehand.
const ABOUT_INSTANTS: &[&str] = &["calendars", "start", "end"];

/// Its pauses after a failure are shorter.
pub(super) fn settle(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let base = if spec.is_continuous() {
        BASE
    } else {
        Retry::default().base
    };
    retry::settle(job, &mut spec.retry, base);
}

/// As those, but harmless where a job inherits them.
pub(super) const OWN_ABOUT_INSTANTS: &[&str] = &[
    "overlap",
    "missed",
    "missed_within",
    "missed_max",
    "dst",
    "spread",
];

pub(super) fn check(job: &mut Reader<'_>, spec: &JobSpec) {
    let sink = job.sink();
    if !spec.is_continuous() {
        for key in ["idle_exit", "idle_delay"] {
            if let Some(span) = job.key_span(key) {
                sink.report(
                    span,
                    format!("`{key}` is for continuous jobs"),
                    "add schedule = \"@continuous\", or leave it out",
                );
            }
        }
        return;
    }
    if spec.schedule.len() > 1
        && let Some(span) = job.key_span("schedule")
    {
        sink.report(
            span,
            "`schedule`: @continuous stands alone",
            "remove the other expressions, or make two jobs",
        );
    }
    let inherited = ABOUT_INSTANTS.iter().map(|key| (*key, job.key_span(key)));
    let mut found: Vec<_> = inherited.collect();
    found.extend(OWN_ABOUT_INSTANTS.iter().map(|key| (*key, job.own_span(key))));
    for (key, span) in found {
        if let Some(span) = span {
            sink.report(
                span,
                format!("`{key}` has no meaning for a continuous job, which is always due"),
                "leave it out; `farmhand job pause` stops the job for a while",
            );
        }
    }
    if spec.run_on == RunOn::EachNode
        && let Some(span) = job.key_span("run_on")
    {
        sink.report(
            span,
            "`run_on`: a continuous job has `instances`, wherever there is room for them",
            "leave it out, or write one job per node with `where`",
        );
    }
}
