//! Events as rows of `farmhand.event`.

use std::time::Duration;

use farmhand_store::events::Event as EventRow;
use serde_json::json;

use super::{AttemptRef, Event, TakeoverCause, severity};

/// A shorter outage is in the log alone.
const OUTAGE: Duration = Duration::from_secs(1);

/// What is stored of an event, if anything.
pub(super) fn row(event: &Event, address: &str) -> Option<EventRow> {
    let kind = kind(event)?;
    let mut row = EventRow {
        kind: kind.to_owned(),
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
        Event::HoldReleased {
            run_id,
            attempt,
            address,
            session,
        } => {
            (row.run_id, row.attempt, row.session) = (Some(*run_id), Some(*attempt), Some(*session));
            row.detail = json!({"held_by": address});
        }
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
fn kind(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::SessionOpened { .. } => "session_opened",
        Event::SessionAdopted { .. } => "session_adopted",
        Event::Booted { .. } => "booted",
        Event::SessionLost { .. } => "session_lost",
        Event::SessionShared { .. } => "session_shared",
        Event::SessionClosed { .. } => "session_closed",
        Event::Superseded => "superseded",
        Event::LeaseLapsed { .. } => "lease_lapsed",
        Event::Claimed {
            takeover: Some(_), ..
        } => "takeover",
        Event::Ended { outcome, .. } if *outcome != "succeeded" => "run_ended",
        Event::Retrying { .. } => "retry",
        Event::TimedOut { .. } => "timed_out",
        Event::ChildKilled { .. } => "child_killed",
        Event::UserRefused { .. } => "user_refused",
        Event::DefinitionRefused { .. } => "definition_refused",
        Event::Released { .. } => "released",
        Event::AttemptLost { .. } => "attempt_lost",
        Event::Fenced { .. } => "fenced",
        Event::FenceKill { .. } => "fence_kill",
        Event::Unkillable { .. } => "unkillable",
        Event::RunSlow(_) => "run_slow",
        Event::Skipped { .. } => "skipped",
        Event::Expired { .. } => "expired",
        Event::RenewalWithheld { .. } => "renewal_withheld",
        Event::HoldReleased { .. } => "hold_released",
        Event::LeaseFreed { .. } => "lease_freed",
        Event::Swept { .. } => "swept",
        Event::Abandoned { .. } => "abandoned",
        Event::DatabaseUnknown { .. } => "database_unknown",
        Event::EpochOpened(_) => "epoch_opened",
        Event::EpochChanged { .. } => "epoch_changed",
        Event::StartsRefused { .. } => "starts_refused",
        Event::StartsResumed { .. } => "starts_resumed",
        Event::ClockSlewed { .. } => "clock_slewed",
        Event::NotRemoved { .. } => "not_removed",
        Event::OutputDropped { .. } => "output_dropped",
        Event::BadDefinition { .. } => "bad_definition",
        Event::TableRefused { .. } => "table_refused",
        Event::RowsWithoutKey { .. } => "rows_without_key",
        Event::DatabaseUp { away: Some(away) } if *away >= OUTAGE => "database_back",
        Event::Draining { .. } => "draining",
        Event::DrainDeadline { .. } => "drain_deadline",
        Event::Drained => "drained",
        Event::Told(told) => return told.kind(),
        Event::Refused(_) => "http_refused",
        _ => return None,
    })
}
