//! What every room of a session is lent.

use std::sync::Arc;

use farmhand_store::LeaseIdentity;
use farmhand_telemetry::events::Event;
use farmhand_warden_client::wire::Serving;
use tokio::sync::mpsc;

use crate::context::Context;
use crate::inbox::Input;
use crate::reporter::Report;

/// The way out: to the database and the reporter, and back to the session's loop.
#[derive(Clone)]
pub(crate) struct Io {
    pub(crate) ctx: Arc<Context>,
    pub(crate) me: LeaseIdentity,
    tx: mpsc::Sender<Input>,
}

impl Io {
    pub(crate) fn new(ctx: Arc<Context>, me: LeaseIdentity, tx: mpsc::Sender<Input>) -> Self {
        Self { ctx, me, tx }
    }

    /// Runs `work` beside the loop; its input comes back to it, if it has one.
    pub(crate) fn spawn<F>(&self, work: F)
    where
        F: Future<Output: Into<Option<Input>>> + Send + 'static,
    {
        let io = self.clone();
        tokio::spawn(async move {
            if let Some(input) = work.await.into() {
                io.send(input).await;
            }
        });
    }

    /// False: the session is over, and its answers with it.
    pub(crate) async fn send(&self, input: Input) -> bool {
        self.tx.send(input).await.is_ok()
    }

    pub(crate) fn serving(&self) -> Serving {
        Serving {
            session: self.me.session,
            incarnation: self.me.incarnation,
        }
    }

    pub(crate) fn emit(&self, event: Event) {
        self.ctx.events.emit(event);
    }

    /// The reporter lives as long as the agent.
    pub(crate) fn report(&self, report: Report) {
        let _ = self.ctx.reports.send(report);
    }
}
