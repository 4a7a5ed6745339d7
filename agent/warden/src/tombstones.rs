//! Attempts that must not start here: forbidden ones, and ended ones that were acknowledged.

use std::collections::{BTreeMap, HashMap, VecDeque};

use farmhand_warden_client::wire::AttemptId;

/// A forbidden attempt is never forgotten, since forgetting it could start it. So many claims whose reply was
/// lost do not happen within one session; if they do, the agent must begin a new one.
pub(crate) const MAX_FORBIDDEN: usize = 64 << 10;
/// A late repetition of a spawn comes within seconds of the first, on the same connection.
const MAX_DONE: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    /// Highest per run: attempts of a run only grow.
    forbidden: BTreeMap<i64, i32>,
    /// Highest per run, too: they need not be acknowledged in order.
    done: HashMap<i64, i32>,
    done_order: VecDeque<AttemptId>,
}

impl Tombstones {
    pub(crate) fn stands(&self, id: AttemptId) -> bool {
        let at_or_above = |map: Option<&i32>| map.is_some_and(|highest| *highest >= id.attempt);
        at_or_above(self.forbidden.get(&id.run_id)) || at_or_above(self.done.get(&id.run_id))
    }

    /// False: there is no room for it.
    pub(crate) fn forbid(&mut self, id: AttemptId) -> bool {
        if self.forbidden.len() >= MAX_FORBIDDEN && !self.forbidden.contains_key(&id.run_id) {
            return false;
        }
        let highest = self.forbidden.entry(id.run_id).or_insert(id.attempt);
        *highest = id.attempt.max(*highest);
        true
    }

    pub(crate) fn done(&mut self, id: AttemptId) {
        let highest = self.done.entry(id.run_id).or_insert(id.attempt);
        *highest = id.attempt.max(*highest);
        self.done_order.push_back(id);
        if self.done_order.len() > MAX_DONE
            && let Some(oldest) = self.done_order.pop_front()
            && self.done.get(&oldest.run_id) == Some(&oldest.attempt)
        {
            self.done.remove(&oldest.run_id);
        }
    }

    pub(crate) fn forbidden(&self) -> Vec<AttemptId> {
        self.forbidden
            .iter()
            .map(|(run_id, attempt)| AttemptId {
                run_id: *run_id,
                attempt: *attempt,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_covers_earlier_attempts_and_no_later_ones() {
        let mut stones = Tombstones::default();
        let id = |attempt| AttemptId { run_id: 1, attempt };
        assert!(stones.forbid(id(3)));
        assert!(stones.forbid(id(2)));
        assert!(stones.stands(id(2)) && stones.stands(id(3)) && !stones.stands(id(4)));
    }

    #[test]
    fn forbidden_attempts_are_refused_rather_than_forgotten() {
        let mut stones = Tombstones::default();
        for run_id in 0..MAX_FORBIDDEN as i64 {
            assert!(stones.forbid(AttemptId { run_id, attempt: 1 }));
        }
        assert!(!stones.forbid(AttemptId {
            run_id: -1,
            attempt: 1
        }));
        assert!(stones.stands(AttemptId {
            run_id: 0,
            attempt: 1
        }));
    }

    #[test]
    fn acknowledged_attempts_are_remembered_for_a_while_only() {
        let mut stones = Tombstones::default();
        for run_id in 0..=MAX_DONE as i64 {
            stones.done(AttemptId { run_id, attempt: 1 });
        }
        assert!(!stones.stands(AttemptId {
            run_id: 0,
            attempt: 1
        }));
        assert!(stones.stands(AttemptId {
            run_id: 1,
            attempt: 1
        }));
        assert_eq!(stones.done.len(), MAX_DONE);
    }

    #[test]
    fn an_older_attempt_acknowledged_later_leaves_the_newer_one_known() {
        let mut stones = Tombstones::default();
        let id = |attempt| AttemptId { run_id: -1, attempt };
        stones.done(id(2));
        stones.done(id(1));
        assert!(stones.stands(id(2)) && !stones.stands(id(3)));
    }

    #[test]
    fn a_runs_newest_attempt_is_remembered_as_long_as_any_other() {
        let mut stones = Tombstones::default();
        let id = |attempt| AttemptId { run_id: -1, attempt };
        stones.done(id(1));
        for run_id in 1..MAX_DONE as i64 {
            stones.done(AttemptId { run_id, attempt: 1 });
        }
        stones.done(id(2));
        stones.done(AttemptId {
            run_id: 0,
            attempt: 1,
        });
        assert!(stones.stands(id(2)));
    }
}
