//! What was recorded of the instants of a job that observes.

use farmhand_core::due::Recorded;
use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::types::Type;

use crate::db::{Db, stmt};
use crate::error::StoreError;

/// Records read by one statement.
const PAGE: i64 = 10_000;

/// Instants of a job in [from, to] that were recorded without a run.
pub async fn observed(
    db: &Db,
    job_id: &str,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<Recorded>, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        run_id: i64,
        #[serde(flatten)]
        recorded: Recorded,
    }
    let (mut found, mut below): (Vec<Recorded>, Option<i64>) = (Vec::new(), None);
    loop {
        let page: Vec<Row> = db
            .rows(
                stmt!("reading_observed"),
                &[
                    (&job_id, Type::TEXT),
                    (&from, Type::TIMESTAMPTZ),
                    (&to, Type::TIMESTAMPTZ),
                    (&below, Type::INT8),
                    (&PAGE, Type::INT8),
                ],
            )
            .await?;
        let full = i64::try_from(page.len()) == Ok(PAGE);
        below = page.last().map(|row| row.run_id);
        found.extend(page.into_iter().map(|row| row.recorded));
        if !full {
            return Ok(found);
        }
    }
}
