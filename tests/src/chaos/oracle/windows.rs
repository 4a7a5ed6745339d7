//! How long a declared window is open: until those who sweep have been back for long enough, undisturbed.

use super::{History, SWEPT, Window};

/// The windows of a history, each as long as faults that stop or kill the agent of its node follow before it is over.
pub(super) fn lasting(history: &History) -> Vec<Window> {
    let swept = u64::try_from(SWEPT.as_nanos()).expect("seconds");
    let mut later: Vec<_> = (history.done.iter())
        .filter(|d| d.what.contains("agent"))
        .collect();
    later.sort_unstable_by_key(|d| d.from);
    let mut windows = history.windows.clone();
    for window in &mut windows {
        for done in &later {
            if done.node.as_deref() == Some(window.node.as_str())
                && window.from < done.from
                && done.from <= window.to
            {
                window.to = window.to.max(done.to + swept);
            }
        }
    }
    windows
}
