//! One guard removed at a time: something must be found.

use stateright::{Checker, HasDiscoveries, Model};

use crate::actions::Protocol;
use crate::config::{Config, Features, Guard, tight_ticks};
use crate::properties::*;
use crate::scenarios::*;

/// The shortest path to a broken promise, which must be one of `expected`.
fn find(cfg: Config, expected: &[&str]) {
    let checker = Protocol(cfg)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let removed: Vec<_> = cfg.removed.iter().flatten().collect();
    let Some((property, steps, _)) = counter_example(&checker) else {
        panic!(
            "{}: {removed:?} is not missed, {} states",
            cfg.name,
            checker.unique_state_count()
        );
    };
    println!("{removed:?} | {} | {property} | {} steps", cfg.name, steps.len());
    if std::env::var_os("FARMHAND_MODEL_PATHS").is_some() {
        println!("{}", steps.join("\n"));
    }
    assert!(expected.contains(&property), "{property} was found instead");
}

macro_rules! missed {
    ($($test:ident: $guard:ident in $scenario:expr => $($property:ident),+;)*) => {
        $(#[test] fn $test() { find($scenario.without(Guard::$guard), &[$($property),+]); })*
    };
}

fn fine(cfg: Config) -> Config {
    let (lease_ticks, wait_ticks) = tight_ticks(3);
    Config {
        lease_ticks,
        wait_ticks,
        ..cfg
    }
}

fn delayed(cfg: Config) -> Config {
    Config {
        features: Features {
            delays: true,
            ..cfg.features
        },
        ..cfg
    }
}

missed! {
    attempt_in_finish: AttemptInFinish in lost_replies() => STALE_WRITE;
    state_in_finish: StateInFinish in lost_replies() => STALE_WRITE, FINAL_CHANGED;
    session_in_finish: SessionInFinish in lossy_failover_alone() => STALE_WRITE;
    address_in_finish: AddressInFinish in lossy_failover() => STALE_WRITE;
    zero_row_finish_is_read: ZeroRowFinishIsRead in takeover() => FALSE_REPORT;
    kernel_timer: KernelTimer in takeover() => TWO_LIVE;
    deadline_from_sending: DeadlineFromSending in fine(takeover()) => TWO_LIVE;
    rate_margin: RateMargin in takeover() => TWO_LIVE;
    zero_row_renewal_kills: ZeroRowRenewalKills in hung_executor() => TWO_LIVE;
    late_claim_released: LateClaimReleased in takeover() => TWO_LIVE;
    late_open_closed: LateOpenClosed in return_of_the_first() => TWO_LIVE;
    beat_in_expire: BeatInExpire in takeover() => TWO_LIVE;
    stopwatch_from_receipt: StopwatchFromReceipt in takeover() => TWO_LIVE;
    two_snapshots_in_expire: TwoSnapshotsInExpire in takeover() => ORPHAN;
    session_grows_at_its_end: SessionGrowsAtEnd in takeover() => ORPHAN;
    life_in_open: LifeInOpen in same_address() => TWO_LIVE;
    key_share_in_claim: KeyShareInClaim in takeover() => ORPHAN;
    session_in_claim: SessionInClaim in delayed(return_of_the_first()) => ORPHAN;
    row_lock_in_claim: RowLockInClaim in takeover() => TWO_LIVE;
    one_attempt_per_claim: OneAttemptPerClaim in takeover() => ATTEMPTS_GROW;
    condemned_claims_nothing: CondemnedClaimsNothing in delayed(hung_executor()) => CONDEMNED;
    condemned_is_not_renewed: CondemnedIsNotRenewed in hung_executor() => STUCK;
    less_in_sweep: LessInSweep in orphan() => STALE_WRITE;
    sweep: Sweep in orphan() => STUCK;
    tombstone_before_release: TombstoneBeforeRelease in lost_replies() => TWO_LIVE;
    tree_empty_before_close: TreeEmptyBeforeClose in killed_warden() => TWO_LIVE;
    warden_serves_one_session: WardenServesOneSession in lost_replies() => TWO_LIVE;
    older_agent_cut_off: OlderAgentCutOff in kept_session_adopted() => TWO_LIVE;
    fresh_warden_drops_claims: FreshWardenDropsClaims in kept_session() => TWO_LIVE;
    timeline_open_in_claim: TimelineOpenInClaim in lossy_failover() => TWO_LIVE;
    timeline_watched_for_w: TimelineWatchedForW in lossy_failover() => TWO_LIVE;
    timeline_in_fence: TimelineInFence in lossy_failover() => FENCES_GROW;
    unheld_is_killed: UnheldIsKilled in lossy_failover() => TWO_LIVE;
    hold_survives_expire: HoldSurvivesExpire in hold() => TWO_LIVE;
}
