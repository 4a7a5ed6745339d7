//! What a session tells the reporter.

use farmhand_core::run::RunState;
use farmhand_store::LeaseIdentity;
use farmhand_store::progress::Progress;
use farmhand_store::protocol;
use jiff::Timestamp;

use super::record::storable;
use super::tasks::Records;
use crate::verdict::{Verdict, detail};
use farmhand_telemetry::events::{Event, Events};
use farmhand_warden_client::request::Assignment;
use farmhand_warden_client::wire::{AttemptId, AttemptResult, KillReason};

/// An attempt to follow, or one that ended.
pub(crate) enum Report {
    Follow(Followed),
    Started {
        me: LeaseIdentity,
        attempt: protocol::Attempt,
        at: Timestamp,
    },
    Ended(Box<Ended>),
    /// These attempts get no end from this agent, and their files are removed.
    Forget(Vec<AttemptId>),
}

/// An attempt whose output is shipped.
pub(crate) struct Followed {
    pub(super) id: AttemptId,
    pub(super) job_id: String,
    pub(super) traceparent: String,
    pub(super) parent_run: Option<i64>,
    pub(super) keep: u64,
    /// Claimed by this agent, so that nothing of its output can have been stored yet.
    pub(super) fresh: bool,
    /// Its fence, the session that holds it, and what its engine writes down, if there is one: that is followed too.
    pub(super) records: Option<((i64, i64), Records)>,
}

impl Followed {
    pub(super) fn new(assignment: &Assignment, fresh: bool) -> Self {
        Self {
            id: assignment.id(),
            job_id: assignment.job_id.clone(),
            traceparent: assignment.traceparent.clone(),
            parent_run: assignment.parent_run,
            keep: assignment.spec.output.keep,
            fresh,
            records: Records::of(&assignment.spec).map(|what| ((assignment.fence, assignment.session), what)),
        }
    }
}

/// How one attempt ended, as the session decided.
pub(crate) struct Ended {
    pub(super) address: String,
    pub(super) assignment: Assignment,
    pub(super) result: Option<AttemptResult>,
    pub(super) verdict: Verdict,
    /// As it was, the database refused it.
    pub(super) shortened: bool,
    /// How the database ended the run, which would have gone on.
    pub(super) instead: Option<RunState>,
}

impl Ended {
    /// Leaves out all but the state, and says why. False when there was nothing more.
    pub(super) fn shorten(&mut self, why: &str) -> bool {
        if std::mem::replace(&mut self.shortened, true) {
            return false;
        }
        let said = storable(format!("its end could not be written down: {why}"));
        match &mut self.verdict {
            Verdict::Final { reason, .. } | Verdict::Retry { reason, .. } => *reason = Some(said),
            Verdict::Refused { why: reason, .. } | Verdict::GivenBack { reason, .. } => *reason = said,
            Verdict::Lost { .. } => return false,
        }
        true
    }

    /// The last word of a command that ended.
    pub(super) fn progress(&self) -> Option<Progress> {
        let checkpoint = self.result.as_ref()?.checkpoint.clone()?;
        Some(Progress {
            run_id: self.assignment.run_id,
            attempt: self.assignment.attempt,
            fence: self.assignment.fence,
            address: self.address.clone(),
            session: self.assignment.session,
            checkpoint: Some(checkpoint),
        })
    }

    pub(super) fn tell(&self, events: &Events) {
        let about = self.assignment.about();
        if let Some(result) = &self.result {
            if result.timed_out() || result.killed == Some(KillReason::Progress) {
                events.emit(Event::TimedOut {
                    attempt: about.clone(),
                    limit: if result.timed_out() { "run" } else { "progress" },
                });
            }
            if result.left_behind().is_some() {
                events.emit(Event::LeftoversEnded {
                    attempt: about.clone(),
                    processes: result.leftovers,
                });
            }
            if result.output.dropped_bytes > 0 {
                events.emit(Event::OutputDropped {
                    run_id: about.run_id,
                    attempt: about.attempt,
                    bytes: result.output.dropped_bytes,
                    error: result.output.error.clone(),
                });
            }
        }
        let ended = |about, state: RunState| {
            events.emit(Event::Ended {
                attempt: about,
                outcome: state.as_str(),
                ran: self.result.as_ref().map(AttemptResult::ran),
                detail: self.result.as_ref().map(detail).unwrap_or_default(),
            });
        };
        if let Verdict::Lost { why } = &self.verdict {
            events.emit(Event::AttemptLost {
                attempt: about.clone(),
                why: why.as_str(),
            });
        }
        if let Some(state) = self.instead {
            return ended(about, state);
        }
        match &self.verdict {
            Verdict::Final { outcome, .. } => ended(about, outcome.state()),
            Verdict::Retry { outcome, delay, .. } => events.emit(Event::Retrying {
                attempt: about,
                outcome: outcome.state().as_str(),
                delay: *delay,
            }),
            // Said above, or when the warden refused it.
            Verdict::Lost { .. } | Verdict::Refused { .. } | Verdict::GivenBack { .. } => {}
        }
    }
}

impl Report {
    /// `fresh`: claimed by this agent, so that nothing of its output can have been stored yet.
    pub(crate) fn follow(assignment: &Assignment, fresh: bool) -> Self {
        Self::Follow(Followed::new(assignment, fresh))
    }

    pub(crate) fn ended(
        me: &LeaseIdentity,
        assignment: &Assignment,
        result: Option<AttemptResult>,
        verdict: Verdict,
    ) -> Self {
        Self::Ended(Box::new(Ended {
            address: me.address.clone(),
            assignment: assignment.clone(),
            result,
            verdict,
            shortened: false,
            instead: None,
        }))
    }
}
