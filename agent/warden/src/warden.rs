//! The loop: turn inputs into events, let each attempt's lifecycle decide, act. One thread, no blocking call but
//! the wait; should one hang all the same, the kernel's timer ends the process and the reaper the rest.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::args::Args;
use super::attempt::Attempt;
use super::lifecycle::{Act, Happened};
use super::plan::Restore;
use super::poller::{Poller, Source};
use super::server::{Connection, listen};
use super::spawn::Liveness;
use super::timer::KernelFence;
use super::tombstones::Tombstones;
use super::{child, log, tree};
use farmhand_core::lease::BootInstant;
use farmhand_os::accounts::Listed;
use farmhand_os::alarm::Alarm;
use farmhand_os::clock::{MILLISECOND, SECOND, boottime_ns};
use farmhand_os::reap;
use farmhand_os::signal::Signals;
use farmhand_policy::trust::Seen;
use farmhand_warden_client::death::census::Census;
use farmhand_warden_client::death::cgroup::{self, Parent};
use farmhand_warden_client::paths::Paths;
use farmhand_warden_client::wire::*;

/// How soon the tree of an ended main process is looked at again, should no SIGCHLD tell.
const LOOK_AGAIN: u64 = 20 * MILLISECOND;
pub(super) const WATCH_LIMITS: u64 = SECOND;

pub(super) struct Warden {
    pub(super) args: Args,
    pub(super) paths: Paths,
    pub(super) cgroup: Option<Parent>,
    pub(super) poller: Poller,
    pub(super) listener: UnixListener,
    signals: Signals,
    wake: Alarm,
    /// What it was last set to.
    wake_at: u64,
    fence: KernelFence,
    pub(super) liveness: Liveness,
    pub(super) restore: Restore,
    pub(super) own: Listed,
    /// What has been signed so far, over the lives of wardens.
    pub(super) seen: Seen,
    pub(super) deadline_ns: u64,
    pub(super) soft_ns: u64,
    pub(super) soft_done: bool,
    pub(super) living: BTreeMap<AttemptId, Attempt>,
    pub(super) ended: BTreeMap<AttemptId, Ended>,
    pub(super) tombstones: Tombstones,
    pub(super) slots: HashMap<u32, AttemptId>,
    pub(super) by_pid: HashMap<i32, AttemptId>,
    pub(super) next_slot: u32,
    pub(super) connections: BTreeMap<u32, Connection>,
    pub(super) next_connection: u32,
    pub(super) generation: u64,
    pub(super) leaving: bool,
    pub(super) census: Census,
    /// In this turn of the loop.
    pub(super) census_taken: bool,
    /// More ended processes wait than one turn reaps.
    pub(super) zombies_left: bool,
    /// Empty by our knowledge, but the kernel still holds on to them.
    stale_groups: Vec<PathBuf>,
    pub(super) watch_limits_at: u64,
    /// Both the warden and its reaper hold it while they live.
    _lock: OwnedFd,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) report: AttemptReport,
    /// To the newest agent.
    pub(super) told: bool,
}

/// Never returns.
pub(crate) fn run(args: Args) -> ! {
    farmhand_os::process::name_process(c"farmhand-warden");
    let code = match Warden::new(args).and_then(|mut warden| warden.serve()) {
        Ok(()) => 0,
        Err(error) => {
            // Read by the agent that started it, until it is told "ready".
            let _ = writeln!(io::stdout(), "{error}");
            log(format_args!("warden: {error}"));
            1
        }
    };
    std::process::exit(code)
}

impl Warden {
    fn new(mut args: Args) -> io::Result<Warden> {
        child::die_with_parent();
        child::exit_if_orphaned(args.parent);
        // SAFETY: the reaper passed these descriptors on for the warden to own.
        let (lock, alarm) = unsafe {
            (
                OwnedFd::from_raw_fd(args.lock_fd),
                OwnedFd::from_raw_fd(args.fence_fd),
            )
        };
        // First of all: from here on it cannot outlive its lease, whatever happens.
        let fence = KernelFence::arm(args.deadline_ns, Alarm::inherited(alarm))?;
        child::close_on_exec(args.lock_fd, true);
        child::close_on_exec(args.fence_fd, true);
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let restore = super::raise_limits(args.oom_score_adj);
        args.max_attempts = args.max_attempts.min(super::room_for_attempts());
        let paths = Paths::new(&args.state_dir);
        Self::with(args, paths, restore, fence, lock)
    }

    /// What does not concern the process that it lives in.
    pub(super) fn with(
        mut args: Args,
        paths: Paths,
        restore: Restore,
        fence: KernelFence,
        lock: OwnedFd,
    ) -> io::Result<Warden> {
        let poller = Poller::new()?;
        let signals = Signals::block()?;
        let wake = Alarm::new()?;
        let listener = listen(&paths)?;
        poller.read(&listener, Source::Listener)?;
        poller.read(signals.fd(), Source::Signals)?;
        poller.read(&wake, Source::Wake)?;
        Ok(Warden {
            cgroup: args.cgroup.take().map(Parent::new),
            seen: Seen::new(paths.seen()),
            paths,
            poller,
            listener,
            signals,
            wake,
            wake_at: 0,
            fence,
            liveness: Liveness::new()?,
            restore,
            own: Listed::new(rustix::process::geteuid().as_raw()),
            deadline_ns: args.deadline_ns,
            soft_ns: args.soft_ns,
            soft_done: false,
            living: BTreeMap::new(),
            ended: BTreeMap::new(),
            tombstones: Tombstones::default(),
            slots: HashMap::new(),
            by_pid: HashMap::new(),
            next_slot: 0,
            connections: BTreeMap::new(),
            next_connection: 0,
            generation: 0,
            leaving: false,
            census: Census::default(),
            census_taken: false,
            zombies_left: false,
            stale_groups: Vec::new(),
            watch_limits_at: 0,
            _lock: lock,
            args,
        })
    }

    fn serve(&mut self) -> io::Result<()> {
        let _ = writeln!(io::stdout(), "ready");
        rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null")?)?;
        let Serving { session, incarnation } = self.args.serving;
        log(format_args!("warden: serving session {session} ({incarnation})"));
        while !self.done() {
            self.run_once()?;
        }
        log(format_args!("warden: all ended, leaving"));
        Ok(())
    }

    fn done(&self) -> bool {
        let unread = self
            .connections
            .values()
            .any(|c| c.agent && (c.unread() > 0 || !self.ended.is_empty()));
        self.leaving && self.living.is_empty() && !unread
    }

    pub(super) fn run_once(&mut self) -> io::Result<()> {
        self.arm()?;
        let sources = self.poller.wait()?;
        self.census_taken = false;
        for source in sources {
            match source {
                Source::Listener => self.accept(),
                Source::Signals => self.on_signals(),
                Source::Wake if self.zombies_left => self.reap(),
                Source::Wake => {}
                Source::Connection(number) => self.on_connection(number),
                Source::Attempt(slot, channel) => {
                    let Some(attempt) = self.slots.get(&slot).and_then(|id| self.living.get_mut(id)) else {
                        continue;
                    };
                    let now = boottime_ns();
                    if attempt.ready(channel, &self.poller, now) {
                        attempt.lifecycle.next(now, Happened::Progress);
                    }
                }
            }
        }
        self.tick()?;
        self.send_notices();
        Ok(())
    }

    /// The session's deadline or the earliest hard end, `also` included: an attempt's counts from before its
    /// fork, since this process can be stopped right after it.
    pub(super) fn arm_fence(&mut self, also: Option<u64>) -> io::Result<()> {
        let living = self.living.values().filter(|a| a.lifecycle.needs_hard_end());
        let hard_ends = living.filter_map(|a| a.request.hard_end_ns).chain(also);
        self.fence.set(hard_ends.fold(self.deadline_ns, u64::min))
    }

    /// Sets both timers to what the state asks for.
    fn arm(&mut self) -> io::Result<()> {
        self.arm_fence(None)?;
        let now = boottime_ns();
        let mut wake = if self.soft_done {
            self.deadline_ns
        } else {
            self.soft_ns
        };
        // Without an agent its progress waits for the next one.
        let heard = self.connections.values().any(|c| c.open_for_notices);
        for attempt in self.living.values() {
            let progress = attempt.tell_progress_at.filter(|_| heard);
            let own = [attempt.lifecycle.next_wake(), progress];
            wake = own
                .into_iter()
                .chain(attempt.resumes())
                .flatten()
                .fold(wake, u64::min);
            if attempt.lifecycle.main_ended() {
                wake = wake.min(now + LOOK_AGAIN);
            }
            if attempt.watches() {
                wake = wake.min(self.watch_limits_at);
            }
        }
        if !self.stale_groups.is_empty() {
            wake = wake.min(now + 5 * LOOK_AGAIN);
        }
        if self.zombies_left {
            wake = now;
        }
        // One that has passed is set again: that is what makes it be quiet.
        if wake != self.wake_at || wake <= now {
            self.wake.set(BootInstant(wake))?;
            self.wake_at = wake;
        }
        Ok(())
    }

    fn tick(&mut self) -> io::Result<()> {
        let now = boottime_ns();
        if !self.soft_done && now >= self.soft_ns {
            self.soft_done = true;
            log(format_args!(
                "warden: the session's end is near: ending {} attempts",
                self.living.len()
            ));
            self.end_all_for_lease(now);
        }
        self.watch_limits(now);
        let ids: Vec<AttemptId> = self.living.keys().copied().collect();
        for id in ids {
            let Some(attempt) = self.living.get_mut(&id) else {
                continue;
            };
            attempt.resume(&self.poller, now);
            let act = attempt.lifecycle.next(now, Happened::Tick);
            let look = attempt.lifecycle.main_ended();
            self.act(id, act);
            if look {
                self.look_for_empty(id);
            }
        }
        self.stale_groups.retain(|group| cgroup::remove(group).is_err());
        Ok(())
    }

    /// SIGTERM to everything, and SIGKILL early enough that results can still be told.
    fn end_all_for_lease(&mut self, now: u64) {
        let left = self.deadline_ns.saturating_sub(now);
        let lead = (left / 4).min(SECOND / 2);
        let grace = left - lead;
        self.ask_all(|attempt| Happened::Asked {
            reason: KillReason::Lease,
            grace_ns: grace.min(attempt.request.grace_ms.saturating_mul(MILLISECOND)),
        });
    }

    /// Lets each living attempt know of something; answers how many there are.
    pub(super) fn ask_all(&mut self, happened: impl Fn(&Attempt) -> Happened) -> u32 {
        let ids: Vec<AttemptId> = self.living.keys().copied().collect();
        for id in &ids {
            self.ask(*id, &happened);
        }
        ids.len() as u32
    }

    pub(super) fn ask(&mut self, id: AttemptId, happened: impl Fn(&Attempt) -> Happened) {
        if let Some(attempt) = self.living.get_mut(&id) {
            let happened = happened(attempt);
            let act = attempt.lifecycle.next(boottime_ns(), happened);
            self.act(id, act);
        }
    }

    pub(super) fn act(&mut self, id: AttemptId, act: Option<Act>) {
        let Some(act) = act else { return };
        if act == Act::End {
            return self.end(id);
        }
        if act == Act::Kill
            && let Some(attempt) = self.living.get(&id)
        {
            tree::kill_cgroup(attempt);
        }
        self.take_census();
        let Some(attempt) = self.living.get(&id) else {
            return;
        };
        match act {
            Act::Terminate => tree::terminate(attempt, self.census.of(id)),
            Act::Kill => tree::kill(attempt, self.census.of(id)),
            Act::ReportUnkillable => {
                let pids = tree::members(attempt, self.census.of(id))
                    .iter()
                    .map(|s| s.pid)
                    .collect();
                log(format_args!(
                    "warden: the kernel cannot end attempt {id}: {pids:?}"
                ));
                self.tell(Event::Unkillable { id, pids });
            }
            Act::End => {}
        }
    }

    fn end(&mut self, id: AttemptId) {
        let Some(attempt) = self.living.remove(&id) else {
            return;
        };
        self.slots.remove(&attempt.slot);
        self.by_pid.remove(&attempt.pid);
        let group = attempt.cgroup().map(PathBuf::from);
        let reaped = reap::one(attempt.pid);
        let report = attempt.finish(reaped, &self.poller);
        if let Some(group) = group
            && cgroup::remove(&group).is_err()
        {
            self.stale_groups.push(group);
        }
        self.ended.insert(id, Ended { report, told: false });
    }

    fn on_signals(&mut self) {
        // The others are an agent's, not a warden's.
        if self.signals.take().contains(&libc::SIGTERM) && !self.leaving {
            log(format_args!("warden: SIGTERM: ending everything"));
            self.leaving = true;
            self.ask_all(|attempt| Happened::Asked {
                reason: KillReason::Shutdown,
                grace_ns: attempt.request.grace_ms.saturating_mul(MILLISECOND),
            });
        }
        self.reap();
    }
}
