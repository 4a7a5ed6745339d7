//! Watches the other nodes with stopwatches, and PostgreSQL's timeline with another.
//!
//! Pure bookkeeping over [`farmhand_core::lease`]; the session sends the statements.

use std::collections::HashSet;
use std::time::Duration;

use farmhand_core::lease::{
    BootInstant, HeldOverKey, LeaseTiming, MarksBelow, NodeKey, OverrunKey, SilentNode, Stopwatches,
};
use farmhand_store::protocol::Look;

use farmhand_warden_client::request::OVERRUN_MARGIN;

/// What a look at the farm made ripe.
#[derive(Debug, Default)]
pub struct Ripe {
    pub expire: Vec<(NodeKey, Duration)>,
    pub release: Vec<HeldOverKey>,
    pub condemn: Vec<OverrunKey>,
    pub open_timeline: Option<i64>,
}

/// One agent's view of the others.
pub struct Watcher {
    timing: LeaseTiming,
    slewed: bool,
    stopwatches: Stopwatches,
    next_look: BootInstant,
    /// PostgreSQL's notifications arrive here.
    told: bool,
    in_flight: bool,
    /// Acted on and not yet answered, so that nothing is sent twice at once.
    acting: HashSet<String>,
    timeline: Option<i64>,
    /// When the server that answered last was started.
    server_started: Option<i64>,
    timeline_open: bool,
    /// The timeline on which what runs here was compared with what the database shows.
    compared: Option<i64>,
}

impl Watcher {
    pub fn new(timing: LeaseTiming, slewed: bool) -> Self {
        Self {
            timing,
            slewed,
            stopwatches: Stopwatches::default(),
            next_look: BootInstant(0),
            told: false,
            in_flight: false,
            acting: HashSet::new(),
            timeline: None,
            server_started: None,
            timeline_open: false,
            compared: None,
        }
    }

    /// True once per due look; the caller then sends it.
    pub fn take_due(&mut self, now: BootInstant) -> bool {
        let due = !self.in_flight && now >= self.next_look;
        self.in_flight |= due;
        due
    }

    /// Whether notifications arrive: what looks are for besides silent nodes.
    pub fn told(&mut self, told: bool) {
        self.told = told;
    }

    /// Look again at once.
    pub fn look_now(&mut self) {
        self.next_look = BootInstant(0);
    }

    pub fn next_wakeup(&self) -> Option<BootInstant> {
        (!self.in_flight).then_some(self.next_look)
    }

    /// Which nodes to ask for.
    pub fn ask(&self, now: BootInstant) -> MarksBelow {
        self.stopwatches.nodes.ask(now)
    }

    /// The next server may be an older copy of the last: every stopwatch starts anew.
    pub fn reconnected(&mut self) {
        self.stopwatches.reset();
        self.look_now();
    }

    /// A look had no answer.
    pub fn look_failed(&mut self, now: BootInstant) {
        self.in_flight = false;
        self.next_look = now + self.timing.look_every(self.told);
    }

    /// Returns the timeline left behind if this look shows a new one.
    pub fn looked(&mut self, own: &str, received: BootInstant, look: &Look) -> Option<i64> {
        self.in_flight = false;
        let left = self.timeline.filter(|t| *t != look.tli);
        let restarted = self.server_started.is_some_and(|s| s != look.server_started);
        if left.is_some() || restarted || self.slewed {
            self.stopwatches.reset();
        }
        self.timeline = Some(look.tli);
        self.server_started = Some(look.server_started);
        self.timeline_open = look.timeline_open;
        if !self.slewed {
            self.observe(own, received, look);
        }
        let s = &self.stopwatches;
        let poll = s.nodes.next_poll(received, self.timing, self.told);
        self.next_look = s.next_wakeup_of_rest(received).map_or(poll, |at| poll.min(at));
        left
    }

    fn observe(&mut self, own: &str, received: BootInstant, look: &Look) {
        let s = &mut self.stopwatches;
        let silent = look.silent.iter().map(|n| SilentNode {
            key: NodeKey {
                address: n.address.clone(),
                session: n.session,
                life: n.life,
                beat: n.beat,
            },
            mark: n.mark,
            lease: lease(n.ttl_ms),
        });
        let (above, shortest) = (look.above.unwrap_or(0), look.shortest_ttl_ms.map(lease));
        s.nodes.heard(own, received, above, shortest, silent);
        s.held_over.observe(
            received,
            look.orphans.iter().map(|o| {
                let key = HeldOverKey {
                    run_id: o.run_id,
                    attempt: o.attempt,
                    address: o.address.clone(),
                    session: o.session,
                };
                (key, wait(o.ttl_ms) + millis(o.hold_ms))
            }),
        );
        s.overruns.observe(
            received,
            look.overruns.iter().map(|r| {
                let key = OverrunKey {
                    run_id: r.run_id,
                    attempt: r.attempt,
                    address: r.address.clone(),
                    session: r.session,
                    life: r.life,
                };
                (key, millis(r.hard_ms) + OVERRUN_MARGIN)
            }),
        );
        let longest = look.longest_ttl_ms.map_or(Duration::ZERO, wait);
        let closed = (!look.timeline_open).then(|| (look.tli, longest.max(self.timing.challenge_after())));
        s.timeline.observe(received, closed);
    }

    /// What may be done now, each handed out once until [`Watcher::done`].
    pub fn take_ripe(&mut self, now: BootInstant) -> Ripe {
        if self.slewed {
            return Ripe::default();
        }
        let s = &self.stopwatches;
        let mut ripe = Ripe {
            open_timeline: s.timeline.ripe(now).pop(),
            ..Ripe::default()
        };
        if self.timeline_open {
            ripe.expire = s.nodes.ripe(now);
            ripe.release = s.held_over.ripe(now);
            ripe.condemn = s.overruns.ripe(now);
        }
        ripe.expire.retain(|(k, _)| self.acting.insert(node_token(k)));
        ripe.release.retain(|k| self.acting.insert(held_token(k)));
        ripe.condemn.retain(|k| self.acting.insert(overrun_token(k)));
        ripe
    }

    /// The statement about `token` was answered, or failed.
    pub fn done(&mut self, token: &str) {
        self.acting.remove(token);
        self.look_now();
    }

    pub fn set_slewed(&mut self, slewed: bool) {
        if slewed {
            self.stopwatches.reset();
        }
        self.slewed = slewed;
    }

    /// A renewal sent after the first look at `timeline` was answered, and what runs here was compared.
    pub fn compared(&mut self, timeline: i64) {
        self.compared = Some(timeline);
    }

    /// Whether runs may be claimed on the present timeline: it is open, and nothing runs here that the
    /// new primary does not know as ours.
    pub fn timeline_ready(&self) -> bool {
        self.timeline_open && self.timeline.is_some() && self.compared == self.timeline
    }
}

pub fn node_token(k: &NodeKey) -> String {
    format!("node {} {}", k.address, k.session)
}

pub fn held_token(k: &HeldOverKey) -> String {
    format!("held {} {}", k.run_id, k.attempt)
}

pub fn overrun_token(k: &OverrunKey) -> String {
    format!("overrun {} {}", k.run_id, k.attempt)
}

/// The lease whose TTL a row states; a row with a TTL that no agent may have is given the shortest.
fn lease(ttl_ms: i64) -> LeaseTiming {
    LeaseTiming::at_least(millis(ttl_ms))
}

/// W of that lease.
fn wait(ttl_ms: i64) -> Duration {
    lease(ttl_ms).challenge_after()
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
