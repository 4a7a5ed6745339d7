//! Removing what an attempt left on the disk.

use std::path::Path;

use farmhand_telemetry::events::{Event, Events};
use farmhand_warden_client::Paths;
use farmhand_warden_client::wire::AttemptId;

/// Beside everything else; says what stays.
pub(crate) async fn discard(state_dir: &Path, id: AttemptId, events: &Events) {
    let (run_id, attempt) = (id.run_id, id.attempt);
    if let Err(error) = Paths::new(state_dir).discard(id).await {
        let error = error.to_string();
        events.emit(Event::NotRemoved {
            run_id,
            attempt,
            error,
        });
    }
}
