//! The protocol whole: nothing is found.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::actions::Protocol;
use crate::config::{Config, Faults, Features, Start, tight_ticks};
use crate::state::{HOSTS, State};

/// The second host watches the first, takes over, and neither opens a session twice.
pub fn takeover() -> Config {
    let (lease_ticks, wait_ticks) = tight_ticks(2);
    Config {
        name: "takeover",
        removed: [None; 3],
        addresses: [0, 1],
        hosts: HOSTS,
        runs: 1,
        lease_ticks,
        wait_ticks,
        longer: [[0; 2]; HOSTS],
        max_attempts: 2,
        max_session: [1, 1],
        max_incarnations: 1,
        max_lost_commits: 2,
        faults: Faults::default(),
        features: Features {
            watchers: 0b10,
            ..Features::default()
        },
        start: Start::AllOpen,
    }
}

/// Two agents, two runs: what one run's attempt may do to the other.
pub fn two_by_two() -> Config {
    Config {
        name: "two by two",
        runs: 2,
        max_attempts: 1,
        ..takeover()
    }
}

/// As `takeover`, with the database server's wall clock stepped and the server restarted.
pub fn wall_clock() -> Config {
    Config {
        name: "wall clock, restart",
        faults: Faults {
            wall_steps: 1,
            restarts: 1,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// The first host opens again after its session was taken.
pub fn return_of_the_first() -> Config {
    Config {
        name: "return of the first",
        max_session: [3, 1],
        max_incarnations: 2,
        ..takeover()
    }
}

/// One host, statements that outlive their client, failing attempts.
pub fn lost_replies() -> Config {
    Config {
        name: "lost replies",
        hosts: 1,
        max_session: [3, 1],
        max_incarnations: 2,
        faults: Faults {
            lost_replies: 2,
            ..Faults::default()
        },
        features: Features {
            failures: true,
            ..Features::default()
        },
        ..takeover()
    }
}

/// Agents crash and are started again, a second one adopts the warden from one that is merely slow.
pub fn adoption() -> Config {
    Config {
        name: "adoption",
        hosts: 1,
        faults: Faults {
            crashes: 1,
            second_agents: 1,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// The warden alone is killed; its guard is slow.
pub fn killed_warden() -> Config {
    Config {
        name: "killed warden",
        max_session: [3, 1],
        max_incarnations: 2,
        faults: Faults {
            warden_kills: 1,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// Two machines configured with one address.
pub fn same_address() -> Config {
    Config {
        name: "same address",
        addresses: [0, 0],
        max_session: [5, 5],
        features: Features {
            watchers: 0b11,
            ..Features::default()
        },
        start: Start::FirstOpen,
        ..takeover()
    }
}

/// A run that nobody's session holds any more is there from the start.
pub fn orphan() -> Config {
    Config {
        name: "orphan",
        max_session: [5, 1],
        max_incarnations: 2,
        max_attempts: 3,
        features: Features {
            watchers: 0b10,
            sweeps: true,
            ..Features::default()
        },
        start: Start::Orphan,
        ..takeover()
    }
}

/// The standby has everything that was committed.
pub fn failover() -> Config {
    Config {
        name: "failover",
        faults: Faults {
            failovers: 1,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// The standby lacks the last commits.
pub fn lossy_failover() -> Config {
    let cfg = failover();
    Config {
        name: "lossy failover",
        features: Features {
            lossy: true,
            ..cfg.features
        },
        ..cfg
    }
}

/// A second replacement, by a copy from before the first epoch was opened: its number must not be given again.
pub fn replaced_twice() -> Config {
    let cfg = lossy_failover();
    Config {
        name: "replaced twice",
        hosts: 1,
        max_lost_commits: 3,
        faults: Faults {
            failovers: 2,
            ..Faults::default()
        },
        features: Features {
            watchers: 0b01,
            ..cfg.features
        },
        ..cfg
    }
}

/// The same for one host alone, which opens again: what it did before must not meet what it does after.
pub fn lossy_failover_alone() -> Config {
    Config {
        name: "lossy failover alone",
        hosts: 1,
        max_session: [3, 1],
        max_incarnations: 2,
        max_lost_commits: 3,
        features: Features {
            lossy: true,
            watchers: 0b01,
            ..Features::default()
        },
        ..failover()
    }
}

/// Two machines with one address, and a failover that loses the session of the first: sessions and attempts get
/// the same numbers again.
pub fn lossy_same_address() -> Config {
    Config {
        name: "lossy, same address",
        addresses: [0, 0],
        features: Features {
            lossy: true,
            keep_session: true,
            watchers: 0b10,
            ..Features::default()
        },
        start: Start::Empty,
        ..failover()
    }
}

/// After its warden died by the timer, the agent keeps the session that nobody ended.
pub fn kept_session() -> Config {
    Config {
        name: "kept session",
        features: Features {
            keep_session: true,
            watchers: 0b10,
            ..Features::default()
        },
        ..takeover()
    }
}

/// The same while a newer agent takes the warden from a slow one.
pub fn kept_session_adopted() -> Config {
    Config {
        name: "kept session, adopted",
        hosts: 1,
        faults: Faults {
            second_agents: 1,
            ..Faults::default()
        },
        ..kept_session()
    }
}

/// The first host's warden falls into uninterruptible sleep beside an agent that is well.
pub fn stuck_warden() -> Config {
    Config {
        name: "stuck warden",
        faults: Faults {
            hangs: 1,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// The first host's machine refuses to start what was claimed; the second one takes it.
pub fn refused_starts() -> Config {
    Config {
        name: "refused starts",
        faults: Faults {
            refused_starts: 2,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// The first host is copied while it runs nothing; both go on with one session.
pub fn cloned() -> Config {
    Config {
        name: "cloned",
        faults: Faults {
            clones: 1,
            ..Faults::default()
        },
        ..same_address()
    }
}

/// Somebody locks a run, perhaps for ever, while each host takes over what the other one held.
pub fn locked_run() -> Config {
    Config {
        name: "locked run",
        runs: 2,
        faults: Faults {
            row_locks: 1,
            ..Faults::default()
        },
        features: Features {
            watchers: 0b11,
            sweeps: true,
            ..Features::default()
        },
        ..takeover()
    }
}

/// Breadth first from the start: everything, or in the daily run the first `daily` million states.
/// Fails with the shortest path to the first thing found.
pub fn explore(cfg: Config, daily: Option<usize>) {
    let full = std::env::var("FARMHAND_MODEL_SCALE").is_ok_and(|scale| scale == "full");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = Protocol(cfg)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures);
    let bound = daily.filter(|_| !full).map(|million| million * 1_000_000);
    if let Some(states) = bound {
        builder = builder.target_state_count(states);
    }
    let begun = Instant::now();
    let checker = builder.spawn_bfs().join();
    if let Some((property, steps, last)) = counter_examples(&checker).into_iter().next() {
        panic!("{}: not so: {property}\n{}\n{last:?}", cfg.name, steps.join("\n"));
    }
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let extent = if bound.is_some_and(|b| checker.state_count() >= b) {
        "bounded"
    } else {
        "exhausted"
    };
    println!(
        "{:<24} | {states:>9} states | depth {depth:>3} | {extent} | {:?}",
        cfg.name,
        begun.elapsed()
    );
}

/// Each broken property, the steps and the state they lead to.
pub fn counter_examples(checker: &impl Checker<Protocol>) -> Vec<(&'static str, Vec<String>, State)> {
    let found = checker.discoveries().into_iter().map(|(property, path)| {
        let last = *path.last_state();
        let steps = path
            .into_actions()
            .into_iter()
            .map(|a| format!("  {a:?}"))
            .collect();
        (property, steps, last)
    });
    found.collect()
}

macro_rules! holds {
    ($($scenario:ident $(to $daily:literal)?;)*) => {
        mod whole {
            $(#[test]
            fn $scenario() {
                super::explore(super::$scenario(), None$(.or(Some($daily)))?);
            })*
        }
    };
}

holds! {
    takeover;
    two_by_two to 4;
    wall_clock;
    return_of_the_first;
    lost_replies;
    adoption;
    killed_warden to 2;
    same_address;
    orphan;
    failover;
    lossy_failover to 2;
    lossy_failover_alone;
    replaced_twice to 2;
    lossy_same_address to 2;
    kept_session;
    kept_session_adopted;
    stuck_warden;
    refused_starts;
    cloned;
    locked_run to 2;
}
