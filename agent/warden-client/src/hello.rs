//! How a connection begins: find the warden, prove which process it is, take it over.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::client::{ANSWER_WITHIN, Notices, WardenClient, WardenError};
use super::lock;
use super::paths::{Paths, SOCKET};
use super::proof::{PidFd, ProofOfDeath};
use super::wire::frame;
use super::wire::*;
use crate::privsep::{self, Found};

/// How long a reaper may sweep, or a warden start, before connecting gives up.
const SETTLE_WITHIN: Duration = Duration::from_secs(15);

impl WardenClient {
    /// Says hello on a fresh connection and makes sure that the answer comes from the process at its other end.
    pub async fn hello(
        stream: UnixStream,
        paths: &Paths,
        expect: Option<Serving>,
        address: &str,
    ) -> Result<(WardenClient, Notices), WardenError> {
        let broken = |source| broken(paths, source);
        let peer = stream
            .peer_cred()
            .map_err(broken)?
            .pid()
            .ok_or(WardenError::Gone)?;
        // Opened before the hello is answered: the answer proves that this is the process that gave it.
        let warden = PidFd::open(peer).map_err(broken)?.ok_or(WardenError::Gone)?;
        let (mut read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        let request = Request::Hello {
            protocol: PROTOCOL,
            agent_pid: std::process::id().cast_signed(),
            expect,
            address: address.to_owned(),
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, async {
            let first = identity_of(ask_alone(&mut read, &mut write, &mut buffer, 0, request).await?)?;
            let reaper = PidFd::open(first.reaper_pid)
                .map_err(broken)?
                .ok_or(WardenError::Gone)?;
            // The second answer, given after the pidfd was opened, proves the reaper in the same way.
            let second =
                identity_of(ask_alone(&mut read, &mut write, &mut buffer, 1, Request::Identify).await?)?;
            if (second.warden_pid, second.reaper_pid) != (peer, reaper.pid()) {
                return Err(WardenError::Protocol(
                    "the warden's or reaper's pid changed".into(),
                ));
            }
            Ok((second, reaper))
        })
        .await;
        let (identity, reaper) = match answer {
            Ok(answer) => answer?,
            Err(_) => {
                let proof = ProofOfDeath::new(warden, None, paths.clone());
                return Err(WardenError::NoAnswer { proof: Some(proof) });
            }
        };
        let proof = ProofOfDeath::new(warden, Some(reaper), paths.clone());
        Ok(Self::run(read, write, buffer, identity, proof))
    }
}

impl WardenClient {
    /// Connects to a living warden without a word; `None` when certainly nobody lives.
    pub async fn dial_living(paths: &Paths) -> Result<Option<UnixStream>, WardenError> {
        dial_living(paths).await
    }

    /// Makes the connection one for an agent without rights, and opens a handle of the very process at its other end. Nothing is
    /// taken over.
    pub async fn held(stream: UnixStream) -> Result<(UnixStream, PidFd), WardenError> {
        let gone = |_| WardenError::Gone;
        let peer = stream.peer_cred().map_err(gone)?.pid().ok_or(WardenError::Gone)?;
        // As in the hello: answered after this was opened, so by this process.
        let warden = PidFd::open(peer).map_err(gone)?.ok_or(WardenError::Gone)?;
        let (mut read, mut write) = stream.into_split();
        let mut buffer = BytesMut::new();
        let answer = ask_alone(&mut read, &mut write, &mut buffer, 0, Request::Hold);
        let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
        identity_of(answer.map_err(|_| WardenError::NoAnswer { proof: None })??)?;
        let stream = read.reunite(write).map_err(|_| WardenError::Gone)?;
        Ok((stream, warden))
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

/// Connects to a living warden; `None` when certainly nobody lives.
pub(crate) async fn dial_living(paths: &Paths) -> Result<Option<UnixStream>, WardenError> {
    if let Some(helper) = privsep::here() {
        return match helper.connect().await {
            Ok(Found::Living(stream)) => Ok(Some(stream)),
            Ok(Found::Nobody) => Ok(None),
            Ok(Found::NoAnswer) => Err(WardenError::NoAnswer { proof: None }),
            Ok(Found::Busy) => Err(WardenError::Busy(paths.state_dir().display().to_string())),
            Err(e) => Err(broken(paths, e)),
        };
    }
    let give_up = tokio::time::Instant::now() + SETTLE_WITHIN;
    loop {
        match dial(paths).await {
            // The queue of one that hangs with SIGKILL pending takes connections, too.
            Ok(stream) if lock::is_held(&paths.lock()).map_err(|e| broken(paths, e))? => {
                return Ok(Some(stream));
            }
            Ok(_) => return Ok(None),
            // Reset: it has died since the kernel answered for it.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::ConnectionReset
                ) => {}
            // The queue of a stopped warden is full.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(WardenError::NoAnswer { proof: None });
            }
            Err(e) => return Err(broken(paths, e)),
        }
        if !lock::is_held(&paths.lock()).map_err(|e| broken(paths, e))? {
            return Ok(None);
        }
        if tokio::time::Instant::now() > give_up {
            return Err(WardenError::Busy(paths.state_dir().display().to_string()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A socket address holds 108 bytes, a state directory's path may be longer: go through a descriptor of it.
pub(crate) async fn dial(paths: &Paths) -> io::Result<UnixStream> {
    let directory = std::fs::File::open(paths.private_dir())?;
    let name = format!("/proc/self/fd/{}/{}", directory.as_fd().as_raw_fd(), SOCKET);
    UnixStream::connect(name).await
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The kernel answers for a warden that is stopped, and takes the answer back when it dies.
    #[tokio::test]
    async fn a_warden_that_dies_while_it_is_dialled_is_nobody() {
        let state_dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(state_dir.path());
        paths.prepare().unwrap();
        let socket = paths.private_dir().join(SOCKET);
        let warden = UnixListener::bind(socket).unwrap();
        let mut dialling = std::pin::pin!(dial_living(&paths));
        tokio::select! {
            biased;
            found = &mut dialling => panic!("too early: {found:?}"),
            () = std::future::ready(()) => drop(warden),
        }
        let found = dialling.await;
        assert!(matches!(found, Ok(None)), "{found:?}");
    }
}
