//! How much an event matters.

use super::Event;
use farmhand_store::Severity;

pub(super) fn severity(event: &Event) -> Severity {
    match event {
        Event::Unkillable { .. }
        | Event::BadDefinition { .. }
        | Event::SessionShared { .. }
        | Event::TableRefused { .. }
        | Event::DatabaseDown { .. } => Severity::Error,
        Event::SessionLost { .. }
        | Event::RowsWithoutKey { .. }
        | Event::LeaseLapsed { .. }
        | Event::RenewalFailed { .. }
        | Event::ClaimFailed { .. }
        | Event::Claimed {
            takeover: Some(_), ..
        }
        | Event::AttemptLost { .. }
        | Event::DrainDeadline { .. }
        | Event::RunSlow(_)
        | Event::TimedOut { .. }
        | Event::ChildKilled { .. }
        | Event::LeftoversEnded { .. }
        | Event::UserRefused { .. }
        | Event::DefinitionRefused { .. }
        | Event::Fenced { .. }
        | Event::FenceKill { .. }
        | Event::Expired { .. }
        | Event::RenewalWithheld { .. }
        | Event::StartsRefused { .. }
        | Event::LeaseFreed { .. }
        | Event::Swept { .. }
        | Event::Abandoned { .. }
        | Event::Superseded
        | Event::NotRemoved { .. }
        | Event::OutputDropped { .. }
        | Event::DatabaseUnknown { .. }
        | Event::EpochChanged { .. }
        | Event::ReloadFailed { .. }
        | Event::DatabaseAway
        | Event::DatabaseUp { away: Some(_) }
        | Event::Refused(_)
        | Event::ClockSlewed { .. } => Severity::Warning,
        Event::Told(told) => told.severity(),
        Event::RunLog { trouble: Some(_), .. } | Event::Housekeeping { error: Some(_), .. } => {
            Severity::Warning
        }
        Event::Claimed { .. } | Event::Started { .. } | Event::Housekeeping { .. } => Severity::Debug,
        Event::Ended { outcome, .. } if *outcome == "succeeded" => Severity::Debug,
        _ => Severity::Info,
    }
}
