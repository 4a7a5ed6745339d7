//! Times in which this machine made all of the farm wait: faults of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::field::{Doing, Field};
use crate::witness::boot_ns;

/// A thread that is woken so late says that all processes starve: leases of 3 s are renewed each second.
const STALL: Duration = Duration::from_millis(400);
pub const STALLED: &str = "machine stalled";

/// How late a thread of this process is woken, at worst. A long time is a fault of the machine, which hits whole the farm.
/// Each time the clocks are read, too.
pub async fn feel(field: Arc<Field>, worst: Arc<Mutex<Duration>>) {
    loop {
        // By a clock that goes on while the machine sleeps.
        let stalled = Doing::begin(None, true, STALLED.to_owned());
        field.clocks.lock().expect("no panic under it").read();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let passed = Duration::from_nanos(boot_ns().saturating_sub(stalled.from()));
        let late = passed.saturating_sub(Duration::from_millis(20));
        if late > STALL {
            stalled.over(&field);
        }
        let mut worst = worst.lock().expect("no panic under it");
        *worst = (*worst).max(late);
    }
}
