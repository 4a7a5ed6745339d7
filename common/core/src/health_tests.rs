use super::*;
use crate::run::RunState::{self, *};
use crate::trigger::FiringEnd;

/// What the runs of a firing make of it.
#[test]
fn a_firing_has_one_outcome() {
    let table: [(&[RunState], FiringEnd); 14] = [
        (&[], FiringEnd::None),
        (&[Succeeded], FiringEnd::Success),
        (&[Failed], FiringEnd::Failure),
        (&[TimedOut], FiringEnd::Failure),
        (&[Lost], FiringEnd::Failure),
        (&[Cancelled], FiringEnd::Cancelled),
        (&[Skipped], FiringEnd::Skipped),
        (&[Succeeded, Succeeded, Succeeded], FiringEnd::Success),
        (&[Succeeded, Failed, Succeeded, Succeeded], FiringEnd::Failure),
        (&[Failed, Succeeded], FiringEnd::Failure),
        (&[Lost, Cancelled], FiringEnd::Failure),
        (&[TimedOut, Skipped], FiringEnd::Failure),
        (&[Cancelled, Succeeded], FiringEnd::Cancelled),
        (&[Skipped, Succeeded], FiringEnd::Skipped),
    ];
    for (states, outcome) in table {
        assert_eq!(FiringEnd::of(states.iter().copied()), outcome, "{states:?}");
    }
}

/// What is known of a job, and what is shown of it: the word, and what a verdict makes of it.
#[test]
fn a_job_has_one_health() {
    let well = JobFacts {
        state: JobState::Enabled,
        overdue: false,
        failures: 0,
        waiting: false,
        running: false,
    };
    let failing = JobFacts { failures: 1, ..well };
    let (quiet, attention, trouble) = (Level::Well, Level::Attention, Level::Trouble);
    let table = [
        (well, "enabled", quiet),
        (
            JobFacts {
                running: true,
                ..well
            },
            "running",
            quiet,
        ),
        (
            JobFacts {
                waiting: true,
                ..well
            },
            "waiting",
            attention,
        ),
        (
            JobFacts {
                waiting: true,
                running: true,
                ..well
            },
            "waiting",
            attention,
        ),
        (failing, "failing", attention),
        (JobFacts { failures: 40, ..well }, "failing", attention),
        (
            JobFacts {
                running: true,
                ..failing
            },
            "failing",
            attention,
        ),
        (
            JobFacts {
                waiting: true,
                ..failing
            },
            "failing",
            attention,
        ),
        (
            JobFacts {
                overdue: true,
                ..well
            },
            "late",
            trouble,
        ),
        (
            JobFacts {
                overdue: true,
                ..failing
            },
            "late",
            trouble,
        ),
        (
            JobFacts {
                overdue: true,
                running: true,
                ..well
            },
            "late",
            trouble,
        ),
        (
            JobFacts {
                state: JobState::Paused,
                ..well
            },
            "paused",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Paused,
                ..failing
            },
            "paused",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Paused,
                running: true,
                ..well
            },
            "paused",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Observing,
                waiting: true,
                ..failing
            },
            "observing",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Observing,
                overdue: true,
                ..well
            },
            "late",
            trouble,
        ),
        (
            JobFacts {
                state: JobState::Paused,
                waiting: true,
                ..well
            },
            "paused",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Disabled,
                ..well
            },
            "disabled",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Disabled,
                ..failing
            },
            "disabled",
            quiet,
        ),
        (
            JobFacts {
                state: JobState::Disabled,
                overdue: true,
                ..well
            },
            "disabled",
            quiet,
        ),
    ];
    for (facts, word, level) in table {
        let health = JobHealth::of(&facts);
        assert_eq!((health.as_str(), health.level()), (word, level), "{facts:?}");
    }
}

#[test]
fn a_job_without_failures_is_never_shown_as_failing() {
    for (state, bits) in JobState::ALL
        .iter()
        .flat_map(|state| (0..8_u8).map(move |bits| (*state, bits)))
    {
        let bit = |n: u8| bits & (1 << n) != 0;
        let facts = JobFacts {
            state,
            overdue: bit(0),
            waiting: bit(1),
            running: bit(2),
            failures: 0,
        };
        assert_ne!(JobHealth::of(&facts), JobHealth::Failing, "{facts:?}");
    }
}

/// What is known of a node, and what is shown of it: the word, and what a verdict makes of it.
#[test]
fn a_node_has_one_state() {
    let open = NodeFacts {
        open: true,
        ..NodeFacts::default()
    };
    let (well, attention) = (Level::Well, Level::Attention);
    let table = [
        (open, "ready", well),
        (
            NodeFacts {
                cordoned: true,
                ..open
            },
            "cordoned",
            well,
        ),
        (
            NodeFacts {
                draining: true,
                ..open
            },
            "draining",
            well,
        ),
        (
            NodeFacts {
                refuses: true,
                ..open
            },
            "blocked",
            attention,
        ),
        (NodeFacts { over: true, ..open }, "expired", attention),
        // What was done to it on purpose says more than what its machine refuses.
        (
            NodeFacts {
                cordoned: true,
                draining: true,
                ..open
            },
            "draining",
            well,
        ),
        (
            NodeFacts {
                cordoned: true,
                refuses: true,
                ..open
            },
            "cordoned",
            well,
        ),
        (
            NodeFacts {
                draining: true,
                refuses: true,
                ..open
            },
            "draining",
            well,
        ),
        // A lease that is over says more than all of it.
        (
            NodeFacts {
                over: true,
                draining: true,
                cordoned: true,
                refuses: true,
                ..open
            },
            "expired",
            attention,
        ),
        // An open session is the present one.
        (
            NodeFacts {
                ended_lately: true,
                ..open
            },
            "ready",
            well,
        ),
        (NodeFacts::default(), "closed", well),
        (
            NodeFacts {
                ended_lately: true,
                ..NodeFacts::default()
            },
            "lost",
            attention,
        ),
        (
            NodeFacts {
                over: true,
                cordoned: true,
                refuses: true,
                ..NodeFacts::default()
            },
            "closed",
            well,
        ),
    ];
    for (facts, word, level) in table {
        let state = NodeState::of(&facts);
        assert_eq!((state.as_str(), state.level()), (word, level), "{facts:?}");
    }
}
