//! The warden of one session: started when first needed, listened to until it is proven dead, and which end it has confirmed.

use std::time::Duration;

use farmhand_core::lease::BootInstant;

use crate::discard::discard;
use crate::inbox::{Input, NotStarted, WardenInput};
use crate::session::io::Io;
use crate::session::lease::Deadlines;
use farmhand_warden_client::wire::frame::MAX_FRAME;
use farmhand_warden_client::wire::{AttemptId, KillReason, Refusal, SpawnRequest};
use farmhand_warden_client::{Gone, Launch, Notice, Notices, ProofOfDeath, WardenClient, WardenError};

/// While waiting for a warden's end: how often to ask whether a newer agent has started one in its place.
pub(crate) const SUPERSEDED_EVERY: Duration = Duration::from_millis(500);

/// A warden that was told to leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// For what a dead warden had said.
const READ_OUT_WITHIN: Duration = Duration::from_secs(2);

/// How often a proof of death that failed is tried again.
const PROOFS: usize = 5;

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
    io: Io,
    max_attempts: u32,
    state: State,
    /// Of the warden that is up, or whose death is not proven yet.
    confirmed: Option<Confirmed>,
}

impl WardenLink {
    pub(crate) fn new(io: Io) -> Self {
        Self {
            // Ended attempts stay with the warden until they are written down.
            max_attempts: io.ctx.tunable().slots.saturating_mul(4).saturating_add(1_024),
            io,
            state: State::None,
            confirmed: None,
        }
    }

    /// Takes a connected warden in and listens to it.
    pub(crate) fn insert(&mut self, client: WardenClient, notices: Notices, deadlines: Deadlines) {
        tokio::spawn(listen(client.clone(), notices, self.io.clone()));
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
    pub(crate) async fn start_now(&mut self, deadlines: Deadlines) -> Result<(), WardenError> {
        let (client, notices) = self.launch(deadlines).start().await?;
        self.insert(client, notices, deadlines);
        Ok(())
    }

    fn launch(&self, (deadline, soft): Deadlines) -> Launch {
        let lease = (self.io.serving(), self.io.me.address.clone());
        let dir = self.io.ctx.config.state_dir.clone();
        let mut launch = Launch::new(dir, lease, deadline.0, soft.0);
        launch.max_attempts = self.max_attempts;
        launch
    }

    fn start(&mut self, waiting: Vec<SpawnRequest>, deadlines: Deadlines) {
        let launch = self.launch(deadlines);
        self.state = State::Starting(waiting);
        (self.io).spawn(async move { Input::Warden(WardenInput::Started(launch.start().await)) });
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
                let (client, id) = (client.clone(), request.id);
                self.io.spawn(async move {
                    let result = loop {
                        match client.spawn(request.clone()).await {
                            Ok((pid, _)) => break Ok(pid),
                            // Its death is being proven; then the attempt is settled with all of that warden.
                            Err(WardenError::Gone) => return None,
                            // It may have been started: asked again until it is known. A stopped warden is
                            // ended by its kernel timer.
                            Err(WardenError::NoAnswer { .. }) => {}
                            Err(e) => break Err(not_started(e)),
                        }
                    };
                    Some(Input::Spawned { id, result })
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
        let client = client.clone();
        self.io.spawn(async move {
            // No answer: the warden is stopped or gone, and its kernel timer does what it must.
            let answer = client.set_deadline(deadline.0, soft.0).await;
            let confirmed = answer.ok().map(|(deadline, _)| BootInstant(deadline));
            Input::Warden(WardenInput::Deadline(confirmed))
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
        let io = self.io.clone();
        self.tell(move |client| async move {
            let killed = client.kill(id, grace, reason).await;
            if let Err(WardenError::NoAnswer { .. }) = &killed {
                io.send(Input::Warden(WardenInput::Untold(id))).await;
            }
            killed
        });
    }

    pub(crate) fn kill_all(&self) {
        self.tell(move |client| async move { client.kill_all(Duration::ZERO, KillReason::Shutdown).await });
    }

    /// Lets the warden forget an attempt whose end is written down. One that has died meanwhile removes nothing any more.
    pub(crate) fn ack(&self, id: AttemptId) {
        let (client, ctx) = (self.connection(), self.io.ctx.clone());
        tokio::spawn(async move {
            let acked = match client {
                Some(client) => client.ack(id, false).await,
                None => Err(WardenError::Gone),
            };
            // Nobody takes a running attempt's files away.
            if !matches!(acked, Err(WardenError::Refused(Refusal::Running { .. }))) {
                discard(&ctx.config.state_dir, id, &ctx.events).await;
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
        // A warden that is starting has been told nothing but what this loop will tell it.
        let client = self.connection();
        self.io.spawn(async move {
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
            Input::Forbidden(certain)
        });
    }

    /// The connection, while there is one. It is read for as long as it is held.
    pub(crate) fn connection(&self) -> Option<WardenClient> {
        match &self.state {
            State::Up(client) => Some(client.clone()),
            _ => None,
        }
    }

    pub(crate) fn max_attempts(&self) -> u32 {
        let told = self.connection().map(|client| client.identity().max_attempts);
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
        if let Some(client) = self.connection() {
            let said = say(client);
            tokio::spawn(async move {
                if let Err(e) = said.await {
                    tracing::debug!("warden: {e}");
                }
            });
        }
    }

    /// Ends the warden and returns when it is proven gone with its tree. None where there is none.
    pub(crate) async fn end(&mut self) -> Option<std::io::Result<Gone>> {
        match std::mem::replace(&mut self.state, State::None) {
            State::Up(client) => {
                let told = client.shutdown(Duration::ZERO).await;
                Some(ended(client, told.is_ok()).await)
            }
            State::Dying(_, proof) => Some(proof.tree_gone().await),
            // It has been asked for nothing yet, and will not be.
            State::Starting(_) | State::None => None,
        }
    }
}

/// Waits until the tree of a warden is proven gone: one that was `told` to leave has a moment for it.
pub(crate) async fn ended(client: WardenClient, told: bool) -> std::io::Result<Gone> {
    let proof = client.proof().clone();
    drop(client);
    let patience = if told { LEAVES_WITHIN } else { Duration::ZERO };
    if tokio::time::timeout(patience, proof.warden_dead()).await.is_err() {
        proof.kill_warden()?;
    }
    proof.tree_gone().await
}

/// Forwards what a warden says; when its connection ends, waits for the proof of its death.
async fn listen(client: WardenClient, mut notices: Notices, io: Io) {
    let proof = client.proof().clone();
    drop(client);
    let mut reaper_dead = std::pin::pin!(proof.reaper_dead());
    // What a warden said before it died is still read; one that hangs says nothing more, and never closes its connection.
    let mut rest: Option<tokio::time::Instant> = None;
    loop {
        let notice = tokio::select! {
            biased;
            notice = notices.recv() => notice,
            () = &mut reaper_dead, if rest.is_none() => {
                rest = Some(tokio::time::Instant::now() + READ_OUT_WITHIN);
                continue;
            }
            () = tokio::time::sleep_until(rest.unwrap_or_else(tokio::time::Instant::now)), if rest.is_some() => None,
        };
        let Some(notice) = notice else { break };
        match notice {
            Notice::Event(event) => {
                if !io.send(Input::Warden(WardenInput::Event(event))).await {
                    return;
                }
            }
            Notice::Gone => break,
        }
    }
    if !io.send(Input::Warden(WardenInput::Disconnected)).await {
        return;
    }
    let mut dead = proof.tree_gone().await;
    // What stays without proof stays held: a table of processes that could not be read just now is asked again.
    for _again in 0..PROOFS {
        let Err(e) = &dead else { break };
        tracing::warn!("looking for what the warden left: {e}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        dead = proof.tree_gone().await;
    }
    io.send(Input::Warden(WardenInput::Dead(dead))).await;
}

fn not_started(error: WardenError) -> NotStarted {
    match error {
        WardenError::Refused(Refusal::Machine { why }) => NotStarted::Machine(why),
        // It may stay full, or be long in leaving: without a pause its runs would be claimed again at once.
        WardenError::Refused(why @ (Refusal::Full { .. } | Refusal::ShuttingDown)) => {
            NotStarted::Machine(why.to_string())
        }
        WardenError::TooLong(length) => NotStarted::Invalid(format!(
            "its command, variables and input make a request of {length} bytes, and {MAX_FRAME} fit: put what is large \
             into a file or a table, and give its name"
        )),
        WardenError::Refused(Refusal::Invalid { why }) => {
            NotStarted::Invalid(format!("the warden refuses it: {why}"))
        }
        error => NotStarted::Refused(error.to_string()),
    }
}
