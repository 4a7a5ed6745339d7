//! The warden of one session, started when first needed, and which end it has confirmed.

use std::path::PathBuf;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::LeaseIdentity;
use tokio::sync::mpsc;

use crate::discard::discard;
use crate::inbox::{Input, NotStarted, WardenInput};
use crate::listening::listen;
use farmhand_telemetry::events::Events;
use farmhand_warden_client::wire::{AttemptId, KillReason, Refusal, Serving, SpawnRequest};
use farmhand_warden_client::{Gone, Launch, Notices, Paths, ProofOfDeath, WardenClient, WardenError};

/// While waiting for a warden's end: how often to ask whether a newer agent has started one in its place.
pub(crate) const SUPERSEDED_EVERY: Duration = Duration::from_millis(500);

/// Kernel timer and SIGTERM time.
pub(crate) type Deadlines = (BootInstant, BootInstant);

enum State {
    /// Nothing has needed one yet, or its death is proven.
    None,
    /// Requests wait for it to come up.
    Starting(Vec<SpawnRequest>),
    Up(WardenClient),
    /// The connection is gone; whether the warden is, is being proven. Requests wait for its successor.
    Dying(Vec<SpawnRequest>, ProofOfDeath),
}

/// The end that a warden has confirmed.
struct Confirmed {
    end: BootInstant,
    /// It is being told of a new one.
    asking: bool,
}

/// Owns the connection; everything it does is answered by an [`Input`].
pub(crate) struct WardenLink {
    state_dir: PathBuf,
    serving: Serving,
    address: String,
    max_attempts: u32,
    state: State,
    /// Of the warden that is up, or whose death is not proven yet.
    confirmed: Option<Confirmed>,
    events: Events,
    tx: mpsc::Sender<Input>,
}

impl WardenLink {
    pub(crate) fn new(
        state_dir: PathBuf,
        me: &LeaseIdentity,
        max_attempts: u32,
        events: Events,
        tx: mpsc::Sender<Input>,
    ) -> Self {
        Self {
            events,
            state_dir,
            serving: Serving {
                session: me.session,
                incarnation: me.incarnation,
            },
            address: me.address.clone(),
            max_attempts,
            state: State::None,
            confirmed: None,
            tx,
        }
    }

    /// Takes a connected warden in and listens to it.
    pub(crate) fn insert(&mut self, client: WardenClient, notices: Notices, deadlines: Deadlines) {
        tokio::spawn(listen(client.clone(), notices, self.tx.clone()));
        self.confirmed = Some(Confirmed {
            end: BootInstant(client.identity().deadline_ns),
            asking: false,
        });
        let waiting = match std::mem::replace(&mut self.state, State::Up(client)) {
            State::Starting(waiting) => waiting,
            _ => Vec::new(),
        };
        self.tell_deadlines(deadlines);
        for request in waiting {
            self.spawn(request, deadlines);
        }
    }

    /// Starts the warden and waits for it, so that what is wrong is said at once.
    ///
    /// # Errors
    /// When it does not come up.
    pub(crate) async fn start_now(&mut self, deadlines: Deadlines) -> Result<(), WardenError> {
        let (client, notices) = self.launch(deadlines).start().await?;
        self.insert(client, notices, deadlines);
        Ok(())
    }

    fn launch(&self, (deadline, soft): Deadlines) -> Launch {
        let lease = (self.serving, self.address.clone());
        let mut launch = Launch::new(self.state_dir.clone(), lease, deadline.0, soft.0);
        launch.max_attempts = self.max_attempts;
        launch
    }

    fn start(&mut self, waiting: Vec<SpawnRequest>, deadlines: Deadlines) {
        let launch = self.launch(deadlines);
        self.state = State::Starting(waiting);
        let tx = self.tx.clone();
        tokio::spawn(async move {
            let result = launch.start().await;
            let _ = tx.send(Input::Warden(WardenInput::Started(result))).await;
        });
    }

    /// A start failed: the requests that waited for it.
    pub(crate) fn start_failed(&mut self) -> Vec<AttemptId> {
        match &mut self.state {
            State::Starting(waiting) => {
                let ids = waiting.iter().map(|r| r.id).collect();
                self.state = State::None;
                ids
            }
            _ => Vec::new(),
        }
    }

    /// The connection ended. What waits now is for the successor.
    pub(crate) fn disconnected(&mut self) {
        if let State::Up(client) = &self.state {
            self.state = State::Dying(Vec::new(), client.proof().clone());
        }
    }

    /// Attempts that no warden has been asked to start yet.
    pub(crate) fn waiting(&self) -> Vec<AttemptId> {
        match &self.state {
            State::Starting(waiting) | State::Dying(waiting, _) => waiting.iter().map(|r| r.id).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes back the request of an attempt that no warden has been asked to start yet. False for any other.
    pub(crate) fn withdraw(&mut self, id: AttemptId) -> bool {
        let (State::Starting(waiting) | State::Dying(waiting, _)) = &mut self.state else {
            return false;
        };
        let before = waiting.len();
        waiting.retain(|request| request.id != id);
        waiting.len() < before
    }

    /// The warden is proven dead: starts the successor if anything waits for one.
    pub(crate) fn dead(&mut self, deadlines: Deadlines) {
        self.confirmed = None;
        if let State::Dying(waiting, _) = std::mem::replace(&mut self.state, State::None)
            && !waiting.is_empty()
        {
            self.start(waiting, deadlines);
        }
    }

    /// Asks for an attempt to be started; answered by [`Input::Spawned`].
    pub(crate) fn spawn(&mut self, request: SpawnRequest, deadlines: Deadlines) {
        match &mut self.state {
            State::None => self.start(vec![request], deadlines),
            State::Starting(waiting) | State::Dying(waiting, _) => waiting.push(request),
            State::Up(client) => {
                let (client, tx, id) = (client.clone(), self.tx.clone(), request.id);
                tokio::spawn(async move {
                    let result = loop {
                        match client.spawn(request.clone()).await {
                            Ok((pid, _)) => break Ok(pid),
                            // Its death is being proven; then the attempt is settled with all of that warden.
                            Err(WardenError::Gone) => return,
                            // It may have been started: asked again until it is known. A stopped warden is
                            // ended by its kernel timer.
                            Err(WardenError::NoAnswer { .. }) => {}
                            Err(WardenError::Refused(Refusal::Machine { why })) => {
                                break Err(NotStarted::Machine(why));
                            }
                            // It may stay full, or be long in leaving: without a pause its runs would be claimed again at once.
                            Err(WardenError::Refused(
                                why @ (Refusal::Full { .. } | Refusal::ShuttingDown),
                            )) => {
                                break Err(NotStarted::Machine(why.to_string()));
                            }
                            Err(WardenError::TooLong(length)) => break Err(NotStarted::too_long(length)),
                            Err(WardenError::Refused(Refusal::Invalid { why })) => {
                                break Err(NotStarted::Invalid(format!("the warden refuses it: {why}")));
                            }
                            Err(e) => break Err(NotStarted::Refused(e.to_string())),
                        }
                    };
                    let _ = tx.send(Input::Spawned { id, result }).await;
                });
            }
        }
    }

    /// Moves the warden's end.
    pub(crate) fn tell_deadlines(&mut self, (deadline, soft): Deadlines) {
        let State::Up(client) = &self.state else {
            return;
        };
        if let Some(confirmed) = &mut self.confirmed {
            confirmed.asking = true;
        }
        let (client, tx) = (client.clone(), self.tx.clone());
        tokio::spawn(async move {
            // No answer: the warden is stopped or gone, and its kernel timer does what it must.
            let answer = client.set_deadline(deadline.0, soft.0).await;
            let confirmed = answer.ok().map(|(deadline, _)| BootInstant(deadline));
            let _ = tx.send(Input::Warden(WardenInput::Told(confirmed))).await;
        });
    }

    /// Whether it is being told of an end at this moment.
    pub(crate) fn is_asked(&self) -> bool {
        self.confirmed.as_ref().is_some_and(|c| c.asking)
    }

    /// It has answered what it was told, with what holds now; or it has not, in time.
    pub(crate) fn answered(&mut self, end: Option<BootInstant>) {
        if let Some(confirmed) = &mut self.confirmed {
            confirmed.asking = false;
            confirmed.end = confirmed.end.max(end.unwrap_or_default());
        }
    }

    /// Whether the warden, if there is one, has confirmed an end that is at least as late as needed.
    pub(crate) fn has_confirmed(&self, needed: BootInstant) -> bool {
        self.confirmed.as_ref().is_none_or(|c| c.end >= needed)
    }

    /// Ends one attempt; its end arrives as an event.
    pub(crate) fn kill(&self, id: AttemptId, grace: Duration, reason: KillReason) {
        let tx = self.tx.clone();
        self.tell(move |client| async move {
            let killed = client.kill(id, grace, reason).await;
            if let Err(WardenError::NoAnswer { .. }) = &killed {
                let _ = tx.send(Input::Warden(WardenInput::Untold(id))).await;
            }
            killed
        });
    }

    /// Ends everything.
    pub(crate) fn kill_all(&self, grace: Duration, reason: KillReason) {
        self.tell(move |client| async move { client.kill_all(grace, reason).await.map(|_| ()) });
    }

    /// Lets the warden forget an attempt whose end is written down. One that has died meanwhile removes nothing any more.
    pub(crate) fn ack(&self, id: AttemptId) {
        let client = self.up().cloned();
        let (paths, events) = (Paths::new(&self.state_dir), self.events.clone());
        tokio::spawn(async move {
            let acked = match client {
                Some(client) => client.ack(id, false).await,
                None => Err(WardenError::Gone),
            };
            // Nobody takes a running attempt's files away.
            if !matches!(acked, Err(WardenError::Refused(Refusal::Running { .. }))) {
                discard(paths, id, &events).await;
            }
        });
    }

    /// Lets the warden forget children's ends that are written down.
    pub(crate) fn heard(&self, id: AttemptId, kills: u64) {
        self.tell(move |client| async move { client.heard(id, kills).await });
    }

    /// Has the warden record that these attempts never start here; then [`Input::Forbidden`] with those
    /// for which that is certain.
    pub(crate) fn forbid(&self, ids: Vec<AttemptId>) {
        let client = self.up().cloned();
        // A warden that is starting has been told nothing but what this loop will tell it.
        let tx = self.tx.clone();
        tokio::spawn(async move {
            let mut certain = Vec::with_capacity(ids.len());
            for id in ids {
                let never = match &client {
                    // Otherwise it runs after all, or we cannot know: the next renewal asks again.
                    Some(client) => matches!(client.forbid(id).await, Ok(None)),
                    None => true,
                };
                if never {
                    certain.push(id);
                }
            }
            let _ = tx.send(Input::Forbidden(certain)).await;
        });
    }

    /// The connection, while there is one. It is read for as long as it is held.
    pub(crate) fn connection(&self) -> Option<WardenClient> {
        self.up().cloned()
    }

    fn up(&self) -> Option<&WardenClient> {
        match &self.state {
            State::Up(client) => Some(client),
            _ => None,
        }
    }

    /// How many attempts the warden keeps.
    pub(crate) fn max_attempts(&self) -> u32 {
        let told = self.up().map(|client| client.identity().max_attempts);
        told.map_or(self.max_attempts, |told| told.min(self.max_attempts))
    }

    /// Whether a death is still being proven.
    pub(crate) fn uncertain(&self) -> bool {
        matches!(self.state, State::Dying(..))
    }

    fn tell<F, Fut>(&self, say: F)
    where
        F: FnOnce(WardenClient) -> Fut,
        Fut: Future<Output = Result<(), WardenError>> + Send + 'static,
    {
        if let Some(client) = self.up() {
            let said = say(client.clone());
            tokio::spawn(async move {
                if let Err(e) = said.await {
                    tracing::debug!("warden: {e}");
                }
            });
        }
    }

    /// Ends the warden and returns when it is proven gone with its tree. None where there is none.
    pub(crate) async fn end(&mut self, grace: Duration) -> Option<std::io::Result<Gone>> {
        match std::mem::replace(&mut self.state, State::None) {
            State::Up(client) => Some(end(client, grace).await),
            State::Dying(_, proof) => Some(proof.tree_gone().await),
            // It has been asked for nothing yet, and will not be.
            State::Starting(_) | State::None => None,
        }
    }
}

/// Ends one warden: politely, then by the pidfd; returns when its tree is proven gone.
async fn end(client: WardenClient, grace: Duration) -> std::io::Result<Gone> {
    let told = client.shutdown(grace).await;
    ended(client, told.is_ok().then_some(grace)).await
}

/// The same, of one that was told to leave with this grace; `None`: it did not hear.
pub(crate) async fn ended(client: WardenClient, told: Option<Duration>) -> std::io::Result<Gone> {
    let proof = client.proof().clone();
    drop(client);
    let patience = told.map_or(Duration::ZERO, |grace| grace + Duration::from_secs(2));
    if tokio::time::timeout(patience, proof.warden_dead()).await.is_err() {
        proof.kill_warden()?;
    }
    proof.tree_gone().await
}
