//! The oracle itself, on histories that are forged: it must see each violation, and nothing else.

use std::time::Duration;

use farmhand_tests::chaos::oracle::{Broken, Done, History, Kind, Row, Takeover, Verdict, Window, check};
use farmhand_tests::witness::{Seen, What};

pub const SECOND: u64 = 1_000_000_000;

/// A line of run 1 of `job`, `at` tenths of a second after the beginning.
pub fn line(what: What, at: u64, attempt: i32, node: &str) -> Seen {
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

pub fn of_run(run: i64, line: Seen) -> Seen {
    let fence = line.fence + (run - 1) * 1000;
    Seen { run, fence, ..line }
}

pub fn row(state: &str, attempt: i32) -> Row {
    Row {
        run: 1,
        job: "job".to_owned(),
        state: state.to_owned(),
        attempt,
        fence: Some(i64::from(attempt) * 10),
        exit_code: (state == "succeeded").then_some(0),
        signal: None,
        reason: None,
        takeovers: 0,
        running_at: Some(format!("n{attempt}")),
        finished_at: Some(1071 * SECOND / 10),
        idempotency_key: None,
    }
}

/// An attempt that was cut off and one that came to its end: nothing is wrong with it.
pub fn sound() -> History {
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
            tolerance: Duration::ZERO,
            shortest: Duration::from_secs(3),
            settled: Duration::from_secs(8),
        }),
        ..History::default()
    }
}

pub fn done(node: &str, from: u64, to: u64) -> Done {
    Done {
        from: from * SECOND / 10,
        to: to * SECOND / 10,
        node: Some(node.to_owned()),
        lease: Duration::from_secs(3),
        database: false,
        other_address: None,
        what: "killed".to_owned(),
    }
}

pub fn found(verdict: &Verdict) -> Vec<Broken> {
    verdict.undeclared().map(|v| v.broken).collect()
}

pub fn window(node: &str, from: u64, to: u64) -> Window {
    Window {
        node: node.to_owned(),
        from: from * SECOND / 10,
        to: to * SECOND / 10,
        why: "warden and reaper killed".to_owned(),
    }
}

/// A beat of the first attempt after the second has begun.
pub fn two_lives() -> History {
    let mut history = sound();
    history.lines.insert(4, line(What::Beat, 1061, 1, "n1"));
    history
}

/// The second attempt and the end of the run.
pub fn two_seconds_later(history: History) -> History {
    later(history, 2 * SECOND)
}

pub fn later(mut history: History, by: u64) -> History {
    let second = history
        .lines
        .iter_mut()
        .filter(|line| (line.run, line.attempt) == (1, 2));
    second.for_each(|line| line.at += by);
    history.rows[0].finished_at = history.rows[0].finished_at.map(|at| at + by);
    history
}

pub fn took(verdict: &Verdict) -> Vec<Duration> {
    verdict.takeovers.iter().map(|timed| timed.took).collect()
}

/// The record of another run, which lived on the third node.
pub fn of_run_2() -> Row {
    Row {
        run: 2,
        fence: Some(1010),
        running_at: Some("n3".to_owned()),
        finished_at: Some(1081 * SECOND / 10),
        ..row("succeeded", 1)
    }
}

#[test]
fn a_sound_history_passes_and_its_takeover_is_measured() {
    let verdict = check(&sound());
    assert_eq!(found(&verdict), []);
    assert_eq!((verdict.runs, verdict.attempts), (1, 2));
    assert_eq!(took(&verdict), [Duration::from_millis(4500)]);
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
fn a_declared_window_excuses_two_live_attempts_on_its_node_and_says_which() {
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
fn a_window_that_excused_one_line_hides_no_later_one() {
    let mut history = two_lives();
    history.windows.push(window("n1", 1000, 1062));
    history.lines.push(line(What::Beat, 1069, 1, "n1"));
    let verdict = check(&history);
    assert_eq!(found(&verdict), [Broken::TwoLives]);
    assert_eq!(verdict.violations.len(), 2);
    assert!(verdict.violations.iter().all(|v| v.broken == Broken::TwoLives));
}

#[test]
fn a_window_excuses_only_what_lives_on_its_own_node() {
    // Three attempts; the second of them is cut off and lives on, and the window is that of the first.
    let mut history = sound();
    history.lines[4] = line(What::Start, 1065, 3, "n3");
    history.lines.push(line(What::Beat, 1066, 2, "n2"));
    history.lines.push(line(What::End, 1070, 3, "n3"));
    history.rows = vec![row("succeeded", 3)];
    history.windows.push(window("n1", 1000, 1100));
    assert_eq!(found(&check(&history)), [Broken::TwoLives]);
    history.windows[0].node = "n2".to_owned();
    assert_eq!(found(&check(&history)), []);
}

#[test]
fn a_taken_lock_is_excused_by_a_window_of_an_older_attempt_alone() {
    let mut history = sound();
    history.lines.insert(2, line(What::Clash, 1049, 2, "n2"));
    for (node, seen) in [("n1", vec![]), ("n2", vec![Broken::Clash])] {
        history.windows = vec![window(node, 1000, 1100)];
        assert_eq!(found(&check(&history)), seen);
    }
    // The lock of an attempt that came after it.
    history.lines.remove(2);
    history.lines.insert(0, line(What::Clash, 1000, 1, "n1"));
    history.windows = vec![window("n2", 900, 1100)];
    assert_eq!(found(&check(&history)), [Broken::Clash]);
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
    assert_eq!(
        found(&check(&history)),
        [Broken::FenceNotGrowing, Broken::FenceRepeated]
    );
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
    history.rows.push(of_run_2());
    assert_eq!(found(&check(&history)), []);
    history.kinds[0].alone = true;
    assert_eq!(found(&check(&history)), [Broken::NotAlone]);
}

#[test]
fn two_runs_at_once_are_seen_beside_a_third_that_a_window_excuses() {
    let mut history = sound();
    history.kinds[0].alone = true;
    // The first attempt of run 1 outlives its node; runs 2 and 3 begin meanwhile, beside each other.
    let lived = [
        (1, "n1", 1000, 1300),
        (2, "n2", 1100, 1140),
        (3, "n3", 1120, 1160),
    ];
    history.lines = Vec::new();
    history.rows = Vec::new();
    for (run, node, from, to) in lived {
        for (what, at) in [(What::Start, from), (What::End, to)] {
            history.lines.push(of_run(run, line(what, at, 1, node)));
        }
        history.rows.push(Row {
            run,
            fence: Some(10 + (run - 1) * 1000),
            running_at: Some(node.to_owned()),
            finished_at: Some((to + 1) * SECOND / 10),
            ..row("succeeded", 1)
        });
    }
    history.windows.push(window("n1", 1000, 1300));
    let verdict = check(&history);
    assert_eq!(found(&verdict), [Broken::NotAlone]);
    let what = &verdict.undeclared().next().expect("one").what;
    assert!(what.contains("n2") && what.contains("n3"), "{what}");
}

#[test]
fn a_second_attempt_of_a_job_that_runs_at_most_once_is_seen() {
    let mut history = sound();
    history.kinds[0].at_most_once = true;
    assert_eq!(found(&check(&history)), [Broken::MoreThanOnce]);
}

#[test]
fn a_fault_between_two_beats_is_the_cause_and_not_one_that_changed_nothing_before() {
    // Killed just after its last beat, and taken over in time.
    let mut prompt = sound();
    prompt.done[0].from = 1011 * SECOND / 10;
    assert_eq!(took(&check(&prompt)), [Duration::from_millis(3900)]);
    let mut late = two_seconds_later(prompt.clone());
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    // After one that did it no harm: whichever of the two it was, it is late after the later one.
    late.done.push(done("n1", 975, 980));
    assert_eq!(found(&check(&late)), [Broken::LateTakeover]);
    // Long after its last beat it was nobody's end.
    prompt.done[0].from = 1020 * SECOND / 10;
    assert_eq!(took(&check(&prompt)), []);
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
