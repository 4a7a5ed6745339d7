//! The words that a CHECK allows in a column are those of the enum that is stored there.

use std::collections::BTreeSet;

use farmhand_core::attempt::RunKind;
use farmhand_core::run::RunState;
use farmhand_store::{AttemptOutcome, LogStream, Role, Severity};

use crate::fixture::Farm;

#[tokio::test]
async fn the_words_of_a_column_are_those_of_its_enum() {
    let farm = Farm::new().await;
    let words = |all: &[&'static str]| all.iter().copied().collect::<BTreeSet<_>>();
    let kinds: Vec<_> = RunKind::ALL
        .iter()
        .filter(|k| **k != RunKind::Unknown)
        .map(|k| k.as_str())
        .collect();
    let (ended, live): (Vec<RunState>, Vec<RunState>) = RunState::ALL.iter().partition(|s| s.is_final());
    let states = |states: Vec<RunState>| states.iter().map(|s| s.as_str()).collect::<Vec<_>>();
    let outcomes: Vec<_> = AttemptOutcome::ALL.iter().map(|o| o.as_str()).collect();
    let expected = [
        ("run_live", "kind", words(&kinds)),
        ("run_history", "kind", words(&kinds)),
        ("run_live", "state", words(&states(live))),
        ("run_history", "state", words(&states(ended))),
        ("attempt", "outcome", words(&outcomes)),
        (
            "run_log",
            "stream",
            LogStream::ALL.iter().map(|s| s.as_str()).collect(),
        ),
        (
            "event",
            "severity",
            Severity::ALL.iter().map(|s| s.as_str()).collect(),
        ),
        (
            "api_token",
            "role",
            Role::ALL.iter().map(|r| r.as_str()).collect(),
        ),
    ];
    for (table, column, expected) in expected {
        let checks = farm
            .sql
            .query(
                "SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c
                JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
                WHERE c.contype = 'c' AND c.conrelid = ('farmhand.' || $1)::regclass AND a.attname = $2",
                &[&table, &column],
            )
            .await
            .unwrap();
        assert_eq!(checks.len(), 1, "{table}.{column}");
        let check: String = checks[0].get(0);
        let allowed: BTreeSet<&str> = check.split('\'').skip(1).step_by(2).collect();
        assert_eq!(allowed, expected, "{table}.{column}");
    }
}
