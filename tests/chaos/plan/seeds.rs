//! What follows from a seed: which faults, when, to whom.

use std::collections::BTreeSet;

use farmhand_tests::chaos::plan::{Act, Event, Fault, Plan, Shape};

fn shape() -> Shape {
    Shape {
        agents: 5,
        lasts_ms: 3_600_000,
        faults_per_hour: 3_000,
        pgbouncer: false,
        failovers: true,
        listeners: 1_000,
        declared_percent: 3,
        spared: None,
        leases: vec![3, 10, 30],
        only: None,
        patroni: 0,
    }
}

#[test]
fn a_plan_follows_from_its_seed_alone_and_is_read_back_as_it_was_written() {
    let plan = Plan::new(7, shape());
    assert_eq!(plan, Plan::new(7, shape()));
    assert_ne!(plan.events, Plan::new(8, shape()).events);
    assert_eq!(Plan::parse(&plan.to_json()), Ok(plan));
}

#[test]
fn an_hour_of_a_plan_has_its_faults_of_every_kind_and_always_leaves_somebody_alone() {
    let plan = Plan::new(7, shape());
    assert!(
        (2_700..3_300).contains(&plan.events.len()),
        "{}",
        plan.events.len()
    );
    // The rarer ones, in declared windows, need more than one hour.
    let hours = (7..12).flat_map(|seed| Plan::new(seed, shape()).events);
    let names: BTreeSet<String> = hours.map(|e| e.fault.name()).collect();
    // 26 combinations of kill and stop, three ways to drop packets, three that come in two kinds, and thirteen others.
    assert_eq!(names.len(), 26 + 3 + 6 + 13, "{names:?}");
    // Longer than the longest lease.
    for epoch in plan
        .events
        .chunk_by(|a, b| a.at_ms / 120_000 == b.at_ms / 120_000)
    {
        let hit: BTreeSet<usize> = epoch.iter().flat_map(|e| members(&e.fault)).collect();
        assert!(hit.len() < 5, "{hit:?}");
    }
}

fn members(fault: &Fault) -> std::ops::Range<usize> {
    match *fault {
        Fault::Rack { first, size } => first..first + size,
        // Its node goes on.
        Fault::Labels { .. } => 0..0,
        _ => fault.agent().map_or(0..0, |agent| agent..agent + 1),
    }
}

#[test]
fn a_plan_of_one_kind_has_no_other_and_racks_are_of_neighbours() {
    let only = |kind: &str| {
        let shape = Shape {
            only: Some(kind.to_owned()),
            lasts_ms: 600_000,
            ..shape()
        };
        Plan::new(7, shape).events
    };
    for kind in [
        "lease",
        "rack",
        "frozen",
        "no_forks",
        "labels",
        "rename",
        "slow_table",
        "failover",
    ] {
        let events = only(kind);
        assert!(events.len() > 20, "{kind}: {}", events.len());
        assert!(events.iter().all(|e| e.fault.kind() == kind), "{events:?}");
    }
    let sizes: BTreeSet<usize> = only("rack").iter().map(|e| members(&e.fault).len()).collect();
    assert_eq!(sizes, [2, 3, 4].into(), "one of five is left alone");
}

#[test]
fn what_the_plan_declares_is_the_loss_of_the_guard_with_somebody_else() {
    let plan = Plan::new(7, shape());
    let mut declared = 0;
    for event in &plan.events {
        let Fault::Processes {
            own, warden, reaper, ..
        } = event.fault
        else {
            assert!(!event.declared);
            continue;
        };
        let alone = warden == Act::Nothing && own == Act::Nothing;
        assert_eq!(event.declared, reaper != Act::Nothing && !alone, "{event:?}");
        declared += usize::from(event.declared);
    }
    assert!(declared > 0);
}

#[test]
fn a_plan_for_patroni_moves_the_primary_as_often_as_asked_and_leaves_agents_alone() {
    let plan = Plan::new(
        7,
        Shape {
            patroni: 100,
            ..shape()
        },
    );
    assert!(plan.events.iter().all(|e| e.fault.agent().is_none()));
    let stays = [Fault::DatabaseRestart, Fault::FailoverRefused];
    let (stay, moves): (Vec<&Event>, Vec<&Event>) =
        plan.events.iter().partition(|e| stays.contains(&e.fault));
    assert_eq!((stay.len(), moves.len()), (50, 100));
    let kinds: BTreeSet<String> = moves.iter().map(|e| e.fault.kind()).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
}
