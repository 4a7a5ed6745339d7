//! The output of an attempt as a file.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use farmhand_control::Refusal;
use farmhand_store::logs::read_log;
use farmhand_store::reading::{self, LogRange, Tail};
use futures_util::{TryStreamExt, stream};
use serde::Deserialize;

use crate::{App, Path, Problem, Query};

/// Rows of output read at once while it is saved; each has up to 64 KiB.
const ROWS: i64 = 16;

#[derive(Deserialize)]
pub struct Ask {
    attempt: Option<i32>,
}

/// All that is stored, as it was written, read while it is sent: a slow reader costs a few rows of memory.
pub async fn page(
    State(app): State<App>,
    Path(id): Path<i64>,
    Query(ask): Query<Ask>,
) -> Result<Response, Problem> {
    let range = reading::log(app.reading.db(), id, ask.attempt, Tail::From(0), 1).await?;
    let Some(LogRange { attempt, .. }) = range else {
        return Err(Refusal::not_found("this run has no such attempt").into());
    };
    let rows = stream::try_unfold((app, -1), move |(app, after)| async move {
        // The browser shows a download that broke off where this fails, which is what happened.
        let chunks = read_log(app.reading.db(), id, attempt, after, ROWS).await;
        let chunks = chunks.map_err(std::io::Error::other)?;
        let Some(last) = chunks.last().map(|chunk| chunk.seq) else {
            return Ok(None);
        };
        let rows = chunks
            .into_iter()
            .map(|chunk| Ok::<Bytes, std::io::Error>(chunk.bytes.into()));
        Ok::<_, std::io::Error>(Some((stream::iter(rows), (app, last))))
    });
    let name = format!("attachment; filename=\"run-{id}-attempt-{attempt}.log\"");
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, Body::from_stream(rows.try_flatten())).into_response())
}
