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
pub(super) const OWN_ABOUT_INSTANTS: &[&str] = &["overlap", "catch_up", "dst", "spread"];

pub(super) fn check(job: &mut Reader<'_>, spec: &JobSpec) {
    if !spec.is_continuous() {
        for key in ["idle_exit", "idle_delay"] {
            let what = format!("`{key}` is for continuous jobs");
            job.refuse(key, what, "add schedule = \"@continuous\", or leave it out");
        }
        return;
    }
    if spec.schedule.len() > 1 {
        job.refuse(
            "schedule",
            "`schedule`: @continuous stands alone",
            "remove the other expressions, or make two jobs",
        );
    }
    let what = |key| format!("`{key}` has no meaning for a continuous job, which is always due");
    let fix = "leave it out; `farmhand job pause` stops the job for a while";
    for key in ABOUT_INSTANTS {
        job.refuse(key, what(key), fix);
    }
    for key in OWN_ABOUT_INSTANTS {
        job.refuse_own(key, what(key), fix);
    }
    if spec.run_on == RunOn::EachNode {
        job.refuse(
            "run_on",
            "`run_on`: a continuous job has `instances`, wherever there is room for them",
            "leave it out, or write one job per node with `where`",
        );
    }
}
