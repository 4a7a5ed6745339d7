use super::sample::{NOON, at, facts, outcome};
use super::*;
use crate::run::RunState;

fn parent(job: &str, running: &[i64]) -> Triggering {
    Triggering {
        job_id: job.to_owned(),
        on: "success".to_owned(),
        state: "enabled".to_owned(),
        next_run: None,
        running: running.to_vec(),
        running_at: (!running.is_empty()).then(|| "n2".to_owned()),
        last_state: Some("succeeded".to_owned()),
        last_finished: Some(at(NOON)),
    }
}

#[test]
fn a_triggered_job_says_for_which_parent_it_waits_since_when_and_what_would_free_it() {
    let mut facts = facts();
    facts.at = None;
    let known = facts.known.as_mut().unwrap();
    known.spec.schedule.clear();
    known.next_run = None;
    known.triggers = vec![parent("a", &[]), parent("b", &[9])];
    let idle = explain(&facts);
    assert_eq!(idle.held_by, Some(Gate::Trigger));
    assert_eq!(
        idle.answer,
        "it waits for a (its last run succeeded at 2027-03-10T12:00:00Z) and b (run 9 has not ended on n2)"
    );
    facts.known.as_mut().unwrap().waiting = vec![TriggerWait {
        parent: "a".to_owned(),
        run_id: 8,
        due_at: at(NOON),
        ended_at: at("2027-03-10T12:10:00Z"),
        waits: vec!["b".to_owned()],
    }];
    let meeting = explain(&facts);
    assert_eq!(
        meeting.answer,
        "run 8 of a ended, and it waits for b (run 9 has not ended on n2)"
    );
    let gate = meeting.gates.iter().find(|g| g.gate == Gate::Trigger).unwrap();
    assert_eq!(gate.since, Some(at("2027-03-10T12:10:00Z")));
    assert_eq!(gate.frees.as_deref(), Some("run 9 of b succeeds"));
    facts.at = Some(at(NOON));
    assert_eq!(explain(&facts).answer, meeting.answer);
}

#[test]
fn a_skip_with_details_is_told_by_its_word() {
    let mut facts = facts();
    let skip = outcome(RunState::Skipped, Some("trigger: run 5 of b failed"));
    facts.known.as_mut().unwrap().outcomes = vec![skip];
    let told = explain(&facts);
    assert_eq!(told.held_by, Some(Gate::Trigger));
    assert!(told.answer.contains("run 5 of b failed"), "{}", told.answer);
}

#[test]
fn a_parent_that_cannot_be_run_by_hand_is_not_said_to_be() {
    let mut facts = facts();
    facts.at = None;
    let known = facts.known.as_mut().unwrap();
    known.spec.schedule.clear();
    known.next_run = None;
    for state in ["disabled", "observing", "deleted"] {
        let known = facts.known.as_mut().unwrap();
        known.triggers = vec![Triggering {
            state: state.to_owned(),
            ..parent("a", &[])
        }];
        let told = explain(&facts);
        let gate = told.gates.iter().find(|g| g.gate == Gate::Trigger).unwrap();
        assert!(!gate.frees.as_ref().unwrap().contains("job run"), "{gate:?}");
    }
}
