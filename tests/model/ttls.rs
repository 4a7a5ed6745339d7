//! Leases of several lengths, and one that changes while something lives under it.

use crate::config::{Config, Faults};
use crate::scenarios::{explore, lossy_failover, takeover};

/// An agent crashes and is started with a shorter lease, which it adopts the session with.
pub fn shorter_lease() -> Config {
    Config {
        name: "shorter lease",
        longer: [[1, 0], [0, 0]],
        faults: Faults {
            crashes: 1,
            ..Faults::default()
        },
        ..takeover()
    }
}

/// The same the other way round.
pub fn longer_lease() -> Config {
    Config {
        name: "longer lease",
        longer: [[0, 1], [0, 0]],
        ..shorter_lease()
    }
}

/// The host that watches has a shorter lease than the one it watches.
pub fn mixed_leases() -> Config {
    Config {
        name: "mixed leases",
        longer: [[1, 1], [0, 0]],
        max_session: [3, 1],
        max_incarnations: 2,
        ..takeover()
    }
}

/// A host with a short lease opens the server while an attempt lives under a long one.
pub fn mixed_leases_lossy() -> Config {
    Config {
        name: "mixed leases, lossy failover",
        longer: [[1, 1], [0, 0]],
        ..lossy_failover()
    }
}

/// The same twice: what the first epoch recorded is no longer asked for when the third is opened.
pub fn mixed_leases_replaced_twice() -> Config {
    Config {
        name: "mixed leases, replaced twice",
        max_lost_commits: 1,
        faults: Faults {
            failovers: 2,
            ..Faults::default()
        },
        ..mixed_leases_lossy()
    }
}

mod whole {
    use super::*;

    #[test]
    fn mixed_leases_lossy() {
        explore(super::mixed_leases_lossy(), Some(1));
    }

    #[test]
    fn mixed_leases_replaced_twice() {
        explore(super::mixed_leases_replaced_twice(), Some(1));
    }

    #[test]
    fn shorter_lease() {
        explore(super::shorter_lease(), Some(1));
    }

    #[test]
    fn longer_lease() {
        explore(super::longer_lease(), Some(1));
    }

    #[test]
    fn mixed_leases() {
        explore(super::mixed_leases(), Some(1));
    }
}
