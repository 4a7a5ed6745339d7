//! The loop: turn inputs into events, let each attempt's lifecycle decide, act. One thread, no blocking call but
//! the wait; should one hang all the same, the kernel's timer ends the process and the reaper the rest.

use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use super::args::Args;
use super::attempt::Attempt;
use super::attempts::Attempts;
use super::child::spawn::Liveness;
use super::child::{Restore, process};
use super::ends::Ends;
use super::fence::KernelFence;
use super::lifecycle::{Act, Happened};
use super::log::log;
use super::machine::{raise_limits, room_for_attempts};
use super::peers::Peers;
use super::poller::{Poller, Source};
use super::tree;
use super::trees::Trees;
use farmhand_os::accounts::Listed;
use farmhand_os::alarm::Alarm;
use farmhand_os::clock::{MILLISECOND, SECOND, boottime_ns};
use farmhand_os::process::own_children;
use farmhand_os::reap;
use farmhand_os::signal::Signals;
use farmhand_policy::trust::Seen;
use farmhand_warden_client::Launch;
use farmhand_warden_client::death::cgroup::Parent;
use farmhand_warden_client::paths::Paths;
use farmhand_warden_client::wire::*;

/// How soon the tree of an ended main process is looked at again, should no SIGCHLD tell.
const LOOK_AGAIN: u64 = 20 * MILLISECOND;
/// Orphans reaped in one turn of the loop. A job can make more of them as fast as they go, for as long as it likes.
const AT_ONCE: usize = 256;

pub(super) struct Warden {
    pub(super) launch: Launch,
    pub(super) paths: Paths,
    pub(super) cgroup: Option<Parent>,
    pub(super) poller: Poller,
    signals: Signals,
    pub(super) ends: Ends,
    pub(super) peers: Peers,
    pub(super) attempts: Attempts,
    trees: Trees,
    pub(super) liveness: Liveness,
    pub(super) restore: Restore,
    pub(super) own_user: Listed,
    /// What has been signed so far, over the lives of wardens.
    pub(super) seen: Seen,
    pub(super) leaving: bool,
    /// More ended processes wait than one turn reaps.
    zombies_left: bool,
    /// Both the warden and its reaper hold it while they live.
    _lock: OwnedFd,
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
        process::die_with_parent();
        process::exit_if_orphaned(args.parent.pid);
        // SAFETY: the reaper passed these descriptors on for the warden to own.
        let (lock, alarm) = unsafe {
            (
                OwnedFd::from_raw_fd(args.parent.lock_fd),
                OwnedFd::from_raw_fd(args.parent.fence_fd),
            )
        };
        // First of all: from here on it cannot outlive its lease, whatever happens.
        let fence = KernelFence::arm(args.launch.deadline_ns, Alarm::inherited(alarm))?;
        process::close_on_exec(args.parent.lock_fd, true);
        process::close_on_exec(args.parent.fence_fd, true);
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let restore = raise_limits(args.parent.oom_score_adj);
        args.launch.max_attempts = args.launch.max_attempts.min(room_for_attempts());
        let paths = Paths::new(&args.launch.state_dir);
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
        let ends = Ends::new(fence, args.launch.deadline_ns, args.launch.soft_ns)?;
        let peers = Peers::new(&paths, &poller)?;
        poller.read(signals.fd(), Source::Signals)?;
        poller.read(ends.wake(), Source::Wake)?;
        let cgroup = args.parent.cgroup.take().map(Parent::new);
        Ok(Warden {
            trees: Trees::new(paths.runs(), cgroup.is_some()),
            cgroup,
            seen: Seen::new(paths.seen()),
            paths,
            poller,
            signals,
            ends,
            peers,
            attempts: Attempts::default(),
            liveness: Liveness::new()?,
            restore,
            own_user: Listed::new(rustix::process::geteuid().as_raw()),
            leaving: false,
            zombies_left: false,
            _lock: lock,
            launch: args.launch,
        })
    }

    fn serve(&mut self) -> io::Result<()> {
        let _ = writeln!(io::stdout(), "ready");
        rustix::stdio::dup2_stdout(std::fs::File::open("/dev/null")?)?;
        let Serving { session, incarnation } = self.launch.serving;
        log(format_args!("warden: serving session {session} ({incarnation})"));
        while !self.done() {
            self.run_once()?;
        }
        log(format_args!("warden: all ended, leaving"));
        Ok(())
    }

    fn done(&self) -> bool {
        let unacknowledged = self.attempts.ended_count() > 0;
        let unread = self.peers.agent_has_unread(unacknowledged);
        self.leaving && self.attempts.living_count() == 0 && !unread
    }

    pub(super) fn run_once(&mut self) -> io::Result<()> {
        self.arm()?;
        let sources = self.poller.wait()?;
        self.trees.begin_turn();
        for source in sources {
            match source {
                Source::Listener => self.peers.accept_all(&self.poller),
                Source::Signals => self.on_signals(),
                Source::Wake if self.zombies_left => self.reap(),
                Source::Wake => {}
                Source::Connection(number) => self.on_connection(number),
                Source::Attempt(slot, channel) => {
                    let Some(attempt) = self.attempts.in_slot(slot) else {
                        continue;
                    };
                    let now = boottime_ns();
                    if attempt.ready(channel, &self.poller, now) {
                        attempt.lifecycle.next(now, Happened::Progress);
                    }
                }
            }
        }
        self.tick();
        self.peers.send_notices(&mut self.attempts, &self.poller);
        Ok(())
    }

    /// The session's deadline or the earliest hard end, `also` included: an attempt's counts from before its
    /// fork, since this process can be stopped right after it.
    pub(super) fn arm_fence(&mut self, also: Option<u64>) -> io::Result<()> {
        let living = self.attempts.living().filter(|a| a.lifecycle.needs_hard_end());
        let hard_ends = living.filter_map(|a| a.request.hard_end_ns).chain(also);
        self.ends.arm_fence(hard_ends)
    }

    /// Sets both timers to what the state asks for.
    fn arm(&mut self) -> io::Result<()> {
        self.arm_fence(None)?;
        let now = boottime_ns();
        // Without an agent its progress waits for the next one.
        let heard = self.peers.anybody_listens();
        let watch_limits_at = self.trees.watch_limits_at();
        let of_attempt = |attempt: &Attempt| {
            let progress = attempt.tell_progress_at.filter(|_| heard);
            let look = attempt.lifecycle.main_ended().then_some(now + LOOK_AGAIN);
            let limits = attempt.watches().then_some(watch_limits_at);
            let own = [attempt.lifecycle.next_wake(), progress, look, limits];
            own.into_iter().chain(attempt.resumes()).flatten()
        };
        let stale = self.attempts.has_stale_groups().then_some(now + 5 * LOOK_AGAIN);
        let zombies = self.zombies_left.then_some(now);
        let all = self.attempts.living().flat_map(of_attempt);
        self.ends.arm_wake(all.chain(stale).chain(zombies), now)
    }

    fn tick(&mut self) {
        let now = boottime_ns();
        if self.ends.soft_end_has_come(now) {
            log(format_args!(
                "warden: the session's end is near: ending {} attempts",
                self.attempts.living_count()
            ));
            self.end_all_for_lease(now);
        }
        for (id, reason) in self.trees.beyond_limits(&mut self.attempts, now) {
            self.ask(id, |_| Happened::Asked { reason, grace_ns: 0 });
        }
        for id in self.attempts.living_ids() {
            let Some(attempt) = self.attempts.get_mut(id) else {
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
        self.attempts.remove_groups();
    }

    /// SIGTERM to everything, and SIGKILL early enough that results can still be told.
    fn end_all_for_lease(&mut self, now: u64) {
        let left = self.ends.deadline_ns().saturating_sub(now);
        let lead = (left / 4).min(SECOND / 2);
        let grace = left - lead;
        self.ask_all(|attempt| Happened::Asked {
            reason: KillReason::Lease,
            grace_ns: grace.min(attempt.request.grace_ms.saturating_mul(MILLISECOND)),
        });
    }

    /// Lets each living attempt know of something.
    pub(super) fn ask_all(&mut self, happened: impl Fn(&Attempt) -> Happened) {
        for id in self.attempts.living_ids() {
            self.ask(id, &happened);
        }
    }

    pub(super) fn ask(&mut self, id: AttemptId, happened: impl Fn(&Attempt) -> Happened) {
        if let Some(attempt) = self.attempts.get_mut(id) {
            let happened = happened(attempt);
            let act = attempt.lifecycle.next(boottime_ns(), happened);
            self.act(id, act);
        }
    }

    fn act(&mut self, id: AttemptId, act: Option<Act>) {
        let Some(act) = act else { return };
        if act == Act::End {
            return self.attempts.finish(id, &self.poller);
        }
        let Some(attempt) = self.attempts.get(id) else {
            return;
        };
        if act == Act::Kill {
            tree::kill_cgroup(attempt);
        }
        let census = self.trees.of(id, &self.attempts);
        match act {
            Act::Terminate => tree::terminate(attempt, census),
            Act::Kill => tree::kill(attempt, census),
            Act::ReportUnkillable => {
                let pids = tree::members(attempt, census).iter().map(|s| s.pid).collect();
                log(format_args!(
                    "warden: the kernel cannot end attempt {id}: {pids:?}"
                ));
                self.peers.tell(Event::Unkillable { id, pids }, &self.poller);
            }
            Act::End => {}
        }
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

    /// The main process ended: was it the last one?
    fn look_for_empty(&mut self, id: AttemptId) {
        let census = self.trees.of(id, &self.attempts);
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        if tree::is_empty(attempt, census) {
            let act = attempt.lifecycle.next(boottime_ns(), Happened::TreeEmpty);
            self.act(id, act);
        }
    }

    /// Finds main processes that ended, and reaps everything else; what is too much for one turn, in the next.
    fn reap(&mut self) {
        self.zombies_left = false;
        for _ in 0..AT_ONCE {
            let reap::Peek::Zombie(pid) = reap::peek() else {
                return;
            };
            match self.attempts.of_main(pid) {
                None => drop(reap::one(pid)),
                Some(id) => {
                    self.main_ended(id);
                    if self.attempts.of_main(pid).is_some() {
                        return self.reap_around_zombies();
                    }
                }
            }
        }
        self.zombies_left = true;
    }

    /// Some main process stays a zombie until its tree is empty, and is all that a look at any child shows.
    fn reap_around_zombies(&mut self) {
        for pid in own_children() {
            match self.attempts.of_main(pid) {
                None => drop(reap::one(pid)),
                Some(id) if reap::is_zombie(pid) => self.main_ended(id),
                Some(_) => {}
            }
        }
    }

    fn main_ended(&mut self, id: AttemptId) {
        let empty = self.trees.is_empty(id, &self.attempts);
        let census = self.trees.of(id, &self.attempts);
        let Some(attempt) = self.attempts.get_mut(id) else {
            return;
        };
        if attempt.lifecycle.main_ended() {
            return;
        }
        let mut act = attempt.lifecycle.next(boottime_ns(), Happened::MainEnded);
        if empty {
            act = attempt.lifecycle.next(boottime_ns(), Happened::TreeEmpty);
        } else {
            attempt.leftovers = tree::members(attempt, census).len() as u32;
        }
        self.act(id, act);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fuzzing::Captive;
    use super::*;

    #[test]
    fn a_flood_of_orphans_is_reaped_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let mut captive = Captive::new(dir.path()).unwrap();
        let orphans: Vec<i32> = (0..AT_ONCE + 10)
            // SAFETY: the child ends at once.
            .map(|_| match unsafe { libc::fork() } {
                0 => unsafe { libc::_exit(0) },
                pid => pid,
            })
            .collect();
        while !orphans.iter().all(|pid| reap::is_zombie(*pid)) {
            std::thread::yield_now();
        }
        captive.warden.reap();
        assert_eq!((own_children().len(), captive.warden.zombies_left), (10, true));
        captive.warden.reap();
        assert_eq!((own_children().len(), captive.warden.zombies_left), (0, false));
    }
}
