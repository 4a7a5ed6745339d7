//! What a scenario contains, how far it goes, and which guards are in force.

use std::time::Duration;

use farmhand_core::lease::{CLOCK_RATE_TOLERANCE_PPM, LeaseTiming, TAKEOVER_MARGIN};

use crate::state::HOSTS;

/// One thing the protocol does against one danger. A mutation removes one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    AttemptInFinish,
    SessionInFinish,
    AddressInFinish,
    FenceInFinish,
    StateInFinish,
    KernelTimer,
    DeadlineFromSending,
    RateMargin,
    TakeoverMargin,
    RenewalsInExpire,
    SessionInExpire,
    IncarnationInExpire,
    IncarnationInRenew,
    SessionInRenew,
    OpenInExpire,
    IncarnationInOpen,
    SessionGrowsAtEnd,
    StopwatchFromReceipt,
    StopwatchAnewAfterFailover,
    KeyShareInClaim,
    SessionInClaim,
    OpenInClaim,
    RowLockInClaim,
    OneAttemptPerClaim,
    TwoSnapshotsInExpire,
    LessInSweep,
    ExpirySkipsLocked,
    Sweep,
    TombstoneBeforeRelease,
    TreeEmptyBeforeClose,
    OnlyOwnGivenBack,
    CloseNamesItsOwn,
    LateClaimReleased,
    LateOpenClosed,
    ZeroRowRenewalKills,
    OlderAgentCutOff,
    WardenServesOneSession,
    ClaimsOpenInClaim,
    ClaimsOpenInExpire,
    ClaimsOpenInOpen,
    ServerWatchedForW,
    KillBeforeClaimOnNewServer,
    SameNumberEndsFirst,
    EpochInFence,
    EpochIsRemembered,
    UnheldIsKilled,
    FreshWardenDropsClaims,
    RenewalProvesTheWarden,
    FenceEndsTheTree,
    ZeroRowFinishIsRead,
    NoWallClock,
    TtlGrowsInSession,
    WaitOfWatchedLease,
    LongestLeaseOnNewServer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub name: &'static str,
    pub removed: [Option<Guard>; 3],
    /// Address of each host; the same one twice is a configuration mistake that must do no harm.
    pub addresses: [u8; HOSTS],
    pub hosts: usize,
    pub runs: usize,
    /// Processes of a lease are gone at this age, in ticks since the confirmed renewal was sent.
    pub lease_ticks: u8,
    /// A challenger may act when its stopwatch shows this many ticks.
    pub wait_ticks: u8,
    /// Ticks by which a host's lease is longer than these: of the agent that is there at the start, and of those
    /// that are started later.
    pub longer: [[u8; 2]; HOSTS],
    pub max_attempts: u8,
    /// Per address; sessions begin at 1 and every end counts too.
    pub max_session: [u8; HOSTS],
    pub max_incarnations: u8,
    /// By a failover to a standby that lags.
    pub max_lost_commits: u8,
    pub faults: Faults,
    pub features: Features,
    pub start: Start,
}

/// How often each fault may happen on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub crashes: u8,
    pub second_agents: u8,
    pub lost_replies: u8,
    pub warden_kills: u8,
    pub restarts: u8,
    pub failovers: u8,
    pub wall_steps: u8,
    pub hangs: u8,
    pub refused_starts: u8,
    pub clones: u8,
    /// Somebody locks a run's row, and lets it go when it pleases them or never.
    pub row_locks: u8,
}

/// What takes part in a scenario; what does not cannot add states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// Attempts may fail and be retried.
    pub failures: bool,
    pub sweeps: bool,
    /// Claim, expire and close may be sent long before they are executed.
    pub delays: bool,
    /// The standby may lack the last commits.
    pub lossy: bool,
    /// After its warden died with the session not ended, the agent keeps the session.
    pub keep_session: bool,
    /// The hosts that watch others, one bit each.
    pub watchers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Nobody has a session.
    Empty,
    /// The first host has session 1 and a warden, nothing claimed.
    FirstOpen,
    /// Every host has session 1 and a warden, nothing claimed.
    AllOpen,
    /// As `AllOpen`, and run 0 is held by session 1 of the first host, whose session is 3 by now: what a
    /// careless hand at the SQL prompt leaves behind.
    Orphan,
}

impl Config {
    pub fn has(&self, guard: Guard) -> bool {
        !self.removed.contains(&Some(guard))
    }

    pub fn without(mut self, guard: Guard) -> Self {
        let free = self.removed.iter().position(Option::is_none);
        self.removed[free.expect("at most three guards are removed")] = Some(guard);
        if matches!(guard, Guard::RateMargin | Guard::TakeoverMargin) {
            (self.lease_ticks, self.wait_ticks) = exact_ticks(&self);
        }
        self
    }

    /// Each host watches the next one.
    pub fn next_host(&self, host: usize) -> usize {
        (host + 1) % self.hosts
    }

    pub fn longest(&self) -> u8 {
        self.longer.into_iter().flatten().max().unwrap_or(0)
    }

    /// When a stopwatch on a server has shown all that is waited for.
    pub fn server_ticks(&self) -> u8 {
        self.wait_ticks + self.longest()
    }

    /// Where counters of time stop.
    pub fn horizon(&self) -> u8 {
        self.lease_ticks.max(self.wait_ticks) + self.longest()
    }
}

/// The coarsest tick at which both limits of a 3.1 s lease fall on the same tick: with the holder's
/// clock slow by ρ and the challenger's fast by ρ its processes are gone at the very tick at which the
/// challenger may act, so that nothing is hidden by slack.
pub fn tight_ticks(per_lease: u32) -> (u8, u8) {
    let lease = LeaseTiming::new(Duration::from_millis(3100)).expect("3.1 s is long enough");
    let tick = Duration::from_millis(3300) / per_lease;
    let gone = slow(lease.lifetime() + lease.kill_allowance());
    (ticks(gone, tick), ticks(fast(lease.challenge_after()), tick))
}

/// With a lease so long that ρ outweighs the takeover margin, and a tick of exactly a third of it.
fn exact_ticks(cfg: &Config) -> (u8, u8) {
    let lease = LeaseTiming::new(Duration::from_secs(999)).expect("999 s are long enough");
    let tick = Duration::from_secs(333);
    let gone = if cfg.has(Guard::RateMargin) {
        lease.lifetime() + lease.kill_allowance()
    } else {
        lease.ttl()
    };
    let margin = if cfg.has(Guard::TakeoverMargin) {
        Duration::ZERO
    } else {
        TAKEOVER_MARGIN
    };
    (
        ticks(slow(gone), tick),
        ticks(fast(lease.challenge_after() - margin), tick),
    )
}

/// The first tick at or after `d`.
fn ticks(d: Duration, tick: Duration) -> u8 {
    u8::try_from(d.as_nanos().div_ceil(tick.as_nanos())).expect("a few ticks")
}

fn slow(d: Duration) -> Duration {
    d + d * CLOCK_RATE_TOLERANCE_PPM / 1_000_000
}

fn fast(d: Duration) -> Duration {
    d - d * CLOCK_RATE_TOLERANCE_PPM / 1_000_000
}
