//! The oracle itself, on histories that are forged: it must see each violation, and nothing else.

use std::time::Duration;

use farmhand_tests::chaos::oracle::{Broken, Done, History, Kind, Row, Takeover, Verdict, Window, check};
use farmhand_tests::chaos::plan::{Act, Fault, Plan, Shape};
use farmhand_tests::chaos::targets::{self, Definition, Mismatch, Record, Span};
use farmhand_tests::witness::{Seen, What};
use jiff::Timestamp;

const SECOND: u64 = 1_000_000_000;

/// A line of run 1 of `job`, `at` tenths of a second after the beginning.
fn line(what: What, at: u64, attempt: i32, node: &str) -> Seen {
    Seen {
        at: at * SECOND / 10,
        what,
        job: "job".to_owned(),
        run: 1,
        attempt,
        fence: i64::from(attempt) * 10,
        node: node.to_owned(),
        pid: 100 + attempt,
        due: "-".to_owned(),
    }
}

fn of_run(run: i64, line: Seen) -> Seen {
    Seen { run, ..line }
}

fn row(state: &str, attempt: i32) -> Row {
    Row {
        run: 1,
        job: "job".to_owned(),
        state: state.to_owned(),
        attempt,
        fence: Some(i64::from(attempt) * 10),
        exit_code: (state == "succeeded").then_some(0),
        reason: None,
        takeovers: 0,
    }
}

/// An attempt that was cut off and one that came to its end: nothing is wrong with it.
fn sound() -> History {
    History {
        kinds: vec![Kind {
            job: "job".to_owned(),
            prompt: true,
            ..Kind::default()
        }],
        nodes: ["n1", "n2", "n3"].map(str::to_owned).to_vec(),
        lines: vec![
            line(What::Start, 1000, 1, "n1"),
            line(What::Beat, 1010, 1, "n1"),
            line(What::Start, 1050, 2, "n2"),
            line(What::Beat, 1060, 2, "n2"),
            line(What::End, 1070, 2, "n2"),
        ],
        rows: vec![row("succeeded", 2)],
        done: vec![done("n1", 1005, 1100)],
        submitted: vec![1],
        takeover: Some(Takeover {
            within: Duration::from_millis(5300),
            tolerance: Duration::ZERO,
            settled: Duration::from_secs(8),
        }),
        ..History::default()
    }
}

fn done(node: &str, from: u64, to: u64) -> Done {
    Done {
        from: from * SECOND / 10,
        to: to * SECOND / 10,
        node: Some(node.to_owned()),
        database: false,
        what: "killed".to_owned(),
    }
}

fn found(verdict: &Verdict) -> Vec<Broken> {
    verdict.undeclared().map(|v| v.broken).collect()
}

fn window(node: &str, from: u64, to: u64) -> Window {
    Window {
        node: node.to_owned(),
        from: from * SECOND / 10,
        to: to * SECOND / 10,
        why: "warden and guard killed".to_owned(),
    }
}

/// A beat of the first attempt after the second has begun.
fn two_lives() -> History {
    let mut history = sound();
    history.lines.insert(4, line(What::Beat, 1061, 1, "n1"));
    history
}

#[test]
fn a_sound_history_passes_and_its_takeover_is_measured() {
    let verdict = check(&sound());
    assert_eq!(found(&verdict), []);
    assert_eq!((verdict.runs, verdict.attempts), (1, 2));
    assert_eq!(verdict.takeovers, [Duration::from_millis(4500)]);
}

#[test]
fn a_line_of_an_older_attempt_after_a_newer_one_is_seen_with_the_story_of_the_run() {
    let verdict = check(&two_lives());
    assert_eq!(found(&verdict), [Broken::TwoLives]);
    let story = verdict.violations[0].history.join("\n");
    for part in ["attempt 1", "attempt 2", "n1: killed begins", "recorded"] {
        assert!(story.contains(part), "{part}: {story}");
    }
}

#[test]
fn the_same_line_before_it_is_no_violation_whatever_the_clock_says() {
    let mut history = sound();
    history.lines.insert(2, line(What::Beat, 1061, 1, "n1"));
    history.takeover = None;
    assert_eq!(found(&check(&history)), []);
}

#[test]
fn a_declared_window_excuses_two_lives_on_its_node_and_says_which() {
    let mut history = two_lives();
    history.windows.push(window("n1", 1000, 1100));
    let verdict = check(&history);
    assert_eq!(found(&verdict), []);
    assert_eq!(verdict.violations[0].broken, Broken::TwoLives);
    assert!(verdict.violations[0].declared.is_some());
}

#[test]
fn a_window_of_another_node_or_another_time_excuses_nothing() {
    for other in [
        window("n2", 1000, 1100),
        window("n1", 900, 1000),
        window("n1", 1070, 1100),
    ] {
        let mut history = two_lives();
        history.windows.push(other);
        assert_eq!(found(&check(&history)), [Broken::TwoLives]);
    }
}

#[test]
fn no_window_excuses_a_job_with_a_pid_namespace() {
    let mut history = two_lives();
    history.windows.push(window("n1", 1000, 1100));
    history.kinds[0].isolated = true;
    assert_eq!(found(&check(&history)), [Broken::TwoLives]);
}

#[test]
fn a_lock_that_was_taken_is_seen() {
    let mut history = sound();
    history.lines.insert(2, line(What::Clash, 1049, 2, "n2"));
    assert_eq!(found(&check(&history)), [Broken::Clash]);
}

#[test]
fn one_attempt_started_twice_is_seen() {
    let mut history = sound();
    history.lines.insert(3, line(What::Start, 1055, 2, "n2"));
    assert_eq!(found(&check(&history)), [Broken::StartedTwice]);
}

#[test]
fn a_fence_that_does_not_grow_is_seen() {
    let mut history = sound();
    history.lines.iter_mut().for_each(|l| l.fence = 10);
    history.rows[0].fence = Some(10);
    assert_eq!(found(&check(&history)), [Broken::FenceNotGrowing]);
}

#[test]
fn an_end_by_an_attempt_that_had_a_successor_is_seen() {
    let mut history = sound();
    history.rows = vec![row("succeeded", 1)];
    assert_eq!(
        found(&check(&history)),
        [Broken::StaleFinish, Broken::FalseSuccess]
    );
}

#[test]
fn an_end_with_the_fence_of_another_claim_is_seen() {
    let mut history = sound();
    history.rows[0].fence = Some(11);
    assert_eq!(found(&check(&history)), [Broken::StaleFinish]);
}

#[test]
fn a_success_that_nobody_saw_is_seen() {
    let mut history = sound();
    history.lines.pop();
    assert_eq!(found(&check(&history)), [Broken::FalseSuccess]);
    history.lines.clear();
    assert_eq!(found(&check(&history)), [Broken::FalseSuccess]);
}

#[test]
fn two_runs_at_once_of_a_job_that_overlaps_with_nothing_are_seen() {
    let mut history = sound();
    history.lines.push(of_run(2, line(What::Start, 1065, 1, "n3")));
    history.lines.push(of_run(2, line(What::End, 1080, 1, "n3")));
    history.rows.push(Row {
        run: 2,
        ..row("succeeded", 1)
    });
    assert_eq!(found(&check(&history)), []);
    history.kinds[0].alone = true;
    assert_eq!(found(&check(&history)), [Broken::NotAlone]);
}

#[test]
fn a_second_attempt_of_a_job_that_runs_at_most_once_is_seen() {
    let mut history = sound();
    history.kinds[0].at_most_once = true;
    assert_eq!(found(&check(&history)), [Broken::MoreThanOnce]);
}

#[test]
fn a_takeover_that_comes_late_is_seen_where_somebody_could_have() {
    let mut late = sound();
    for line in &mut late.lines[2..] {
        line.at += 2 * SECOND;
    }
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    let mut nobody = late.clone();
    nobody.done.extend([done("n2", 980, 990), done("n3", 1020, 1030)]);
    assert_eq!(found(&check(&nobody)), []);
    let mut away = late.clone();
    away.done.push(Done {
        node: None,
        database: true,
        ..done("", 1020, 1030)
    });
    assert_eq!(found(&check(&away)), []);
    late.takeover = late.takeover.map(|t| Takeover {
        tolerance: Duration::from_secs(3),
        ..t
    });
    assert_eq!(found(&check(&late)), []);
}

#[test]
fn an_acknowledged_submission_without_an_outcome_is_seen() {
    let mut history = sound();
    history.submitted.push(2);
    assert_eq!(found(&check(&history)), [Broken::Forgotten]);
    history.rows.push(Row {
        run: 2,
        ..row("due", 0)
    });
    assert_eq!(found(&check(&history)), [Broken::Forgotten]);
}

#[test]
fn an_attempt_without_a_record_is_seen() {
    let mut history = sound();
    history.rows.clear();
    history.submitted.clear();
    assert_eq!(found(&check(&history)), [Broken::Unknown]);
}

#[test]
fn what_is_left_behind_is_seen() {
    let mut history = sound();
    history.left = vec!["n1 has 400 descriptors open".to_owned(), "2 live runs".to_owned()];
    assert_eq!(found(&check(&history)), [Broken::Left, Broken::Left]);
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a time")
}

fn record(from: i64, to: i64, state: &str) -> Record {
    Record {
        run: from,
        job: "tick".to_owned(),
        instance: 0,
        node: None,
        state: state.to_owned(),
        reason: None,
        first_due: at(from),
        last_due: at(to),
        count: (to - from) / 2 + 1,
        began: None,
    }
}

/// Every two seconds; 1,700,000,000 is an even one.
fn every_two_seconds(records: &[Record]) -> Vec<Mismatch> {
    let definition = Definition {
        job: "tick".to_owned(),
        schedule: "*/2 * * * * *".to_owned(),
        instances: 1,
        each_node: false,
    };
    let span = Span {
        from: at(0),
        to: at(10),
        tolerance: Some(Duration::from_secs(5)),
        clock_error: Duration::from_millis(20),
    };
    targets::check(&definition, records, &span)
}

fn all() -> Vec<Record> {
    vec![
        record(2, 2, "succeeded"),
        record(4, 6, "skipped"),
        record(8, 8, "failed"),
        record(10, 10, "succeeded"),
        record(12, 12, "succeeded"),
    ]
}

#[test]
fn a_schedule_whose_instants_have_one_outcome_each_passes() {
    assert_eq!(every_two_seconds(&all()), []);
}

#[test]
fn a_missing_run_is_reported_with_its_neighbours() {
    let mut records = all();
    records.remove(2);
    let found = every_two_seconds(&records);
    let [Mismatch::Missing { due, neighbours, .. }] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((*due, neighbours.len()), (at(8), 4));
}

#[test]
fn extra_double_and_miscounted_records_are_reported() {
    let with = |record: Record| {
        let mut records = all();
        records.push(record);
        every_two_seconds(&records)
    };
    assert!(matches!(
        with(record(7, 7, "succeeded"))[..],
        [Mismatch::Extra { .. }]
    ));
    assert!(matches!(
        with(record(8, 8, "succeeded"))[..],
        [Mismatch::Twice { .. }]
    ));
    let mut records = all();
    records[1].count = 3;
    assert!(matches!(
        every_two_seconds(&records)[..],
        [Mismatch::Miscounted { instants: 2, .. }]
    ));
    records = all();
    records[0].state = "running".to_owned();
    assert!(matches!(
        every_two_seconds(&records)[..],
        [Mismatch::Unfinished { .. }]
    ));
}

#[test]
fn what_begins_before_its_time_or_too_late_is_reported() {
    let begun = |after: Duration, before: Duration| {
        let mut records = all();
        records[0].began = Some(records[0].first_due + after - before);
        every_two_seconds(&records)
    };
    let (no, soon, late) = (Duration::ZERO, Duration::from_millis(100), Duration::from_secs(6));
    assert_eq!(begun(soon, no), []);
    assert!(matches!(begun(no, soon)[..], [Mismatch::Early { .. }]));
    assert!(matches!(begun(late, no)[..], [Mismatch::Late { .. }]));
}

#[test]
fn each_shard_of_an_instant_needs_its_own_outcome_unless_all_were_skipped() {
    let definition = Definition {
        job: "tick".to_owned(),
        schedule: "*/2 * * * * *".to_owned(),
        instances: 2,
        each_node: false,
    };
    let span = Span {
        from: at(0),
        to: at(4),
        tolerance: None,
        clock_error: Duration::ZERO,
    };
    let second = Record {
        instance: 1,
        ..record(2, 2, "succeeded")
    };
    let whole = record(4, 4, "skipped");
    let records = [record(2, 2, "succeeded"), second, whole.clone()];
    assert_eq!(targets::check(&definition, &records, &span), []);
    let found = targets::check(&definition, &[records[0].clone(), whole], &span);
    assert!(
        matches!(found[..], [Mismatch::Missing { instance: 1, .. }]),
        "{found:?}"
    );
}

fn shape() -> Shape {
    Shape {
        agents: 5,
        lasts_ms: 3_600_000,
        faults_per_hour: 3_000,
        pgbouncer: false,
        failovers: true,
        listeners: 1_000,
        declared_percent: 3,
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
    let names: std::collections::BTreeSet<String> = hours.map(|e| e.fault.name()).collect();
    // 26 combinations of kill and stop, three ways to drop packets, and nine others.
    assert_eq!(names.len(), 26 + 3 + 9, "{names:?}");
    for epoch in plan.events.chunk_by(|a, b| a.at_ms / 60_000 == b.at_ms / 60_000) {
        let hit: std::collections::BTreeSet<usize> = epoch.iter().filter_map(|e| e.fault.agent()).collect();
        assert!(hit.len() < 5, "{hit:?}");
    }
}

#[test]
fn what_the_plan_declares_is_the_loss_of_the_guard_with_somebody_else() {
    let plan = Plan::new(7, shape());
    let mut declared = 0;
    for event in &plan.events {
        let Fault::Processes {
            own, warden, guard, ..
        } = event.fault
        else {
            assert!(!event.declared);
            continue;
        };
        let alone = warden == Act::Nothing && own == Act::Nothing;
        assert_eq!(event.declared, guard != Act::Nothing && !alone, "{event:?}");
        declared += usize::from(event.declared);
    }
    assert!(declared > 0);
}
