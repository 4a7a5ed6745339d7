//! Runs whose definition this node would not execute: given back while another node might, failed when none is left.
//!
//! | interleaving | what happens |
//! | --- | --- |
//! | killed between the warden's refusal and its being written down | the next agent adopts the ended attempt and writes it down |
//! | every node refuses | each notes it before the run leaves it, so the last one knows, and the run fails with the reason |
//! | two refuse different runs of a revision at once | each sees the other as one that might; the next round of it does not |
//! | the only other node is full, or goes | the run waits for it; claims leave it to that node (`left_to_others` in the database) until that is no longer ready |
//! | killed before it is written down, and nobody adopts | the run is free again with the session; the refusal is made once more |
//! | the keys of a node change | its refusals are forgotten; one of the old keys that arrives later holds for ten minutes, during which others may run it |
//! | it is of a newer release, and every agent here is older | it is given back, later and later, until one is upgraded; a new session forgets its refusals |
//! | the definition is signed meanwhile | refusals of it are forgotten with that; the run goes on |

use std::time::Duration;

use farmhand_core::run::Outcome;
use farmhand_store::protocol::{self, Attempt, FinishResult, GiveBack};
use farmhand_store::{Db, StoreError, signatures};

use super::record::without_nul;
use super::report::Ended;
use crate::verdict::Verdict;

/// Turns each refusal into what becomes of its run.
pub(super) async fn decide(db: &Db, ended: &mut [Ended]) -> Result<(), StoreError> {
    for e in ended {
        let Verdict::Refused { why, newer } = &e.verdict else {
            continue;
        };
        let a = &e.assignment;
        let others = signatures::refuse(db, a.run_id, a.attempt, &e.address, &without_nul(why)).await?;
        e.verdict = after_refusal(a.attempt, why.clone(), *newer, others);
    }
    Ok(())
}

pub(super) async fn give_back(db: &Db, ended: &[Ended]) -> Result<Vec<(Attempt, FinishResult)>, StoreError> {
    let row = |e: &Ended| {
        let Verdict::GivenBack { reason, delay } = &e.verdict else {
            return None;
        };
        Some(GiveBack {
            run_id: e.assignment.run_id,
            attempt: e.assignment.attempt,
            fence: e.assignment.fence,
            address: e.address.clone(),
            session: e.assignment.session,
            reason: without_nul(reason),
            delay: *delay,
        })
    };
    let refused: Vec<GiveBack> = ended.iter().filter_map(row).collect();
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    protocol::give_back(db, &refused).await
}

/// What becomes of a run that this node would not execute, once it is known whether another might.
fn after_refusal(attempt: i32, why: String, newer: bool, others: bool) -> Verdict {
    if others {
        // At once, because whoever refused it leaves it to the others now. Later ones wait for longer and longer, so that
        // a farm whose nodes take turns in refusing, or forget that they did, does not do it without a pause.
        let later = |n: i32| Duration::from_millis(50 << (n - 2).min(10));
        let delay = if attempt <= 1 {
            Duration::ZERO
        } else {
            later(attempt)
        };
        return Verdict::GivenBack { reason: why, delay };
    }
    if newer {
        let delay = Duration::from_secs(1 << attempt.clamp(0, 6));
        return Verdict::GivenBack { reason: why, delay };
    }
    Verdict::Final {
        outcome: Outcome::Failed,
        reason: Some(why),
        again: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(newer: bool, others: bool) -> Verdict {
        after_refusal(1, "why".to_owned(), newer, others)
    }

    #[test]
    fn what_this_node_refuses_fails_when_no_other_node_might_run_it() {
        assert!(matches!(after(false, true), Verdict::GivenBack { delay, .. } if delay.is_zero()));
        assert!(matches!(after(false, false), Verdict::Final { .. }));
    }

    #[test]
    fn a_definition_of_a_newer_release_waits_for_an_agent_that_knows_it() {
        assert!(matches!(after(true, true), Verdict::GivenBack { delay, .. } if delay.is_zero()));
        for attempt in [1, 7, i32::MAX] {
            let again = after_refusal(attempt, "why".to_owned(), true, false);
            assert!(matches!(again, Verdict::GivenBack { delay, .. } if !delay.is_zero()));
        }
    }
}
