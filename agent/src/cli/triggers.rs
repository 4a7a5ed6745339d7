//! Which job starts which, in words.

use farmhand_common::store::protocol::Triggers;
use serde_json::Value;

/// After whose ends a job runs, for people; None for a job that nothing triggers.
pub fn before(spec: &Value) -> Option<String> {
    let parents: Vec<&str> = spec["triggered_by"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let how = match (spec["trigger_on"].as_str(), parents.len()) {
        (_, 0) => return None,
        (Some("failure"), 1) => "fails",
        (Some("failure"), _) => "fail",
        (Some("finish"), 1) => "ends",
        (Some("finish"), _) => "end",
        (_, 1) => "succeeds",
        _ => "succeed",
    };
    Some(format!("after {} {how}", parents.join(" and ")))
}

/// The jobs that its ends start.
pub fn after(triggers: &Triggers) -> String {
    if triggers.children.is_empty() {
        return "-".to_owned();
    }
    let list: Vec<String> = (triggers.children.iter())
        .map(|(child, on)| format!("{child} (on {on})"))
        .collect();
    list.join(", ")
}
