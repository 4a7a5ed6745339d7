//! Which job starts which, in words.

use farmhand_store::protocol::Triggers;

/// The jobs that its ends start.
pub(super) fn after(triggers: &Triggers) -> String {
    if triggers.children.is_empty() {
        return "-".to_owned();
    }
    let list: Vec<String> = (triggers.children.iter())
        .map(|(child, on)| format!("{child} (on {on})"))
        .collect();
    list.join(", ")
}
