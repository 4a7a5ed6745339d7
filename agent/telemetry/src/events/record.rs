//! Events as rows of `farmhand.event`.

use std::time::Duration;

use farmhand_core::event::EventKind;
use farmhand_store::events::Event as EventRow;
use serde_json::json;

use super::{AttemptRef, Event, TakeoverCause, severity};

/// A shorter outage is in the log alone.
const OUTAGE: Duration = Duration::from_secs(1);

/// What is stored of an event, if anything.
pub(super) fn row(event: &Event, address: &str) -> Option<EventRow> {
    let kind = kind(event)?;
    let mut row = EventRow {
        kind: kind.to_string(),
        severity: severity(event),
        job_id: None,
        run_id: None,
        attempt: None,
        address: Some(address.to_owned()),
        session: None,
        fence: None,
        detail: json!({}),
    };
    match event {
        Event::SessionOpened { session }
        | Event::SessionLost { session }
        | Event::SessionShared { session } => row.session = Some(*session),
        Event::SessionAdopted { session, attempts } | Event::LeaseLapsed { session, attempts } => {
            row.session = Some(*session);
            row.detail = json!({"attempts": attempts});
        }
        Event::Booted { boot_id, runs } => row.detail = json!({"boot_id": boot_id, "runs": runs}),
        Event::SessionClosed { session, freed } => {
            row.session = Some(*session);
            row.detail = json!({"freed": freed});
        }
        Event::Claimed {
            attempt, takeover, ..
        } => {
            about(&mut row, attempt);
            row.detail = json!({"cause": takeover.map(TakeoverCause::as_str)});
        }
        Event::TimedOut { attempt, progress } => {
            about(&mut row, attempt);
            row.detail = json!({"type": if *progress { "progress" } else { "run" }});
        }
        Event::ChildKilled {
            attempt,
            name,
            pid,
            what,
        } => {
            about(&mut row, attempt);
            row.detail = json!({"name": name, "pid": pid, "what": what});
        }
        Event::LeftoversEnded { attempt, processes } => {
            about(&mut row, attempt);
            row.detail = json!({"processes": processes});
        }
        Event::DefinitionRefused { attempt, why } => {
            about(&mut row, attempt);
            row.detail = json!({"why": why});
        }
        Event::UserRefused { attempt, user, why } => {
            about(&mut row, attempt);
            row.detail = json!({"user": user, "why": why});
        }
        Event::Retrying {
            attempt,
            outcome,
            delay,
        } => {
            about(&mut row, attempt);
            row.detail = json!({"outcome": outcome, "delay_ms": delay.as_millis() as u64});
        }
        Event::AttemptLost { attempt, why } => {
            about(&mut row, attempt);
            row.detail = json!({"why": why});
        }
        Event::Released { session, runs, why } => {
            row.session = Some(*session);
            row.detail = json!({"runs": runs, "why": why});
        }
        Event::Ended {
            attempt,
            outcome,
            detail,
            ..
        } => {
            about(&mut row, attempt);
            row.detail = json!({"outcome": outcome, "result": detail});
        }
        Event::Fenced {
            op,
            run_id,
            attempt,
            now,
        } => {
            (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
            row.detail = json!({"op": op, "now": now});
        }
        Event::FenceKill { run_id, attempt, why } => {
            (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
            row.detail = json!({"why": why});
        }
        Event::Unkillable { run_id, attempt } => (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt)),
        Event::RunSlow(slow) => {
            row.job_id = Some(slow.run.job_id.clone());
            (row.run_id, row.attempt) = (Some(slow.run.run_id), Some(slow.run.attempt));
            row.detail = json!({
                "node": slow.run.node,
                "ran_ms": slow.run.lasted().as_millis() as u64,
                "p95_ms": slow.exceeded.p95.as_millis() as u64,
                "of": slow.exceeded.runs,
            });
        }
        Event::Skipped {
            job_id,
            reason,
            count,
        } => {
            row.job_id = Some(job_id.clone());
            row.detail = json!({"reason": reason, "count": count});
        }
        Event::Expired {
            address,
            session,
            silent,
            freed,
        } => {
            row.session = Some(*session);
            row.detail = json!({"expired": address, "silent_ms": silent.as_millis() as u64, "freed": freed});
        }
        Event::RenewalWithheld { session } => row.session = Some(*session),
        Event::LeaseFreed { name, client, login } => {
            row.detail = json!({"lock": name, "client": client, "login": login});
        }
        Event::Swept { freed } => row.detail = json!({"freed": freed}),
        Event::Abandoned { runs } => row.detail = json!({"runs": runs}),
        Event::DatabaseUnknown { epoch } => row.detail = json!({"epoch": epoch}),
        Event::EpochOpened(new) => {
            row.detail = json!({
                "epoch": new.epoch,
                "follows": new.follows,
                "why": new.why,
                "runs_forgotten": new.runs_forgotten,
            });
        }
        Event::EpochChanged { from, to } => row.detail = json!({"from": from, "to": to}),
        Event::StartsRefused { why } => row.detail = json!({"why": why}),
        Event::StartsResumed { after } => row.detail = json!({"after_ms": after.as_millis() as u64}),
        Event::ClockSlewed { slewed } => row.detail = json!({"slewed": slewed}),
        Event::NotRemoved {
            run_id,
            attempt,
            error,
        } => {
            (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
            row.detail = json!({"error": error});
        }
        Event::OutputDropped {
            run_id,
            attempt,
            bytes,
            error,
        } => {
            (row.run_id, row.attempt) = (Some(*run_id), Some(*attempt));
            row.detail = json!({"bytes": bytes, "error": error});
        }
        Event::BadDefinition { job_id, error } | Event::TableRefused { job_id, error } => {
            row.job_id = Some(job_id.clone());
            row.detail = json!({"error": error});
        }
        Event::RowsWithoutKey { job_id } => row.job_id = Some(job_id.clone()),
        Event::DatabaseUp { away: Some(away) } => row.detail = json!({"away_ms": away.as_millis() as u64}),
        Event::Draining { why } => row.detail = json!({"why": why}),
        Event::DrainDeadline { attempts } => row.detail = json!({"attempts": attempts}),
        Event::Told(told) => told.fill(&mut row),
        Event::Refused(refused) => refused.fill(&mut row),
        _ => {}
    }
    Some(row)
}

fn about(row: &mut EventRow, attempt: &AttemptRef) {
    row.job_id = Some(attempt.job_id.clone());
    row.run_id = Some(attempt.run_id);
    row.attempt = Some(attempt.attempt);
    row.fence = Some(attempt.fence);
}

/// The name an event is stored under, or `None` where a row would say nothing that the run does not.
fn kind(event: &Event) -> Option<EventKind> {
    Some(match event {
        Event::SessionOpened { .. } => EventKind::SessionOpened,
        Event::SessionAdopted { .. } => EventKind::SessionAdopted,
        Event::Booted { .. } => EventKind::Booted,
        Event::SessionLost { .. } => EventKind::SessionLost,
        Event::SessionShared { .. } => EventKind::SessionShared,
        Event::SessionClosed { .. } => EventKind::SessionClosed,
        Event::Superseded => EventKind::Superseded,
        Event::LeaseLapsed { .. } => EventKind::LeaseLapsed,
        Event::Claimed {
            takeover: Some(_), ..
        } => EventKind::Takeover,
        Event::Ended { outcome, .. } if *outcome != "succeeded" => EventKind::RunEnded,
        Event::Retrying { .. } => EventKind::Retry,
        Event::TimedOut { .. } => EventKind::TimedOut,
        Event::ChildKilled { .. } => EventKind::ChildKilled,
        Event::LeftoversEnded { .. } => EventKind::LeftoversEnded,
        Event::UserRefused { .. } => EventKind::UserRefused,
        Event::DefinitionRefused { .. } => EventKind::DefinitionRefused,
        Event::Released { .. } => EventKind::Released,
        Event::AttemptLost { .. } => EventKind::AttemptLost,
        Event::Fenced { .. } => EventKind::Fenced,
        Event::FenceKill { .. } => EventKind::FenceKill,
        Event::Unkillable { .. } => EventKind::Unkillable,
        Event::RunSlow(_) => EventKind::RunSlow,
        Event::Skipped { .. } => EventKind::Skipped,
        Event::Expired { .. } => EventKind::Expired,
        Event::RenewalWithheld { .. } => EventKind::RenewalWithheld,
        Event::LeaseFreed { .. } => EventKind::LeaseFreed,
        Event::Swept { .. } => EventKind::Swept,
        Event::Abandoned { .. } => EventKind::Abandoned,
        Event::DatabaseUnknown { .. } => EventKind::DatabaseUnknown,
        Event::EpochOpened(_) => EventKind::EpochOpened,
        Event::EpochChanged { .. } => EventKind::EpochChanged,
        Event::StartsRefused { .. } => EventKind::StartsRefused,
        Event::StartsResumed { .. } => EventKind::StartsResumed,
        Event::ClockSlewed { .. } => EventKind::ClockSlewed,
        Event::NotRemoved { .. } => EventKind::NotRemoved,
        Event::OutputDropped { .. } => EventKind::OutputDropped,
        Event::BadDefinition { .. } => EventKind::BadDefinition,
        Event::TableRefused { .. } => EventKind::TableRefused,
        Event::RowsWithoutKey { .. } => EventKind::RowsWithoutKey,
        Event::DatabaseUp { away: Some(away) } if *away >= OUTAGE => EventKind::DatabaseBack,
        Event::Draining { .. } => EventKind::Draining,
        Event::DrainDeadline { .. } => EventKind::DrainDeadline,
        Event::Drained => EventKind::Drained,
        Event::Told(told) => return told.kind(),
        Event::Refused(_) => EventKind::HttpRefused,
        _ => return None,
    })
}
