//! The lease as its holder sees it: when to renew, until when everything may live, and what a renewal's answer means.
//!
//! Pure bookkeeping; the keeper sends the statements.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use farmhand_core::lease::{BootInstant, LeaseTiming};
use farmhand_core::retry::full_jitter;
use farmhand_store::protocol::Attempt;

use super::copies::CopyDetector;
use farmhand_warden_client::wire::AttemptId;

/// Between SIGTERM and the kernel's timer when the lease runs out.
pub const LEASE_GRACE: Duration = Duration::from_secs(5);

/// How often a warden that has not confirmed its deadline is told it again.
const ASK_WARDENS_EVERY: Duration = Duration::from_millis(200);

/// Kernel timer and SIGTERM time of a warden.
pub(crate) type Deadlines = (BootInstant, BootInstant);

/// Whether to send a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Not yet, or one is under way.
    Later,
    /// At once.
    Now,
    /// A warden is behind: it is to be told its deadline again. `first`: it was not behind before.
    Withheld {
        /// Whether it was in time before.
        first: bool,
    },
}

/// One session's lease as its holder sees it.
pub struct Lease {
    timing: LeaseTiming,
    /// Between SIGTERM and the kernel's timer.
    grace: Duration,
    /// When the latest confirmed renewal was sent.
    sent: BootInstant,
    /// And the one before it.
    before: BootInstant,
    /// A renewal was due and some warden had not confirmed what it must have.
    withheld: bool,
    next_renewal: BootInstant,
    in_flight: bool,
    /// Asked for while one was under way, which may have looked before.
    again: bool,
    failures: u32,
    /// Held by our session and unknown here: the claim serial when first seen so.
    suspects: HashMap<Attempt, u64>,
    slewed: bool,
    pub(crate) copies: CopyDetector,
    /// Attempts that the warden ended at the lease's end, of which no event has told.
    pub(crate) ended: usize,
}

impl Lease {
    /// `opened_sent` was read before the statement that opened (or last renewed) the session was sent.
    pub fn new(timing: LeaseTiming, grace: Duration, opened_sent: BootInstant) -> Self {
        Self {
            timing,
            grace,
            sent: opened_sent,
            before: BootInstant(0),
            withheld: false,
            // At once: nothing is claimed before a renewal has shown what the session holds.
            next_renewal: opened_sent,
            in_flight: false,
            again: false,
            failures: 0,
            suspects: HashMap::new(),
            slewed: false,
            copies: CopyDetector::default(),
            ended: 0,
        }
    }

    /// Everything must be dead by then: the kernel timer of the warden.
    pub fn deadline(&self) -> BootInstant {
        self.timing.holder_deadline(self.sent)
    }

    /// Kernel timer and SIGTERM time of the warden.
    pub fn deadlines(&self) -> (BootInstant, BootInstant) {
        (self.deadline(), self.timing.soft_deadline(self.sent, self.grace))
    }

    /// Lease left as a fraction of its TTL; 0 once lapsed.
    pub fn remaining(&self, now: BootInstant) -> f64 {
        self.deadline().saturating_since(now).as_secs_f64() / self.timing.ttl().as_secs_f64()
    }

    /// Whether something claimed now may still be started: not within the last grace of the lease, and by a warden that
    /// answers.
    pub fn may_claim(&self, now: BootInstant) -> bool {
        !self.withheld && now < self.timing.soft_deadline(self.sent, self.grace)
    }

    /// Whether the lease has run out at this instant.
    pub fn lapsed(&self, now: BootInstant) -> bool {
        now >= self.deadline()
    }

    /// Says whether the machine's clock is slewed, which the deadlines allow for. Whether that is news.
    pub(crate) fn set_slewed(&mut self, slewed: bool) -> bool {
        self.timing = self.timing.with_slewed_clock(slewed);
        std::mem::replace(&mut self.slewed, slewed) != slewed
    }

    /// What the warden must have confirmed before the next renewal is sent: the deadline of the
    /// renewal before last. So the lease of one that cannot act lapses by itself, and one that is slow has as long as a
    /// renewal takes to come round.
    pub fn needed(&self) -> BootInstant {
        self.timing.holder_deadline(self.before)
    }

    /// What becomes of a renewal now. `confirmed`: whether the warden has confirmed what is needed.
    pub fn take_due(&mut self, now: BootInstant, confirmed: bool) -> Due {
        if self.in_flight || now < self.next_renewal {
            return Due::Later;
        }
        if !confirmed {
            self.next_renewal = now + ASK_WARDENS_EVERY;
            let first = !std::mem::replace(&mut self.withheld, true);
            return Due::Withheld { first };
        }
        self.in_flight = true;
        (self.withheld, self.again) = (false, false);
        Due::Now
    }

    /// A warden has confirmed its deadline: that may be what a renewal waits for.
    pub fn confirmed(&mut self) {
        if self.withheld {
            self.renew_now();
        }
    }

    /// Renew at once, after a renewal that is under way: somebody changed the node's row, or this node has something to say in it.
    pub fn renew_now(&mut self) {
        self.next_renewal = BootInstant(0);
        self.again = self.in_flight;
    }

    /// When to send the next renewal; None while one is under way.
    pub fn next_wakeup(&self) -> Option<BootInstant> {
        (!self.in_flight).then_some(self.next_renewal)
    }

    /// A renewal, sent at `sent`, was confirmed.
    pub fn renewed(&mut self, sent: BootInstant) {
        self.in_flight = false;
        self.failures = 0;
        if sent > self.sent {
            self.before = std::mem::replace(&mut self.sent, sent);
        }
        self.next_renewal = match std::mem::take(&mut self.again) {
            true => sent,
            false => sent + self.timing.renew_every(),
        };
    }

    /// A renewal had no answer; `random` is uniform over all of `u64` and spreads the retries (full jitter).
    pub(crate) fn renewal_failed(&mut self, now: BootInstant, random: u64) {
        self.in_flight = false;
        self.failures = self.failures.saturating_add(1);
        let ceiling = Duration::from_millis(100 << self.failures.min(6)).min(self.timing.renew_every());
        self.next_renewal = now + Duration::from_millis(20) + full_jitter(ceiling, random);
    }

    /// Held by the session per a renewal's answer, yet neither known here nor covered by a claim still in flight.
    ///
    /// An attempt qualifies at its second sighting, when every claim that was in flight at the first has
    /// been answered: a claim whose reply is on its way must not look like one whose reply was lost.
    /// `claims_sent` and `claims_answered` count claims of this session.
    pub fn orphans(
        &mut self,
        held: &[Attempt],
        known: impl Fn(Attempt) -> bool,
        claims_sent: u64,
        claims_answered: u64,
    ) -> Vec<Attempt> {
        let unknown: HashSet<Attempt> = held.iter().copied().filter(|of| !known(*of)).collect();
        self.suspects.retain(|of, _| unknown.contains(of));
        let ripe = unknown
            .iter()
            .copied()
            .filter(|of| {
                self.suspects
                    .get(of)
                    .is_some_and(|serial| claims_answered >= *serial)
            })
            .collect();
        for of in unknown {
            self.suspects.entry(of).or_insert(claims_sent);
        }
        ripe
    }

    /// What the latest answer still shows as held and unknown, of these.
    pub(crate) fn still_unknown(&self, ids: &[AttemptId]) -> Vec<Attempt> {
        let wanted = |of: &&Attempt| ids.contains(&AttemptId::from(**of));
        self.suspects.keys().filter(wanted).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Attempt = Attempt {
        run_id: 1,
        attempt: 1,
        fence: 1,
    };

    fn at(ms: u64) -> BootInstant {
        BootInstant(ms * 1_000_000)
    }

    fn lease() -> Lease {
        Lease::new(
            LeaseTiming::new(Duration::from_secs(3)).unwrap(),
            Duration::from_secs(1),
            at(0),
        )
    }

    fn due(k: &mut Lease, now: BootInstant, told: BootInstant) -> Due {
        let confirmed = told >= k.needed();
        k.take_due(now, confirmed)
    }

    #[test]
    fn the_deadline_counts_from_sending_and_never_moves_back() {
        let mut k = lease();
        k.renewed(at(1_000));
        let later = k.deadline();
        k.renewed(at(500));
        assert_eq!(k.deadline(), later);
    }

    #[test]
    fn nothing_is_claimed_in_the_last_grace_of_the_lease() {
        let k = lease();
        let (deadline, soft) = k.deadlines();
        assert!(soft < deadline);
        assert!(k.may_claim(soft - Duration::from_millis(1)));
        assert!(!k.may_claim(soft));
        assert!(!k.lapsed(soft));
    }

    #[test]
    fn a_claim_still_in_flight_is_no_orphan() {
        let mut k = lease();
        assert!(k.orphans(&[ID], |_| false, 5, 4).is_empty());
        assert!(k.orphans(&[ID], |_| false, 5, 4).is_empty());
        assert_eq!(k.orphans(&[ID], |_| false, 5, 5), vec![ID]);
    }

    #[test]
    fn an_attempt_that_turns_up_is_forgotten_as_a_suspect() {
        let mut k = lease();
        assert!(k.orphans(&[ID], |_| false, 1, 1).is_empty());
        assert!(k.orphans(&[ID], |_| true, 1, 1).is_empty());
        assert!(k.orphans(&[ID], |_| false, 1, 1).is_empty());
    }

    #[test]
    fn a_number_that_was_given_again_is_another_attempt() {
        let mut k = lease();
        let again = Attempt { fence: 2, ..ID };
        let known = |of| of == ID;
        assert!(k.orphans(&[again], known, 1, 1).is_empty());
        assert_eq!(k.still_unknown(&[ID.into()]), vec![again]);
        assert_eq!(k.orphans(&[again], known, 1, 1), vec![again]);
        k.orphans(&[ID], known, 1, 1);
        assert!(k.still_unknown(&[ID.into()]).is_empty());
    }

    #[test]
    fn a_session_begins_with_a_renewal() {
        assert_eq!(lease().take_due(at(0), true), Due::Now);
    }

    #[test]
    fn one_renewal_is_in_flight_at_a_time() {
        let mut k = lease();
        assert_eq!(k.take_due(at(2_000), true), Due::Now);
        assert_eq!(k.take_due(at(2_001), true), Due::Later);
        k.renewal_failed(at(2_100), 0);
        assert_eq!(k.take_due(at(2_200), true), Due::Now);
    }

    #[test]
    fn a_renewal_that_is_asked_for_while_one_is_under_way_comes_after_it() {
        let mut k = lease();
        assert_eq!(k.take_due(at(2_000), true), Due::Now);
        k.renew_now();
        assert_eq!(k.take_due(at(2_001), true), Due::Later);
        k.renewed(at(2_000));
        assert_eq!(k.take_due(at(2_002), true), Due::Now);
        k.renewed(at(2_002));
        assert_eq!(k.take_due(at(2_003), true), Due::Later);
    }

    #[test]
    fn a_warden_that_confirms_nothing_is_behind_after_two_renewals_and_its_lease_lapses() {
        let mut k = lease();
        let told = k.deadline();
        for ms in [1_000, 2_000] {
            assert_eq!(due(&mut k, at(ms), told), Due::Now);
            k.renewed(at(ms));
        }
        let deadline = k.deadline();
        assert_eq!(due(&mut k, at(3_000), told), Due::Withheld { first: true });
        assert!(!k.may_claim(at(3_000)));
        let mut now = 3_000;
        while !k.lapsed(at(now)) {
            now += 200;
            assert_eq!(due(&mut k, at(now), told), Due::Withheld { first: false });
        }
        assert_eq!(k.deadline(), deadline);
    }

    #[test]
    fn a_warden_that_is_one_renewal_late_keeps_its_lease_and_one_that_comes_back_has_it_renewed_at_once() {
        let mut k = lease();
        let mut told = k.deadline();
        for ms in (1_000..20_000).step_by(1_000) {
            assert_eq!(due(&mut k, at(ms), told), Due::Now);
            told = k.deadline();
            k.renewed(at(ms));
        }
        k.renewed(at(20_000));
        assert_eq!(due(&mut k, at(21_000), told), Due::Withheld { first: true });
        told = k.deadline();
        k.confirmed();
        assert_eq!(due(&mut k, at(21_001), told), Due::Now);
        assert!(k.may_claim(at(21_001)));
    }
}
