//! The attempts of this warden: those that live, those that have ended and are not acknowledged, those that must not start.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::PathBuf;

use super::attempt::Attempt;
use super::connection::{Connection, OUT_LOW};
use super::poller::Poller;
use super::tombstones::{self, Tombstones};
use farmhand_os::clock::{boottime_ns, wall_ms};
use farmhand_os::reap;
use farmhand_warden_client::death::cgroup;
use farmhand_warden_client::wire::frame::{FrameError, MAX_FRAME};
use farmhand_warden_client::wire::*;

/// Of the attempts in one answer, in bytes, unless it is one alone. Everything that is forbidden fits beside them.
const PART: usize = MAX_FRAME / 2;

#[derive(Debug, Default)]
pub(super) struct Attempts {
    living: BTreeMap<AttemptId, Attempt>,
    ended: BTreeMap<AttemptId, Ended>,
    tombstones: Tombstones,
    by_slot: HashMap<u32, AttemptId>,
    by_pid: HashMap<i32, AttemptId>,
    next_slot: u32,
    /// Empty by our knowledge, but the kernel still holds on to them.
    stale_groups: Vec<PathBuf>,
}

#[derive(Debug)]
struct Ended {
    report: AttemptReport,
    /// To the newest agent.
    told: bool,
}

impl Attempts {
    pub(super) fn living(&self) -> impl Iterator<Item = &Attempt> {
        self.living.values()
    }

    pub(super) fn living_mut(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.living.values_mut()
    }

    pub(super) fn living_ids(&self) -> Vec<AttemptId> {
        self.living.keys().copied().collect()
    }

    pub(super) fn living_count(&self) -> usize {
        self.living.len()
    }

    pub(super) fn ended_count(&self) -> usize {
        self.ended.len()
    }

    /// While it lives.
    pub(super) fn get(&self, id: AttemptId) -> Option<&Attempt> {
        self.living.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.living.get_mut(&id)
    }

    /// The attempt that has this number for the poller.
    pub(super) fn in_slot(&mut self, slot: u32) -> Option<&mut Attempt> {
        self.living.get_mut(self.by_slot.get(&slot)?)
    }

    pub(super) fn of_main(&self, pid: i32) -> Option<AttemptId> {
        self.by_pid.get(&pid).copied()
    }

    /// The process of an attempt that an earlier request has started.
    pub(super) fn started(&self, id: AttemptId) -> Option<i32> {
        let living = self.living.get(&id).map(|attempt| attempt.pid);
        living.or_else(|| self.ended.get(&id).map(|ended| ended.report.pid))
    }

    /// Errors: When it must not start, or an attempt of the same run lives.
    pub(super) fn may_start(&self, id: AttemptId) -> Result<(), Refusal> {
        if self.tombstones.stands(id) {
            return Err(Refusal::Tombstone { id });
        }
        let run = AttemptId {
            run_id: id.run_id,
            attempt: i32::MIN,
        }..;
        let other = self.living.range(run).next().map(|(id, _)| *id);
        if let Some(alive) = other.filter(|other| other.run_id == id.run_id) {
            return Err(match alive.attempt > id.attempt {
                true => Refusal::Tombstone { id },
                false => Refusal::OlderAlive { alive },
            });
        }
        Ok(())
    }

    pub(super) fn next_slot(&mut self) -> u32 {
        let slot = self.next_slot;
        self.next_slot = slot.wrapping_add(1);
        slot
    }

    pub(super) fn add(&mut self, attempt: Attempt) {
        self.by_slot.insert(attempt.slot, attempt.id);
        self.by_pid.insert(attempt.pid, attempt.id);
        self.living.insert(attempt.id, attempt);
    }

    /// Its tree is empty: reaps its main process and keeps the result for an agent.
    pub(super) fn finish(&mut self, id: AttemptId, poller: &Poller) {
        let Some(attempt) = self.living.remove(&id) else {
            return;
        };
        self.by_slot.remove(&attempt.slot);
        self.by_pid.remove(&attempt.pid);
        let group = attempt.cgroup().map(PathBuf::from);
        let reaped = reap::one(attempt.pid);
        let report = attempt.finish(reaped, poller);
        self.stale_groups.extend(group);
        self.remove_groups();
        self.ended.insert(id, Ended { report, told: false });
    }

    /// Those that the kernel has let go of.
    pub(super) fn remove_groups(&mut self) {
        self.stale_groups.retain(|group| cgroup::remove(group).is_err());
    }

    pub(super) fn has_stale_groups(&self) -> bool {
        !self.stale_groups.is_empty()
    }

    /// The machine has no PID namespaces for us, or the definition is not to be trusted: that is this job's failure, not a
    /// reason to ask again.
    pub(super) fn never_started(&mut self, request: SpawnRequest, failure: StartFailure) {
        let (wall, ns) = (wall_ms(), boottime_ns());
        let result = AttemptResult {
            ending: Ending::StartFailed(failure),
            killed: None,
            started_wall_ms: wall,
            started_ns: ns,
            ended_ns: ns,
            user_us: 0,
            sys_us: 0,
            max_rss_bytes: 0,
            leftovers: 0,
            checkpoint: None,
            output: OutputStats::default(),
        };
        let report = AttemptReport {
            id: request.id,
            fence: request.fence,
            state: State::Ended,
            unkillable: false,
            pid: 0,
            started_wall_ms: wall,
            checkpoint: None,
            child_kills: Vec::new(),
            extra: request.extra,
            result: Some(result),
        };
        self.ended.insert(request.id, Ended { report, told: false });
    }

    pub(super) fn forbid(&mut self, id: AttemptId) -> Result<Reply, Refusal> {
        let living = self.get(id).map(|attempt| attempt.lifecycle.state());
        if let Some(state) = living.or(self.ended.contains_key(&id).then_some(State::Ended)) {
            return Ok(Reply::AlreadyStarted { state });
        }
        match self.tombstones.forbid(id) {
            true => Ok(Reply::Forbidden),
            false => Err(Refusal::Full {
                what: "forbidden attempts".into(),
                max: tombstones::MAX_FORBIDDEN as u32,
            }),
        }
    }

    pub(super) fn ack(&mut self, id: AttemptId) -> Result<Reply, Refusal> {
        if self.living.contains_key(&id) {
            return Err(Refusal::Running { id });
        }
        if self.ended.remove(&id).is_some() {
            self.tombstones.done(id);
        } else if !self.tombstones.stands(id) {
            return Err(Refusal::Unknown { id });
        }
        Ok(Reply::Acked)
    }

    /// Those behind `after`, as many as fit into an answer. One does: what the agent noted of it came in one frame, with more
    /// beside it.
    pub(super) fn list(&self, after: Option<AttemptId>) -> Listing {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = (first, Bound::<AttemptId>::Unbounded);
        let living = self.living.range(behind).map(|(id, _)| *id);
        let ended = self.ended.range(behind).map(|(id, _)| *id);
        let mut ids: Vec<AttemptId> = living.chain(ended).collect();
        ids.sort_unstable();
        let mut listing = Listing::default();
        let mut bytes = 0;
        for id in ids {
            let living = self.living.get(&id).map(Attempt::report);
            let Some(report) = living.or_else(|| self.ended.get(&id).map(|e| e.report.clone())) else {
                continue;
            };
            bytes += serde_json::to_vec(&report).map_or(0, |text| text.len());
            if bytes > PART && !listing.attempts.is_empty() {
                listing.more = true;
                return listing;
            }
            listing.attempts.push(report);
        }
        if bytes > PART {
            listing.more = true;
        } else {
            listing.tombstones = self.tombstones.forbidden();
        }
        listing
    }

    /// The newest agent is told everything that nobody acknowledged.
    pub(super) fn tell_anew(&mut self) {
        for ended in self.ended.values_mut() {
            ended.told = false;
        }
        for attempt in self.living.values_mut() {
            attempt.children.tell_anew();
        }
    }

    /// What this agent has not been told; ends as long as it reads.
    pub(super) fn send_notices(&mut self, agent: &mut Connection, now: u64) -> Result<(), FrameError> {
        let mut tell = |event| agent.send(&FromWarden::Event(event));
        for attempt in self.living.values_mut() {
            if attempt.tell_progress_at.is_some_and(|at| now >= at) {
                attempt.told_progress(now);
                tell(Event::Progress {
                    id: attempt.id,
                    checkpoint: attempt.checkpoint.clone(),
                    wall_ms: wall_ms(),
                })?;
            }
            let id = attempt.id;
            for kill in attempt.children.untold() {
                tell(Event::ChildKilled { id, kill })?;
            }
        }
        for ended in self.ended.values_mut().filter(|e| !e.told) {
            if agent.unread() > OUT_LOW {
                break;
            }
            ended.told = true;
            // An agent that hears of an end has asked for the attempt, or has read of it in the list.
            let extra = std::mem::take(&mut ended.report.extra);
            let event = Event::Exited(Box::new(ended.report.clone()));
            ended.report.extra = extra;
            agent.send(&FromWarden::Event(event))?;
        }
        Ok(())
    }
}
