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
    done: HashMap<i64, i32>,
    done_order: VecDeque<i64>,
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
        let known = self.done.insert(id.run_id, id.attempt);
        if known.is_none() {
            self.done_order.push_back(id.run_id);
            if self.done_order.len() > MAX_DONE
                && let Some(oldest) = self.done_order.pop_front()
            {
                self.done.remove(&oldest);
            }
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
}
