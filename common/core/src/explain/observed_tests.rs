use super::sample::{Case, check, outcome};
use super::*;
use crate::definition::Enabled;
use crate::run::RunState;

const CASES: &[Case] = &[
    (
        "a job that observes",
        |f, k| (f.at, k.spec.enabled) = (None, Enabled::Observe),
        Some(Gate::Enabled),
        "nothing of it is executed",
    ),
    (
        "an instant that was observed",
        |_, k| k.outcomes = vec![outcome(RunState::Skipped, Some("observed"))],
        Some(Gate::Enabled),
        "nothing of it is executed",
    ),
];

#[test]
fn what_is_observed_is_held_by_the_definition() {
    check(CASES);
}
