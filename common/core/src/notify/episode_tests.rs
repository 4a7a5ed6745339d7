use jiff::Timestamp;

use super::{End, Happening, Lost, State, Tell, Topic};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn end(run_id: i64, outcome: &str) -> End {
    End {
        run_id,
        attempt: 1,
        outcome: outcome.to_owned(),
        reason: None,
        exit_code: (outcome == "failed").then_some(3),
        signal: None,
        node: Some("n1".to_owned()),
        due: None,
        at: at(run_id * 10),
    }
}

fn failed(run_id: i64) -> Happening {
    Happening::Failed(end(run_id, "failed"))
}

fn good(run_id: i64) -> Happening {
    Happening::Succeeded(end(run_id, "succeeded"))
}

fn missed(second: i64) -> Happening {
    Happening::MissedDeadline {
        deadline: at(second),
        last_success: None,
    }
}

/// What is told of all of them, one after the other, and the state at the end.
fn told(all: &[Happening]) -> (Vec<Tell>, State) {
    let mut state = State::default();
    let mut tells = Vec::new();
    for happening in all {
        let (next, tell) = state.next("payroll", happening);
        state = next;
        tells.extend(tell);
    }
    (tells, state)
}

fn topics(all: &[Happening]) -> Vec<Topic> {
    told(all).0.iter().map(|t| t.topic).collect()
}

#[test]
fn a_week_of_failures_is_one_message_and_its_end_another() {
    let mut week: Vec<Happening> = (1..=7).map(failed).collect();
    week.extend([good(8), good(9)]);
    let (tells, state) = told(&week);
    assert_eq!(
        tells.iter().map(|t| t.topic).collect::<Vec<_>>(),
        [Topic::Failure, Topic::Recovery]
    );
    assert!(state.is_calm());
    let recovery = &tells[1].message;
    assert_eq!(
        (
            recovery.failures,
            recovery.first_failed_run,
            recovery.failing_since
        ),
        (Some(7), Some(1), Some(at(10)))
    );
    assert_eq!(
        recovery.text,
        "payroll succeeded again after 7 failed runs since 1970-01-01T00:00:10Z (run 8 on n1)"
    );
    assert_eq!(tells[0].message.text, "payroll failed: exit code 3 (run 1 on n1)");
}

#[test]
fn each_episode_has_a_message_of_its_own() {
    let all = [failed(1), good(2), failed(3), failed(4), good(5)];
    let (tells, _) = told(&all);
    let keys: Vec<&str> = tells.iter().map(|t| t.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "failure/payroll/1",
            "recovery/payroll/2",
            "failure/payroll/3",
            "recovery/payroll/5"
        ]
    );
}

#[test]
fn a_job_that_succeeds_says_nothing() {
    assert_eq!(topics(&[good(1), good(2)]), []);
}

#[test]
fn a_missed_deadline_is_told_once_until_the_next_success() {
    let all = [missed(100), missed(100), missed(100), good(3), missed(400)];
    assert_eq!(topics(&all), [Topic::Deadline, Topic::Recovery, Topic::Deadline]);
}

#[test]
fn a_job_that_failed_and_is_late_recovers_once() {
    let all = [failed(1), missed(100), failed(2), good(3), good(4)];
    let (tells, _) = told(&all);
    assert_eq!(
        tells.iter().map(|t| t.topic).collect::<Vec<_>>(),
        [Topic::Failure, Topic::Deadline, Topic::Recovery]
    );
    let recovery = &tells[2].message;
    assert_eq!((recovery.failures, recovery.deadline), (Some(2), Some(at(100))));
}

/// After a new definition, or a resumption, it waits for a later deadline.
#[test]
fn a_later_deadline_is_told_too_and_the_success_ends_both() {
    let all = [missed(100), missed(200), missed(200), failed(1), good(3)];
    let (tells, state) = told(&all);
    let keys: Vec<&str> = tells.iter().map(|t| t.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "deadline/payroll/1970-01-01T00:01:40Z",
            "deadline/payroll/1970-01-01T00:03:20Z",
            "failure/payroll/1",
            "recovery/payroll/3"
        ]
    );
    assert_eq!(tells[3].message.deadline, Some(at(200)));
    assert!(state.is_calm());
}

#[test]
fn a_takeover_is_told_by_run_or_by_firing_and_changes_nothing_else() {
    let lost = |run_id, firing| {
        Happening::Lost(Lost {
            run_id,
            firing,
            attempt: 1,
            node: "n1".to_owned(),
            reason: Some("session ended".to_owned()),
            due: None,
            at: at(1),
        })
    };
    let (tells, state) = told(&[lost(7, None), lost(8, Some(8)), lost(9, Some(8))]);
    let keys: Vec<&str> = tells.iter().map(|t| t.key.as_str()).collect();
    assert_eq!(keys, ["takeover/7", "takeover/8", "takeover/8"]);
    assert!(state.is_calm());
}
