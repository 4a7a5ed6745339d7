//! One guard removed at a time: something must be found.

use stateright::{Checker, HasDiscoveries, Model};

use crate::actions::Protocol;
use crate::config::{Config, Features, Guard, tight_ticks};
use crate::properties::*;
use crate::scenarios::*;
use crate::ttls::*;

/// The shortest path to a broken promise, which must be one of `expected`.
fn find(cfg: Config, expected: &[&'static str]) {
    let wanted = HasDiscoveries::AnyOf(expected.iter().copied().collect());
    let checker = Protocol(cfg).checker().finish_when(wanted).spawn_bfs().join();
    let removed: Vec<_> = cfg.removed.iter().flatten().collect();
    let found = counter_examples(&checker);
    let Some((property, steps, _)) = found.iter().find(|f| expected.contains(&f.0)) else {
        let others: Vec<_> = found.iter().map(|f| f.0).collect();
        panic!(
            "{}: {removed:?} is not missed, {} states, {others:?}",
            cfg.name,
            checker.unique_state_count()
        );
    };
    println!("{removed:?} | {} | {property} | {} steps", cfg.name, steps.len());
    if std::env::var_os("FARMHAND_MODEL_PATHS").is_some() {
        println!("{}", steps.join("\n"));
    }
}

macro_rules! missed {
    ($($test:ident: $guard:ident in $scenario:expr => $($property:ident),+;)*) => {
        $(#[test] fn $test() { find($scenario.without(Guard::$guard), &[$($property),+]); })*
    };
}

/// As `find`, but another guard makes up for the missing one.
fn find_nothing(cfg: Config) {
    let checker = Protocol(cfg)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let removed: Vec<_> = cfg.removed.iter().flatten().collect();
    let found = counter_examples(&checker);
    println!(
        "{removed:?} | {} | nothing | {} states",
        cfg.name,
        checker.unique_state_count()
    );
    assert!(found.is_empty(), "{removed:?} is missed: {found:?}");
}

macro_rules! made_up_for {
    ($($test:ident: $guard:ident in $scenario:expr;)*) => {
        $(#[test] fn $test() { find_nothing($scenario.without(Guard::$guard)); })*
    };
}

macro_rules! missed_together {
    ($($test:ident: $($guard:ident),+ in $scenario:expr => $property:ident;)*) => {
        $(#[test] fn $test() { find($scenario$(.without(Guard::$guard))+, &[$property]); })*
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
    fence_in_finish: FenceInFinish in lossy_same_address() => TWO_LIVE, STALE_WRITE;
    zero_row_finish_is_read: ZeroRowFinishIsRead in takeover() => FALSE_REPORT;
    kernel_timer: KernelTimer in takeover() => TWO_LIVE;
    deadline_from_sending: DeadlineFromSending in fine(takeover()) => TWO_LIVE;
    rate_margin: RateMargin in takeover() => TWO_LIVE;
    zero_row_renewal_kills: ZeroRowRenewalKills in lossy_same_address() => TWO_LIVE;
    late_claim_released: LateClaimReleased in takeover() => TWO_LIVE;
    late_open_closed: LateOpenClosed in return_of_the_first() => TWO_LIVE;
    renewals_in_expire: RenewalsInExpire in takeover() => TWO_LIVE;
    stopwatch_from_receipt: StopwatchFromReceipt in takeover() => TWO_LIVE;
    two_snapshots_in_expire: TwoSnapshotsInExpire in takeover() => ORPHAN;
    session_grows_at_its_end: SessionGrowsAtEnd in takeover() => ORPHAN;
    incarnation_in_open: IncarnationInOpen in same_address() => TWO_LIVE;
    key_share_in_claim: KeyShareInClaim in takeover() => ORPHAN;
    session_in_claim: SessionInClaim in delayed(return_of_the_first()) => ORPHAN;
    row_lock_in_claim: RowLockInClaim in takeover() => TWO_LIVE;
    one_attempt_per_claim: OneAttemptPerClaim in takeover() => ATTEMPTS_GROW;
    renewal_proves_the_warden: RenewalProvesTheWarden in stuck_warden() => STUCK;
    fence_ends_the_tree: FenceEndsTheTree in stuck_warden() => TWO_LIVE;
    less_in_sweep: LessInSweep in orphan() => STALE_WRITE;
    sweep: Sweep in orphan() => STUCK;
    expiry_skips_locked: ExpirySkipsLocked in locked_run() => STUCK;
    skipped_is_asked_for: Sweep in locked_run() => STUCK;
    tombstone_before_release: TombstoneBeforeRelease in lost_replies() => TWO_LIVE;
    only_own_given_back: OnlyOwnGivenBack in cloned() => TWO_LIVE;
    close_names_its_own: CloseNamesItsOwn in cloned() => TWO_LIVE;
    tombstone_of_refused: TombstoneBeforeRelease in refused_starts() => TWO_LIVE;
    tree_empty_before_close: TreeEmptyBeforeClose in killed_warden() => TWO_LIVE;
    warden_serves_one_session: WardenServesOneSession in lost_replies() => TWO_LIVE;
    older_agent_cut_off: OlderAgentCutOff in kept_session_adopted() => TWO_LIVE;
    fresh_warden_drops_claims: FreshWardenDropsClaims in kept_session() => TWO_LIVE;
    server_watched_for_w: ServerWatchedForW in lossy_failover() => TWO_LIVE;
    epoch_in_fence: EpochInFence in lossy_failover() => FENCES_GROW;
    epoch_is_remembered: EpochIsRemembered in replaced_twice() => FENCES_GROW;
    unheld_is_killed: UnheldIsKilled in lossy_failover() => TWO_LIVE;
    no_wall_clock: NoWallClock in wall_clock() => TWO_LIVE;
    incarnation_in_renew: IncarnationInRenew in lossy_same_address() => TWO_LIVE;
    ttl_grows_in_session: TtlGrowsInSession in shorter_lease() => TWO_LIVE;
    longest_lease_on_a_new_server: LongestLeaseOnNewServer in mixed_leases_lossy() => TWO_LIVE;
    wait_of_watched_lease: WaitOfWatchedLease in mixed_leases() => TWO_LIVE;
}

// Defence in depth: none of these is missed alone. What makes up for it is in the README's table.
made_up_for! {
    session_in_finish: SessionInFinish in lossy_failover_alone();
    the_margin_beyond_rho: TakeoverMargin in takeover();
    session_in_expire: SessionInExpire in return_of_the_first();
    incarnation_in_expire: IncarnationInExpire in return_of_the_first();
    open_in_expire: OpenInExpire in return_of_the_first();
    session_in_renew: SessionInRenew in return_of_the_first();
    open_in_claim: OpenInClaim in delayed(return_of_the_first());
    kill_before_claim_on_a_new_server: KillBeforeClaimOnNewServer in lossy_failover_alone();
    same_number_ends_first: SameNumberEndsFirst in lossy_failover_alone();
    claims_open_in_claim: ClaimsOpenInClaim in lossy_failover_alone();
    claims_open_in_open: ClaimsOpenInOpen in lossy_failover_alone();
    claims_open_in_expire: ClaimsOpenInExpire in failover();
    stopwatch_anew_after_failover: StopwatchAnewAfterFailover in failover();
}

missed_together! {
    session_and_fence_in_finish: SessionInFinish, FenceInFinish in lossy_failover_alone() => STALE_WRITE;
    address_and_fence_in_finish: AddressInFinish, FenceInFinish in lossy_failover() => STALE_WRITE;
    session_grows_and_open_in_claim: SessionGrowsAtEnd, OpenInClaim in takeover() => ORPHAN;
    claims_open_and_kill_before_claim: ClaimsOpenInClaim, KillBeforeClaimOnNewServer in lossy_failover() => TWO_LIVE;
    kill_before_claim_and_w_and_number: KillBeforeClaimOnNewServer, ServerWatchedForW, SameNumberEndsFirst in lossy_failover_alone() => TWO_LIVE;
}
