//! Watches the other nodes with stopwatches, and the database with another.
//!
//! Pure bookkeeping over [`farmhand_core::lease`]; the session sends the statements.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::document::from_millis;
use farmhand_core::lease::{
    BootInstant, EpochKey, LeaseTiming, MarksBelow, NamedKey, NodeKey, SilentNode, Stopwatches,
};
use farmhand_store::protocol::Poll;

use crate::session::answers::Answers;

/// What a poll of the farm made ripe.
#[derive(Debug, Default)]
pub(crate) struct Ripe {
    pub expire: Vec<(NodeKey, Duration)>,
    pub free: Vec<NamedKey>,
    pub open_epoch: Option<EpochKey>,
}

/// One agent's view of the others.
pub(crate) struct FailureDetector {
    timing: LeaseTiming,
    slewed: bool,
    stopwatches: Stopwatches,
    next_poll: BootInstant,
    /// Somebody wants a poll at once.
    asked: bool,
    /// Somebody wants one then, also after another.
    asked_at: Option<BootInstant>,
    /// PostgreSQL's notifications arrive here.
    told: bool,
    in_flight: bool,
    pub(crate) polls: Answers,
    /// Acted on and not yet answered, so that nothing is sent twice at once.
    acting: HashSet<String>,
    /// What answered last, and its epoch's number.
    shown: Option<(EpochKey, i64)>,
    claims_open: bool,
    /// The newest open epoch that was shown here, and the longest wait for a lease since: a failover may lose the row that says it.
    longest: (i64, Duration),
    /// Where what runs here was compared with what the database shows.
    compared: Option<EpochKey>,
}

impl FailureDetector {
    /// `longest`: of the leases that the agent remembers, and in which epoch.
    pub(crate) fn new(timing: LeaseTiming, slewed: bool, (epoch, longest): (i64, Duration)) -> Self {
        Self {
            timing,
            slewed,
            stopwatches: Stopwatches::default(),
            next_poll: BootInstant(0),
            asked: false,
            asked_at: None,
            told: false,
            in_flight: false,
            polls: Answers::default(),
            acting: HashSet::new(),
            shown: None,
            claims_open: false,
            longest: (epoch, LeaseTiming::at_least(longest).challenge_after()),
            compared: None,
        }
    }

    /// True once per due poll; the caller then sends it.
    pub(crate) fn take_due(&mut self, now: BootInstant) -> bool {
        let due = self.next_wakeup().is_some_and(|at| at <= now);
        if due {
            (self.in_flight, self.asked) = (true, false);
            self.polls.sent();
            self.asked_at = self.asked_at.filter(|at| *at > now);
        }
        due
    }

    /// Whether notifications arrive: what polls are for besides silent nodes.
    pub(crate) fn told(&mut self, told: bool) {
        self.told = told;
    }

    /// Look again at once; after a poll that is under way, which may have looked before.
    pub(crate) fn poll_now(&mut self) {
        self.asked = true;
    }

    pub(crate) fn poll_at(&mut self, at: BootInstant) {
        self.asked_at = Some(self.asked_at.map_or(at, |asked| asked.min(at)));
    }

    pub(crate) fn next_wakeup(&self) -> Option<BootInstant> {
        let next = self.asked_at.map_or(self.next_poll, |at| at.min(self.next_poll));
        (!self.in_flight).then_some(if self.asked { BootInstant(0) } else { next })
    }

    /// Which nodes to ask for.
    pub(crate) fn ask(&self, now: BootInstant) -> MarksBelow {
        self.stopwatches.nodes.ask(now)
    }

    /// The next server may be an older copy of the last: every stopwatch starts anew.
    pub(crate) fn reconnected(&mut self) {
        self.stopwatches.reset();
        self.poll_now();
    }

    pub(crate) fn poll_failed(&mut self, now: BootInstant) {
        self.in_flight = false;
        self.next_poll = now + self.timing.poll_every(self.told);
    }

    /// Returns the epoch left behind if this poll shows another one.
    pub(crate) fn polled(&mut self, own: &str, received: BootInstant, poll: &Poll) -> Option<i64> {
        self.in_flight = false;
        self.polls.answered();
        let now = poll.database.key();
        let before = self.shown.replace((now.clone(), poll.database.epoch));
        // A new epoch on the same server goes on with what was seen there.
        if self.slewed || before.as_ref().is_some_and(|(key, _)| key.server != now.server) {
            self.stopwatches.reset();
        }
        self.claims_open = poll.database.open;
        if !self.slewed {
            self.observe(own, received, poll);
        }
        let s = &self.stopwatches;
        let next = s.nodes.next_poll(received, self.timing, self.told);
        self.next_poll = s.next_wakeup_of_rest(received).map_or(next, |at| next.min(at));
        before
            .map(|(_, epoch)| epoch)
            .filter(|epoch| *epoch != poll.database.epoch)
    }

    fn observe(&mut self, own: &str, received: BootInstant, poll: &Poll) {
        let s = &mut self.stopwatches;
        let silent = poll.silent.iter().map(|n| SilentNode {
            key: NodeKey {
                address: n.address.clone(),
                session: n.session,
                incarnation: n.incarnation,
                renewals: n.renewals,
            },
            mark: n.mark,
            lease: lease(n.ttl_ms),
        });
        let (above, shortest) = (poll.above.unwrap_or(0), poll.shortest_ttl_ms.map(lease));
        s.nodes.heard(own, received, above, shortest, silent);
        let awaited = poll.awaited_leases.iter().flatten().map(|l| {
            let key = NamedKey {
                name: l.name.clone(),
                shown: l.shown.clone(),
            };
            (key, challenge_after(l.ttl_ms))
        });
        s.named.observe(received, awaited);
        let database = &poll.database;
        let shown = challenge_after(database.longest_lease_ms);
        let (epoch, longest) = self.longest;
        self.longest = match database.open && database.epoch > epoch {
            true => (database.epoch, shown),
            false => (epoch, longest.max(shown)),
        };
        let wait = self.longest.1.max(self.timing.challenge_after());
        let closed = (!database.open).then(|| (database.key(), wait));
        s.epoch.observe(received, closed);
    }

    /// What may be done now, each handed out once until [`FailureDetector::done`].
    pub(crate) fn take_ripe(&mut self, now: BootInstant) -> Ripe {
        if self.slewed {
            return Ripe::default();
        }
        let s = &self.stopwatches;
        let mut ripe = Ripe {
            open_epoch: s.epoch.ripe(now).pop(),
            ..Ripe::default()
        };
        if self.claims_open {
            ripe.expire = s.nodes.ripe(now);
            ripe.free = s.named.ripe(now);
        }
        ripe.open_epoch = ripe.open_epoch.filter(|_| self.acting.insert(EPOCH.to_owned()));
        ripe.expire.retain(|(k, _)| self.acting.insert(node_token(k)));
        ripe.free.retain(|k| self.acting.insert(named_token(k)));
        ripe
    }

    /// The statement about `token` was answered, or failed: then it is tried again after the next poll, which keeps its time.
    pub(crate) fn done(&mut self, token: &str, answered: bool) {
        self.acting.remove(token);
        if answered {
            self.poll_now();
        }
    }

    pub(crate) fn set_slewed(&mut self, slewed: bool) {
        if slewed {
            self.stopwatches.reset();
        }
        self.slewed = slewed;
    }

    /// A renewal was answered there, and what runs here was compared.
    pub(crate) fn compared(&mut self, with: EpochKey) {
        self.compared = Some(with);
    }

    /// Whether runs may be claimed: claims are open, and nothing runs here that this database does not know as ours.
    pub(crate) fn may_claim(&self) -> bool {
        let compared = self.compared.as_ref();
        self.claims_open && compared.is_some() && compared == self.shown.as_ref().map(|(key, _)| key)
    }
}

/// The token of an epoch that is opened.
pub(crate) const EPOCH: &str = "epoch";

/// The token of what ended sessions hold.
pub(crate) const UNFREED: &str = "ended sessions";

pub(crate) fn node_token(k: &NodeKey) -> String {
    format!("node {} {}", k.address, k.session)
}

pub(crate) fn named_token(k: &NamedKey) -> String {
    format!("named {}", k.name)
}

/// The lease whose TTL a row states; a row with a TTL that no agent may have is given the shortest.
fn lease(ttl_ms: i64) -> LeaseTiming {
    LeaseTiming::at_least(from_millis(ttl_ms))
}

/// W of a lease with this TTL.
pub(crate) fn challenge_after(ttl_ms: i64) -> Duration {
    lease(ttl_ms).challenge_after()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    pub(crate) fn poll(server: u8, epoch: i64, open: bool, longest_ms: i64) -> Poll {
        serde_json::from_value(json!({
            "db_now": "2026-01-01T00:00:00Z", "database": {
                "farm_id": Uuid::nil(), "epoch": epoch, "id": Uuid::from_u128(u128::try_from(epoch).expect("an epoch")),
                "server": server.to_string(), "open": open, "pulse": 0, "fence": 0, "run": 0,
                "longest_lease_ms": longest_ms,
            },
            "above": null, "shortest_ttl_ms": null, "silent": [], "live_addresses": [],
            "job_seq": 1, "earliest_ready": null,
            "earliest_next_run": null, "cancels": [],
            "unsettled": false, "cordoned": false, "draining": false, "drain_until": null, "leaving": false, "gates": false,
            "watched_at": null, "to_tell": false, "gated_at": null, "awaited_leases": null,
        }))
        .expect("a poll")
    }

    fn at(s: u64) -> BootInstant {
        BootInstant(s * 1_000_000_000)
    }

    fn detector() -> FailureDetector {
        let short = LeaseTiming::new(Duration::from_secs(5)).expect("long enough");
        FailureDetector::new(short, false, (0, Duration::ZERO))
    }

    fn opens(w: &mut FailureDetector, now: u64, poll: &Poll) -> bool {
        w.polled("me", at(now), poll);
        w.take_ripe(at(now)).open_epoch.is_some()
    }

    #[test]
    fn an_epoch_that_cannot_be_opened_is_tried_again_in_its_time() {
        let mut w = detector();
        let new = poll(2, 1, false, 5_000);
        assert!(!opens(&mut w, 100, &new));
        assert!(opens(&mut w, 161, &new));
        assert!(!opens(&mut w, 162, &new), "it is being opened");
        w.done(EPOCH, false);
        assert!(!w.take_due(at(162)), "no poll at once");
        assert!(opens(&mut w, 170, &new));
        w.done(EPOCH, true);
        assert!(w.take_due(at(170)));
    }

    #[test]
    fn another_server_is_watched_for_the_longest_lease_that_was_recorded() {
        let mut w = detector();
        let new = poll(2, 1, false, 60_000);
        assert!(!opens(&mut w, 100, &new));
        assert!(!opens(&mut w, 159, &new));
        assert!(opens(&mut w, 161, &new));
    }

    #[test]
    fn a_server_that_is_replaced_while_it_is_watched_is_watched_anew() {
        let mut w = detector();
        assert!(!opens(&mut w, 100, &poll(2, 1, false, 5_000)));
        assert!(!opens(&mut w, 110, &poll(3, 1, false, 5_000)));
        assert!(opens(&mut w, 116, &poll(3, 1, false, 5_000)));
    }

    #[test]
    fn what_a_failover_lost_of_it_is_remembered() {
        let mut w = detector();
        w.polled("me", at(1), &poll(1, 1, true, 60_000));
        let new = poll(2, 1, false, 5_000);
        assert!(!opens(&mut w, 100, &new));
        assert!(!opens(&mut w, 159, &new));
        assert!(opens(&mut w, 161, &new));
    }

    #[test]
    fn a_lease_that_the_next_epoch_no_longer_records_is_forgotten_with_the_epoch_after_it() {
        let mut w = detector();
        w.polled("me", at(1), &poll(1, 1, true, 60_000));
        w.polled("me", at(2), &poll(2, 2, true, 5_000));
        let new = poll(3, 2, false, 5_000);
        assert!(!opens(&mut w, 100, &new));
        assert!(!opens(&mut w, 105, &new));
        assert!(opens(&mut w, 106, &new));
    }

    #[test]
    fn runs_are_claimed_once_what_runs_here_was_compared_with_this_very_server() {
        let mut w = detector();
        let (one, two) = (poll(1, 1, true, 5_000), poll(2, 1, true, 5_000));
        w.polled("me", at(1), &one);
        assert!(!w.may_claim());
        w.compared(one.database.key());
        assert!(w.may_claim());
        w.polled("me", at(2), &two);
        assert!(!w.may_claim());
    }
}
