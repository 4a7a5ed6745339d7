//! Follows a run's output until the run has ended.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use farmhand_store::reading::{self, LogRange, MOST_BYTES, Tail};
use farmhand_store::{Db, StoreError};
use serde_json::json;
use tokio::time::Instant;

use super::stream::{LONGEST, Place, streamed};

/// Between two looks: short while output comes, longer while there is none.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(2);

/// Reads on from where it is.
pub(super) struct Follower {
    db: Db,
    run: i64,
    attempt: i32,
    byte: i64,
    pause: Duration,
    /// Between the next stretch and the one before.
    wait: bool,
    over: bool,
    until: Instant,
    _place: Place,
}

/// `ATTEMPT:BYTE` of the last event that arrived.
pub(super) fn resumed(headers: &HeaderMap) -> Option<(i32, i64)> {
    let (attempt, byte) = headers.get("last-event-id")?.to_str().ok()?.split_once(':')?;
    Some((attempt.parse().ok()?, byte.parse().ok()?)).filter(|(attempt, byte)| *attempt >= 0 && *byte >= 0)
}

impl Follower {
    pub(super) fn new(db: Db, run: i64, (attempt, byte): (i32, i64), place: Place) -> Self {
        Self {
            db,
            run,
            attempt,
            byte,
            pause: SHORT,
            wait: false,
            over: false,
            until: Instant::now() + LONGEST,
            _place: place,
        }
    }

    pub(super) fn events(self) -> Response {
        let stream = futures_util::stream::unfold(self, |mut follower| async {
            let batch = follower.next().await?;
            Some((
                futures_util::stream::iter(batch.into_iter().map(Ok::<_, Infallible>)),
                follower,
            ))
        });
        streamed(futures_util::StreamExt::flatten(stream))
    }

    /// The next events; None at the end.
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.over {
            return None;
        }
        loop {
            if Instant::now() > self.until {
                return None;
            }
            if std::mem::replace(&mut self.wait, true) {
                tokio::time::sleep(self.pause).await;
            }
            let batch = match self.look().await {
                Ok(batch) => batch,
                // A database that is away is waited for; whoever listens sees the stream live by its comments.
                Err(error) if error.is_away() => {
                    self.pause = LONG;
                    continue;
                }
                Err(error) => {
                    tracing::warn!("following run {}: {error}", self.run);
                    return None;
                }
            };
            if !batch.is_empty() {
                return Some(batch);
            }
            self.pause = (self.pause * 2).min(LONG);
        }
    }

    async fn look(&mut self) -> Result<Vec<Event>, StoreError> {
        // The state comes before the output, so that the output of a final state is all there is.
        let Some(state) = reading::log_state(&self.db, self.run, Some(self.attempt)).await? else {
            self.over = true;
            return Ok(vec![Event::default().event("end").data("{}")]);
        };
        let read = reading::log(
            &self.db,
            self.run,
            Some(self.attempt),
            Tail::From(self.byte),
            MOST_BYTES,
        )
        .await?;
        if let Some(range) = read.filter(|range| !range.pieces.is_empty()) {
            self.wait = range.next >= range.end;
            self.pause = SHORT;
            self.byte = range.next;
            return Ok(range
                .pieces
                .iter()
                .map(|piece| self.piece(&range, piece))
                .collect());
        }
        if self.attempt < state.attempt {
            (self.attempt, self.byte, self.wait) = (self.attempt + 1, 0, false);
            let data = json!({"attempt": self.attempt}).to_string();
            return Ok(vec![
                Event::default()
                    .event("attempt")
                    .id(format!("{}:0", self.attempt))
                    .data(data),
            ]);
        }
        if state.state.is_final() {
            self.over = true;
            let data = json!({"state": state.state, "dropped": state.dropped}).to_string();
            return Ok(vec![Event::default().event("end").data(data)]);
        }
        Ok(Vec::new())
    }

    fn piece(&self, range: &LogRange, piece: &reading::LogPiece) -> Event {
        let data = json!({
            "attempt": range.attempt, "at_byte": piece.at_byte, "stream": piece.stream, "at": piece.at,
            "text": piece.text, "bytes": piece.bytes,
        });
        Event::default()
            .event("log")
            .id(format!("{}:{}", range.attempt, piece.at_byte + piece.bytes))
            .data(data.to_string())
    }
}
