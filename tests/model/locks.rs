//! Which rows the transactions in flight have locked.

use crate::config::{Config, Guard};
use crate::state::{ADDRESSES, Phase, RUNS, State, Stmt};

/// The locks that other transactions hold.
#[derive(Clone, Copy, Default)]
pub struct Locks {
    /// FOR KEY SHARE, per address.
    pub key_share: [bool; ADDRESSES],
    /// By an update that changes the session.
    pub exclusive: [bool; ADDRESSES],
    pub run: [bool; RUNS],
}

impl Locks {
    pub fn of(state: &State, cfg: &Config) -> Locks {
        let mut locks = Locks {
            run: state.locked,
            ..Locks::default()
        };
        let lanes = state
            .hosts
            .iter()
            .flat_map(|h| h.agents.iter().flatten())
            .flat_map(|a| a.lanes.iter());
        for op in lanes.chain(state.adrift.iter()).flatten() {
            if let Phase::Locked { pick, .. } = op.phase {
                match op.stmt {
                    Stmt::Claim { .. } => {
                        locks.key_share[usize::from(op.address)] |= cfg.has(Guard::KeyShareInClaim);
                        locks.run[usize::from(pick)] |= cfg.has(Guard::RowLockInClaim);
                    }
                    Stmt::Expire { address, .. } => locks.exclusive[usize::from(address)] = true,
                    Stmt::Close { .. } => locks.exclusive[usize::from(op.address)] = true,
                    _ => {}
                }
            }
        }
        locks
    }
}
