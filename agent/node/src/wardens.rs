//! The wardens of one session: the main one, and one per distinct `hold`, started when first needed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use farmhand_core::lease::BootInstant;
use farmhand_store::LeaseIdentity;
use tokio::sync::mpsc;

use crate::confirmations::Confirmations;
use crate::discard::discard;
use crate::inbox::{Input, NotStarted, WardenInput};
use crate::listening::listen;
use farmhand_telemetry::events::Events;
use farmhand_warden_client::wire::{AttemptId, KillReason, Kind, Refusal, Serving, SpawnRequest};
use farmhand_warden_client::{Gone, Launch, Notices, Paths, ProofOfDeath, WardenClient, WardenError};

/// While waiting for a warden's end: how often to ask whether a newer agent has started one in its place.
pub(crate) const SUPERSEDED_EVERY: Duration = Duration::from_millis(500);

/// Which wardens are told their ends.
#[derive(Clone, Copy)]
pub(crate) enum Whose {
    All,
    /// Those that are not being asked at this moment.
    Unasked,
}

/// Kernel timer and SIGTERM time.
pub(crate) type Deadlines = (BootInstant, BootInstant);

enum Slot {
    /// Requests wait for it to come up.
    Starting(Vec<SpawnRequest>),
    Up(WardenClient),
    /// The connection is gone; whether the warden is, is being proven. Requests wait for its successor.
    Dying(Vec<SpawnRequest>, ProofOfDeath),
}

/// Owns the connections; everything it does is answered by an [`Input`].
pub(crate) struct Wardens {
    state_dir: PathBuf,
    serving: Serving,
    address: String,
    max_attempts: u32,
    slots: HashMap<Kind, Slot>,
    ends: Confirmations,
    events: Events,
    tx: mpsc::Sender<Input>,
}

impl Wardens {
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
            slots: HashMap::new(),
            ends: Confirmations::default(),
            tx,
        }
    }

    /// Takes a connected warden in and listens to it.
    pub(crate) fn insert(
        &mut self,
        kind: Kind,
        client: WardenClient,
        notices: Notices,
        deadlines: Deadlines,
    ) {
        tokio::spawn(listen(kind, client.clone(), notices, self.tx.clone()));
        self.ends.insert(kind, BootInstant(client.identity().deadline_ns));
        let waiting = match self.slots.insert(kind, Slot::Up(client)) {
            Some(Slot::Starting(waiting)) => waiting,
            _ => Vec::new(),
        };
        self.send_deadline(kind, deadlines);
        for request in waiting {
            self.spawn(kind, request, deadlines);
        }
    }

    /// Starts a warden unless one is there or coming.
    pub(crate) fn ensure(&mut self, kind: Kind, deadlines: Deadlines) {
        if !self.slots.contains_key(&kind) {
            self.start(kind, Vec::new(), deadlines);
        }
    }

    /// Starts the main warden and waits for it, so that what is wrong is said at once.
    ///
    /// # Errors
    /// When it does not come up.
    pub(crate) async fn start_main(&mut self, deadlines: Deadlines) -> Result<(), WardenError> {
        let (client, notices) = self.launch(Kind::Main, deadlines).start().await?;
        self.insert(Kind::Main, client, notices, deadlines);
        Ok(())
    }

    fn launch(&self, kind: Kind, (deadline, soft): Deadlines) -> Launch {
        let lease = (self.serving, self.address.clone());
        let mut launch = Launch::new(self.state_dir.clone(), kind, lease, deadline.0, soft.0);
        launch.max_attempts = self.max_attempts;
        launch
    }

    fn start(&mut self, kind: Kind, waiting: Vec<SpawnRequest>, deadlines: Deadlines) {
        let launch = self.launch(kind, deadlines);
        self.slots.insert(kind, Slot::Starting(waiting));
        let tx = self.tx.clone();
        tokio::spawn(async move {
            let result = launch.start().await;
            let _ = tx.send(Input::Warden(WardenInput::Started(kind, result))).await;
        });
    }

    /// A start failed: the requests that waited for it.
    pub(crate) fn start_failed(&mut self, kind: Kind) -> Vec<AttemptId> {
        match self.slots.remove(&kind) {
            Some(Slot::Starting(waiting)) => waiting.into_iter().map(|r| r.id).collect(),
            Some(other) => {
                self.slots.insert(kind, other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The connection ended. What waits now is for the successor.
    pub(crate) fn disconnected(&mut self, kind: Kind) {
        if let Some(slot) = self.slots.get_mut(&kind)
            && let Slot::Up(client) = slot
        {
            *slot = Slot::Dying(Vec::new(), client.proof().clone());
        }
    }

    /// Attempts that no warden of this kind has been asked to start yet.
    pub(crate) fn waiting(&self, kind: Kind) -> Vec<AttemptId> {
        match self.slots.get(&kind) {
            Some(Slot::Starting(waiting) | Slot::Dying(waiting, _)) => waiting.iter().map(|r| r.id).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes back the request of an attempt that no warden has been asked to start yet. False for any other.
    pub(crate) fn withdraw(&mut self, kind: Kind, id: AttemptId) -> bool {
        let Some(Slot::Starting(waiting) | Slot::Dying(waiting, _)) = self.slots.get_mut(&kind) else {
            return false;
        };
        let before = waiting.len();
        waiting.retain(|request| request.id != id);
        waiting.len() < before
    }

    /// The warden is proven dead: starts the successor if anything waits for one.
    pub(crate) fn dead(&mut self, kind: Kind, deadlines: Deadlines) {
        self.ends.remove(kind);
        if let Some(Slot::Dying(waiting, _)) = self.slots.remove(&kind)
            && !waiting.is_empty()
        {
            self.start(kind, waiting, deadlines);
        }
    }

    /// Asks for an attempt to be started; answered by [`Input::Spawned`].
    pub(crate) fn spawn(&mut self, kind: Kind, request: SpawnRequest, deadlines: Deadlines) {
        match self.slots.get_mut(&kind) {
            None => self.start(kind, vec![request], deadlines),
            Some(Slot::Starting(waiting) | Slot::Dying(waiting, _)) => waiting.push(request),
            Some(Slot::Up(client)) => {
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

    /// Moves the wardens' ends; `deadlines` says it for a kind, if its end may move.
    pub(crate) fn set_deadlines(&mut self, whose: Whose, deadlines: impl Fn(Kind) -> Option<Deadlines>) {
        let kinds = match whose {
            Whose::All => self.slots.keys().copied().collect(),
            Whose::Unasked => self.ends.unasked(),
        };
        for kind in kinds {
            if let Some(deadlines) = deadlines(kind) {
                self.send_deadline(kind, deadlines);
            }
        }
    }

    fn send_deadline(&mut self, kind: Kind, (deadline, soft): Deadlines) {
        let Some(Slot::Up(client)) = self.slots.get(&kind) else {
            return;
        };
        self.ends.asking(kind);
        let (client, tx) = (client.clone(), self.tx.clone());
        tokio::spawn(async move {
            // No answer: the warden is stopped or gone, and its kernel timer does what it must.
            let answer = client.set_deadline(deadline.0, soft.0).await;
            let confirmed = answer.ok().map(|(deadline, _)| BootInstant(deadline));
            let _ = tx.send(Input::Warden(WardenInput::Told(kind, confirmed))).await;
        });
    }

    pub(crate) fn answered(&mut self, kind: Kind, confirmed: Option<BootInstant>) {
        self.ends.answered(kind, confirmed);
    }

    /// Whether every warden has confirmed an end that is at least as late as needed of its kind.
    pub(crate) fn have_confirmed(&self, needed: impl Fn(Kind) -> BootInstant) -> bool {
        self.ends.reach(needed)
    }

    /// Ends one attempt; its end arrives as an event.
    pub(crate) fn kill(&self, kind: Kind, id: AttemptId, grace: Duration, reason: KillReason) {
        let tx = self.tx.clone();
        self.tell(kind, move |client| async move {
            let killed = client.kill(id, grace, reason).await;
            if let Err(WardenError::NoAnswer { .. }) = &killed {
                let _ = tx.send(Input::Warden(WardenInput::Untold(id))).await;
            }
            killed
        });
    }

    /// Ends everything everywhere.
    pub(crate) fn kill_all(&self, grace: Duration, reason: KillReason) {
        for kind in self.slots.keys() {
            self.tell(*kind, move |client| async move {
                client.kill_all(grace, reason).await.map(|_| ())
            });
        }
    }

    /// Lets the warden forget an attempt whose end is written down. One that has died meanwhile removes nothing any more.
    pub(crate) fn ack(&self, kind: Kind, id: AttemptId) {
        let client = match self.slots.get(&kind) {
            Some(Slot::Up(client)) => Some(client.clone()),
            _ => None,
        };
        let (paths, events) = (Paths::new(&self.state_dir, kind), self.events.clone());
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
    pub(crate) fn heard(&self, kind: Kind, id: AttemptId, kills: u64) {
        self.tell(kind, move |client| async move { client.heard(id, kills).await });
    }

    /// Has every warden record that these attempts never start here; then [`Input::Forbidden`] with those
    /// for which that is certain.
    pub(crate) fn forbid(&self, ids: Vec<AttemptId>) {
        let clients: Vec<WardenClient> = self.up().map(|(_, c)| c.clone()).collect();
        // A warden that is starting has been told nothing but what this loop will tell it.
        let tx = self.tx.clone();
        tokio::spawn(async move {
            let mut certain = Vec::with_capacity(ids.len());
            'ids: for id in ids {
                for client in &clients {
                    match client.forbid(id).await {
                        Ok(None) => {}
                        // It runs after all, or we cannot know: the next renewal asks again.
                        Ok(Some(_)) | Err(_) => continue 'ids,
                    }
                }
                certain.push(id);
            }
            let _ = tx.send(Input::Forbidden(certain)).await;
        });
    }

    /// Each is read for as long as it is held.
    pub(crate) fn connections(&self) -> Vec<(Kind, WardenClient)> {
        self.up().map(|(kind, client)| (kind, client.clone())).collect()
    }

    fn up(&self) -> impl Iterator<Item = (Kind, &WardenClient)> {
        self.slots.iter().filter_map(|(kind, slot)| match slot {
            Slot::Up(client) => Some((*kind, client)),
            _ => None,
        })
    }

    /// How many attempts each warden keeps.
    pub(crate) fn max_attempts(&self) -> u32 {
        let told = self.up().map(|(_, client)| client.identity().max_attempts);
        told.fold(self.max_attempts, u32::min)
    }

    /// The main warden, where it is there: it takes notes of signed definitions.
    pub(crate) fn note_taker(&self) -> Option<WardenClient> {
        self.up()
            .find(|(kind, _)| *kind == Kind::Main)
            .map(|(_, client)| client.clone())
    }

    /// Whether a death is still being proven.
    pub(crate) fn uncertain(&self) -> bool {
        self.slots.values().any(|s| matches!(s, Slot::Dying(..)))
    }

    fn tell<F, Fut>(&self, kind: Kind, say: F)
    where
        F: FnOnce(WardenClient) -> Fut,
        Fut: Future<Output = Result<(), WardenError>> + Send + 'static,
    {
        if let Some(Slot::Up(client)) = self.slots.get(&kind) {
            let said = say(client.clone());
            tokio::spawn(async move {
                if let Err(e) = said.await {
                    tracing::debug!("warden {}: {e}", kind.name());
                }
            });
        }
    }

    /// Ends every warden and returns when all of them, with their trees, are proven gone.
    pub(crate) async fn end_all(&mut self, grace: Duration) -> Vec<(Kind, std::io::Result<Gone>)> {
        let mut ended = Vec::new();
        for (kind, slot) in std::mem::take(&mut self.slots) {
            match slot {
                Slot::Up(client) => ended.push((kind, end(client, grace).await)),
                Slot::Dying(_, proof) => ended.push((kind, proof.tree_gone().await)),
                // It has been asked for nothing yet, and will not be.
                Slot::Starting(_) => {}
            }
        }
        ended
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
