//! What must hold in every state.

use stateright::Property;

use crate::actions::Protocol;
use crate::config::Config;
use crate::progress;
use crate::state::{RUNS, RunState, State};

pub const TWO_LIVE: &str = "a run has at most one live attempt";
pub const FREED: &str = "a run is let go only when its attempt is gone";
pub const STALE_WRITE: &str = "a stale holder changes nothing";
pub const FINAL_CHANGED: &str = "a run ends with exactly one outcome";
pub const ATTEMPTS_GROW: &str = "attempt numbers grow";
pub const FENCES_GROW: &str = "fences grow";
pub const FALSE_REPORT: &str = "an outcome that an agent reports is recorded";
pub const ORPHAN: &str = "a run is held by a living session only";
pub const STUCK: &str = "every run can still end";

pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(TWO_LIVE, |_, s: &State| {
            !s.broken.two_live && (0..RUNS).all(|r| s.live(r) <= 1)
        }),
        Property::always(FREED, |m: &Protocol, s: &State| {
            let gone = |r: usize| s.db.runs[r].state == RunState::Running || s.live(r) == 0;
            m.0.features.lossy || (0..RUNS).all(gone)
        }),
        Property::always(STALE_WRITE, |_, s: &State| !s.broken.stale_write),
        Property::always(FINAL_CHANGED, |_, s: &State| !s.broken.final_changed),
        Property::always(ATTEMPTS_GROW, |_, s: &State| !s.broken.attempt_not_growing),
        Property::always(FENCES_GROW, |_, s: &State| !s.broken.fence_not_growing),
        Property::always(FALSE_REPORT, |_, s: &State| !s.broken.false_report),
        Property::always(ORPHAN, |m: &Protocol, s: &State| {
            orphans_allowed(&m.0) || !s.db.has_orphan()
        }),
        Property::always(STUCK, |m: &Protocol, s: &State| progress::can_end(&m.0, s)),
    ]
}

fn orphans_allowed(cfg: &Config) -> bool {
    cfg.start == crate::config::Start::Orphan || cfg.features.lossy || cfg.faults.row_locks > 0
}

impl State {
    pub fn live(&self, run: usize) -> usize {
        self.hosts.iter().map(|h| h.live(run)).sum()
    }
}
