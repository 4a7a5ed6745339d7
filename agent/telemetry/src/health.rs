//! Whether an agent is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this agent holds a session.
#[derive(Clone, Default)]
pub struct Health(Arc<AtomicBool>);

impl Health {
    /// Says whether there is a session, from now on.
    pub fn ready(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// Whether there is one.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
