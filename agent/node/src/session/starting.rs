//! From a claimed run to the warden.

use std::time::Duration;

use farmhand_core::attempt;
use farmhand_core::definition::JobSpec;
use farmhand_core::lease::BootInstant;
use farmhand_store::protocol::Claimed;
use serde::Deserialize;

use super::attempts::takeover_cause;
use super::{Attempt, Phase, Session};
use crate::reporter::Report;
use crate::verdict::{self, Verdict};
use farmhand_os::clock::boot_now;
use farmhand_os::random::random;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::request::{self, Assignment};
use farmhand_warden_client::wire::Order;

impl Session {
    pub(super) fn start(&mut self, run: Claimed, claim_sent: BootInstant, received: BootInstant) {
        let spec = match known(&run) {
            Ok(spec) => spec,
            Err(why) if run.spec.is_null() => {
                let assignment = Assignment::new(&run, JobSpec::default(), self.me.session);
                self.refuse(assignment, |a| verdict::refusal(a, why, random()));
                return;
            }
            Err(why) => {
                self.leave_to_newer(&run, why);
                return;
            }
        };
        let lag = self.db_clock.at(boot_now()).duration_since(run.ready_at);
        let mut assignment = Assignment::new(&run, spec, self.me.session);
        if let Some(older) = self.attempts.get(&assignment.id()) {
            // A failover lost the claim of the one that is here. Once that is gone, the renewals find this one held
            // and not running, and give it back.
            self.alone.unsure(received);
            if older.phase.may_live() {
                self.fence_off(assignment.id(), "its claim was lost by a failover");
            }
            return;
        }
        self.emit(Event::Claimed {
            attempt: assignment.about(),
            lag: Duration::try_from(lag).unwrap_or_default(),
            takeover: takeover_cause(&run),
        });
        let (slot, now) = (self.take_slot(), self.db_clock.at(boot_now()));
        assignment.slot = Some(slot);
        let request = request::request(&run, &assignment, &self.me.address, claim_sent, now);
        let mut request = match request {
            Ok(request) => request,
            Err(why) => {
                self.free_slots
                    .extend(Some(slot).filter(|slot| *slot <= self.slots));
                if request::key_fits(&assignment.spec, run.key.as_deref()).is_err() {
                    self.emit(Event::DefinitionRefused {
                        attempt: assignment.about(),
                        why: why.clone(),
                    });
                }
                self.refuse(assignment, |a| verdict::refusal(a, why, random()));
                return;
            }
        };
        let config = &self.ctx.config;
        request.policy.clone_from(&config.policy);
        request.secrets_dir = Some(config.outside.secrets_dir.clone());
        request.trusted_keys.clone_from(&config.trusted_keys);
        request.order = config.trusted_keys.as_ref().map(|_| {
            Box::new(Order {
                claimed: run,
                address: self.me.address.clone(),
                session: self.me.session,
                slot,
                claim_sent_ns: claim_sent.0,
                now,
                labels: self.ctx.tunable().labels,
            })
        });
        let id = assignment.id();
        self.attempts.insert(
            id,
            Attempt {
                slot: Some(slot),
                since: received,
                ..Attempt::new(assignment, Phase::Starting)
            },
        );
        if let Some(attempt) = self.attempts.get(&id) {
            let _ = self.ctx.reports.send(Report::follow(&attempt.assignment, true));
        }
        let deadlines = self.lease.deadlines();
        self.warden.spawn(request, deadlines);
    }

    /// A number that no other attempt here has: above the slots where a reload left fewer while a claim was under way.
    pub(super) fn take_slot(&mut self) -> u32 {
        let unused = |slot: &u32| self.attempts.values().all(|a| a.slot != Some(*slot));
        let free = self.free_slots.pop_first();
        free.or_else(|| (self.slots.saturating_add(1)..).find(unused))
            .unwrap_or(u32::MAX)
    }

    /// A run with what this release does not know: an agent of a newer one runs it.
    fn leave_to_newer(&mut self, run: &Claimed, why: String) {
        self.emit(Event::BadDefinition {
            job_id: run.job_id.clone(),
            error: format!(
                "{why}; run {} is given back: upgrade this agent, or apply the job with its release",
                run.run_id
            ),
        });
        let assignment = Assignment::new(run, JobSpec::default(), self.me.session);
        self.refuse(assignment, |_| Verdict::Refused { why, newer: true });
        self.note_refusal();
    }

    /// No warden is asked to start it.
    fn refuse(&mut self, assignment: Assignment, verdict: impl FnOnce(&Assignment) -> Verdict) {
        let id = assignment.id();
        let verdict = verdict(&assignment);
        let report = Report::ended(&self.me, &assignment, None, verdict);
        self.attempts.insert(id, Attempt::new(assignment, Phase::Ended));
        let _ = self.ctx.reports.send(report);
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
