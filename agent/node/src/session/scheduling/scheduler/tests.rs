use serde_json::json;

use super::*;

fn ts(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn row(next_run: &str) -> JobRow {
    JobRow {
        job_id: "j".to_owned(),
        rev: 1,
        seq: 7,
        spec: json!({"schedule": ["* * * * *"], "catch_up": {"runs": "latest"}}),
        enabled: true,
        paused: false,
        deleted: false,
        scheduled: true,
        next_run: Some(ts(next_run)),
        decided_until: None,
    }
}

fn alone() -> Scheduler {
    let mut c = Scheduler::new("a");
    c.learn(&row("2026-11-21T12:00:00Z")).unwrap();
    c
}

/// A farm in which `a` is not among the first three for the instant at noon.
fn crowd() -> Vec<String> {
    let nodes = |n: usize| {
        (0..n)
            .map(|i| format!("n{i}"))
            .chain(["a".to_owned()])
            .collect::<Vec<_>>()
    };
    let noon = ts("2026-11-21T12:00:00Z").as_microsecond();
    (4..50)
        .map(nodes)
        .find(|live| rank("j", noon, "a", live) >= TRYING_RANKS)
        .unwrap()
}

#[test]
fn a_job_is_fired_when_it_is_due_and_not_before() {
    let mut c = alone();
    assert!(c.take_due(ts("2026-11-21T11:59:59.999Z")).is_empty());
    let fires = c.take_due(ts("2026-11-21T12:00:00.001Z"));
    assert_eq!(fires[0].due, [ts("2026-11-21T12:00:00Z")]);
    assert_eq!(fires[0].following, Some(ts("2026-11-21T12:01:00Z")));
    assert_eq!(c.next_due(), Some(ts("2026-11-21T12:01:00Z")));
}

#[test]
fn an_instant_that_others_fire_is_looked_past_and_the_job_is_not_forgotten() {
    let mut c = alone();
    c.set_live(crowd());
    assert!(c.take_due(ts("2026-11-21T12:00:01Z")).is_empty());
    assert!(c.take_due(ts("2026-11-21T12:00:03.1Z")).is_empty());
    assert!(c.next_due().unwrap() >= ts("2026-11-21T12:01:00Z"));
}

#[test]
fn what_nobody_fired_is_fired_by_whoever_sees_it() {
    let mut c = alone();
    c.set_live(crowd());
    let now = ts("2026-11-21T12:00:02Z");
    c.overdue(
        &[Overdue {
            job_id: "j".into(),
            rev: 1,
            next_run: ts("2026-11-21T12:00:00Z"),
        }],
        now,
    );
    assert_eq!(c.take_due(now).len(), 1);
}

#[test]
fn a_paused_job_is_not_waited_for() {
    let mut c = alone();
    c.learn(&JobRow {
        paused: true,
        seq: 8,
        ..row("2026-11-21T12:00:00Z")
    })
    .unwrap();
    assert_eq!((c.next_due(), c.seq()), (None, 8));
}

#[test]
fn a_poll_that_shows_less_than_was_known_when_it_was_sent_is_of_an_older_copy() {
    let mut c = alone();
    c.polls();
    assert!(!c.was_set_back(7) && !c.was_set_back(8));
    assert!(c.was_set_back(6));
    c.caught_up(9);
    assert!(!c.was_set_back(7), "read while the poll was under way");
    c.start_over();
    assert_eq!(c.seq(), 0);
    assert!(!c.was_set_back(6) && c.is_behind(6));
}

#[test]
fn a_job_that_a_copy_does_not_have_is_not_waited_for() {
    let mut c = alone();
    c.keep(&["j"].into());
    assert!(c.next_due().is_some());
    c.keep(&["other"].into());
    assert_eq!(c.next_due(), None);
}

#[test]
fn one_claim_is_in_flight_and_a_full_one_asks_for_more() {
    let mut c = alone();
    let now = BootInstant(0);
    assert_eq!(c.take_claim(now, 4, 4), Some(4));
    c.hint();
    assert_eq!(c.take_claim(now, 4, 4), None);
    c.claimed(Some(4));
    assert_eq!(c.take_claim(now, 2, 4), Some(2));
    c.claimed(Some(0));
    assert_eq!(c.take_claim(now, 2, 4), None);
    c.hint_if_backlog();
    assert_eq!(c.take_claim(now, 2, 4), None);
}

#[test]
fn with_a_backlog_a_claim_waits_a_moment_for_half_of_the_places() {
    let mut c = alone();
    let now = BootInstant(0);
    assert_eq!(c.take_claim(now, 1, 8), Some(1), "no backlog is known");
    c.claimed(Some(1));
    assert_eq!(c.take_claim(now, 1, 8), None);
    assert_eq!(c.next_hint(), Some(now + GATHER));
    assert_eq!(c.take_claim(now, 3, 8), None);
    assert_eq!(
        c.next_hint(),
        Some(now + GATHER),
        "the moment does not begin anew"
    );
    assert_eq!(c.take_claim(now, 4, 8), Some(4));
    assert_eq!(c.next_hint(), None);
    c.claimed(Some(4));
    assert_eq!(c.take_claim(now, 1, 8), None);
    assert_eq!(c.take_claim(now + GATHER, 1, 8), Some(1), "no longer than that");
    c.claimed(Some(0));
    c.hint();
    assert_eq!(c.take_claim(now, 1, 8), Some(1), "nothing was left");
}

#[test]
fn a_claim_that_gathers_is_not_waited_for_when_it_cannot_be_made() {
    let mut c = alone();
    let now = BootInstant(0);
    c.take_claim(now, 1, 8);
    c.claimed(Some(1));
    assert_eq!(c.take_claim(now, 1, 8), None);
    assert_eq!(c.take_claim(now, 0, 8), None);
    assert_eq!(c.next_hint(), None);
}

#[test]
fn a_place_that_a_claim_waits_with_is_not_for_what_is_fired_meanwhile() {
    let mut c = alone();
    let now = BootInstant(0);
    assert!(c.has_places());
    c.take_claim(now, 1, 8);
    assert!(!c.has_places(), "a claim is under way");
    c.claimed(Some(1));
    assert_eq!(c.take_claim(now, 1, 8), None);
    assert!(!c.has_places() && c.is_idle(), "it is for what waited before");
    assert_eq!(c.take_claim(now + GATHER, 1, 8), Some(1));
    c.claimed(Some(0));
    assert!(c.has_places());
    c.hint();
    assert!(c.has_places(), "nothing was left");
}

fn overdue(rev: i64, next_run: &str) -> [Overdue; 1] {
    [Overdue {
        job_id: "j".to_owned(),
        rev,
        next_run: ts(next_run),
    }]
}

#[test]
fn what_is_overdue_under_another_definition_waits_for_that_one() {
    let mut c = alone();
    c.overdue(&overdue(2, "2026-11-21T11:59:01Z"), ts("2026-11-21T11:59:02Z"));
    assert!(c.take_due(ts("2026-11-21T11:59:02Z")).is_empty());
    c.learn(&JobRow {
        rev: 2,
        seq: 8,
        spec: json!({"schedule": ["* * * * * *"]}),
        ..row("2026-11-21T11:59:01Z")
    })
    .unwrap();
    let fires = c.take_due(ts("2026-11-21T11:59:02Z"));
    assert_eq!(
        (fires[0].rev, fires[0].following),
        (2, Some(ts("2026-11-21T11:59:03Z")))
    );
}

#[test]
fn the_last_instant_is_fired_again_when_it_was_not_the_first_time() {
    let mut c = Scheduler::new("a");
    c.learn(&JobRow {
        spec: json!({"schedule": ["* * * * *"], "end": "2026-11-21T12:00:30Z"}),
        ..row("2026-11-21T12:00:00Z")
    })
    .unwrap();
    let now = ts("2026-11-21T12:00:01Z");
    assert_eq!(c.take_due(now)[0].following, None);
    c.set_live(crowd());
    assert!(
        (c.next_due(), c.take_due(now).is_empty()) == (None, true),
        "not by itself"
    );
    c.overdue(&overdue(1, "2026-11-21T12:00:00Z"), now);
    assert_eq!(c.take_due(now)[0].due, [ts("2026-11-21T12:00:00Z")]);
}

#[test]
fn a_job_is_in_one_statement_once_however_much_it_missed() {
    let mut c = Scheduler::new("a");
    let second = JobRow {
        spec: json!({"schedule": ["* * * * * *"]}),
        ..row("2026-11-09T12:00:00Z")
    };
    c.learn(&second).unwrap();
    let now = ts("2026-11-21T12:00:00Z");
    let first = c.take_due(now);
    assert_eq!(
        (first.len(), first[0].due.len()),
        (1, 0),
        "a part of it, all of it missed"
    );
    let rest = c.take_due(now);
    assert_eq!((rest.len(), rest[0].seen), (1, first[0].following.unwrap()));
    assert_eq!(
        (rest[0].due.as_slice(), c.take_due(now).len()),
        ([now].as_slice(), 0)
    );
}

#[test]
fn a_statement_makes_so_many_runs_and_leaves_the_other_jobs_to_the_next() {
    let mut c = Scheduler::new("a");
    for n in 0..30 {
        c.learn(&JobRow {
            job_id: format!("j{n}"),
            spec: json!({"schedule": ["* * * * *"], "catch_up": {"runs": "all", "max": 1_000}, "instances": 3}),
            ..row("2026-11-20T12:00:00Z")
        })
        .unwrap();
    }
    let now = ts("2026-11-21T12:00:00Z");
    let mut taken = Vec::new();
    while let Some(fires) = Some(c.take_due(now)).filter(|f| !f.is_empty()) {
        let runs: usize = fires.iter().map(|f| f.due.len() * 3).sum();
        assert!(runs < RUNS_BATCH + 3_000, "{runs}");
        taken.extend(fires.into_iter().map(|f| f.job_id));
    }
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 30);
}

#[test]
fn changes_that_are_of_no_job_are_not_asked_for_again() {
    let mut c = alone();
    assert!(c.is_behind(9));
    c.caught_up(9);
    assert!(!c.is_behind(9));
}

#[test]
fn a_database_that_lost_changes_is_read_anew() {
    let mut c = alone();
    let (rows, at) = (overdue(2, "2026-11-21T12:00:00Z"), |s: u64| {
        BootInstant(s * 1_000_000_000)
    });
    assert!(c.is_behind(8));
    assert!(!c.starts_over(&rows, at(0)), "the change is about to be read");
    c.caught_up(8);
    assert!(
        !c.starts_over(&overdue(1, "2026-11-21T12:00:00Z"), at(0)),
        "as it is known"
    );
    assert!(c.starts_over(&rows, at(1)));
    assert_eq!(c.seq(), 0);
    c.caught_up(8);
    assert!(!c.starts_over(&rows, at(60)) && c.starts_over(&rows, at(62)));
}

/// A job with a spread of two minutes, `late` after its whole second.
fn spread(name: &str) -> (Scheduler, Timestamp, Duration) {
    let row = JobRow {
        job_id: name.to_owned(),
        spec: json!({"schedule": ["0 12 * * *"], "spread": 120_000}),
        ..row("2026-11-21T12:01:00Z")
    };
    let spec: JobSpec = serde_json::from_value(row.spec.clone()).unwrap();
    let (schedule, _) = due::compile(name, &spec).unwrap();
    let instant = schedule.next_after(ts("2026-11-21T00:00:00Z")).unwrap();
    let mut c = Scheduler::new("a");
    c.learn(&JobRow {
        next_run: Some(instant),
        ..row
    })
    .unwrap();
    (c, instant, schedule.late_at(instant))
}

#[test]
fn jobs_of_one_second_fire_apart_from_each_other_and_no_poll_makes_them_earlier() {
    let named = (0..20).map(|n| format!("job{n}"));
    let name = named
        .into_iter()
        .find(|name| spread(name).2 >= Duration::from_millis(100))
        .unwrap();
    let (mut c, instant, late) = spread(&name);
    let at = instant + jiff::SignedDuration::try_from(late).unwrap();
    assert_eq!(c.next_due(), Some(at));
    let early = at - jiff::SignedDuration::from_millis(1);
    let seen = [Overdue {
        job_id: name.clone(),
        rev: 1,
        next_run: instant,
    }];
    c.overdue(&seen, early);
    assert_eq!(c.next_due(), Some(at), "it is not overdue yet");
    assert!(c.take_due(early).is_empty());
    let fires = c.take_due(at);
    assert_eq!(fires[0].due, [instant], "the instant is a whole second");
    assert_eq!(u128::try_from(fires[0].late_ms), Ok(late.as_millis()));
    // Missed by whoever should have fired it: at once.
    c.overdue(&seen, instant + jiff::SignedDuration::from_secs(5));
    assert!(c.next_due() < Some(instant + jiff::SignedDuration::from_secs(5)));
}

#[test]
fn a_statement_counts_the_runs_of_every_node() {
    let mut c = Scheduler::new("a");
    c.set_live((0..200).map(|n| format!("n{n}")).collect());
    let noon = "2026-11-21T12:00:00Z";
    let mut late = Vec::new();
    for n in 0..100 {
        let job_id = format!("j{n}");
        late.push(Overdue {
            job_id: job_id.clone(),
            rev: 1,
            next_run: ts(noon),
        });
        let spec = json!({"schedule": ["* * * * *"], "run_on": "each-node"});
        c.learn(&JobRow {
            job_id,
            spec,
            ..row(noon)
        })
        .unwrap();
    }
    let now = ts("2026-11-21T12:00:01Z");
    c.overdue(&late, now);
    assert_eq!(c.take_due(now).len(), 50, "201 runs each");
}

#[test]
fn a_statement_plans_so_many_instants_and_leaves_the_other_jobs_to_the_next() {
    let mut c = Scheduler::new("a");
    for n in 0..3 {
        let spec = json!({"schedule": ["* * * * * *"]});
        c.learn(&JobRow {
            job_id: format!("j{n}"),
            spec,
            ..row("2026-11-09T12:00:00Z")
        })
        .unwrap();
    }
    assert_eq!(c.take_due(ts("2026-11-21T12:00:00Z")).len(), 1);
}
