//! From a claimed run, or one that an earlier agent's warden runs, to the warden. Where the machine refuses starts, less is claimed
//! until something starts again.

use std::time::Duration;

use farmhand_core::attempt;
use farmhand_core::definition::JobSpec;
use farmhand_core::lease::BootInstant;
use farmhand_os::random::random;
use farmhand_store::protocol::Claimed;
use farmhand_telemetry::events::{Event, TakeoverCause};
use farmhand_warden_client::request::{self, Assignment};
use farmhand_warden_client::wire::{AttemptId, AttemptReport, KillReason, Order, State};
use farmhand_warden_client::{Notices, WardenClient, WardenError};
use jiff::Timestamp;
use serde::Deserialize;

use super::held::{Attempt, Attempts, Follows, Phase};
use crate::inbox::NotStarted;
use crate::reporter::Report;
use crate::session::database::DbClock;
use crate::session::io::Io;
use crate::session::lease::Deadlines;
use crate::verdict::{self, Verdict};
use farmhand_os::clock::boot_now;

/// Of what a node's row says.
const WHY_MAX: usize = 300;

impl Attempts {
    pub(crate) fn start(
        &mut self,
        io: &Io,
        run: Claimed,
        (sent, received): (BootInstant, BootInstant),
        clock: &DbClock,
        deadlines: Deadlines,
    ) -> Follows {
        let spec = match known(&run) {
            Ok(spec) => spec,
            Err(why) if run.spec.is_null() => {
                let assignment = Assignment::new(&run, JobSpec::default(), io.me.session);
                let verdict = verdict::refusal(&assignment, why, random());
                self.refuse(io, assignment, verdict);
                return Follows::Nothing;
            }
            // It has what this release does not know: an agent of a newer one runs it.
            Err(why) => {
                io.emit(Event::BadDefinition {
                    job_id: run.job_id.clone(),
                    error: format!(
                        "{why}; run {} is given back: upgrade this agent, or apply the job with its release",
                        run.run_id
                    ),
                });
                let assignment = Assignment::new(&run, JobSpec::default(), io.me.session);
                self.refuse(io, assignment, Verdict::Refused { why, newer: true });
                return Follows::Refusal;
            }
        };
        let mut assignment = Assignment::new(&run, spec, io.me.session);
        let id = assignment.id();
        if let Some(older) = self.by_id.get(&id) {
            // A failover lost the claim of the one that is here. Once that is gone, the renewals find this one held
            // and not running, and give it back.
            if older.phase.may_live() {
                self.fence_off(io, id, "its claim was lost by a failover");
            }
            return Follows::Unsure;
        }
        let now = clock.at(boot_now());
        io.emit(Event::Claimed {
            attempt: assignment.about(),
            lag: Duration::try_from(now.duration_since(run.ready_at)).unwrap_or_default(),
            takeover: takeover_cause(&run),
        });
        let slot = self.take_slot();
        assignment.slot = Some(slot);
        let request = request::request(&run, &assignment, &io.me.address, sent, now);
        let mut request = match request {
            Ok(request) => request,
            Err(why) => {
                self.slots.free(Some(slot));
                if request::key_fits(&assignment.spec, run.key.as_deref()).is_err() {
                    io.emit(Event::DefinitionRefused {
                        attempt: assignment.about(),
                        why: why.clone(),
                    });
                }
                let verdict = verdict::refusal(&assignment, why, random());
                self.refuse(io, assignment, verdict);
                return Follows::Nothing;
            }
        };
        let config = &io.ctx.config;
        request.policy.clone_from(&config.policy);
        request.secrets_dir = Some(config.outside.secrets_dir.clone());
        request.trusted_keys.clone_from(&config.trusted_keys);
        request.order = config.trusted_keys.as_ref().map(|_| {
            Box::new(Order {
                claimed: run,
                address: io.me.address.clone(),
                session: io.me.session,
                slot,
                claim_sent_ns: sent.0,
                now,
                labels: io.ctx.tunable().labels,
            })
        });
        io.report(Report::follow(&assignment, true));
        let attempt = Attempt {
            slot: Some(slot),
            since: received,
            ..Attempt::new(assignment, Phase::Starting)
        };
        self.by_id.insert(id, attempt);
        self.warden.spawn(request, deadlines);
        Follows::Nothing
    }

    /// No warden is asked to start it.
    fn refuse(&mut self, io: &Io, assignment: Assignment, verdict: Verdict) {
        let (id, mut attempt) = (assignment.id(), Attempt::new(assignment, Phase::Ended));
        attempt.ends(io, &mut self.slots, None, verdict);
        self.by_id.insert(id, attempt);
    }

    /// Won too late to be used, or while leaving: no warden has heard of it. The session waits until it is given back.
    pub(crate) fn claimed_in_vain(&mut self, io: &Io, run: &Claimed) -> Follows {
        let assignment = Assignment::new(run, JobSpec::default(), io.me.session);
        let id = assignment.id();
        if self.by_id.contains_key(&id) {
            // A failover lost the claim of the one that is here: the renewals end that, then give this one back.
            return Follows::Unsure;
        }
        self.to_forbid.insert(id);
        self.by_id.insert(id, Attempt::new(assignment, Phase::Refused));
        Follows::Nothing
    }

    /// The warden answered, or was never asked. `ends`: the attempt was told to end while no warden could be.
    pub(crate) fn spawned(
        &mut self,
        io: &Io,
        id: AttemptId,
        result: Result<i32, NotStarted>,
        ends: bool,
        now: BootInstant,
    ) -> Follows {
        let Some(attempt) = self.by_id.get_mut(&id) else {
            return Follows::Nothing;
        };
        match result {
            Ok(pid) => {
                if attempt.phase == Phase::Starting {
                    attempt.phase = Phase::Running;
                }
                let about = attempt.assignment.about();
                io.report(Report::Started {
                    me: io.me.clone(),
                    attempt: id.fenced(about.fence),
                    at: Timestamp::now(),
                });
                io.emit(Event::Started { attempt: about, pid });
                let resumed = io.ctx.start_pause().started(now, self.slots.count);
                self.end_again(id, ends);
                let Some(after) = resumed else {
                    return Follows::Nothing;
                };
                io.emit(Event::StartsResumed { after });
                Follows::Renewal
            }
            Err(NotStarted::Invalid(_)) if attempt.phase == Phase::Ended => Follows::Nothing,
            Err(NotStarted::Invalid(why)) => {
                // The same everywhere, so that this is its end; no warden starts it.
                let verdict = verdict::refusal(&attempt.assignment, why, random());
                attempt.ends(io, &mut self.slots, None, verdict);
                self.show_slots(io);
                Follows::Nothing
            }
            Err(NotStarted::Machine(why)) => self.start_refused(io, id, why, now),
            Err(NotStarted::Refused(why)) => {
                // Not known here any more, so the next renewals take it back, with a tombstone first.
                tracing::warn!("run {} attempt {} was not started: {why}", id.run_id, id.attempt);
                self.forget(io, id);
                Follows::Unsure
            }
        }
    }

    /// Its slot stays taken until its run is given back.
    fn start_refused(&mut self, io: &Io, id: AttemptId, mut why: String, now: BootInstant) -> Follows {
        let Some(attempt) = self.by_id.get_mut(&id).filter(|a| a.phase == Phase::Starting) else {
            return Follows::Nothing;
        };
        tracing::debug!("run {} attempt {} was not started: {why}", id.run_id, id.attempt);
        attempt.phase = Phase::Refused;
        self.to_forbid.insert(id);
        self.show_slots(io);
        why = why.chars().take(WHY_MAX).collect();
        if !io.ctx.start_pause().refused(now, random(), &why) {
            return Follows::Nothing;
        }
        io.emit(Event::StartsRefused { why });
        Follows::Renewal
    }

    pub(crate) fn warden_started(
        &mut self,
        io: &Io,
        result: Result<(WardenClient, Notices), WardenError>,
        deadlines: Deadlines,
        now: BootInstant,
    ) -> Follows {
        let mut follows = Follows::Nothing;
        match result {
            Ok((client, notices)) => self.warden.insert(client, notices, deadlines),
            Err(e) => {
                tracing::error!("the warden did not start: {e}");
                for id in self.warden.start_failed() {
                    let why = format!("the warden did not start: {e}");
                    if self.start_refused(io, id, why, now) == Follows::Renewal {
                        follows = Follows::Renewal;
                    }
                }
            }
        }
        follows
    }

    /// Takes over what the warden of an earlier agent runs. Returns what has ended there.
    pub(crate) fn adopt(
        &mut self,
        io: &Io,
        reports: Vec<AttemptReport>,
        since: BootInstant,
    ) -> Vec<AttemptReport> {
        let mut ended = Vec::new();
        for report in reports {
            let Ok(assignment) = serde_json::from_value::<Assignment>(report.extra.clone()) else {
                // From a version whose notes cannot be read: it ran, so it is lost once it has ended.
                self.left_behind.insert(report.id);
                match report.state {
                    State::Ended => self.warden.ack(report.id),
                    _ => self.warden.kill(report.id, Duration::ZERO, KillReason::Fenced),
                }
                continue;
            };
            let kept = assignment.slot.filter(|slot| self.slots.keep(*slot));
            let slot = kept.unwrap_or_else(|| self.take_slot());
            io.report(Report::follow(&assignment, false));
            let attempt = Attempt {
                slot: Some(slot),
                since,
                unkillable: report.unkillable,
                ..Attempt::new(assignment, Phase::Running)
            };
            self.by_id.insert(report.id, attempt);
            // The agent before this one may not have stored it.
            if report.checkpoint.is_some() {
                self.progressed(io, report.id, report.checkpoint.clone());
            }
            if report.state == State::Ended {
                ended.push(report);
            } else if let Ok(at) = Timestamp::from_millisecond(report.started_wall_ms) {
                // The agent before this one may have ended before it had written the start down.
                io.report(Report::Started {
                    me: io.me.clone(),
                    attempt: report.id.fenced(report.fence),
                    at,
                });
            }
        }
        self.show_slots(io);
        ended
    }
}

/// The definition of a run of which this release knows what made it and what is to be run. A job file always names one of
/// the three, and so does a newer release's.
fn known(run: &Claimed) -> Result<JobSpec, String> {
    let spec = JobSpec::deserialize(&*run.spec).map_err(|e| format!("the definition cannot be read: {e}"))?;
    if run.kind == attempt::RunKind::Unknown {
        return Err("this release does not know what kind of run it is".to_owned());
    }
    if spec.command.is_none() && spec.flow.is_none() && spec.stream.is_none() {
        return Err("the definition has neither a command nor a flow nor a stream".to_owned());
    }
    Ok(spec)
}

fn takeover_cause(run: &Claimed) -> Option<TakeoverCause> {
    match run.reason.as_deref() {
        Some("expired" | "lost" | "held") => Some(TakeoverCause::Expired),
        Some("drained" | "released") => Some(TakeoverCause::Drain),
        Some("forced") => Some(TakeoverCause::Forced),
        _ => None,
    }
}
