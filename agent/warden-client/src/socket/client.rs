//! The agent's side: one connection, requests with answers, and a stream of events.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use farmhand_core::attempt::Signed;
use farmhand_core::document::millis;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::message::{ANSWER_WITHIN, WardenError, broken, next_message, unexpected};
use crate::death::ProofOfDeath;
use crate::wire::frame::{self, FrameError};
use crate::wire::*;

/// As much as a warden reads at once.
const WRITTEN_AT_ONCE: usize = 64 << 10;
/// More than the warden's attempts twice over, so that no exit is ever refused.
const EVENTS: usize = 16 * 1024;

/// What arrives without being asked for.
#[derive(Debug)]
pub enum Notice {
    Event(Event),
    /// The last notice. The tree may be alive: see [`WardenClient::proof`].
    Gone,
}

/// What a warden tells without being asked.
pub type Notices = mpsc::Receiver<Notice>;

/// A connection that said hello. Clones share it; it closes with the last one.
#[derive(Clone, Debug)]
pub struct WardenClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
    next_seq: AtomicU64,
    identity: Identity,
    proof: ProofOfDeath,
    reader: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

type Answer = oneshot::Sender<Result<Reply, Refusal>>;

#[derive(Debug, Default)]
struct Waiting {
    /// `None` once the connection is gone: nobody may wait any more.
    answers: Mutex<Option<HashMap<u64, Answer>>>,
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HashMap<u64, Answer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WardenClient {
    /// A client of a warden that has answered the hello: starts the tasks that read and write.
    pub fn run(
        read: OwnedReadHalf,
        write: OwnedWriteHalf,
        buffer: BytesMut,
        identity: Identity,
        proof: ProofOfDeath,
    ) -> (WardenClient, Notices) {
        let (requests, outgoing) = mpsc::channel(64);
        let (events, notices) = mpsc::channel(EVENTS);
        let waiting = Arc::new(Waiting {
            answers: Mutex::new(Some(HashMap::new())),
        });
        tokio::spawn(write_requests(write, outgoing));
        let reader = tokio::spawn(read_answers(read, buffer, waiting.clone(), events)).abort_handle();
        let next_seq = AtomicU64::new(2);
        let inner = Inner {
            requests,
            waiting,
            next_seq,
            identity,
            proof,
            reader,
        };
        (
            WardenClient {
                inner: Arc::new(inner),
            },
            notices,
        )
    }

    /// As of the hello; later deadlines are in the answers to [`Self::set_deadline`].
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// How to see, or bring about, that this warden is dead.
    pub fn proof(&self) -> &ProofOfDeath {
        &self.inner.proof
    }

    /// Moves the session's end forward. Answers with what holds now: (deadline_ns, soft_ns).
    pub async fn set_deadline(&self, deadline_ns: u64, soft_ns: u64) -> Result<(u64, u64), WardenError> {
        match self.ask(Request::SetDeadline { deadline_ns, soft_ns }).await? {
            Reply::Deadline { deadline_ns, soft_ns } => Ok((deadline_ns, soft_ns)),
            other => Err(unexpected(&other)),
        }
    }

    /// Starts an attempt, once however often it is asked for. That the command cannot be executed shows in
    /// its result, not here. Answers with (pid, already started by an earlier request).
    pub async fn spawn(&self, request: SpawnRequest) -> Result<(i32, bool), WardenError> {
        match self.ask(Request::Spawn(Box::new(request))).await? {
            Reply::Spawned { pid, already } => Ok((pid, already)),
            other => Err(unexpected(&other)),
        }
    }

    /// Records that the attempt never starts here. `Some`: too late, it has.
    pub async fn forbid(&self, id: AttemptId) -> Result<Option<State>, WardenError> {
        match self.ask(Request::Forbid { id }).await? {
            Reply::Forbidden => Ok(None),
            Reply::AlreadyStarted { state } => Ok(Some(state)),
            other => Err(unexpected(&other)),
        }
    }

    /// SIGTERM now, SIGKILL after `grace` at the latest.
    pub async fn kill(&self, id: AttemptId, grace: Duration, reason: KillReason) -> Result<(), WardenError> {
        let grace_ms = millis(grace);
        self.acked(Request::Kill { id, grace_ms, reason }).await
    }

    /// As [`Self::kill`], for every attempt.
    pub async fn kill_all(&self, grace: Duration, reason: KillReason) -> Result<(), WardenError> {
        let grace_ms = millis(grace);
        self.acked(Request::KillAll { grace_ms, reason }).await
    }

    /// Lets the warden forget an ended attempt; `remove` deletes its directory: output and run directory.
    pub async fn ack(&self, id: AttemptId, remove: bool) -> Result<(), WardenError> {
        self.acked(Request::Ack { id }).await?;
        if remove {
            let paths = self.inner.proof.paths();
            // Here and not in the warden, which has one thread.
            let removed = paths.clone().discard(id).await;
            removed.map_err(|e| broken(paths, e))?;
        }
        Ok(())
    }

    /// Children's ends up to this number are written down.
    pub async fn heard(&self, id: AttemptId, kills: u64) -> Result<(), WardenError> {
        self.acked(Request::Heard { id, kills }).await
    }

    /// Has the serials of these definitions noted, where a trusted key signed them.
    pub async fn note(&self, trusted_keys: PathBuf, signed: Vec<Signed>) -> Result<(), WardenError> {
        self.acked(Request::Note { trusted_keys, signed }).await
    }

    async fn acked(&self, request: Request) -> Result<(), WardenError> {
        match self.ask(request).await? {
            Reply::Acked => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Every attempt that the warden knows.
    pub async fn list(&self) -> Result<Listing, WardenError> {
        // What is noted of a few attempts may be longer than one answer.
        let mut all = self.listed(None).await?;
        while let (true, Some(last)) = (all.more, all.attempts.last()) {
            let part = self.listed(Some(last.id)).await?;
            all.attempts.extend(part.attempts);
            all.tombstones.extend(part.tombstones);
            all.more = part.more;
        }
        Ok(all)
    }

    async fn listed(&self, after: Option<AttemptId>) -> Result<Listing, WardenError> {
        match self.ask(Request::List { after }).await? {
            Reply::List(listing) => Ok(listing),
            other => Err(unexpected(&other)),
        }
    }

    /// Kills everything and lets the warden leave when all ends are acknowledged or this connection closes.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), WardenError> {
        let grace_ms = millis(grace);
        self.acked(Request::Shutdown { grace_ms }).await
    }

    async fn ask(&self, request: Request) -> Result<Reply, WardenError> {
        let seq = self.inner.next_seq.fetch_add(1, Ordering::Relaxed);
        let mut wire = Vec::new();
        frame::encode(&FromAgent { seq, request }, &mut wire).map_err(|e| match e {
            FrameError::TooLong(length) => WardenError::TooLong(length),
            other => other.into(),
        })?;
        let (tell, told) = oneshot::channel();
        match &mut *self.inner.waiting.lock() {
            Some(answers) => answers.insert(seq, tell),
            None => return Err(WardenError::Gone),
        };
        let exchange = async {
            self.inner
                .requests
                .send(wire)
                .await
                .map_err(|_| WardenError::Gone)?;
            told.await.map_err(|_| WardenError::Gone)
        };
        match tokio::time::timeout(ANSWER_WITHIN, exchange).await {
            Ok(answer) => Ok(answer??),
            Err(_) => {
                if let Some(answers) = &mut *self.inner.waiting.lock() {
                    answers.remove(&seq);
                }
                Err(WardenError::NoAnswer {
                    proof: Some(self.inner.proof.clone()),
                })
            }
        }
    }
}

async fn write_requests(mut write: OwnedWriteHalf, mut outgoing: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut wire) = outgoing.recv().await {
        // What was asked for meanwhile goes with it, and the warden finds it in one read.
        while wire.len() < WRITTEN_AT_ONCE
            && let Ok(more) = outgoing.try_recv()
        {
            wire.extend_from_slice(&more);
        }
        if write.write_all(&wire).await.is_err() {
            return;
        }
    }
}

async fn read_answers(
    mut read: OwnedReadHalf,
    mut buffer: BytesMut,
    waiting: Arc<Waiting>,
    events: mpsc::Sender<Notice>,
) {
    while let Ok(Some(message)) = next_message(&mut read, &mut buffer).await {
        match message {
            FromWarden::Reply { seq, result } => {
                let answer = waiting.lock().as_mut().and_then(|answers| answers.remove(&seq));
                if let Some(answer) = answer {
                    // Whoever asked may have stopped waiting.
                    let _ = answer.send(result);
                }
            }
            // Progress comes again; everything else is bounded by the warden's attempts.
            FromWarden::Event(Event::Progress { .. }) if events.capacity() < EVENTS / 2 => {}
            FromWarden::Event(event) => {
                if events.send(Notice::Event(event)).await.is_err() {
                    break;
                }
            }
        }
    }
    waiting.lock().take();
    let _ = events.send(Notice::Gone).await;
}
