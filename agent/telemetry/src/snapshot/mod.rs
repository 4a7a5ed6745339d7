//! The farm's gauges: one agent at a time reads them and exposes them, so that they are not counted N times.
//!
//! The rule is the lease protocol's, on a lease of its own. The holder reads its stopwatch before it sends a
//! renewal and exposes what came with it for `exposed` from then on, a challenger takes the lease when
//! it has seen the same count of renewals for `challenge` since it *received* it. No wall clock takes part.

mod deadlines;
mod families;
mod slow_runs;

use std::sync::Arc;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::event::Event;
use farmhand_store::notify::Watch;
use farmhand_store::snapshot::{self, FarmSnapshot, Stand};
use farmhand_store::{Db, StoreError};
use tokio::sync::Mutex;
use uuid::Uuid;

pub use deadlines::Deadlines;
use deadlines::ForPeople;
use families::families;
use slow_runs::SlowRuns;

use crate::metrics::Metrics;
use farmhand_os::clock::boot_now;

/// Jobs with series of their own; the others are counted as left out.
pub(crate) const MAX_JOBS: i64 = 1_000;

/// Rates of two clocks differ by less than this part of a second per second.
const RATES: f64 = 1.002;

/// How long the statement may take, on client and server.
fn limit(every: Duration) -> Duration {
    every.clamp(Duration::from_secs(1), Duration::from_secs(5))
}

/// How long a snapshot is exposed from before its renewal was sent: two that fail in a row leave no gap.
fn exposed(every: Duration) -> Duration {
    every * 3
}

/// After how long without a renewal the lease may be taken, from when the last was received.
fn challenge(every: Duration) -> Duration {
    exposed(every).mul_f64(RATES) + Duration::from_millis(200)
}

/// One agent's part in it.
pub struct Snapshots {
    me: Uuid,
    address: String,
    every: Duration,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The lease as it stands, and since when it was seen so.
    watched: Option<(Stand, BootInstant)>,
    /// The last call renewed it: the next finds out by renewing, and need not look first.
    held: bool,
    deadlines: Deadlines,
    slow_runs: SlowRuns,
}

/// How long a turn is kept from other agents when it comes once in `every`. A little less than `every`: the timetables of two agents
/// differ.
pub fn turn(every: Duration) -> Duration {
    every.mul_f64(0.9)
}

/// What a snapshot led to.
#[derive(Debug)]
pub struct Exposed {
    /// Of the runs that take longer than usual and have no event yet.
    pub events: Vec<Event>,
    /// What to look at for missed deadlines, when that is this agent's turn, too.
    pub watch: Option<Watch>,
}

impl Snapshots {
    /// A snapshot of the gauges of the farm that this agent takes when it is its turn.
    pub fn new(address: &str, every: Duration, metrics: Arc<Metrics>) -> Self {
        Self {
            me: Uuid::new_v4(),
            address: address.to_owned(),
            every,
            metrics,
            state: Mutex::new(State::default()),
        }
    }

    /// Looks whose turn it is, and when it is ours and no earlier call is under way, reads the farm and exposes it. `watches`: this agent can look for missed
    /// deadlines, and does when that is its turn, too.
    pub async fn run_once(&self, db: &Db, watches: bool) -> Result<Option<Exposed>, StoreError> {
        let Ok(mut state) = self.state.try_lock() else {
            return Ok(None);
        };
        let own = Stand {
            holder: self.me,
            renewals: 0,
        };
        let seen = if std::mem::take(&mut state.held) {
            own
        } else {
            snapshot::stand(db).await?
        };
        if !state.may_take(seen, self.me, boot_now(), self.every) {
            return Ok(None);
        }
        let sent = boot_now();
        let (turn, limit) = (watches.then(|| turn(self.every)), limit(self.every));
        let taken = snapshot::take(db, self.me, &self.address, seen, turn, limit, MAX_JOBS).await?;
        let Some(farm) = taken else {
            return Ok(None);
        };
        state.held = true;
        let until = sent + exposed(self.every);
        // A definition that cannot be had now costs its job one deadline, not the farm its gauges.
        if let Err(e) = state.deadlines.learn(db, &farm.jobs).await {
            tracing::debug!("definitions for deadlines: {e}");
        }
        let families = families(
            &farm,
            |job| state.deadlines.of(job),
            |job| state.deadlines.people(job).cloned(),
        );
        self.metrics.expose_farm(families, until);
        // The gauges are exposed, whatever becomes of this.
        let events = (state.slow_runs.look(db, &farm.running, farm.slow_ended).await).unwrap_or_else(|e| {
            tracing::warn!("runs that take longer than usual: {e}; the next snapshot looks again");
            Vec::new()
        });
        Ok(Some(Exposed {
            events,
            watch: farm.watch,
        }))
    }

    /// Exposes nothing more and lets the next agent have it at once.
    pub async fn release(&self, db: &Db) {
        self.metrics.expose_farm(Vec::new(), BootInstant(0));
        let mut state = self.state.lock().await;
        state.held = false;
        // What a call under way has exposed since.
        self.metrics.expose_farm(Vec::new(), BootInstant(0));
        if let Err(e) = snapshot::release(db, self.me).await {
            tracing::debug!("releasing the snapshot: {e}");
        }
    }
}

impl State {
    /// Whether the lease is ours, nobody's, or has stood still for long enough.
    fn may_take(&mut self, seen: Stand, me: Uuid, received: BootInstant, every: Duration) -> bool {
        if seen.holder == me || seen.holder.is_nil() {
            self.watched = None;
            return true;
        }
        match self.watched {
            Some((stand, since)) if stand == seen => received >= since + challenge(every),
            _ => {
                self.watched = Some((seen, received));
                false
            }
        }
    }
}

/// The timetable's form of "every so many seconds", shifted by `own` so that agents come one after the other.
/// `every` divides a minute.
pub fn timetable(every: Duration, own: u64) -> String {
    let every = every.as_secs().clamp(1, 60);
    let seconds: Vec<String> = (0..60)
        .filter(|s| s % every == own % every)
        .map(|s| s.to_string())
        .collect();
    format!("{} * * * * *", seconds.join(","))
}

/// The farm's families with every series that there may be, for those who ask which metrics exist.
pub fn sample() -> Vec<prometheus::proto::MetricFamily> {
    families(
        &FarmSnapshot::sample(),
        |job| job.next_run,
        |_| Some(ForPeople::default()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant(ms * 1_000_000)
    }

    fn stand(holder: u128, renewals: i64) -> Stand {
        Stand {
            holder: Uuid::from_u128(holder),
            renewals,
        }
    }

    const EVERY: Duration = Duration::from_secs(15);

    #[test]
    fn what_stood_still_for_the_whole_stopwatch_may_be_taken_and_nothing_else() {
        let (mut state, me) = (State::default(), Uuid::from_u128(1));
        assert!(!state.may_take(stand(2, 7), me, at(0), EVERY));
        assert!(!state.may_take(stand(2, 7), me, at(45_000), EVERY));
        assert!(!state.may_take(stand(2, 8), me, at(60_000), EVERY));
        assert!(!state.may_take(stand(2, 8), me, at(105_000), EVERY));
        assert!(state.may_take(stand(2, 8), me, at(105_300), EVERY));
    }

    #[test]
    fn ones_own_and_nobodys_may_be_taken_at_once() {
        let (mut state, me) = (State::default(), Uuid::from_u128(1));
        assert!(state.may_take(stand(1, 7), me, at(0), EVERY));
        assert!(state.may_take(stand(0, 8), me, at(0), EVERY));
    }

    #[test]
    fn a_holder_stops_exposing_before_a_challenger_begins_whatever_its_clock_rate() {
        for secs in [1, 2, 5, 15, 60] {
            let every = Duration::from_secs(secs);
            let (slow, fast) = (exposed(every).mul_f64(1.001), challenge(every).div_f64(1.001));
            assert!(slow < fast, "{every:?}");
        }
    }

    #[test]
    fn the_timetable_names_every_second_of_the_minute_that_is_meant() {
        assert_eq!(timetable(Duration::from_secs(15), 17), "2,17,32,47 * * * * *");
        assert_eq!(timetable(Duration::from_secs(60), 61), "1 * * * * *");
        assert_eq!(timetable(Duration::from_secs(1), 5).matches(',').count(), 59);
    }
}
