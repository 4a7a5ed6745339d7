//! All that one agent watches others by.

use super::epoch::EpochKey;
use super::silence::Silence;
use super::stopwatch::{NamedKey, Stopwatch};
use super::timing::BootInstant;

/// Everything one agent watches others by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stopwatches {
    /// Wait: W of the row's TTL and a little. Ripe: the session may be expired.
    pub nodes: Silence,
    /// Wait: W of its TTL. Ripe: its name may be freed.
    pub named: Stopwatch<NamedKey>,
    /// Wait: W of the longest TTL in the farm. Ripe: an epoch may be opened on this server.
    pub epoch: Stopwatch<EpochKey>,
}

impl Stopwatches {
    /// After a reconnect, on another server, or while the own clock is slewed by more than ρ/2.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// When there is something to do next about anything but nodes, if no new reply changes it.
    pub fn next_wakeup_of_rest(&self, now: BootInstant) -> Option<BootInstant> {
        let rest = [self.named.next_wakeup(now), self.epoch.next_wakeup(now)];
        rest.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    const W: Duration = Duration::from_secs(10);

    fn at(s: u64) -> BootInstant {
        BootInstant(s * 1_000_000_000)
    }

    #[test]
    fn nothing_survives_a_reset() {
        let mut all = Stopwatches::default();
        let key = EpochKey {
            id: Uuid::nil(),
            server: "s".into(),
        };
        all.epoch.observe(at(1), [(key, W)]);
        assert_eq!(all.next_wakeup_of_rest(at(1)), Some(at(11)));
        all.reset();
        assert_eq!(all, Stopwatches::default());
    }
}
