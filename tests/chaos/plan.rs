//! A small scale of the suite (`tests/chaos/run`): the same farm, faults and oracle, with a seed that never changes.

use std::time::Duration;

use farmhand_tests::chaos::plan::{Plan, Shape};
use farmhand_tests::chaos::report;
use farmhand_tests::chaos::run::{Options, run};

fn shape(lasts_ms: u64) -> Shape {
    Shape {
        agents: 4,
        lasts_ms,
        faults_per_hour: 3_000,
        pgbouncer: false,
        failovers: true,
        listeners: 100,
        declared_percent: 0,
    }
}

/// Of lateness alone: this machine may be busy.
fn patient() -> Options {
    Options {
        tolerance: Duration::from_secs(10),
        ..Options::default()
    }
}

#[test]
fn a_minute_of_faults_from_a_fixed_seed_breaks_no_promise() {
    let plan = Plan::new(20, shape(45_000));
    let outcome = run(&plan, &patient());
    let text = report::text(&plan, &outcome);
    println!("{text}");
    assert!(outcome.is_clean(), "{text}");
    assert!(outcome.count() > 25 && outcome.verdict.runs > 100, "{text}");
    assert!(outcome.instants > 100 && outcome.submitted > 10, "{text}");
}
