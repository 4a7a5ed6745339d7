//! When this agent looks for rows of table jobs.
//!
//! Pure bookkeeping. One agent looks at each poll, by rendezvous; another one less often, in case the first
//! one cannot. Whoever ends a row's run looks at once, so a backlog is worked off without waiting for a poll.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use farmhand_core::definition::{JobSpec, SHORTEST_POLL};
use farmhand_core::lease::BootInstant;
use farmhand_store::StoreError;
use farmhand_store::protocol::JobRow;
use farmhand_store::tables::Dispatched;

/// Agents that look by themselves.
pub(crate) const TABLE_RANKS: usize = 2;

/// The second one's polls are so much rarer.
const RARER: u32 = 3;

/// Tables looked at by one agent at the same time: slow ones wait for each other, and nothing else for them.
pub(crate) const AT_ONCE: usize = 2;

/// After a lock that was not given.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Polls of a table that refused are at least so far apart.
const REFUSED_POLL: Duration = Duration::from_secs(15);

#[derive(Debug)]
struct Watched {
    poll: Duration,
    next: BootInstant,
    /// Asked for by a notification, a signal or the end of a run: looked at whatever the rank.
    asked: bool,
    in_flight: bool,
    problem: Option<String>,
    keyless: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    jobs: HashMap<String, Watched>,
}

impl Tables {
    /// Takes a job's row in. A definition that cannot be used is reported elsewhere.
    pub(crate) fn learn(&mut self, row: &JobRow, now: BootInstant) {
        let table = serde_json::from_value::<JobSpec>(row.spec.clone())
            .ok()
            .and_then(|spec| spec.table)
            .filter(|_| row.enabled && !row.paused && !row.deleted);
        let Some(table) = table else {
            self.jobs.remove(&row.job_id);
            return;
        };
        // The database may have another than a job file could say.
        let poll = table.poll.max(SHORTEST_POLL);
        let watched = self.jobs.entry(row.job_id.clone()).or_insert(Watched {
            poll,
            next: now,
            asked: false,
            in_flight: false,
            problem: None,
            keyless: false,
        });
        watched.poll = poll;
        watched.next = now;
    }

    /// All jobs were read; others are gone.
    pub(crate) fn keep(&mut self, all: &HashSet<&str>) {
        self.jobs.retain(|job_id, _| all.contains(job_id.as_str()));
    }

    /// Rows may wait from `at` on.
    pub(crate) fn poll_at(&mut self, job_id: &str, at: BootInstant) {
        if let Some(watched) = self.jobs.get_mut(job_id) {
            watched.next = if watched.asked { watched.next.min(at) } else { at };
            watched.asked = true;
        }
    }

    /// Somebody wants every table looked at.
    pub(crate) fn poll_now(&mut self, now: BootInstant) {
        for watched in self.jobs.values_mut() {
            (watched.next, watched.asked) = (now, true);
        }
    }

    pub(crate) fn next_poll(&self) -> Option<BootInstant> {
        if self.in_flight() >= AT_ONCE {
            return None;
        }
        let idle = self.jobs.values().filter(|w| !w.in_flight);
        idle.map(|w| w.next).min()
    }

    fn in_flight(&self) -> usize {
        self.jobs.values().filter(|w| w.in_flight).count()
    }

    /// The tables to look at now, by job. `rank` says how many agents come before this one; `random` is
    /// uniform over all of `u64`.
    pub(crate) fn take_due(
        &mut self,
        now: BootInstant,
        rank: impl Fn(&str) -> usize,
        random: impl Fn() -> u64,
    ) -> Vec<String> {
        let mut free = AT_ONCE.saturating_sub(self.in_flight());
        let mut waiting: Vec<_> = self
            .jobs
            .iter_mut()
            .filter(|(_, w)| !w.in_flight && w.next <= now)
            .collect();
        // Who has waited longest comes first, so that slow tables do not keep one from ever being looked at.
        waiting.sort_by_key(|(_, w)| w.next);
        let mut due = Vec::new();
        for (job_id, watched) in waiting {
            if free == 0 {
                break;
            }
            let rank = rank(job_id);
            let polls = watched.asked || rank < TABLE_RANKS;
            watched.asked = false;
            let poll = if watched.problem.is_some() {
                watched.poll.max(REFUSED_POLL)
            } else {
                watched.poll
            };
            let poll = if rank == 0 { poll } else { poll * RARER };
            watched.next = now + jittered(poll, random());
            if polls {
                free -= 1;
                watched.in_flight = true;
                due.push(job_id.clone());
            }
        }
        due
    }

    /// A poll was answered; returns a problem that is news.
    pub(crate) fn polled(
        &mut self,
        job_id: &str,
        result: &Result<Dispatched, StoreError>,
        now: BootInstant,
    ) -> Option<String> {
        let watched = self.jobs.get_mut(job_id)?;
        watched.in_flight = false;
        let Ok(answer) = result else { return None };
        if answer.more {
            (watched.next, watched.asked) = (now, true);
        } else if answer.busy {
            (watched.next, watched.asked) = (watched.next.min(now + AGAIN_AFTER), true);
        }
        let news = answer.problem != watched.problem;
        watched.problem.clone_from(&answer.problem);
        answer.problem.clone().filter(|_| news)
    }

    /// Whether it is news that rows without a key wait.
    pub(crate) fn lacks_keys(&mut self, job_id: &str, answer: &Dispatched) -> bool {
        let before = self.jobs.get_mut(job_id).filter(|_| answer.problem.is_none());
        before
            .is_some_and(|watched| !std::mem::replace(&mut watched.keyless, answer.keyless) && answer.keyless)
    }
}

/// Between 80 and 120 % of `poll`, so that tables of one poll do not come all at once.
fn jittered(poll: Duration, random: u64) -> Duration {
    let fraction = (random >> 11) as f64 / (1u64 << 53) as f64;
    poll.mul_f64(0.8 + 0.4 * fraction)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: BootInstant = BootInstant(0);

    fn row(table: serde_json::Value) -> JobRow {
        JobRow {
            job_id: "t".to_owned(),
            rev: 1,
            seq: 1,
            spec: json!({"table": table}),
            enabled: true,
            paused: false,
            deleted: false,
            scheduled: false,
            next_run: None,
            decided_until: None,
        }
    }

    fn tables() -> Tables {
        let mut tables = Tables::default();
        tables.learn(
            &row(json!({"name": "n", "key": "k", "dispatch": "d", "poll": 5000})),
            START,
        );
        tables
    }

    fn take(tables: &mut Tables, now: BootInstant, rank: usize) -> usize {
        tables.take_due(now, |_| rank, || u64::MAX / 2).len()
    }

    fn answer(more: bool, busy: bool, problem: Option<&str>) -> Result<Dispatched, StoreError> {
        Ok(Dispatched {
            more,
            busy,
            problem: problem.map(str::to_owned),
            ..Dispatched::default()
        })
    }

    #[test]
    fn a_definition_without_a_pause_makes_no_loop() {
        let mut tables = Tables::default();
        let pauseless = json!({"name": "n", "key": "k", "dispatch": "d", "poll": 0});
        tables.learn(&row(pauseless), START);
        assert_eq!(take(&mut tables, START, 0), 1);
        tables.polled("t", &answer(false, false, None), START);
        assert!(tables.next_poll() >= Some(START + SECOND / 20));
    }

    #[test]
    fn slow_tables_wait_for_each_other_and_each_gets_its_turn() {
        let mut tables = Tables::default();
        for job in ["a", "b", "c", "d"] {
            tables.jobs.insert(
                job.to_owned(),
                Watched {
                    poll: SECOND,
                    next: START,
                    asked: false,
                    in_flight: false,
                    problem: None,
                    keyless: false,
                },
            );
        }
        let first = tables.take_due(START, |_| 0, || u64::MAX / 2);
        assert_eq!(first.len(), AT_ONCE);
        assert_eq!(tables.next_poll(), None, "a table that must wait wakes no one");
        assert!(tables.take_due(START + SECOND * 9, |_| 0, || 0).is_empty());
        tables.polled(&first[0], &answer(false, false, None), START + SECOND * 9);
        let next = tables.take_due(START + SECOND * 9, |_| 0, || u64::MAX / 2);
        assert_eq!(next.len(), 1);
        assert!(!first.contains(&next[0]), "who waited longest comes first");
    }

    #[test]
    fn the_first_agent_looks_at_each_poll_the_second_less_often_and_others_never() {
        for (rank, polls) in [(0, 12), (1, 4), (2, 0), (9, 0)] {
            let (mut tables, mut seen) = (tables(), 0);
            for second in 0..60 {
                let now = START + SECOND * second;
                seen += take(&mut tables, now, rank);
                tables.polled("t", &answer(false, false, None), now);
            }
            assert_eq!(seen, polls, "rank {rank}");
        }
    }

    #[test]
    fn whoever_is_asked_looks_once_and_not_while_it_is_looking() {
        let mut tables = tables();
        assert_eq!(take(&mut tables, START, 5), 0);
        tables.poll_at("t", START + SECOND);
        assert_eq!(tables.next_poll(), Some(START + SECOND));
        assert_eq!(take(&mut tables, START + SECOND, 5), 1);
        tables.poll_now(START + SECOND);
        assert_eq!(take(&mut tables, START + SECOND, 5), 0);
        tables.polled("t", &answer(false, false, None), START + SECOND);
        assert_eq!(take(&mut tables, START + SECOND, 5), 1);
        tables.polled("t", &answer(false, false, None), START + SECOND);
        assert_eq!(take(&mut tables, START + SECOND, 5), 0);
    }

    #[test]
    fn more_rows_are_looked_for_at_once_and_locked_ones_soon() {
        let mut tables = tables();
        take(&mut tables, START, 0);
        tables.polled("t", &answer(true, false, None), START);
        assert_eq!(tables.next_poll(), Some(START));
        take(&mut tables, START, 0);
        tables.polled("t", &answer(false, true, None), START);
        assert_eq!(tables.next_poll(), Some(START + AGAIN_AFTER));
    }

    #[test]
    fn a_problem_is_news_once_and_slows_the_polls() {
        let mut tables = tables();
        take(&mut tables, START, 0);
        let wrong = answer(false, false, Some("no table"));
        assert_eq!(tables.polled("t", &wrong, START).as_deref(), Some("no table"));
        let later = START + SECOND * 5;
        assert_eq!(take(&mut tables, later, 0), 1);
        assert_eq!(tables.polled("t", &wrong, later), None);
        assert!(tables.next_poll() >= Some(later + SECOND * 15));
    }

    #[test]
    fn rows_without_keys_are_news_once_until_there_are_none() {
        let mut tables = tables();
        let answer = |keyless| Dispatched {
            keyless,
            ..Dispatched::default()
        };
        let news = [false, true, true, false, true].map(|keyless| tables.lacks_keys("t", &answer(keyless)));
        assert_eq!(news, [false, true, false, false, true]);
    }

    #[test]
    fn a_paused_or_changed_job_is_no_longer_looked_at() {
        let mut tables = tables();
        tables.learn(
            &JobRow {
                paused: true,
                ..row(json!({"name": "n"}))
            },
            START,
        );
        assert_eq!(tables.next_poll(), None);
    }
}
