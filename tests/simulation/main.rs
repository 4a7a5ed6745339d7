//! Farms larger than the model explores whole, walked through at random from a seed, in simulated time.
//!
//! The steps are the model's own (`tests/model`): agents, wardens, statements in flight, faults. Above them lie the pure
//! core's schedules, due plans and run states (`runs.rs`), so that what the protocol moves is what the core says it is. Each
//! step checks every property of the model; the end checks that each transition was taken.

#![expect(
    clippy::needless_range_loop,
    reason = "a run's number indexes several arrays at once"
)]

#[path = "../model/actions.rs"]
mod actions;
#[path = "../model/agent.rs"]
mod agent;
#[path = "../model/clones.rs"]
mod clones;
#[path = "../model/config.rs"]
#[expect(dead_code, reason = "the model's own tests remove guards")]
mod config;
#[path = "../model/db.rs"]
mod db;
#[path = "../model/locks.rs"]
mod locks;
#[path = "../model/offers.rs"]
mod offers;
#[path = "../model/progress.rs"]
mod progress;
#[path = "../model/properties.rs"]
mod properties;
#[path = "../model/refusals.rs"]
mod refusals;
#[path = "../model/start.rs"]
mod start;
#[path = "../model/state.rs"]
mod state;
#[path = "../model/world.rs"]
mod world;

mod coverage;
mod life;
mod runs;
mod silent;
mod walk;

/// The simulated farm's size.
mod size {
    pub const HOSTS: usize = 4;
    pub const ADDRESSES: usize = 4;
    pub const RUNS: usize = 3;
}

use std::time::{Duration, Instant};

use config::Guard;
use coverage::Coverage;
use walk::Walk;

/// Of simulated time; `FARMHAND_SIMULATION_HOURS` says otherwise.
const HOURS: f64 = 10.0;

#[test]
fn farms_in_simulated_time_keep_every_promise_and_every_transition_is_taken() {
    let first: u64 = std::env::var("FARMHAND_SIMULATION_SEED").map_or(1, |s| s.parse().expect("a number"));
    let hours: f64 =
        std::env::var("FARMHAND_SIMULATION_HOURS").map_or(HOURS, |s| s.parse().expect("a number"));
    let begun = Instant::now();
    let (mut covered, mut simulated, mut steps, mut farms) = (Coverage::default(), Duration::ZERO, 0, 0);
    // Each is a farm of its own, from nothing to its end.
    while simulated.as_secs_f64() < hours * 3600.0 {
        let mut walk = Walk::new(first + farms, None);
        walk.go(&mut covered).unwrap_or_else(|why| panic!("{why}"));
        simulated += walk.simulated();
        steps += walk.steps();
        farms += 1;
    }
    let factor = simulated.as_secs_f64() / begun.elapsed().as_secs_f64();
    println!(
        "{farms} farms, {steps} steps, {:.1} h in {:.1} s: {factor:.0} times real time\n{covered}",
        simulated.as_secs_f64() / 3600.0,
        begun.elapsed().as_secs_f64()
    );
    let missing = covered.missing();
    assert!(missing.is_empty(), "never taken: {missing:?}");
    assert!(factor >= 500.0, "{factor:.0} times real time");
}

/// Each of these guards is missed when it is removed. The others are defences in depth, or are missed only after what hardly happens at
/// random: `docs/lab/reliability.md` names them, and the model removes them all.
const MISSED: [Guard; 30] = [
    Guard::AttemptInFinish,
    Guard::SessionInFinish,
    Guard::StateInFinish,
    Guard::KernelTimer,
    Guard::DeadlineFromSending,
    Guard::RateMargin,
    Guard::BeatInExpire,
    Guard::LifeInOpen,
    Guard::SessionGrowsAtEnd,
    Guard::StopwatchFromReceipt,
    Guard::KeyShareInClaim,
    Guard::SessionInClaim,
    Guard::RowLockInClaim,
    Guard::OneAttemptPerClaim,
    Guard::TwoSnapshotsInExpire,
    Guard::Sweep,
    Guard::TombstoneBeforeRelease,
    Guard::TreeEmptyBeforeClose,
    Guard::LateClaimReleased,
    Guard::LateOpenClosed,
    Guard::ZeroRowRenewalKills,
    Guard::OlderAgentCutOff,
    Guard::WardenServesOneSession,
    Guard::EpochInFence,
    Guard::HoldSurvivesExpire,
    Guard::FreshWardenDropsClaims,
    Guard::FenceEndsTheTree,
    Guard::ZeroRowFinishIsRead,
    Guard::NoWallClock,
    Guard::WaitOfWatchedLease,
];

/// A walk that finds nothing must be one that could have.
#[test]
fn a_farm_without_one_of_its_guards_is_found_out() {
    for guard in MISSED {
        let found = (1..5_000).find_map(|seed| {
            // What the core does not allow panics in its own functions.
            let walked =
                std::panic::catch_unwind(|| Walk::new(seed, Some(guard)).go(&mut Coverage::default()));
            match walked {
                Ok(end) => end.err(),
                Err(_) => Some(format!("seed {seed}: the core refuses it")),
            }
        });
        let found = found.unwrap_or_else(|| panic!("nothing misses {guard:?}"));
        println!("{guard:?}: {}", found.lines().next().unwrap_or_default());
    }
}
