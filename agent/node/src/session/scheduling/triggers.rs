//! Settling the ends of jobs that trigger others: at once after an own end, and whatever a poll shows undone.

use std::collections::{BTreeSet, HashMap, HashSet};

use farmhand_store::protocol::JobRow;

/// Who triggers whom, as this agent last saw it, and what is to be settled.
#[derive(Default)]
pub(super) struct TriggerDispatcher {
    parents: HashMap<String, Vec<String>>,
    ended: BTreeSet<String>,
    /// Something is undone that others left behind.
    left_behind: bool,
    busy: bool,
}

impl TriggerDispatcher {
    pub(super) fn learn(&mut self, row: &JobRow) {
        let list = row.spec["triggered_by"].as_array().into_iter().flatten();
        let parents: Vec<String> = list.filter_map(|p| p.as_str().map(str::to_owned)).collect();
        if row.deleted || parents.is_empty() {
            self.parents.remove(&row.job_id);
        } else {
            self.parents.insert(row.job_id.clone(), parents);
        }
    }

    /// All jobs were read; others are gone.
    pub(super) fn keep(&mut self, all: &HashSet<&str>) {
        self.parents.retain(|job_id, _| all.contains(job_id.as_str()));
    }

    pub(super) fn ended(&mut self, job_id: &str) {
        if self.parents.values().any(|list| list.iter().any(|p| p == job_id)) {
            self.ended.insert(job_id.to_owned());
        }
    }

    pub(super) fn left_behind(&mut self) {
        self.left_behind = true;
    }

    /// What to settle now: these parents' ends, or, with none, all there are. One statement at a time.
    pub(super) fn take(&mut self) -> Option<Option<Vec<String>>> {
        if self.busy {
            return None;
        }
        let all = std::mem::take(&mut self.left_behind);
        let ended = std::mem::take(&mut self.ended);
        self.busy = all || !ended.is_empty();
        self.busy.then(|| (!all).then(|| ended.into_iter().collect()))
    }

    /// The statement under way was answered.
    pub(super) fn answered(&mut self) {
        self.busy = false;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(job_id: &str, triggered_by: &[&str]) -> JobRow {
        JobRow {
            job_id: job_id.to_owned(),
            rev: 1,
            seq: 1,
            spec: json!({"triggered_by": triggered_by}),
            enabled: true,
            paused: false,
            deleted: false,
            scheduled: false,
            next_run: None,
            decided_until: None,
        }
    }

    #[test]
    fn only_the_ends_of_jobs_that_trigger_others_are_settled_and_one_statement_at_a_time() {
        let mut trigger_dispatcher = TriggerDispatcher::default();
        trigger_dispatcher.learn(&row("child", &["a", "b"]));
        trigger_dispatcher.ended("child");
        assert_eq!(trigger_dispatcher.take(), None);
        trigger_dispatcher.ended("b");
        assert_eq!(trigger_dispatcher.take(), Some(Some(vec!["b".to_owned()])));
        trigger_dispatcher.ended("a");
        trigger_dispatcher.left_behind();
        assert_eq!(trigger_dispatcher.take(), None);
        trigger_dispatcher.answered();
        assert_eq!(trigger_dispatcher.take(), Some(None));
        trigger_dispatcher.answered();
        trigger_dispatcher.learn(&row("child", &[]));
        trigger_dispatcher.ended("a");
        assert_eq!(trigger_dispatcher.take(), None);
    }
}
