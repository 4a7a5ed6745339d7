//! The output of an attempt as a file.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use farmhand_store::logs::read_log;
use farmhand_store::reading::{self, LogRange, Tail};
use serde::Deserialize;
use tokio::sync::mpsc;

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
        return Err(Problem::not_found("this run has no such attempt"));
    };
    let (send, receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(2);
    tokio::spawn(async move {
        let mut after = -1;
        loop {
            let chunks = match read_log(app.reading.db(), id, attempt, after, ROWS).await {
                Ok(chunks) if chunks.is_empty() => return,
                Ok(chunks) => chunks,
                Err(e) => {
                    // The browser shows a download that broke off, which is what happened.
                    let _ = send.send(Err(std::io::Error::other(e))).await;
                    return;
                }
            };
            for chunk in chunks {
                after = chunk.seq;
                if send.send(Ok(chunk.bytes.into())).await.is_err() {
                    return;
                }
            }
        }
    });
    let name = format!("attachment; filename=\"run-{id}-attempt-{attempt}.log\"");
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, Body::new(Rows { receive })).into_response())
}

/// Rows on their way to the browser.
struct Rows {
    receive: mpsc::Receiver<Result<Bytes, std::io::Error>>,
}

impl hyper::body::Body for Rows {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, std::io::Error>>> {
        let row = self.receive.poll_recv(cx);
        row.map(|row| row.map(|bytes| bytes.map(hyper::body::Frame::data)))
    }
}
