//! Output of attempts, in chunks numbered by their writer.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use utoipa::ToSchema;

use super::LogStream;
use super::db::{Db, stmt};
use super::error::StoreError;

/// A piece of an attempt's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    pub run_id: i64,
    pub attempt: i32,
    /// Position of its first byte in everything the attempt wrote to both streams; a jump is what was dropped.
    pub seq: i64,
    /// The stream that it was written to.
    pub stream: LogStream,
    /// By the agent's clock, for people.
    pub at: Timestamp,
    pub bytes: Vec<u8>,
}

/// Stores chunks; those already there (the earlier reply was lost) are left as they are.
pub async fn append_log(db: &Db, chunks: &[LogChunk]) -> Result<(), StoreError> {
    if chunks.is_empty() {
        return Ok(());
    }
    let runs: Vec<i64> = chunks.iter().map(|c| c.run_id).collect();
    let attempts: Vec<i32> = chunks.iter().map(|c| c.attempt).collect();
    let seqs: Vec<i64> = chunks.iter().map(|c| c.seq).collect();
    let streams: Vec<&str> = chunks.iter().map(|c| c.stream.as_str()).collect();
    let ats: Vec<Timestamp> = chunks.iter().map(|c| c.at).collect();
    let bytes: Vec<&[u8]> = chunks.iter().map(|c| c.bytes.as_slice()).collect();
    let _: Vec<serde_json::Value> = db
        .rows(
            stmt!("append_log", often),
            &[
                (&runs, Type::INT8_ARRAY),
                (&attempts, Type::INT4_ARRAY),
                (&seqs, Type::INT8_ARRAY),
                (&streams, Type::TEXT_ARRAY),
                (&ats, Type::TIMESTAMPTZ_ARRAY),
                (&bytes, Type::BYTEA_ARRAY),
            ],
        )
        .await?;
    Ok(())
}

/// Removes the chunks `from..to` of an attempt: the head of the output when only its tail is kept.
pub async fn trim_log(db: &Db, run_id: i64, attempt: i32, from: i64, to: i64) -> Result<(), StoreError> {
    let _: Vec<serde_json::Value> = db
        .rows(
            stmt!("trim_log"),
            &[
                (&run_id, Type::INT8),
                (&attempt, Type::INT4),
                (&from, Type::INT8),
                (&to, Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

/// Up to `limit` chunks of an attempt after the number `after` (-1 for all), in order.
pub async fn read_log(
    db: &Db,
    run_id: i64,
    attempt: i32,
    after: i64,
    limit: i64,
) -> Result<Vec<LogChunk>, StoreError> {
    let params = [
        (&run_id as _, Type::INT8),
        (&attempt as _, Type::INT4),
        (&after as _, Type::INT8),
        (&limit as _, Type::INT8),
    ];
    let rows = db.raw(stmt!("read_log"), &params).await?;
    rows.iter().map(|row| chunk(row, run_id, attempt)).collect()
}

/// The chunk that the byte `from` lies in, or, when it was dropped, the one before it; none when that is the first.
pub(crate) async fn read_log_from(
    db: &Db,
    run_id: i64,
    attempt: i32,
    from: i64,
) -> Result<Vec<LogChunk>, StoreError> {
    let params = [
        (&run_id as _, Type::INT8),
        (&attempt as _, Type::INT4),
        (&from as _, Type::INT8),
    ];
    let rows = db.raw(stmt!("read_log_from"), &params).await?;
    rows.iter().map(|row| chunk(row, run_id, attempt)).collect()
}

fn chunk(row: &Row, run_id: i64, attempt: i32) -> Result<LogChunk, StoreError> {
    let bad = |e: &dyn std::error::Error| StoreError::Decode {
        op: "read_log",
        message: super::error::chain(e),
    };
    let stream: String = row.try_get("stream").map_err(|e| bad(&e))?;
    Ok(LogChunk {
        run_id,
        attempt,
        seq: row.try_get("seq").map_err(|e| bad(&e))?,
        stream: stream.parse().map_err(|message| StoreError::Decode {
            op: "read_log",
            message,
        })?,
        at: row.try_get("at").map_err(|e| bad(&e))?,
        bytes: row.try_get("chunk").map_err(|e| bad(&e))?,
    })
}

/// The position after the last byte stored of an attempt's output, when chunks are numbered by position, and how many bytes are
/// stored.
pub async fn log_end(db: &Db, run_id: i64, attempt: i32) -> Result<(i64, i64), StoreError> {
    let row: Option<(i64, i64)> = db
        .row(
            stmt!("log_end", often),
            &[(&run_id, Type::INT8), (&attempt, Type::INT4)],
        )
        .await?;
    Ok(row.unwrap_or((0, 0)))
}

/// What is stored of one attempt's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct LogExtent {
    /// Which attempt of the run.
    pub attempt: i32,
    /// In how many pieces it is stored.
    pub chunks: i64,
    /// How much is stored, in bytes.
    pub bytes: i64,
    /// The position of the first piece.
    pub first_seq: i64,
    /// The position of the last piece.
    pub last_seq: i64,
}

/// Which attempts of a run have output stored, and how much.
pub async fn log_extents(db: &Db, run_id: i64) -> Result<Vec<LogExtent>, StoreError> {
    db.rows(stmt!("log_extents"), &[(&run_id, Type::INT8)]).await
}
