//! The oracle on forged records: ends that are not those of what lived, fences, keys, and what agents say of themselves.

use farmhand_tests::chaos::oracle::{Broken, History, Row, Surprise, check};
use farmhand_tests::witness::{Seen, What};

use super::oracle::{SECOND, found, line, of_run, of_run_2, row, sound, window};

fn tenths(at: u64) -> Option<u64> {
    Some(at * SECOND / 10)
}

/// One run with these lines, recorded so.
fn history(lines: Vec<Seen>, row: Row) -> History {
    let mut history = sound();
    (history.lines, history.rows) = (lines, vec![row]);
    history
}

/// An attempt that began and came to its end.
fn whole(attempt: i32, from: u64, to: u64) -> Vec<Seen> {
    let node = format!("n{attempt}");
    vec![
        line(What::Start, from, attempt, &node),
        line(What::End, to, attempt, &node),
    ]
}

fn failed(attempt: i32, exit_code: Option<i32>) -> Row {
    Row {
        exit_code,
        ..row("failed", attempt)
    }
}

#[test]
fn a_late_end_of_an_older_attempt_is_seen_though_the_record_names_the_newer_one() {
    // Killed by its lease, and written over the attempt that had taken its place and was still going on.
    let mut history = sound();
    history.rows = vec![Row {
        signal: Some(9),
        finished_at: tenths(1055),
        ..failed(2, None)
    }];
    assert_eq!(found(&check(&history)), [Broken::LifeAfterEnd, Broken::WrongEnd]);
    history.rows = vec![Row {
        finished_at: tenths(1055),
        ..row("succeeded", 2)
    }];
    assert_eq!(
        found(&check(&history)),
        [Broken::LifeAfterEnd, Broken::FalseSuccess]
    );
}

#[test]
fn a_line_after_the_recorded_end_is_seen_outside_of_a_declared_window() {
    let mut history = sound();
    history.lines.push(line(What::Beat, 1075, 2, "n2"));
    assert_eq!(found(&check(&history)), [Broken::LifeAfterEnd]);
    history.windows.push(window("n2", 1000, 1100));
    let verdict = check(&history);
    assert_eq!((found(&verdict), verdict.violations.len()), (vec![], 1));
    history.kinds[0].isolated = true;
    assert_eq!(found(&check(&history)), [Broken::LifeAfterEnd]);
}

#[test]
fn a_record_that_names_another_node_than_the_attempts_own_is_seen() {
    let mut history = sound();
    history.rows[0].running_at = Some("n3".to_owned());
    assert_eq!(found(&check(&history)), [Broken::StaleFinish]);
}

#[test]
fn an_attempt_that_was_killed_before_its_first_line_may_be_the_last() {
    let mut history = sound();
    history.lines.truncate(2);
    history.kinds[0].at_most_once = true;
    history.rows = vec![Row {
        running_at: Some("n3".to_owned()),
        fence: Some(50),
        ..row("lost", 2)
    }];
    assert_eq!(found(&check(&history)), []);
}

#[test]
fn an_end_of_an_older_attempt_is_seen_in_whatever_state() {
    let mut history = sound();
    history.kinds[0].at_most_once = true;
    history.rows = vec![Row {
        finished_at: tenths(1071),
        ..row("lost", 1)
    }];
    assert_eq!(
        found(&check(&history)),
        [Broken::MoreThanOnce, Broken::StaleFinish]
    );
}

#[test]
fn a_run_that_came_to_its_end_is_recorded_as_nothing_but_a_success() {
    for state in ["failed", "lost", "cancelled", "skipped", "timed_out"] {
        let forged = history(whole(1, 1000, 1010), row(state, 1));
        assert_eq!(found(&check(&forged)), [Broken::WrongEnd], "{state}");
    }
    let sound = history(whole(1, 1000, 1010), row("succeeded", 1));
    assert_eq!(found(&check(&sound)), []);
}

#[test]
fn its_end_may_come_to_nothing_where_losing_it_says_so() {
    let mut lost = history(whole(1, 1000, 1010), row("lost", 1));
    lost.kinds[0].at_most_once = true;
    assert_eq!(found(&check(&lost)), []);
    // Moved from node to node, until that was enough.
    let poison = Row {
        reason: Some("poison".to_owned()),
        takeovers: 5,
        ..failed(6, None)
    };
    let mut moved = history(vec![line(What::Start, 1000, 6, "n6")], poison);
    assert_eq!(found(&check(&moved)), []);
    moved.rows[0].takeovers = 2;
    assert_eq!(found(&check(&moved)), [Broken::WrongEnd]);
}

#[test]
fn what_exits_with_an_error_fails_with_that_error_and_only_after_its_retries() {
    let retried = |lines: Vec<Seen>, row: Row| {
        let mut history = history(lines, row);
        (history.kinds[0].exit_code, history.kinds[0].retries) = (3, 2);
        found(&check(&history))
    };
    let three = || [whole(1, 1000, 1010), whole(2, 1020, 1030), whole(3, 1040, 1050)].concat();
    assert_eq!(retried(three(), failed(3, Some(3))), []);
    assert_eq!(retried(three(), row("succeeded", 3)), [Broken::WrongEnd]);
    assert_eq!(retried(three(), failed(3, Some(4))), [Broken::WrongEnd]);
    let once = whole(1, 1000, 1010);
    assert_eq!(retried(once, failed(1, Some(3))), [Broken::WrongEnd]);
    // One that was cut off is no retry, one that could not be started is.
    let cut_off = [whole(1, 1000, 1010), three()[2..3].to_vec(), whole(3, 1040, 1050)].concat();
    assert_eq!(retried(cut_off, failed(3, Some(3))), [Broken::WrongEnd]);
    let not_started = [whole(1, 1000, 1010), whole(3, 1040, 1050)].concat();
    assert_eq!(retried(not_started, failed(3, Some(3))), []);
}

#[test]
fn what_could_not_be_started_fails_without_a_line_and_nothing_else_does() {
    assert_eq!(found(&check(&history(vec![], failed(1, Some(126))))), []);
    let mut forged = history(vec![], failed(1, Some(3)));
    forged.kinds[0].exit_code = 3;
    assert_eq!(found(&check(&forged)), [Broken::WrongEnd]);
    let cut_off = history(vec![line(What::Start, 1000, 1, "n1")], failed(1, Some(1)));
    assert_eq!(found(&check(&cut_off)), [Broken::WrongEnd]);
    let mut in_part = cut_off;
    in_part.kinds[0].in_part = true;
    assert_eq!(found(&check(&in_part)), []);
}

#[test]
fn a_fence_that_was_given_to_two_runs_is_seen() {
    let mut history = sound();
    for what in [What::Start, What::End] {
        history.lines.push(of_run(2, line(what, 1080, 1, "n3")));
    }
    history.rows.push(of_run_2());
    assert_eq!(found(&check(&history)), []);
    for line in &mut history.lines[5..] {
        line.fence = 20;
    }
    history.rows[1].fence = Some(20);
    assert_eq!(found(&check(&history)), [Broken::FenceRepeated]);
    // Of an attempt that left no line the record says it.
    history.lines.truncate(5);
    history.rows[1] = Row {
        run: 2,
        fence: Some(10),
        ..failed(1, Some(126))
    };
    assert_eq!(found(&check(&history)), [Broken::FenceRepeated]);
}

#[test]
fn a_submission_that_made_two_runs_is_seen() {
    let submitted = |keys: &[&str], acknowledged: usize| {
        let mut history = sound();
        for (run, key) in (2..).zip(keys) {
            let lines = whole(1, 1000, 1010).into_iter();
            history.lines.extend(lines.map(|line| of_run(run, line)));
            history.rows.push(Row {
                run,
                fence: Some(10 + (run - 1) * 1000),
                idempotency_key: Some((*key).to_owned()),
                ..row("succeeded", 1)
            });
        }
        history.submitted = (2..).take(acknowledged).collect();
        found(&check(&history))
    };
    assert_eq!(submitted(&["a", "b"], 2), []);
    // The answer of the last one may still have been on its way.
    assert_eq!(submitted(&["a", "b"], 1), []);
    assert_eq!(submitted(&["a", "b", "c"], 1), [Broken::SubmittedTwice]);
    assert_eq!(submitted(&["a", "b", "a"], 3), [Broken::SubmittedTwice]);
}

#[test]
fn an_agent_that_ends_by_itself_needs_the_reason_that_is_known() {
    let mut history = sound();
    history.surprises = vec![Surprise {
        node: "n1".to_owned(),
        at: 1130 * SECOND / 10,
        status: "exit status: 1".to_owned(),
        said: "error: starting the warden: it ended".to_owned(),
    }];
    assert_eq!(found(&check(&history)), []);
    let otherwise: [fn(&mut Surprise); 4] = [
        |s| s.status = "signal: 6 (SIGABRT)".to_owned(),
        |s| s.said = "error: the address is taken".to_owned(),
        // Nothing had been done to its node then.
        |s| s.node = "n2".to_owned(),
        |s| s.at = 1201 * SECOND / 10,
    ];
    for change in otherwise {
        let mut forged = history.clone();
        change(&mut forged.surprises[0]);
        assert_eq!(found(&check(&forged)), [Broken::EndedByItself]);
    }
}

#[test]
fn a_panic_is_seen() {
    let mut history = sound();
    history.panics = vec!["n1: thread 'main' panicked at src/main.rs:1:1:".to_owned()];
    assert_eq!(found(&check(&history)), [Broken::Panicked]);
}

#[test]
fn the_states_of_all_records_are_counted_with_their_reasons() {
    let mut history = history(vec![], failed(1, Some(126)));
    history.rows[0].reason = Some("/runs/17.1: no space".to_owned());
    let ends = check(&history).ends;
    assert_eq!(
        ends.into_iter().collect::<Vec<_>>(),
        [("job failed: /runs/#.#: no space".to_owned(), 1)]
    );
}
