//! One stream of changes per page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use farmhand_store::Role;
use futures_util::Stream;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use utoipa_axum::routes;

use crate::changes::Change;
pub(super) use crate::changes::Place;
use crate::{App, Problem, Routes};

/// A stream is ended after so long: a browser that may still look comes again at once, one that may not does not.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

pub fn router() -> Routes {
    Routes::new().api(Role::Viewer, routes!(changes))
}

/// The answer that streams them. A comment now and then shows both sides that the other is there.
pub(super) fn streamed(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let beat = KeepAlive::new().interval(Duration::from_secs(15));
    Sse::new(events).keep_alive(beat).into_response()
}

struct Listener {
    receiver: broadcast::Receiver<Arc<Change>>,
    looked: watch::Receiver<bool>,
    until: Instant,
    number: u64,
    first: Option<&'static str>,
    _place: Place,
}

/// What changed, as server-sent events, for a page that then loads it anew
///
/// Events: `hello` at the beginning, when all that changes from then on will be told: load once after it; `changed` with `changed` (of jobs, runs, nodes, events), `runs` (numbers; none
/// named: any) and `away` (the database is out of reach); `resync`: something was missed, load everything anew. The
/// stream is ended after fifteen minutes; browsers reconnect by themselves.
#[utoipa::path(get, path = "/api/v1/stream", tag = "farm",
    params(("Last-Event-ID" = Option<String>, Header, description = "Of a reconnect: the first event is `resync`")),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
async fn changes(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let place = app.changes.place()?;
    let again = headers.contains_key("last-event-id");
    let (receiver, looked) = app.changes.listen();
    let listener = Listener {
        receiver,
        looked,
        until: Instant::now() + LONGEST,
        number: 0,
        first: Some(if again { "resync" } else { "hello" }),
        _place: place,
    };
    let stream = futures_util::stream::unfold(listener, |mut listener| async {
        let event = listener.next().await?;
        Some((Ok(event), listener))
    });
    Ok(streamed(stream))
}

impl Listener {
    async fn next(&mut self) -> Option<Event> {
        self.number += 1;
        let event = Event::default().id(self.number.to_string());
        if let Some(first) = self.first.take() {
            // What changed before is in what a page loads after this event.
            let _ = self.looked.wait_for(|looked| *looked).await;
            return Some(event.event(first).data("{}"));
        }
        match timeout_at(self.until, self.receiver.recv()).await {
            Ok(Ok(change)) => {
                let data = serde_json::to_string(&*change).unwrap_or_default();
                Some(event.event("changed").data(data))
            }
            Ok(Err(RecvError::Lagged(_))) => Some(event.event("resync").data("{}")),
            Ok(Err(RecvError::Closed)) | Err(_) => None,
        }
    }
}
