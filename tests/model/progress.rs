//! Is a state a dead end? From a state in which nothing is in flight the faults stop, everybody who is
//! there does what is due, in a fixed order, and time passes: then every run must end.

use stateright::Model;

use crate::actions::{Action, Protocol};
use crate::config::{Config, Faults};
use crate::state::{HOSTS, RUNS, RunState, State, Stmt};

const ROUNDS: usize = 60;

/// True also for a state that is not quiet; its quiet successors are asked.
pub fn can_end(cfg: &Config, state: &State) -> bool {
    // Who waits for such a lock may wait for ever.
    let locked = state.locked.contains(&true);
    let agents = || state.hosts.iter().flat_map(|h| h.agents.iter().flatten());
    let quiet =
        agents().all(|a| a.lanes.iter().all(Option::is_none)) && state.adrift.iter().all(Option::is_none);
    let spent = state.budget.crashes == 0 && state.budget.lost_replies == 0 && state.budget.failovers == 0;
    !quiet && !locked || !spent || ends(cfg, *state)
}

fn ends(cfg: &Config, mut state: State) -> bool {
    let unlimited = Config {
        max_attempts: 60,
        max_session: [30; HOSTS],
        max_incarnations: 15,
        faults: Faults::default(),
        ..*cfg
    };
    let unlimited = Config {
        faults: Faults {
            hangs: cfg.faults.hangs,
            ..unlimited.faults
        },
        ..unlimited
    };
    let model = Protocol(unlimited);
    let mut actions = Vec::new();
    for _ in 0..ROUNDS {
        // What is locked waits, and nothing else.
        if (0..RUNS).all(|r| state.db.runs[r].state == RunState::Final || state.locked[r]) {
            return true;
        }
        // Within one tick each kind of step happens at most a few times, so renewals cannot starve time.
        for _ in 0..12 * HOSTS {
            actions.clear();
            model.actions(&state, &mut actions);
            actions.retain(helpful);
            actions.sort_by_key(urgency);
            let Some(after) = actions.iter().find_map(|a| state.after(&unlimited, *a)) else {
                break;
            };
            state = after;
        }
        state = state.after(&unlimited, Action::Tick).unwrap_or(state);
    }
    false
}

fn helpful(action: &Action) -> bool {
    match action {
        Action::Exit { ok, .. } => *ok,
        Action::Send { .. }
        | Action::Server { .. }
        | Action::Deliver { .. }
        | Action::TimeOut { .. }
        | Action::GuardKills { .. }
        | Action::StartAgent { .. }
        | Action::Adopt { .. } => true,
        _ => false,
    }
}

fn urgency(action: &Action) -> u8 {
    match action {
        Action::Deliver { .. } => 0,
        Action::Server { .. } => 1,
        Action::GuardKills { .. } | Action::Adopt { .. } | Action::StartAgent { .. } => 2,
        Action::Send { stmt, .. } => match stmt {
            Stmt::Release { .. } | Stmt::Finish { .. } | Stmt::Retry { .. } => 3,
            Stmt::Expire { .. } | Stmt::Sweep => 4,
            Stmt::OpenEpoch { .. } | Stmt::Close { .. } | Stmt::Open { .. } => 5,
            Stmt::Renew { .. } => 6,
            Stmt::Claim { .. } => 8,
            Stmt::Poll { .. } => 7,
        },
        Action::Exit { .. } => 9,
        _ => 10,
    }
}
