//! One message of a warden, and what can be wrong with a conversation.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::death::ProofOfDeath;
use crate::paths::Paths;
use crate::wire::frame::{self, FrameError};
use crate::wire::*;

/// Bound of one request. A warden answers within milliseconds unless it is stopped.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Why a request to a warden has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum WardenError {
    #[error("warden in {path}: {source}")]
    Io { path: String, source: io::Error },
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Stopped or hung; it may still act on the request. `proof` lets the caller end it or wait for its end.
    #[error("the warden did not answer within {} s", ANSWER_WITHIN.as_secs())]
    NoAnswer { proof: Option<ProofOfDeath> },
    /// The connection ended: the warden died, or a newer agent took over. Its death is not proven by this.
    #[error("the connection to the warden is gone")]
    Gone,
    /// It was not sent.
    #[error("a request of {0} bytes; a warden takes {max} at most", max = frame::MAX_FRAME)]
    TooLong(usize),
    #[error("the warden's answer makes no sense: {0}")]
    Protocol(String),
    /// A reaper lives but no warden listens.
    #[error("an old reaper in {0} is still ending its processes")]
    Busy(String),
    #[error("the warden did not start: {0}")]
    NotStarted(String),
}

impl From<FrameError> for WardenError {
    fn from(error: FrameError) -> Self {
        WardenError::Protocol(error.to_string())
    }
}

pub(crate) async fn next_message(
    read: &mut OwnedReadHalf,
    buffer: &mut BytesMut,
) -> Result<Option<FromWarden>, WardenError> {
    loop {
        if let Some(message) = frame::decode(buffer)? {
            return Ok(Some(message));
        }
        match read.read_buf(buffer).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

/// One question on a connection that has no reader task yet. Events cannot precede the second answer of a
/// hello: the warden sends them after an [`Request::Identify`] of the same connection.
pub(crate) async fn ask_alone(
    read: &mut OwnedReadHalf,
    write: &mut OwnedWriteHalf,
    buffer: &mut BytesMut,
    seq: u64,
    request: Request,
) -> Result<Reply, WardenError> {
    let mut wire = Vec::new();
    frame::encode(&FromAgent { seq, request }, &mut wire)?;
    write.write_all(&wire).await.map_err(|_| WardenError::Gone)?;
    match next_message(read, buffer).await?.ok_or(WardenError::Gone)? {
        FromWarden::Reply { result, .. } => Ok(result?),
        FromWarden::Event(Event::Superseded { .. }) => Err(WardenError::Gone),
        FromWarden::Event(event) => Err(WardenError::Protocol(format!("{event:?} before any answer"))),
    }
}

pub(crate) fn identity_of(reply: Reply) -> Result<Identity, WardenError> {
    match reply {
        Reply::Identity(identity) => Ok(identity),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn unexpected(reply: &Reply) -> WardenError {
    WardenError::Protocol(format!("{reply:?}"))
}

pub(crate) fn broken(paths: &Paths, source: io::Error) -> WardenError {
    WardenError::Io {
        path: paths.state_dir().display().to_string(),
        source,
    }
}
