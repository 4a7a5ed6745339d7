//! A machine that refuses to start what was claimed.

use crate::config::{Config, Guard};
use crate::state::{Held, Phase, Reply, Slot, State, Stmt, Warden};

impl State {
    /// The warden was asked for what this claim won, and the machine refused: it is given back.
    pub fn refuse_start(&mut self, cfg: &Config, h: usize, g: usize, lane: usize) -> Option<()> {
        if self.superseded(cfg, h, g) {
            return None;
        }
        let op = self.agent(h, g).lanes[lane]?;
        let (
            Stmt::Claim {
                session, incarnation, ..
            },
            Phase::Done(Reply::Claimed { run, attempt, fence }),
        ) = (op.stmt, op.phase)
        else {
            return None;
        };
        let r = usize::from(run);
        let serves =
            |w: &&mut Warden| !w.dead && !w.stuck && (w.session, w.incarnation) == (session, incarnation);
        let w = self.hosts[h].warden.as_mut().filter(serves)?;
        if w.barred[r] >= attempt || w.slots[r] != Slot::Empty || op.before_warden {
            return None;
        }
        w.late[r] = (attempt, fence);
        if cfg.has(Guard::TombstoneBeforeRelease) {
            self.hosts[h].bar(r, attempt);
        }
        self.budget.refused_starts -= 1;
        let agent = self.agent(h, g);
        agent.lanes[lane] = None;
        agent.release[r] = Some(Held {
            run,
            attempt,
            fence,
            address: op.address,
            session,
        });
        Some(())
    }

    pub fn late_start(&mut self, h: usize, r: usize) -> Option<()> {
        let w = self.hosts[h].warden.as_mut()?;
        let (attempt, fence) = std::mem::take(&mut w.late[r]);
        if w.barred[r] < attempt {
            self.broken.two_live |= matches!(w.slots[r], Slot::Live(_));
            (w.slots[r], w.fences[r]) = (Slot::Live(attempt), fence);
        }
        Some(())
    }
}
