//! All that an agent serves, to a peer that may send anything, with a database that is out of reach.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::middleware::{self, Next};
use farmhand_store::events::EventRow;
use farmhand_store::{Db, DbConfig, PasswordIn, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::auth::token::Shown;
use super::serve::{Terms, requests};
use super::{Access, App, Caller, metrics, response, routes};
use farmhand_telemetry::Health;
use farmhand_telemetry::events::Events;
use farmhand_telemetry::metrics::Metrics;

/// What was answered to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub method: Method,
    pub path: String,
    pub status: u16,
    pub headers: HeaderMap,
}

/// An agent's routers, and what they answered.
pub struct Served {
    runtime: Runtime,
    app: App,
    guarded: Router,
    handlers: Router,
    /// The paths that anybody may have, as patterns.
    open: Vec<String>,
    answers: Arc<Mutex<Vec<Answer>>>,
    rows: Mutex<mpsc::Receiver<EventRow>>,
}

/// A connection is given up after this.
const PATIENCE: Duration = Duration::from_secs(2);

impl Served {
    pub fn new() -> Result<Self, String> {
        let said = |e: &dyn std::fmt::Display| e.to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| said(&e))?;
        let _inside = runtime.enter();
        let away = "postgresql://nobody@/nothing?host=/nonexistent";
        let db = Db::new(&DbConfig::from_url(away, PasswordIn::Allowed).map_err(|e| said(&e))?);
        let metrics = Arc::new(Metrics::new().map_err(|e| said(&e))?);
        let (sender, rows) = mpsc::channel(64);
        let events = Events::new(metrics, "n1", sender);
        let app = App::new(events, db, Health::default(), "n1", false, None, None);
        let answers = Arc::default();
        let guarded = response::finished(routes().build(&app).merge(metrics::router(&app, false)), &app);
        let handlers = response::finished(routes().unguarded(&app), &app).layer(middleware::from_fn(let_in));
        let every = routes();
        let open = every
            .table()
            .iter()
            .filter(|r| r.access == Access::Open)
            .map(|r| r.path.clone());
        let machines = ["/metrics", "/healthz", "/readyz"].map(str::to_owned);
        Ok(Self {
            open: open.chain(machines).collect(),
            guarded: noted(guarded, &answers),
            handlers: noted(handlers, &answers),
            answers,
            app,
            rows: Mutex::new(rows),
            runtime,
        })
    }

    /// What a stranger is answered who sends these pieces over one connection.
    pub fn stranger(&self, pieces: &[&[u8]]) -> Vec<Answer> {
        self.converse(&self.guarded, pieces)
    }

    /// What the handlers answer to somebody who may do everything.
    pub fn admin(&self, pieces: &[&[u8]]) -> Vec<Answer> {
        self.converse(&self.handlers, pieces)
    }

    /// Whether anybody at all may have a good answer.
    pub fn is_open(&self, path: &str) -> bool {
        let fits = |pattern: &String| {
            let (wanted, found) = (pattern.split('/'), path.split('/'));
            pattern.matches('/').count() == path.matches('/').count()
                && wanted.zip(found).all(|(w, f)| w.starts_with('{') || w == f)
        };
        self.open.iter().any(fits)
    }

    fn converse(&self, router: &Router, pieces: &[&[u8]]) -> Vec<Answer> {
        self.runtime.block_on(async {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let (mut reader, mut writer) = tokio::io::split(ours);
            let server = requests(
                theirs,
                [192, 0, 2, 1].into(),
                &self.app,
                router.clone(),
                Terms::USUAL,
            );
            let peer = async {
                for piece in pieces {
                    if writer.write_all(piece).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                let _ = writer.shutdown().await;
            };
            let read = async {
                let mut sink = [0; 16 << 10];
                while reader.read(&mut sink).await.is_ok_and(|n| n > 0) {}
            };
            let all = async { tokio::join!(server, peer, read) };
            let _ = tokio::time::timeout(PATIENCE, all).await;
        });
        // Nobody writes events down here.
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        while rows.try_recv().is_ok() {}
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn noted(router: Router, answers: &Arc<Mutex<Vec<Answer>>>) -> Router {
    let answers = Arc::clone(answers);
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        let answers = Arc::clone(&answers);
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let response = next.run(request).await;
            answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(Answer {
                    method,
                    path,
                    status: response.status().as_u16(),
                    headers: response.headers().clone(),
                });
            response
        }
    }))
}

async fn let_in(mut request: Request, next: Next) -> axum::response::Response {
    request.extensions_mut().insert(Caller {
        name: "anybody".to_owned(),
        role: Role::Admin,
        jobs: None,
        remote: [192, 0, 2, 1].into(),
        token_id: 1,
        shown: Shown::Token,
    });
    next.run(request).await
}
