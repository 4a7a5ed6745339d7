//! What the lines of an attempt say of it.

use std::path::PathBuf;

use farmhand_warden_client::wire::AttemptId;

#[derive(Clone, Debug)]
pub(crate) struct About {
    pub id: AttemptId,
    pub job_id: String,
    pub traceparent: String,
    pub parent_run: Option<i64>,
    /// Its directory, where its output lies.
    pub dir: PathBuf,
}
