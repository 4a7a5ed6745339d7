//! What handlers work with.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use farmhand_control::Refusal;
use farmhand_control::ask::Question;
use farmhand_store::proxy::TrustedProxy;
use farmhand_store::reading::Reading;
use farmhand_store::{Db, StoreError};
use farmhand_telemetry::Health;
use farmhand_telemetry::events::Events;
use tokio::sync::Semaphore;

use crate::{Definitions, auth, changes, refusals};

/// Actions that use the agent's own connections at once; the others wait.
const ACTIONS: usize = 2;
/// Credentials that are asked for at once, beside the actions. One connection is left for the agent.
const LOOKUPS: usize = 1;
/// A credential that the database has not told of within this, with the wait for others', cannot be asked for now. Shorter
/// than the time that Prometheus waits for metrics.
const LOOKUP: Duration = Duration::from_secs(5);
/// Searches of output at once; the others wait. Each keeps one of the connections that pages read on for two seconds.
const SEARCHES: usize = 1;
/// Requests with larger bodies than usual at once; the others wait.
const LARGE: usize = 1;

/// What handlers work with.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts of [`App`].
pub struct Parts {
    /// Where what handlers did is told.
    pub events: Events,
    /// The agent's own connections: for actions, through [`App::acting`], and credentials, through [`App::credentials`].
    pub(crate) db: Db,
    /// For everything that only looks.
    pub reading: Reading,
    /// What changed, for pages that listen.
    pub changes: changes::Changes,
    /// Whether this agent holds a session.
    pub health: Health,
    /// This agent's address, for people.
    pub address: String,
    /// Whether browsers reach it by TLS.
    pub tls: bool,
    /// Who may sign people in before it.
    pub(crate) proxy: Option<TrustedProxy>,
    pub(crate) definitions: Option<Definitions>,
    pub(crate) auth: auth::Auth,
    pub(crate) refusals: refusals::Refusals,
    acting: Semaphore,
    lookups: Semaphore,
    searching: Semaphore,
    /// The turn of requests with larger bodies than usual.
    pub(crate) large: Arc<Semaphore>,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// What the handlers share.
    pub fn new(
        events: Events,
        db: Db,
        health: Health,
        address: &str,
        tls: bool,
        proxy: Option<TrustedProxy>,
        definitions: Option<Definitions>,
    ) -> Self {
        let reading = Reading::new(db.config()).observed_by(events.statement_observer());
        Self(Arc::new(Parts {
            refusals: refusals::Refusals::new(events.clone()),
            events,
            db,
            changes: changes::Changes::new(reading.db().clone()),
            reading,
            health,
            address: address.to_owned(),
            tls,
            proxy,
            definitions,
            auth: auth::Auth::default(),
            acting: Semaphore::new(ACTIONS),
            lookups: Semaphore::new(LOOKUPS),
            searching: Semaphore::new(SEARCHES),
            large: Arc::new(Semaphore::new(LARGE)),
        }))
    }

    /// Does something over the agent's own connections, with at most one other at once: the rest are for the agent.
    pub async fn acting<T>(&self, work: impl AsyncFnOnce(&Db) -> T) -> T {
        // It is never closed, so this cannot fail.
        let _permit = self.acting.acquire().await;
        work(&self.db).await
    }

    /// Asks for a credential, or begins or ends a session: beside actions, however long those take, and within a bound.
    pub async fn credentials<T>(
        &self,
        work: impl AsyncFnOnce(&Db) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let asked = async {
            // It is never closed, so this cannot fail.
            let _permit = self.lookups.acquire().await;
            work(&self.db).await
        };
        let late = |_| StoreError::Unreachable(format!("no answer about a credential within {LOOKUP:?}"));
        tokio::time::timeout(LOOKUP, asked).await.map_err(late)?
    }

    /// Asks the farm. Searches of output wait for each other: the other connections that read are for pages.
    pub async fn ask<Q: Question>(&self, question: &Q) -> Result<Q::Answer, Refusal> {
        let _turn = match Q::SEARCHES {
            // It is never closed, so this cannot fail.
            true => self.searching.acquire().await.ok(),
            false => None,
        };
        question.answer(self.reading.db()).await
    }
}
