use serde_json::{Value, json};

use super::health::JobState;
use super::trigger::{Child, Decision, Firing};

fn child(spec: Value, parents: &[(&str, &str)], ends: Value) -> Child {
    let parents: Vec<Value> = parents
        .iter()
        .map(|(job, on)| json!({"job_id": job, "on": on}))
        .collect();
    serde_json::from_value(json!({
        "job_id": "c", "state": "enabled", "spec": spec,
        "parents": parents, "ends": ends,
    }))
    .unwrap()
}

fn end(id: i64, parent: &str, how: &str, others: Value) -> Value {
    json!({"id": id, "parent": parent, "run_id": 100 + id, "firing": null, "due_at": "2026-11-21T12:00:00Z",
        "by_hand": false, "end": how, "params": {"day": "2026-11-20", "other": 1}, "others": others})
}

fn ended(parent: &str, how: &str) -> Value {
    json!({"parent": parent, "wait": null, "end": how, "run_id": 50, "firing": null, "params": {"n": 7}})
}

fn fired(child: &Child) -> Firing {
    match child.decide().pop() {
        Some((_, Decision::Fire(firing))) => firing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_trigger_follows_its_own_ends_and_no_skipped_run() {
    let follows = |on: &str, how: &str| {
        let child = child(json!({}), &[("a", on)], json!([end(1, "a", how, json!([]))]));
        child.decide()[0].1 != Decision::Drop
    };
    let table = |on: &str| ["success", "failure", "cancelled", "skipped", "none"].map(|how| follows(on, how));
    assert_eq!(table("success"), [true, false, false, false, false]);
    assert_eq!(table("failure"), [false, true, false, false, false]);
    assert_eq!(table("finish"), [true, true, true, false, false]);
}

#[test]
fn a_child_takes_the_parameters_that_it_declares() {
    let spec = json!({"params": {"day": {"type": "date"}}});
    let firing = fired(&child(
        spec,
        &[("a", "success")],
        json!([end(1, "a", "success", json!([]))]),
    ));
    assert_eq!((firing.skip.clone(), firing.parent_run), (None, 101));
    assert_eq!(Value::Object(firing.params), json!({"day": "2026-11-20"}));
    assert_eq!(Value::Object(firing.parents), json!({"a": 101}));
}

#[test]
fn a_parameter_that_does_not_fit_is_a_recorded_skip() {
    let spec = json!({"params": {"day": {"type": "integer"}}});
    let firing = fired(&child(
        spec,
        &[("a", "success")],
        json!([end(1, "a", "success", json!([]))]),
    ));
    let why = firing.skip.unwrap();
    assert!(
        why.starts_with("params: parameter `day`: expected an integer"),
        "{why}"
    );
    assert!(why.ends_with("from a"), "{why}");

    let spec = json!({"params": {"need": {"type": "string", "required": true}}});
    let firing = fired(&child(
        spec,
        &[("a", "success")],
        json!([end(1, "a", "success", json!([]))]),
    ));
    assert_eq!(
        firing.skip.as_deref(),
        Some("params: no parent has the parameter `need`")
    );
}

#[test]
fn several_parents_meet_and_settle_all_their_ends() {
    let parents = [("a", "success"), ("b", "success")];
    let mut second = end(2, "b", "success", json!([ended("a", "success")]));
    second["run_id"] = 50.into();
    let first = end(1, "a", "success", json!([ended("b", "success")]));
    let spec = json!({"params": {"n": {"type": "integer"}, "day": {"type": "date"}}});
    let firing = fired(&child(spec, &parents, json!([first, second])));
    assert_eq!(firing.ends, [1, 2]);
    assert_eq!(Value::Object(firing.params), json!({"n": 7, "day": "2026-11-20"}));
    assert_eq!(Value::Object(firing.parents), json!({"a": 101, "b": 50}));
}

#[test]
fn an_end_waits_for_the_other_parent_or_is_skipped_when_that_one_ended_otherwise() {
    let parents = [("a", "success"), ("b", "success")];
    let wait = json!([{"parent": "b", "wait": "running", "end": null, "run_id": 9, "firing": null}]);
    let waiting = child(json!({}), &parents, json!([end(1, "a", "success", wait)]));
    assert_eq!(waiting.decide(), [(1, Decision::Wait(vec!["b".to_owned()]))]);

    let failed = json!([ended("b", "failure")]);
    let firing = fired(&child(
        json!({}),
        &parents,
        json!([end(1, "a", "success", failed)]),
    ));
    assert_eq!(firing.skip.as_deref(), Some("trigger: run 50 of b failed"));

    // The other one's own end triggers nothing.
    let child = child(json!({}), &parents, json!([end(2, "b", "failure", json!([]))]));
    assert_eq!(child.decide(), [(2, Decision::Drop)]);
}

#[test]
fn a_newer_run_by_hand_takes_the_place_of_one_that_waits() {
    let wait = json!([{"parent": "b", "wait": "first", "end": null, "run_id": null, "firing": null}]);
    let mut ends = [end(1, "a", "success", wait.clone()), end(2, "a", "success", wait)];
    ends.iter_mut().for_each(|e| e["by_hand"] = true.into());
    let firing = fired(&child(
        json!({}),
        &[("a", "success"), ("b", "success")],
        json!(ends),
    ));
    assert_eq!(
        firing.skip.as_deref(),
        Some("trigger: run 102 of a came after it")
    );
    assert_eq!(firing.ends, [1]);
}

#[test]
fn a_paused_or_disabled_job_and_a_day_of_its_calendar_are_recorded() {
    let one = json!([end(1, "a", "success", json!([]))]);
    let mut paused = child(json!({}), &[("a", "success")], one.clone());
    paused.state = Some(JobState::Paused);
    assert_eq!(fired(&paused).skip.as_deref(), Some("paused"));
    let mut disabled = child(json!({}), &[("a", "success")], one.clone());
    disabled.state = Some(JobState::Disabled);
    assert_eq!(fired(&disabled).skip.as_deref(), Some("disabled"));
    let mut observed = child(json!({"enabled": "observe"}), &[("a", "success")], one.clone());
    observed.state = Some(JobState::Observing);
    assert_eq!(fired(&observed).skip.as_deref(), Some("observed"));
    let excluded = child(
        json!({"exclude": ["2026-11-21"]}),
        &[("a", "success")],
        one.clone(),
    );
    assert_eq!(fired(&excluded).skip.as_deref(), Some("calendar"));
    let over = child(json!({"end": "2026-11-21T12:00:00Z"}), &[("a", "success")], one);
    assert_eq!(fired(&over).skip.as_deref(), Some("ended"));
}

#[test]
fn the_end_of_a_shard_whose_siblings_live_is_nothing_yet() {
    let mut shard = end(1, "a", "success", json!([]));
    (shard["end"], shard["firing"]) = (Value::Null, 101.into());
    assert_eq!(
        child(json!({}), &[("a", "success")], json!([shard])).decide(),
        [(1, Decision::Drop)]
    );
}
