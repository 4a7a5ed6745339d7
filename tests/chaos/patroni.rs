//! Agents whose only word about the database is a URL that names the three members of a Patroni cluster. More of the same:
//! `tests/chaos/run --patroni 100`.

use std::time::Duration;

use farmhand_tests::chaos::plan::{Event, Fault, Plan, Shape};
use farmhand_tests::chaos::report;
use farmhand_tests::chaos::run::{Options, run};

/// One fault after the other, each as soon as the farm claims runs again.
fn faults_break_no_promise(seed: u64, pgbouncer: bool, faults: &[Fault]) {
    let events = faults.iter().zip(1..).map(|(fault, number)| Event {
        at_ms: number * 3_000,
        lasts_ms: 500,
        fault: *fault,
        declared: false,
    });
    let plan = Plan {
        seed,
        events: events.collect(),
        shape: Shape {
            agents: 3,
            lasts_ms: 0,
            faults_per_hour: 0,
            pgbouncer,
            failovers: true,
            listeners: 0,
            declared_percent: 0,
            spared: None,
            leases: vec![3],
            only: None,
            patroni: faults.len() as u64,
        },
    };
    // Of lateness alone: this machine may be busy.
    let options = Options {
        tolerance: Duration::from_secs(10),
        ..Options::default()
    };
    let outcome = run(&plan, &options);
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("patroni-{seed}"));
    report::write(&dir, &plan, &outcome).expect("the report's files");
    let text = report::text(&dir, &plan, &outcome);
    println!("{text}");
    assert!(outcome.is_clean(), "{text}");
    assert_eq!(outcome.count(), faults.len(), "{text}");
    assert!(outcome.faults.values().all(|met| met.hit == met.begun), "{text}");
    assert!(outcome.instants > 50 && outcome.submitted > 5, "{text}");
}

#[test]
fn agents_that_know_only_the_url_follow_patroni_and_break_no_promise() {
    let faults = [
        Fault::Switchover,
        Fault::Failover,
        Fault::DatabaseRestart,
        Fault::PrimaryCut,
        Fault::FailoverRefused,
    ];
    faults_break_no_promise(1, false, &faults);
}

#[test]
fn agents_behind_poolers_follow_patroni_and_break_no_promise() {
    faults_break_no_promise(2, true, &[Fault::PrimaryCut, Fault::Switchover]);
}

/// The primary's Patroni hangs: its PostgreSQL goes on, still says that it takes writes, and confirms no commit.
#[test]
fn agents_leave_a_primary_that_patroni_lost_sight_of_and_break_no_promise() {
    faults_break_no_promise(3, false, &[Fault::KeeperStopped]);
}
