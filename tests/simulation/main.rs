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

/// Each is a farm of its own, from nothing to its end.
const EPISODES: u64 = 400;

#[test]
fn farms_in_simulated_time_keep_every_promise_and_every_transition_is_taken() {
    let first: u64 = std::env::var("FARMHAND_SIMULATION_SEED").map_or(1, |s| s.parse().expect("a number"));
    let episodes =
        std::env::var("FARMHAND_SIMULATION_EPISODES").map_or(EPISODES, |s| s.parse().expect("a number"));
    let begun = Instant::now();
    let (mut covered, mut simulated, mut steps) = (Coverage::default(), Duration::ZERO, 0);
    for seed in first..first + episodes {
        let mut walk = Walk::new(seed, None);
        walk.go(&mut covered).unwrap_or_else(|why| panic!("{why}"));
        simulated += walk.simulated();
        steps += walk.steps();
    }
    let factor = simulated.as_secs_f64() / begun.elapsed().as_secs_f64();
    println!(
        "{episodes} farms, {steps} steps, {:.1} h in {:.1} s: {factor:.0} times real time\n{covered}",
        simulated.as_secs_f64() / 3600.0,
        begun.elapsed().as_secs_f64()
    );
    let missing = covered.missing();
    assert!(missing.is_empty(), "never taken: {missing:?}");
    assert!(factor >= 500.0, "{factor:.0} times real time");
}

/// A walk that finds nothing must be one that could have.
#[test]
fn a_farm_without_one_of_its_guards_is_found_out() {
    for guard in [
        Guard::KernelTimer,
        Guard::BeatInExpire,
        Guard::SessionGrowsAtEnd,
        Guard::KeyShareInClaim,
        Guard::TombstoneBeforeRelease,
        Guard::AttemptInFinish,
    ] {
        let found = (1..2_000).find_map(|seed| {
            let mut walk = Walk::new(seed, Some(guard));
            walk.go(&mut Coverage::default()).err()
        });
        let found = found.unwrap_or_else(|| panic!("nothing misses {guard:?}"));
        println!("{guard:?}: {}", found.lines().next().unwrap_or_default());
    }
}
