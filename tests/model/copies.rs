//! Scenarios of a machine that is copied.

use crate::config::{Config, Faults};
use crate::scenarios::same_address;

/// The first host is copied while it runs nothing; both go on with one session.
pub fn cloned() -> Config {
    Config {
        name: "cloned",
        faults: Faults {
            clones: 1,
            ..Faults::default()
        },
        ..same_address()
    }
}

/// A claim's reply is lost, and that of its release: then the copy may run the next attempt.
pub fn cloned_losing_replies() -> Config {
    Config {
        name: "cloned, losing replies",
        runs: 1,
        max_session: [3, 3],
        max_attempts: 2,
        faults: Faults {
            clones: 1,
            lost_replies: 2,
            ..Faults::default()
        },
        ..same_address()
    }
}
