//! Waiting for what happens by itself.

use std::time::{Duration, Instant};

/// Looks until `look` finds something, at most for `bound`.
///
/// # Panics
/// When the time is over, with what was waited for and what was last in the way.
pub fn eventually<T>(what: &str, bound: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + bound;
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) if Instant::now() >= deadline => panic!("not within {bound:?}: {what}: {why}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
