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
//! | the definition is signed meanwhile | refusals of it are forgotten with that; the run goes on |

use farmhand_store::protocol::{self, FinishResult, GiveBack};
use farmhand_store::{Db, StoreError, signatures};

use super::report::Ended;
use crate::verdict::{self, Verdict};

/// Turns each refusal into what becomes of its run.
pub(super) async fn decide(db: &Db, ended: &mut [Ended]) -> Result<(), StoreError> {
    for e in ended {
        let Verdict::Refused { why } = &e.verdict else {
            continue;
        };
        let a = &e.assignment;
        let others = signatures::refuse(db, a.run_id, a.attempt, &e.address, why).await?;
        e.verdict = verdict::after_refusal(a.attempt, why.clone(), others);
    }
    Ok(())
}

pub(super) async fn give_back(db: &Db, ended: &[Ended]) -> Result<Vec<(i64, FinishResult)>, StoreError> {
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
            reason: reason.clone(),
            delay: *delay,
        })
    };
    let refused: Vec<GiveBack> = ended.iter().filter_map(row).collect();
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    protocol::give_back(db, &refused).await
}
